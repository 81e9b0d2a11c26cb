/** Resources: news and news-basic, through the wire. Each test has tickers or words of its own. */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import * as Filters from "../support/FilterAssertions.ts"
import * as Rooms from "../support/ListClients.ts"
import * as Service from "../support/Service.ts"
import { inputs } from "../support/Thoroughness.ts"

const { requestJson, valueAt, insertRows } = Service

const paths = ["/v1/news", "/v1/news-basic"] as const

/** What an item cannot do without. */
const item = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  form_type: "news",
  filed_at: "2025-07-01",
  created_at: "2025-07-01 08:00:00",
  last_updated: "2025-07-01 08:00:00",
  ...fields,
})

const { found, printed, refused, walk } = Rooms.pairedListClient(paths)

/** What both endpoints find, which must be the same. */
const idsIn = ([full, basic]: readonly [ReadonlyArray<unknown>, ReadonlyArray<unknown>]) => {
  const ids = full.map((row) => valueAt(row, "id"))
  assert.deepStrictEqual(basic.map((row) => valueAt(row, "id")), ids)
  return ids
}

const idsOf = (query: string) => Effect.map(found(query), idsIn)

/** What means something to PostgreSQL's full text. */
const signs = ["-", '"', " ", "or", "and", "the", "a", ":*", "&", "|", "!", "(", ")", "<->", "\\", "'", "-", "%"]

