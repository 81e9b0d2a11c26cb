/** D29 (usage): the account page loads the daily usage. */
import { afterEach, assert, describe, it, vi } from "@effect/vitest"
import { loadDailyUsage } from "../../src/site/browser/usage-charts.js"

afterEach(() => {
  vi.unstubAllGlobals()
})

describe("The daily usage on the account page", () => {
  it("includes every page of the response, no matter how many there are (D29)", async () => {
    const pages = 50
    vi.stubGlobal("location", { origin: "http://127.0.0.1" })
    vi.stubGlobal("fetch", (url: URL) => {
      const page = Number(url.searchParams.get("page"))
      return Promise.resolve(Response.json({ results: [{ requests: page }], has_more: page < pages }))
    })
    const { failure, rows } = await loadDailyUsage("2026-01-01", new AbortController().signal)
    assert.isUndefined(failure)
    assert.deepStrictEqual(rows, Array.from({ length: pages }, (_, index) => ({ requests: index + 1 })))
  })
})
