/** Tests GET /v1/news and /v1/news-basic over HTTP (resources). Each test has its own tickers or words. */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { requestJson, valueAt, insertRows } = Service

const paths = ["/v1/news", "/v1/news-basic"] as const

/** Builds an item with only the required columns, plus the given fields. */
const item = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  form_type: "news",
  filed_at: "2025-07-01",
  created_at: "2025-07-01 08:00:00",
  last_updated: "2025-07-01 08:00:00",
  ...fields,
})

const { requestRows, requestText, requestInvalid, readAllPages } = ListClients.makePairedListClient(paths)

/** Returns the ids of the rows. Fails if the two endpoints returned different rows. */
const idsIn = ([full, basic]: readonly [ReadonlyArray<unknown>, ReadonlyArray<unknown>]) => {
  const ids = full.map((row) => valueAt(row, "id"))
  assert.deepStrictEqual(basic.map((row) => valueAt(row, "id")), ids)
  return ids
}

const idsOf = (query: string) => Effect.map(requestRows(query), idsIn)

/** Characters and words that PostgreSQL's full-text search or `LIKE` might interpret specially. */
const signs = ["-", '"', " ", "or", "and", "the", "a", ":*", "&", "|", "!", "(", ")", "<->", "\\", "'", "%"]

layer(Service.layer, { excludeTestServices: true })("GET /v1/news and /v1/news-basic", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Rows
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("return every field exactly as stored; news-basic leaves out five of them (§2.1, D15)", () =>
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
      const [full, basic] = yield* requestText("ticker=NFULL")
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

  it.effect("missing values are null, and an empty list is [] (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("news", item({ id: "null", ticker: "NNULL" }))
      const [[row]] = yield* requestRows("ticker=NNULL")
      assert.deepStrictEqual(ListClients.getNullAndListFields(row), [
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

  it.effect("filed_at_time is an hour earlier in summer; other times are unchanged all year (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      for (const [stored, printed] of ListClients.newYorkTimestampSamples) {
        const id = `clock ${stored}`
        yield* insertRows(
          "news",
          item({ id, ticker: "NCLOCK", filed_at_time: stored, created_at: stored, last_updated: stored }),
        )
        const verbatim = `${stored.replace(" ", "T")}-05:00`
        const [full, basic] = yield* requestRows("ticker=NCLOCK")
        for (const [rows, filed] of [[full, printed], [basic, undefined]] as const) {
          const row = rows.find((one) => valueAt(one, "id") === id)
          assert.strictEqual(valueAt(row, "created_at"), verbatim)
          assert.strictEqual(valueAt(row, "last_updated"), verbatim)
          assert.strictEqual(valueAt(row, "filed_at_time"), filed)
        }
      }
    }))

  it.effect("items are ordered by time, latest first, then by id, and following the pages shows each once (D8)", () =>
    Effect.gen(function* () {
      const times = ["2024-05-06 09:00:00", "2024-05-06 09:00:00.001", "2024-05-05 23:59:59"]
      const rows = Array.from({ length: 25 }, (_, number) => {
        const id = `w${String((number * 7) % 25).padStart(2, "0")}`
        // The order by filing date differs from the order by creation time.
        return item({ id, ticker: "NWALK", created_at: times[number % 3], filed_at: `2024-01-${10 + number % 9}` })
      })
      yield* insertRows("news", ...rows)
      const key = (row: unknown) =>
        `${9 - times.toSorted().indexOf(String(valueAt(row, "created_at")))} ${String(valueAt(row, "id"))}`
      const expected = rows.map(key).toSorted().map((text) => text.slice(2))
      for (const limit of [1, 7, 25, 100]) {
        assert.deepStrictEqual(idsIn(yield* readAllPages("ticker=NWALK", limit)), expected)
      }
    }))

  it.effect("all tiers can read them (D3)", () =>
    Effect.gen(function* () {
      yield* Effect.forEach(paths, ListClients.requestOnAllTiers)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("the parameter `ticker` matches an item's own symbol but not symbols that it mentions, and must be valid (D5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "own", ticker: "NOWN", tickers: ["NOWN", "NOTHER"] }),
        item({ id: "other", ticker: "NOTHER", created_at: "2025-06-01 08:00:00" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=NOTHER"), ["other"])
      assert.deepStrictEqual(yield* idsOf("ticker=nother,@@,no%20wn"), ["own", "other"])
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
    }))

  it.effect("`date`, date_from and date_to filter by filed_at, and the bounds are inclusive (D7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        ...FilterAssertions.sampleDays.map((filed_at) =>
          item({ id: filed_at, ticker: "NDATE", filed_at, created_at: "2025-06-06 08:00:00" })
        ),
      )
      const find = (query: string) => Effect.map(idsOf(`ticker=NDATE&${query}`), (ids) => ids.toReversed())
      yield* FilterAssertions.assertDateFilters({ find, requestInvalid })
      assert.deepStrictEqual(yield* find("date=2025-06-06"), [])
    }))

  it.effect("form_type takes one or several values, ignoring case (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        ...["8-K", "S-3", "S-3/A", "news"].map((form_type) =>
          item({ id: `f ${form_type}`, ticker: "NFORM", form_type })
        ),
      )
      const find = (types: string) => idsOf(`ticker=NFORM&form_type=${encodeURIComponent(types)}`)
      assert.deepStrictEqual(yield* find("S-3"), ["f S-3"])
      assert.deepStrictEqual(yield* find("S-3, 8-K"), ["f 8-K", "f S-3"])
      assert.deepStrictEqual(yield* find("s-3,8-k"), ["f 8-K", "f S-3"])
      assert.deepStrictEqual(yield* find("S-3%' or true --"), [])
      for (const wrong of ["", ",", "S-3,", " "]) {
        assert.strictEqual((yield* requestInvalid(`ticker=NFORM&form_type=${wrong}`)).field, "form_type")
      }
    }))

  it.effect("the parameter `tag` matches one of several complete tags, ignoring case (§4, D33)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "t1", ticker: "NTAG", tags: ["offering", "a,b"] }),
        item({ id: "t2", ticker: "NTAG", tags: ["offering price", `it's "{x}\\`] }),
        item({ id: "t3", ticker: "NTAG" }),
      )
      const find = (tag: string) => idsOf(`ticker=NTAG&tag=${encodeURIComponent(tag)}`)
      assert.deepStrictEqual(yield* find("offering"), ["t1"])
      assert.deepStrictEqual(yield* find(`"a,b"`), ["t1"])
      assert.deepStrictEqual(yield* find("a,b"), [])
      assert.deepStrictEqual(yield* find(`"a,b",Offering Price`), ["t1", "t2"])
      assert.deepStrictEqual(yield* find(`it's "{x}\\`), ["t2"])
      for (const cased of ["Offering", "OFFERING", `"A,B"`]) assert.deepStrictEqual(yield* find(cased), ["t1"])
      for (const none of ["offer", "price", "%", "{}", `"null"`]) {
        assert.deepStrictEqual(yield* find(none), [])
      }
      assert.strictEqual((yield* requestInvalid("tag=")).field, "tag")
    }))

  it.effect("hide_news leaves filings, hide_filings leaves news, and both together leave nothing (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        item({ id: "h1", ticker: "NHIDE" }),
        item({ id: "h2", ticker: "NHIDE", form_type: "8-K" }),
        item({ id: "h3", ticker: "NHIDE", form_type: "NEWS" }),
      )
      const find = (query: string) => idsOf(`ticker=NHIDE&${query}`)
      assert.deepStrictEqual(yield* find("hide_news=true"), ["h2", "h3"])
      assert.deepStrictEqual(yield* find("hide_filings=true"), ["h1"])
      assert.deepStrictEqual(yield* find("hide_news=true&hide_filings=true"), [])
      assert.deepStrictEqual(yield* find("hide_news=false&hide_filings=false"), ["h1", "h2", "h3"])
      assert.deepStrictEqual(yield* find("hide_news=true&form_type=news,8-K"), ["h2", "h3"])
      for (const wrong of ["hide_news=", "hide_news=1", "hide_filings=yes"]) {
        assert.strictEqual((yield* requestInvalid(wrong)).field, wrong.split("=")[0])
      }
    }))

  it.effect("filters are combined with AND, and unknown parameters are refused (§4)", () =>
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
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, [
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

  it.effect("the parameter `query` finds words in title and summary, in any form and order, with web search syntax (§4)", () =>
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
      const find = (query: string) => idsOf(`ticker=NQ&query=${encodeURIComponent(query)}`)
      assert.deepStrictEqual(yield* find("offering"), ["q1", "q2"])
      assert.deepStrictEqual(yield* find("OFFERS zyx"), ["q1", "q2"])
      assert.deepStrictEqual(yield* find("prices warrant"), ["q1"])
      assert.deepStrictEqual(yield* find(`"public offering"`), ["q1"])
      assert.deepStrictEqual(yield* find(`"public offering`), ["q1"])
      assert.deepStrictEqual(yield* find("offering -warrants"), ["q2"])
      assert.deepStrictEqual(yield* find("warrants or lawsuit"), ["q1", "q5"])
      assert.deepStrictEqual(yield* find("-offering"), ["q3", "q4", "q5"])
      assert.deepStrictEqual(yield* find("café"), ["q3"])
      assert.deepStrictEqual(yield* find("foo-bar"), ["q3"])
      assert.deepStrictEqual(yield* find("5.5%"), ["q2"])
      assert.deepStrictEqual(yield* find("nosuchword"), [])
      assert.deepStrictEqual(yield* find("the shares"), ["q1", "q2"])
    }))

  it.effect("a query of stop words or punctuation finds nothing; a blank query is refused (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows("news", item({ id: "s1", ticker: "NSTOP", title: "The the of and - !" }))
      for (const nothing of ["the", "the of", `"and the"`, "-the", "!", "---", `""`, "&|!()", ":*", "..."]) {
        assert.deepStrictEqual(yield* idsOf(`query=${encodeURIComponent(nothing)}`), [], nothing)
      }
      for (const blank of ["", " ", "%20%09", "%C2%A0", "%00", "a%00b", "x".repeat(201)]) {
        const { field, message } = yield* requestInvalid(`query=${blank}`)
        assert.strictEqual(field, "query")
        assert.match(message, /query must contain words to search for, 1 to 200 characters/)
      }
      assert.strictEqual((yield* requestJson(`/v1/news?query=${"x".repeat(200)}`)).status, 200)
    }))

  it.effect("a row of dashes in the parameter `query` is neither an error nor a negation (§4)", () =>
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
    "any query is answered with 200, or with 422 if it is blank or too long (D11)",
    [Arbitrary.array(Arbitrary.schema(Schema.Union([Schema.Literals(signs), Schema.String])), { maxLength: 90 })],
    ([parts]) =>
      Effect.gen(function* () {
        const query = parts.join("").toWellFormed()
        const { body, status, text } = yield* requestJson(`/v1/news?query=${encodeURIComponent(query)}`)
        const good = query.trim() !== "" && query.length <= 200 && !query.includes("\0")
        assert.strictEqual(status, good ? 200 : 422, text)
        if (!good) assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "query")
      }),
    { arbitrary: { runs: getInputCount(200) } },
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Load
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("a file replaces the table and its search index; lists are JSON, and wrong rows are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "id,ticker,tickers,form_type,title,tags,filed_at,filed_at_time,created_at,last_updated"
      const times = "2025-07-01,2025-07-01 09:30:00,2025-07-01 09:30:00,2025-07-01 09:30:00"
      const good = `load,NLOAD,"[""NLOAD"",""ZYX.B""]",news,Platypus sighted,"[""a,b"",""c""]",${times}`
      const { rows, table } = yield* ListClients.loadCsv(
        "news",
        `${header}\n${good}\nl2,NLOAD,,8-K,,,${times}\n`,
        "replace",
      )
      assert.deepStrictEqual([table, rows], ["news", 2])
      const [stored] = yield* requestRows("query=platypuses")
      assert.deepStrictEqual(stored.map((row) => [valueAt(row, "id"), valueAt(row, "tickers"), valueAt(row, "tags")]), [
        ["load", ["NLOAD", "ZYX.B"], ["a,b", "c"]],
      ])
      assert.strictEqual(valueAt(stored[0], "filed_at_time"), "2025-07-01T08:30:00-05:00")
      assert.strictEqual(valueAt(stored[0], "created_at"), "2025-07-01T09:30:00-05:00")
      assert.deepStrictEqual(yield* idsOf("tag=c"), ["load"])
      assert.deepStrictEqual(yield* idsOf(""), ["l2", "load"])

      const bad = yield* Effect.flip(ListClients.loadCsv(
        "news",
        [
          header,
          `b1,NLOAD,,news,Title\0,,${times}`,
          `b2,nload,,news,Title,,${times}`,
          `b3,NLOAD,,news,Title,"[""a"","" ""]",${times}`,
          `b4,NLOAD,,news,Title,a,${times}`,
          `b5,NLOAD,,,Title,,${times}`,
          `b6,NLOAD,,news,Title,,2025-07-01,,2025-07-01T09:30:00Z,2025-07-01 09:30:00`,
        ].join("\n"),
        "append",
      ))
      const problems = ["2: title", "3: ticker", "4: tags", "5: tags", "6: form_type", "7: created_at"]
      for (const text of problems) assert.include(bad.message, `line ${text} must`)
      assert.deepStrictEqual(yield* idsOf("ticker=NLOAD"), ["l2", "load"])
    }))

  it.effect("text that is too long to index is loaded, and is found by its beginning (D31)", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 80_000 }, (_, number) => `${(number + 1e6).toString(36)}漢字`).join(" ")
      const { rows } = yield* ListClients.loadCsv(
        "news",
        `id,ticker,form_type,title,summary,filed_at,created_at,last_updated\n` +
          `huge,NHUGE,news,Wombat,${words},2025-07-01,2025-07-01 09:30:00,2025-07-01 09:30:00\n`,
        "append",
      )
      assert.strictEqual(rows, 1)
      assert.deepStrictEqual(yield* idsOf("query=wombat"), ["huge"])
    }))
})
