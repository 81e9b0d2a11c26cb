/**
 * Tests the changelog as a data structure, as JSON and as an Atom feed: §9.6 (notification), D2 (credentials), D24
 * (lifecycle).
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import packageJson from "../../../package.json" with { type: "json" }
import { catalogueEndpoints } from "../../../src/api/catalogue/Endpoints.ts"
import { escapeXml, renderAtomFeed } from "../../../src/api/changelog/AtomFeed.ts"
import { mcpPath } from "../../../src/api/RequestTarget.ts"
import {
  changelogEntries,
  changelogReleases,
  isEmailMandatory,
  isEntryAnnouncedByEmail,
  isReleasedIn,
} from "../../../src/api/changelog/Changelog.ts"
import { ChangelogRelease, doesEntryAffectPath } from "../../../src/contract/ChangelogEntry.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service

const withoutKey = { key: null } as const

const toList = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const isInvalidEntry = (more: object) => {
  const entry = { id: "x", type: "added", title: "A title", text: "Text.", paths: ["/v1/news"], ...more }
  return Option.isNone(
    Schema.decodeUnknownOption(ChangelogRelease, { onExcessProperty: "error" })({
      release: "1.0.0",
      date: "2026-11-21",
      entries: [entry],
    }),
  )
}

describe("The changelog", () => {
  it("lists releases and entries newest first, and gives each entry a unique id (§9.6)", () => {
    const numbers = changelogReleases.map(({ release }) =>
      release.split(".").map((part) => part.padStart(4, "0")).join(".")
    )
    assert.deepStrictEqual(numbers, numbers.toSorted().toReversed())
    const days = changelogReleases.flatMap(({ date }) => date ?? [])
    assert.deepStrictEqual(days, days.toSorted().toReversed())
    const ids = changelogEntries.map(({ id }) => id)
    assert.strictEqual(new Set(ids).size, ids.length)
    const dates = changelogEntries.map(({ date }) => date)
    assert.deepStrictEqual(dates, dates.toSorted().toReversed())
  })

  it("has a date for each release up to this version, none of them in the future, and none for a later one (§9.6)", () => {
    const isReleased = isReleasedIn(packageJson.version)
    const today = new Date().toISOString().slice(0, 10)
    for (const { date, release } of changelogReleases.filter(isReleased)) {
      assert.isTrue(date !== undefined && date <= today, release)
    }
    const planned = changelogReleases.filter((one) => !isReleased(one))
    assert.deepStrictEqual(planned.flatMap(({ date }) => date ?? []), [])
    for (const entry of changelogEntries) {
      assert.isAtMost(Date.parse(entry.date), Date.parse(today), entry.id)
      assert.strictEqual(entry.released, isReleased(entry), entry.id)
    }
    const firstReleased = changelogEntries.findIndex(({ released }) => released)
    assert.isTrue(changelogEntries.slice(firstReleased).every(({ released }) => released), "the unreleased come first")
  })

  it("apart from fixes, has only the breaking changes of release 1.0.0, all of which the guide lists (§9.2, §9.3, §9.5)", () => {
    const guide = readFileSync(new URL("../../../docs/guides/deprecations.md", import.meta.url), "utf8")
    const listed = Array.from(guide.matchAll(/\]\(\/v1\/docs\/changelog#([a-z0-9-]+)\)/g), ([, id]) => id)
    const breaking = changelogEntries.filter((entry) => entry.breaking && entry.type !== "fixed")
    assert.sameMembers(listed, breaking.map(({ id }) => id))
    assert.deepStrictEqual(Array.from(new Set(breaking.map(({ release }) => release))), ["1.0.0"])
  })

  it("announces five breaking changes by email, each with migration instructions (§9.5)", () => {
    const breaking = changelogEntries.filter((entry) => entry.breaking && entry.release === "1.0.0")
    assert.strictEqual(breaking.length, 5)
    for (const entry of breaking) {
      assert.isNotNull(entry.migration, entry.id)
      assert.isTrue(isEmailMandatory(entry) && isEntryAnnouncedByEmail(entry), entry.id)
    }
  })

  it("has a deprecation entry with the declared dates for each deprecated endpoint, and for no other (D24)", () => {
    const declared = catalogueEndpoints.flatMap(({ deprecation: life, row }) =>
      Option.match(life, { onNone: () => [], onSome: (one) => [{ path: row.path, ...one }] })
    )
    const deprecations = changelogEntries.filter(({ type }) => type === "deprecated")
    assert.deepStrictEqual(
      deprecations.map(({ date, paths, successor, sunset }) => ({ date, paths, successor, sunset })),
      declared.map(({ announced, path, successor, sunset }) => ({
        date: announced,
        paths: [path],
        successor,
        sunset: sunset ?? null,
      })),
    )
    assert.isAbove(deprecations.length, 0)
    assert.isTrue(isInvalidEntry({ type: "deprecated" }))
  })

  it("names only paths that exist (§9.6)", () => {
    const known = [mcpPath, ...catalogueEndpoints.map(({ row }) => row.path)]
    const unknownPaths = changelogEntries.flatMap(({ id, paths }) =>
      paths.filter((path) => path !== "/v1/docs/*" && !known.some((one) => doesEntryAffectPath({ paths: [path] }, one)))
        .map((
          path,
        ) => `${id}: ${path}`)
    )
    assert.deepStrictEqual(unknownPaths, [])
  })

  it("cannot be loaded with an invalid entry (§9.6)", () => {
    assert.isFalse(isInvalidEntry({}))
    const wrong = [
      { id: "Not This" },
      { type: "new" },
      { title: "two\nlines" },
      { title: "" },
      { text: "" },
      { paths: [] },
      { paths: ["news"] },
      { breaking: true },
      { takes_effect: "2026-02-30" },
      { colour: "red" },
    ]
    for (const more of wrong) assert.isTrue(isInvalidEntry(more), JSON.stringify(more))
  })
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/changelog", (it) => {
  it.effect("lists every entry without a key and free of charge (§9.6, D2)", () =>
    Effect.gen(function* () {
      const { body, headers, status } = yield* requestJson("/v1/changelog", withoutKey)
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body, { count: changelogEntries.length, results: changelogEntries })
      assert.match(String(headers["content-type"]), /^application\/json/)
      assert.strictEqual(headers["cache-control"], "public, max-age=300")
      assert.isUndefined(headers["x-cost-microdollars"])
    }))

  it.effect("has a page that dates what is released, and marks everything else (§9.6)", () =>
    Effect.gen(function* () {
      const { text } = yield* requestJson("/v1/docs/changelog", withoutKey)
      const sections = new Map(
        text.split(`<section class="entry">`).slice(1).map((section) => [
          /<h3 id="([^"]*)"/.exec(section)?.[1],
          section.split("</section>", 1)[0],
        ]),
      )
      for (const { date, id, released } of changelogEntries) {
        const section = sections.get(id) ?? ""
        assert.strictEqual(section.includes(`<time datetime="${date}">`), released, id)
        assert.strictEqual(section.includes("not released yet"), !released, id)
      }
    }))

  it.effect("lists the entries that match every filter, of which `type` accepts several values (§9.6)", () =>
    Effect.gen(function* () {
      const idsOf = (search: string) =>
        Effect.map(requestJson(`/v1/changelog?${search}`, withoutKey), ({ body, status, text }) => {
          assert.strictEqual(status, 200, text)
          return toList(valueAt(body, "results")).map((entry) => valueAt(entry, "id"))
        })
      const expected = (holds: (entry: typeof changelogEntries[number]) => boolean) =>
        changelogEntries.filter(holds).map(({ id }) => id)
      assert.deepStrictEqual(yield* idsOf("type=deprecated"), ["v1-historical-tickers-deprecated"])
      assert.deepStrictEqual(
        yield* idsOf("type=fixed,removed"),
        expected(({ type }) => type === "fixed" || type === "removed"),
      )
      assert.deepStrictEqual(yield* idsOf("breaking=true"), expected(({ breaking }) => breaking))
      assert.deepStrictEqual(yield* idsOf("breaking=false"), expected(({ breaking }) => !breaking))
      assert.deepStrictEqual(yield* idsOf("since=2026-11-01"), expected(() => true))
      assert.deepStrictEqual(yield* idsOf("since=2026-11-02"), expected(({ date }) => date > "2026-11-01"))
      assert.deepStrictEqual(yield* idsOf("since=2999-01-01"), [])
      assert.include(yield* idsOf("path=/v1/screener"), "screener-fields")
      assert.include(yield* idsOf("path=/v1/screener"), "fixed-offset")
      assert.notInclude(yield* idsOf("path=/v1/screener"), "floor-price")
      assert.deepStrictEqual(yield* idsOf("path=/v1/research-reports-tldr&type=removed&breaking=true"), [
        "report-id-removed",
      ])
    }))

  it.effect("names the invalid parameters that it refuses, as does the feed (§7.2, D4)", () =>
    Effect.gen(function* () {
      const refused = [["type", "new"], ["breaking", "maybe"], ["since", "2026-02-30"], ["path", "news"], [
        "limit",
        "1",
      ], ["typ", "added"]]
      for (const path of ["/v1/changelog", "/v1/changelog.atom"]) {
        for (const [name = "", value = ""] of refused) {
          const { body, status } = yield* requestJson(`${path}?${name}=${value}`, withoutKey)
          assert.strictEqual(status, 422, name)
          assert.strictEqual(valueAt(body, "error", "code"), "validation_error")
          assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), name)
        }
      }
    }))

  it.effect("responds to a matching If-None-Match with 304, and has a different ETag for each filter (§9.6)", () =>
    Effect.gen(function* () {
      for (const path of ["/v1/changelog", "/v1/changelog.atom"]) {
        const { headers } = yield* requestJson(path, withoutKey)
        const etag = String(headers["etag"])
        assert.match(etag, /^"[^"]+"$/)
        // Shared caches may store the response and need `Vary` to distinguish its encodings.
        assert.match(String(headers["vary"]), /accept-encoding/i)
        for (const sent of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
          const again = yield* requestJson(path, { ...withoutKey, headers: { "If-None-Match": sent } })
          assert.strictEqual(again.status, 304, sent)
          assert.strictEqual(again.text, "")
          if (sent !== "*") assert.strictEqual(again.headers["etag"], etag)
          assert.strictEqual(again.headers["cache-control"], "public, max-age=300")
          assert.strictEqual(again.headers["x-api-version"], "v1")
        }
        const other = yield* requestJson(`${path}?type=added`, { ...withoutKey, headers: { "If-None-Match": etag } })
        assert.strictEqual(other.status, 200)
        assert.notStrictEqual(other.headers["etag"], etag)
        const head = yield* requestJson(path, { ...withoutKey, method: "HEAD" })
        assert.strictEqual(head.status, 200)
        assert.strictEqual(head.headers["etag"], etag)
      }
    }))
})

const renderFeed = (search = "", base = "https://api.example.com") =>
  renderAtomFeed(changelogEntries, { baseUrl: base, search })

const findIds = (text: string) => Array.from(text.matchAll(/<id>(.*?)<\/id>/g), ([, id]) => id)

/** Evaluates an XPath expression with PostgreSQL's XML parser, which rejects XML that is not well-formed. */
const readXPath = Effect.fnUntraced(function* (text: string, path: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly found: ReadonlyArray<string> }>`
    select xpath(${path}, xmlparse(document ${text}::text), array[array['a', 'http://www.w3.org/2005/Atom']])::text[] as found
  `
  return row?.found ?? []
})

