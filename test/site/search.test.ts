/** Tests the documentation search: its index, ranking and excerpts. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { cutExcerpt, makeSearch, parseSearchIndex } from "../../src/site/browser/search-matching.js"
import { documentationPath } from "../../src/contract/rules/Deprecation.ts"
import { getReferencePagePath } from "../../src/site/SitePage.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"

layer(Service.layer, { excludeTestServices: true })("The search index", (it) => {
  const index = Effect.gen(function* () {
    const { headers, body, status } = yield* Service.requestJson("/v1/docs/assets/search.json", { key: null })
    assert.strictEqual(status, 200)
    assert.strictEqual(headers["content-type"], "application/json")
    return parseSearchIndex(body)
  })

  it.effect("leads to guides, operations pages, tools and endpoints (README.md)", () =>
    Effect.gen(function* () {
      const entries = yield* index
      const search = makeSearch(entries)
      const find = (query: string) => search(query).map(({ entry }) => entry.path)
      const queries = [
        ["retry", "/v1/docs/errors#retry-or-not"],
        ["For operators", "/v1/docs/operators"],
        ["health/ready", "/v1/docs/reference/health-ready"],
        ["explorer", "/v1/docs/explorer"],
        ["pump dump", "/v1/docs/reference/pump-and-dump-tracker"],
        ["glossary", "/v1/docs/glossary"],
      ] as const
      for (const [query, path] of queries) assert.strictEqual(find(query)[0], path, query)
      // Searching for a field finds the endpoints that return it.
      assert.include(find("gap_percentage"), "/v1/docs/reference/intraday-runners")
      for (const { row } of catalogueEndpoints.filter(({ row }) => row.path !== documentationPath)) {
        assert.strictEqual(find(row.path)[0], getReferencePagePath(row.path), row.path)
      }
      assert.deepStrictEqual(find("nosuchword"), [])
      assert.deepStrictEqual(find("  "), [])
      assert.deepStrictEqual(find("…"), [])
    }))

  it.effect("finds endpoints by the words of their fields (README.md)", () =>
    Effect.gen(function* () {
      const search = makeSearch(yield* index)
      const queries = [
        ["closing price", ["gap-stats", "gap-stats-advanced", "intraday-runners", "premarket-stats"]],
        ["splits", ["split-status"]],
        ["reverse split", ["split-status"]],
        ["10-K", ["news", "historical-float-pro", "gap-stats"]],
        ["insider ownership", ["ownership"]],
        ["conversion price", ["dilution-data", "dilution-data-advanced"]],
      ] as const
      for (const [query, names] of queries) {
        const found = search(query).map(({ entry }) => entry.path)
        const first = found.find((path) => path.startsWith("/v1/docs/reference/"))
        assert.include(names.map((name) => `/v1/docs/reference/${name}`), first, query)
        assert.includeMembers(found, names.map((name) => `/v1/docs/reference/${name}`), query)
      }
    }))

  it.effect("forgives a misspelling (README.md)", () =>
    Effect.gen(function* () {
      const search = makeSearch(yield* index)
      const queries = [
        ["linage", "/v1/docs/lineage"],
        ["pageing", "/v1/docs/paging"],
        ["timestmaps", "/v1/docs/timestamps"],
        ["deprecatoins", "/v1/docs/deprecations"],
        ["explorr", "/v1/docs/explorer"],
        ["screner", "/v1/docs/reference/screener"],
        ["complianse", "/v1/docs/reference/nasdaq-compliance"],
      ] as const
      for (const [query, path] of queries) assert.strictEqual(search(query)[0]?.entry.path, path, query)
      // SEC form types with different numbers are different types, so 10-Q must not match 10-K.
      for (const { entry, terms } of search("10-Q")) assert.notInclude(terms, "10-k", entry.path)
    }))

  it.effect("lists guides and endpoints before the changelog (README.md)", () =>
    Effect.gen(function* () {
      const entries = yield* index
      const search = makeSearch(entries)
      const changes = entries.filter(({ isChange }) => isChange)
      assertFoundMoreThan(20, "changes", changes)
      for (const { path } of changes) assert.match(path, /^\/v1\/docs\/changelog#/)
      let mixedCount = 0
      for (const query of ["search", "lineage", "csv", "changelog", "key", ...changes.map(({ heading }) => heading)]) {
        const kinds = search(query).map(({ entry }) => entry.isChange)
        assert.deepStrictEqual(kinds, kinds.toSorted((left, right) => Number(left) - Number(right)), query)
        if (new Set(kinds).size === 2) mixedCount += 1
      }
      assert.isAbove(mixedCount, 5)
      // Changelog entries are ranked last, but they are still found.
      for (const { heading, path } of changes) {
        assert.include(search(heading).map(({ entry }) => entry.path), path, heading)
      }
    }))

  it.effect("serves the search library from its own origin, with its license (README.md)", () =>
    Effect.gen(function* () {
      const asset = (name: string) => Service.requestJson(`/v1/docs/assets/${name}`, { key: null })
      const library = yield* asset("minisearch.js")
      assert.strictEqual(library.headers["content-type"], "text/javascript; charset=utf-8")
      assert.match(library.text, /^\/\*!\nCopyright .* Luca Ongaro\n[\s\S]{500,1500}\*\/\n/)
      assert.notInclude(library.text, "sourceMappingURL")
      assert.include((yield* asset("search-matching.js")).text, `import MiniSearch from "./minisearch.js"`)
    }))

  it.effect("links only to pages and headings that exist (README.md)", () =>
    Effect.gen(function* () {
      const entries = yield* index
      const pages = new Map<string, string>()
      assertFoundMoreThan(80, "entries", entries)
      for (const { path, text } of entries) {
        const [page = "", anchor] = path.split("#")
        if (!pages.has(page)) pages.set(page, (yield* Service.requestJson(page, { key: null })).text)
        if (anchor !== undefined) assert.include(pages.get(page) ?? "", `id="${anchor}"`)
        assert.notMatch(text, /<\/?[a-z]|&(amp|lt|gt|quot);/, path)
      }
    }))
})

describe("The search", () => {
  const entry = (path: string, page: string, heading: string, text: string) => ({
    path,
    page,
    heading,
    text,
    fields: "",
    isChange: false,
  })

  it("prefers entries with every word, and titles to headings, and headings to text (README.md)", () => {
    const search = makeSearch([
      entry("/a", "Other", "", "about paging and limits"),
      entry("/b#x", "Other", "Paging far", "text"),
      entry("/c", "Paging", "", "text"),
      entry("/d", "Nothing", "", "text"),
    ])
    const find = (query: string) => search(query).map(({ entry }) => entry.path)
    assert.deepStrictEqual(find("paging"), ["/c", "/b#x", "/a"])
    assert.deepStrictEqual(find("paging LIMITS"), ["/a"])
    // No entry contains both words, so the entries with one of them are returned.
    assert.deepStrictEqual(find("paging unheardof"), ["/c", "/b#x", "/a"])
    assert.deepStrictEqual(find("unheardof"), [])
  })

  it("ignores malformed entries and links to other sites (SECURITY.md)", () => {
    assert.deepStrictEqual(parseSearchIndex({ entries: [1, null, { path: "javascript:alert(1)", page: "x" }] }), [])
    assert.deepStrictEqual(parseSearchIndex("no"), [])
  })

  it("shows the part of a text with most of the words (README.md)", () => {
    const text = `price: ${"x ".repeat(200)}the closing price of a day ${"y ".repeat(200)}`
    assert.deepStrictEqual(cutExcerpt(text, ["price", "closing"]).filter((_, at) => at % 2 === 1), ["closing", "price"])
    assert.deepStrictEqual(cutExcerpt("repriced C++ (2)", ["price", "c++"]), ["repriced ", "C++", " (2)"])
  })

  const text = Arbitrary.schema(Schema.String)

  it.prop("never fails, whatever the query (README.md)", [text], ([query]) => {
    const found = makeSearch([entry("/a", "Paging", "", "text")])(query)
    assert.isAtMost(found.length, 1)
  })

  it.prop(
    "cuts excerpts from the text and marks only the given words (README.md)",
    [text, Arbitrary.schema(Schema.Array(Schema.NonEmptyString))],
    (
      [text, words],
    ) => {
      const parts = cutExcerpt(text, words)
      assert.include(`…${text}…`, parts.join("").replace(/^…|…$/g, ""))
      const marked = words.map((word) => word.toUpperCase())
      for (const [at, part] of parts.entries()) if (at % 2 === 1) assert.include(marked, part.toUpperCase())
    },
  )
})