layer(Service.layer, { excludeTestServices: true })("GET /v1/news and /v1/news-basic", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Rows
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("§2.1 D15 print every field, exactly as stored; news-basic leaves out five", () =>
    Effect.gen(function* () {
      yield* insertRows("news", {
        id: "full",
        ticker: "NFULL",
        tickers: ["NFULL", "BRK.B"],
        form_type: "424B5",
        title: 'A "quoted" title',
        summary: "100% _ \\ sum",
        body: "First\nSecond, with a comma",
        author: "Ünal Ø",
        publisher: "Wire & Co",
        tags: ["offering", 'a "b"', "c,d"],
        accession_number: "0001234567-25-000001",
        document_url: "https://example.com/a?b=c&d",
        filed_at: "2025-07-02",
        filed_at_time: "2025-07-02 16:05:09",
        created_at: "2025-07-02 16:06:00",
        last_updated: "2025-07-02 16:07:00.120",
      })
      const [full, basic] = yield* printed("ticker=NFULL")
      assert.strictEqual(
        full,
        `{"count":1,"results":[{"id":"full","ticker":"NFULL","tickers":["NFULL","BRK.B"],"form_type":"424B5",` +
          `"title":"A \\"quoted\\" title","summary":"100% _ \\\\ sum","body":"First\\nSecond, with a comma",` +
          `"author":"Ünal Ø","publisher":"Wire & Co","tags":["offering","a \\"b\\"","c,d"],` +
          `"accession_number":"0001234567-25-000001","document_url":"https://example.com/a?b=c&d",` +
          `"filed_at":"2025-07-02","filed_at_time":"2025-07-02T15:05:09-05:00",` +
          `"created_at":"2025-07-02T16:06:00-05:00","last_updated":"2025-07-02T16:07:00.120-05:00"}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
      assert.strictEqual(
        basic,
        `{"count":1,"results":[{"id":"full","ticker":"NFULL","tickers":["NFULL","BRK.B"],"form_type":"424B5",` +
          `"title":"A \\"quoted\\" title","tags":["offering","a \\"b\\"","c,d"],` +
          `"accession_number":"0001234567-25-000001","document_url":"https://example.com/a?b=c&d",` +
          `"filed_at":"2025-07-02","created_at":"2025-07-02T16:06:00-05:00",` +
          `"last_updated":"2025-07-02T16:07:00.120-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("D16 what is missing is null, and a list without words is empty", () =>
    Effect.gen(function* () {
      yield* insertRows("news", item({ id: "null", ticker: "NNULL" }))
      const [[row]] = yield* found("ticker=NNULL")
      assert.deepStrictEqual(Rooms.nullAndListFields(row), [
        ["tickers", []],
        ["title", null],
        ["summary", null],
        ["body", null],
        ["author", null],
        ["publisher", null],
        ["tags", []],
        ["accession_number", null],
        ["document_url", null],
        ["filed_at_time", null],
      ])
    }))

  it.effect("§2.1.4 D15 created_at and last_updated keep their digits all year, filed_at_time loses the summer hour", () =>
    Effect.gen(function* () {
      for (const [stored, printed] of Rooms.newYorkTimestampSamples) {
        const id = `clock ${stored}`
        yield* insertRows(
          "news",
          item({ id, ticker: "NCLOCK", filed_at_time: stored, created_at: stored, last_updated: stored }),
        )
        const verbatim = `${stored.replace(" ", "T")}-05:00`
        const [full, basic] = yield* found("ticker=NCLOCK")
        for (const [rows, filed] of [[full, printed], [basic, undefined]] as const) {
          const row = rows.find((one) => valueAt(one, "id") === id)
          assert.strictEqual(valueAt(row, "created_at"), verbatim)
          assert.strictEqual(valueAt(row, "last_updated"), verbatim)
          assert.strictEqual(valueAt(row, "filed_at_time"), filed)
        }
      }
    }))

  it.effect("D8 items come latest first, then by id; a walk shows each once, whatever the limit", () =>
    Effect.gen(function* () {
      const times = ["2024-05-06 09:00:00", "2024-05-06 09:00:00.001", "2024-05-05 23:59:59"]
      const rows = Array.from({ length: 25 }, (_, number) => {
        const id = `w${String((number * 7) % 25).padStart(2, "0")}`
        // What was filed last is not what was created last.
        return item({ id, ticker: "NWALK", created_at: times[number % 3], filed_at: `2024-01-${10 + number % 9}` })
      })
      yield* insertRows("news", ...rows)
      const key = (row: unknown) =>
        `${9 - times.toSorted().indexOf(String(valueAt(row, "created_at")))} ${String(valueAt(row, "id"))}`
      const expected = rows.map(key).toSorted().map((text) => text.slice(2))
      for (const limit of [1, 7, 25, 100]) {
        assert.deepStrictEqual(idsIn(yield* walk("ticker=NWALK", limit)), expected)
      }
    }))

  it.effect("D3 are on all tiers", () =>
    Effect.gen(function* () {
      yield* Effect.forEach(paths, Rooms.requestOnAllTiers)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("D5 ticker finds a row's own symbol, not one it only mentions; none valid is 422", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "own", ticker: "NOWN", tickers: ["NOWN", "NOTHER"] }),
        item({ id: "other", ticker: "NOTHER", created_at: "2025-06-01 08:00:00" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=NOTHER"), ["other"])
      assert.deepStrictEqual(yield* idsOf("ticker=nother,@@,no%20wn"), ["own", "other"])
      yield* Filters.assertInvalidSymbolsRefused(refused)
    }))

  it.effect("D7 date, date_from and date_to are about filed_at and include their day", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        ...Filters.sampleDays.map((filed_at) =>
          item({ id: filed_at, ticker: "NDATE", filed_at, created_at: "2025-06-06 08:00:00" })
        ),
      )
      const asked = (query: string) => Effect.map(idsOf(`ticker=NDATE&${query}`), (ids) => ids.toReversed())
      yield* Filters.assertDateFilters({ asked, refused })
      assert.deepStrictEqual(yield* asked("date=2025-06-06"), [])
    }))

  it.effect("§4 form_type is exact, several comma-separated", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        ...["8-K", "S-3", "S-3/A", "news"].map((form_type) =>
          item({ id: `f ${form_type}`, ticker: "NFORM", form_type })
        ),
      )
      const asked = (types: string) => idsOf(`ticker=NFORM&form_type=${encodeURIComponent(types)}`)
      assert.deepStrictEqual(yield* asked("S-3"), ["f S-3"])
      assert.deepStrictEqual(yield* asked("S-3, 8-K"), ["f 8-K", "f S-3"])
      assert.deepStrictEqual(yield* asked("s-3,8-k"), ["f 8-K", "f S-3"])
      assert.deepStrictEqual(yield* asked("S-3%' or true --"), [])
      for (const wrong of ["", ",", "S-3,", " "]) {
        assert.strictEqual((yield* refused(`ticker=NFORM&form_type=${wrong}`)).field, "form_type")
      }
    }))

  it.effect("§4 tag is one that the item has, whole and in its case", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "t1", ticker: "NTAG", tags: ["offering", "a,b"] }),
        item({ id: "t2", ticker: "NTAG", tags: ["offering price", `it's "{x}\\`] }),
        item({ id: "t3", ticker: "NTAG" }),
      )
      const asked = (tag: string) => idsOf(`ticker=NTAG&tag=${encodeURIComponent(tag)}`)
      assert.deepStrictEqual(yield* asked("offering"), ["t1"])
      assert.deepStrictEqual(yield* asked("a,b"), ["t1"])
      assert.deepStrictEqual(yield* asked(`it's "{x}\\`), ["t2"])
      for (const cased of ["Offering", "OFFERING", "A,B"]) assert.deepStrictEqual(yield* asked(cased), ["t1"])
      for (const none of ["offer", "price", "%", "{}", "null"]) {
        assert.deepStrictEqual(yield* asked(none), [])
      }
      assert.strictEqual((yield* refused("tag=")).field, "tag")
    }))

  it.effect("§4 hide_news leaves filings, hide_filings leaves news, both leave nothing", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "h1", ticker: "NHIDE" }),
        item({ id: "h2", ticker: "NHIDE", form_type: "8-K" }),
        item({ id: "h3", ticker: "NHIDE", form_type: "NEWS" }),
      )
      const asked = (query: string) => idsOf(`ticker=NHIDE&${query}`)
      assert.deepStrictEqual(yield* asked("hide_news=true"), ["h2", "h3"])
      assert.deepStrictEqual(yield* asked("hide_filings=true"), ["h1"])
      assert.deepStrictEqual(yield* asked("hide_news=true&hide_filings=true"), [])
      assert.deepStrictEqual(yield* asked("hide_news=false&hide_filings=false"), ["h1", "h2", "h3"])
      assert.deepStrictEqual(yield* asked("hide_news=true&form_type=news,8-K"), ["h2", "h3"])
      for (const wrong of ["hide_news=", "hide_news=1", "hide_filings=yes"]) {
        assert.strictEqual((yield* refused(wrong)).field, wrong.split("=")[0])
      }
    }))

  it.effect("§4 filters narrow each other, and what is no filter is refused", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "m1", ticker: "NMIX", form_type: "8-K", title: "Zebra offering", tags: ["x"] }),
        item({ id: "m2", ticker: "NMIX", form_type: "8-K", title: "Zebra offering", tags: ["y"] }),
        item({ id: "m3", ticker: "NMIX", form_type: "S-1", title: "Zebra offering", tags: ["x"] }),
        item({ id: "m4", ticker: "NMIX", form_type: "8-K", title: "Lion offering", tags: ["x"] }),
        item({ id: "m5", ticker: "NMIX", form_type: "8-K", title: "Zebra", tags: ["x"], filed_at: "2025-07-02" }),
      )
      assert.deepStrictEqual(
        yield* idsOf("ticker=NMIX&form_type=8-K&tag=x&query=zebras&date=2025-07-01&hide_news=true"),
        ["m1"],
      )
      yield* Filters.assertUnknownParametersRefused(refused, [
        "title",
        "search",
        "author",
        "created_at_from",
        "tickers",
        "tags",
      ])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Full text
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("§4 query finds words of title and summary, in any form and order, in the syntax of web searches", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "q1", ticker: "NQ", title: "Zyx prices public offering", summary: "Shares and warrants" }),
        item({ id: "q2", ticker: "NQ", title: "Zyx results", summary: "The offered shares are public; 5.5% more" }),
        item({
          id: "q3",
          ticker: "NQ",
          title: "Foo-bar's café",
          body: "offering",
          author: "offering",
          tags: ["offering"],
        }),
        item({ id: "q4", ticker: "NQ" }),
        item({ id: "q5", ticker: "NQ", summary: "Lawsuit" }),
      )
      const asked = (query: string) => idsOf(`ticker=NQ&query=${encodeURIComponent(query)}`)
      assert.deepStrictEqual(yield* asked("offering"), ["q1", "q2"])
      assert.deepStrictEqual(yield* asked("OFFERS zyx"), ["q1", "q2"])
      assert.deepStrictEqual(yield* asked("prices warrant"), ["q1"])
      assert.deepStrictEqual(yield* asked(`"public offering"`), ["q1"])
      assert.deepStrictEqual(yield* asked(`"public offering`), ["q1"])
      assert.deepStrictEqual(yield* asked("offering -warrants"), ["q2"])
      assert.deepStrictEqual(yield* asked("warrants or lawsuit"), ["q1", "q5"])
      assert.deepStrictEqual(yield* asked("-offering"), ["q3", "q4", "q5"])
      assert.deepStrictEqual(yield* asked("café"), ["q3"])
      assert.deepStrictEqual(yield* asked("foo-bar"), ["q3"])
      assert.deepStrictEqual(yield* asked("5.5%"), ["q2"])
      assert.deepStrictEqual(yield* asked("nosuchword"), [])
      assert.deepStrictEqual(yield* asked("the shares"), ["q1", "q2"])
    }))

  it.effect("§4 a query of stop words, or of signs alone, finds nothing; a blank one is 422", () =>
    Effect.gen(function* () {
      yield* insertRows("news", item({ id: "s1", ticker: "NSTOP", title: "The the of and - !" }))
      for (const nothing of ["the", "the of", `"and the"`, "-the", "!", "---", `""`, "&|!()", ":*", "..."]) {
        assert.deepStrictEqual(yield* idsOf(`query=${encodeURIComponent(nothing)}`), [], nothing)
      }
      for (const blank of ["", " ", "%20%09", "%C2%A0", "%00", "a%00b", "x".repeat(201)]) {
        const { field, message } = yield* refused(`query=${blank}`)
        assert.strictEqual(field, "query")
        assert.match(message, /query must be words to search for, 1 to 200 characters/)
      }
      assert.strictEqual((yield* requestJson(`/v1/news?query=${"x".repeat(200)}`)).status, 200)
    }))

  it.effect("§4 rows of dashes, which PostgreSQL takes for too many negations, are no error and no negation", () =>
    Effect.gen(function* () {
      yield* insertRows("news", item({ id: "dash", ticker: "NDASH", title: "Quokka, well-known" }))
      for (
        const line of ["-".repeat(100), "- ".repeat(90), "-!".repeat(90), "-(".repeat(90), "-\u0085".repeat(90)]
      ) {
        assert.deepStrictEqual(yield* idsOf(`query=${encodeURIComponent(`${line}quokka`)}`), ["dash"])
      }
      assert.deepStrictEqual(yield* idsOf("query=quokka%20well-known%20-kangaroo"), ["dash"])
      assert.deepStrictEqual(yield* idsOf("query=quokka%20------%20-well"), [])
    }))

  it.effect.prop(
    "D11 whatever is sent as query is answered 200, or 422 where it is blank or long",
    [Arbitrary.array(Arbitrary.schema(Schema.Union([Schema.Literals(signs), Schema.String])), { maxLength: 90 })],
    ([parts]) =>
      Effect.gen(function* () {
        const query = parts.join("").toWellFormed()
        const { body, status, text } = yield* requestJson(`/v1/news?query=${encodeURIComponent(query)}`)
        const good = query.trim() !== "" && query.length <= 200 && !query.includes("\0")
        assert.strictEqual(status, good ? 200 : 422, text)
        if (!good) assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "query")
      }),
    { arbitrary: { runs: inputs(200) } },
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Load
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("D31 a file replaces the table: lists are JSON, what is searched follows; bad rows are refused", () =>
    Effect.gen(function* () {
      const header = "id,ticker,tickers,form_type,title,tags,filed_at,filed_at_time,created_at,last_updated"
      const times = "2025-07-01,2025-07-01 09:30:00,2025-07-01 09:30:00,2025-07-01 09:30:00"
      const good = `load,NLOAD,"[""NLOAD"",""ZYX.B""]",news,Platypus sighted,"[""a,b"",""c""]",${times}`
      const { rows, table } = yield* Rooms.loadCsv("news", `${header}\n${good}\nl2,NLOAD,,8-K,,,${times}\n`, "replace")
      assert.deepStrictEqual([table, rows], ["news", 2])
      const [stored] = yield* found("query=platypuses")
      assert.deepStrictEqual(stored.map((row) => [valueAt(row, "id"), valueAt(row, "tickers"), valueAt(row, "tags")]), [
        ["load", ["NLOAD", "ZYX.B"], ["a,b", "c"]],
      ])
      assert.strictEqual(valueAt(stored[0], "filed_at_time"), "2025-07-01T08:30:00-05:00")
      assert.strictEqual(valueAt(stored[0], "created_at"), "2025-07-01T09:30:00-05:00")
      assert.deepStrictEqual(yield* idsOf("tag=c"), ["load"])
      assert.deepStrictEqual(yield* idsOf(""), ["l2", "load"])

      const bad = yield* Effect.flip(Rooms.loadCsv(
        "news",
        [
          header,
          `b1,NLOAD,,news,Title ,,${times}`,
          `b2,nload,,news,Title,,${times}`,
          `b3,NLOAD,,news,Title,"[""a"","" b""]",${times}`,
          `b4,NLOAD,,news,Title,a,${times}`,
          `b5,NLOAD,,,Title,,${times}`,
          `b6,NLOAD,,news,Title,,2025-07-01,,2025-07-01T09:30:00Z,2025-07-01 09:30:00`,
        ].join("\n"),
        "append",
      ))
      const said = ["2: title", "3: ticker", "4: tags", "5: tags", "6: form_type", "7: created_at"]
      for (const text of said) assert.include(bad.message, `line ${text} must`)
      assert.deepStrictEqual(yield* idsOf("ticker=NLOAD"), ["l2", "load"])
    }))

  it.effect("D31 a text beyond what can be searched is loaded, and found by its beginning", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 80_000 }, (_, number) => `${(number + 1e6).toString(36)}漢字`).join(" ")
      const { rows } = yield* Rooms.loadCsv(
        "news",
        `id,ticker,form_type,title,summary,filed_at,created_at,last_updated\n` +
          `huge,NHUGE,news,Wombat,${words},2025-07-01,2025-07-01 09:30:00,2025-07-01 09:30:00\n`,
        "append",
      )
      assert.strictEqual(rows, 1)
      assert.deepStrictEqual(yield* idsOf("query=wombat"), ["huge"])
    }))
})
