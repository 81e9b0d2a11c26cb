/** Search: the index that is served, and how it is searched. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { endpoints } from "../../src/catalogue/Endpoints.ts"
import { entriesOf, excerpt, find, wordsOf } from "../../src/site/browser/find.js"
import { documentationPath } from "../../src/rules/Lifecycle.ts"
import { referencePagePath } from "../../src/site/Page.ts"
import * as Service from "../support/Service.ts"

layer(Service.layer, { excludeTestServices: true })("The search index", (it) => {
  const index = Effect.gen(function* () {
    const { headers, body, status } = yield* Service.requestJson("/v1/docs/assets/search.json", { key: null })
    assert.strictEqual(status, 200)
    assert.strictEqual(headers["content-type"], "application/json")
    return entriesOf(body)
  })

  it.effect("README, documentation: search finds guides, operations pages, tools and endpoints", () =>
    Effect.gen(function* () {
      const entries = yield* index
      const queries = [
        ["retry", "/v1/docs/errors#retry-or-not"],
        ["For operators", "/v1/docs/operators"],
        ["health/ready", "/v1/docs/reference/health-ready"],
        ["explorer", "/v1/docs/explorer"],
        ["pump dump", "/v1/docs/reference/pump-and-dump-tracker"],
        ["glossary", "/v1/docs/glossary"],
      ] as const
      for (const [query, path] of queries) assert.strictEqual(find(entries, query)[0]?.path, path, query)
      // A field is found on the pages of the endpoints that have it.
      assert.include(find(entries, "gap_percentage").map(({ path }) => path), "/v1/docs/reference/intraday-runners")
      for (const { row } of endpoints.filter(({ row }) => row.path !== documentationPath)) {
        assert.strictEqual(find(entries, row.path)[0]?.path, referencePagePath(row.path), row.path)
      }
      assert.deepStrictEqual(find(entries, "no-such-word"), [])
      assert.deepStrictEqual(find(entries, "  "), [])
    }))

  it.effect("README, documentation: each entry leads to a page and a heading that are there", () =>
    Effect.gen(function* () {
      const entries = yield* index
      const pages = new Map<string, string>()
      assert.isAbove(entries.length, 80)
      for (const { path, text } of entries) {
        const [page = "", anchor] = path.split("#")
        if (!pages.has(page)) pages.set(page, (yield* Service.requestJson(page, { key: null })).text)
        if (anchor !== undefined) assert.include(pages.get(page) ?? "", `id="${anchor}"`)
        assert.notMatch(text, /<\/?[a-z]|&(amp|lt|gt|quot);/, path)
      }
    }))
})

describe("Finding", () => {
  const entry = (path: string, page: string, heading: string, text: string) => ({ path, page, heading, text })

  it("README, documentation: every word must occur; titles come before headings, and these before text", () => {
    const entries = [
      entry("/a", "Other", "", "about paging and limits"),
      entry("/b#x", "Other", "Paging far", "text"),
      entry("/c", "Paging", "", "text"),
      entry("/d", "Nothing", "", "text"),
    ]
    assert.deepStrictEqual(find(entries, "paging").map(({ path }) => path), ["/c", "/b#x", "/a"])
    assert.deepStrictEqual(find(entries, "paging LIMITS").map(({ path }) => path), ["/a"])
  })

  it("SECURITY.md, the pages: an index of another shape holds no entries, and no link that leaves the service", () => {
    assert.deepStrictEqual(entriesOf({ entries: [1, null, { path: "javascript:alert(1)", page: "x" }] }), [])
    assert.deepStrictEqual(entriesOf("no"), [])
  })

  const text = Arbitrary.schema(Schema.String)

  it.prop(
    "README, documentation: an excerpt is a part of the text and marks only words that were typed",
    [text, text],
    (
      [text, query],
    ) => {
      const parts = excerpt(text, query)
      assert.include(`…${text}…`, parts.join("").replace(/^…|…$/g, ""))
      const words = wordsOf(query).map((word) => word.toUpperCase())
      for (const [at, part] of parts.entries()) if (at % 2 === 1) assert.include(words, part.toUpperCase())
    },
  )
})