layer(Service.layer, { excludeTestServices: true })("In GET /v1/changelog.atom,", (it) => {
  it.effect("the feed and its entries have each required element once (RFC 4287)", () =>
    Effect.gen(function* () {
      const { headers, text } = yield* requestJson("/v1/changelog.atom", withoutKey)
      assert.strictEqual(headers["content-type"], "application/atom+xml; charset=utf-8")
      const declared = text.replace(/^<\?xml[^>]*\?>\n/, "")
      for (const one of ["a:id", "a:title", "a:updated", "a:author/a:name"]) {
        assert.strictEqual((yield* readXPath(declared, `/a:feed/${one}/text()`)).length, 1, one)
      }
      for (const one of ["a:id", "a:title", "a:updated", "a:content"]) {
        const found = yield* readXPath(declared, `/a:feed/a:entry/${one}/text()`)
        assert.strictEqual(found.length, changelogEntries.length, one)
      }
      const ids = yield* readXPath(declared, "//a:id/text()")
      assert.strictEqual(new Set(ids).size, ids.length)
      for (const id of ids) {
        assert.match(id, /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      }
      for (const moment of yield* readXPath(declared, "//a:updated/text()")) {
        assert.match(moment, /^\d{4}-\d\d-\d\dT00:00:00-05:00$/)
        assert.isAtMost(Date.parse(moment), Date.now())
      }
      const planned = changelogEntries.filter(({ released }) => !released)
      const marked = yield* readXPath(declared, `//a:entry[a:category/@term="unreleased"]/a:title/text()`)
      assert.strictEqual(marked.length, planned.length)
      assert.isTrue(marked.every((title) => title.startsWith("Unreleased: ")))
      assert.strictEqual(
        (yield* readXPath(declared, "//a:published/text()")).length,
        changelogEntries.length - planned.length,
      )
      assert.strictEqual((yield* readXPath(declared, `/a:feed/a:link[@rel="self"]/@href`)).length, 1)
    }))

  it.effect("the feed preserves any text (RFC 4287)", () =>
    Effect.gen(function* () {
      for (const text of [`<b>&amp; "quoted" 'too' ]]>`, "Größe 漢字 🚀", "a\tb\nc"]) {
        const [found = ""] = yield* readXPath(
          `<t xmlns="http://www.w3.org/2005/Atom">${escapeXml(text)}</t>`,
          "/a:t/text()",
        )
        const [attribute = ""] = yield* readXPath(
          `<t xmlns="x" a="${escapeXml(text.replaceAll(/\s/g, " "))}"/>`,
          "//@a",
        )
        const plain = (one: string) =>
          one.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", `"`).replaceAll("&amp;", "&")
        assert.strictEqual(plain(found), text)
        assert.strictEqual(plain(attribute), text.replaceAll(/\s/g, " "))
      }
      assert.strictEqual(escapeXml("a\0b\u0007c\ud800d\ufffee"), "abc\ufffdde")
    }))

  it.effect("each filter has its own feed id, but the id of an entry is the same in every feed (RFC 4287)", () =>
    Effect.sync(() => {
      assert.deepStrictEqual(findIds(renderFeed()), findIds(renderFeed("", "http://127.0.0.1:8080")))
      assert.notStrictEqual(findIds(renderFeed())[0], findIds(renderFeed("type=added"))[0])
      assert.deepStrictEqual(findIds(renderFeed()).slice(1), findIds(renderFeed("type=added")).slice(1))
      assert.include(
        renderFeed("type=added&path=%2Fv1"),
        `href="https://api.example.com/v1/changelog.atom?type=added&amp;path=`,
      )
      // Feed readers remember entry ids, so an id must never change.
      assert.strictEqual(findIds(renderFeed())[0], "urn:uuid:155de051-2820-8464-ae6c-aa01a67fb93e")
    }))
})
