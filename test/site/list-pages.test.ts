/** Tests that the account pages load complete lists (D27, invoices; D29, usage). */
import { afterEach, assert, describe, it, vi } from "@effect/vitest"
import { loadEveryPage } from "../../src/site/browser/list-pages.js"

afterEach(() => {
  vi.unstubAllGlobals()
})

describe("A list on a page about the account", () => {
  it("includes every page of the response, no matter how many there are (D27, D29)", async () => {
    const pages = 50
    vi.stubGlobal("location", { origin: "http://127.0.0.1" })
    vi.stubGlobal("fetch", (url: URL) => {
      const page = Number(url.searchParams.get("page"))
      return Promise.resolve(Response.json({ results: [{ requests: page }], has_more: page < pages }))
    })
    const { failure, rows } = await loadEveryPage(
      "/v1/usage/daily?usage_date_from=2026-01-01",
      new AbortController().signal,
    )
    assert.isUndefined(failure)
    assert.deepStrictEqual(rows, Array.from({ length: pages }, (_, index) => ({ requests: index + 1 })))
  })
})
