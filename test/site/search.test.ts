/** The search of the documentation: its index, its ranking and its excerpts. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { catalogueEndpoints } from "../../src/catalogue/Endpoints.ts"
import { cutExcerpt, parseSearchIndex, searchEntries, splitWords } from "../../src/site/browser/search-matching.js"
import { documentationPath } from "../../src/rules/Deprecation.ts"
import { getReferencePagePath } from "../../src/site/Page.ts"
import * as Service from "../support/Service.ts"

layer(Service.layer, { excludeTestServices: true })("The search index", (it) => {
  const index = Effect.gen(function* () {
    const { headers, body, status } = yield* Service.requestJson("/v1/docs/assets/search.json", { key: null })
    assert.strictEqual(status, 200)
    assert.strictEqual(headers["content-type"], "application/json")
    return parseSearchIndex(body)
  })

  it.effect("leads to guides, operations pages, tools and endpoints (README, documentation)", () =>
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
      for (const [query, path] of queries) assert.strictEqual(searchEntries(entries, query)[0]?.path, path, query)
      // A search for a field finds the endpoints that have it.
      assert.include(
        searchEntries(entries, "gap_percentage").map(({ path }) => path),
        "/v1/docs/reference/intraday-runners",
      )
      for (const { row } of catalogueEndpoints.filter(({ row }) => row.path !== documentationPath)) {
        assert.strictEqual(searchEntries(entries, row.path)[0]?.path, getReferencePagePath(row.path), row.path)
      }
      assert.deepStrictEqual(searchEntries(entries, "no-such-word"), [])
      assert.deepStrictEqual(searchEntries(entries, "  "), [])
    }))

  it.effect("links only to pages and headings that exist (README, documentation)", () =>
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

describe("The search", () => {
  const entry = (path: string, page: string, heading: string, text: string) => ({ path, page, heading, text })

  it("requires every word, and ranks page titles above headings, and headings above text (README, documentation)", () => {
    const entries = [
      entry("/a", "Other", "", "about paging and limits"),
      entry("/b#x", "Other", "Paging far", "text"),
      entry("/c", "Paging", "", "text"),
      entry("/d", "Nothing", "", "text"),
    ]
    assert.deepStrictEqual(searchEntries(entries, "paging").map(({ path }) => path), ["/c", "/b#x", "/a"])
    assert.deepStrictEqual(searchEntries(entries, "paging LIMITS").map(({ path }) => path), ["/a"])
  })

  it("ignores malformed entries and links to other sites (SECURITY.md, documentation pages)", () => {
    assert.deepStrictEqual(parseSearchIndex({ entries: [1, null, { path: "javascript:alert(1)", page: "x" }] }), [])
    assert.deepStrictEqual(parseSearchIndex("no"), [])
  })

  const text = Arbitrary.schema(Schema.String)

  it.prop(
    "cuts excerpts from the text and marks only words of the query (README, documentation)",
    [text, text],
    (
      [text, query],
    ) => {
      const parts = cutExcerpt(text, query)
      assert.include(`…${text}…`, parts.join("").replace(/^…|…$/g, ""))
      const words = splitWords(query).map((word) => word.toUpperCase())
      for (const [at, part] of parts.entries()) if (at % 2 === 1) assert.include(words, part.toUpperCase())
    },
  )
})
