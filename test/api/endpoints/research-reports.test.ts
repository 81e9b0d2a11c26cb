/**
 * Tests GET /v1/research-reports and /v1/research-reports-tldr over HTTP (resources). Each test has its own tickers.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows, TestKeys } = Service

const paths = ["/v1/research-reports", "/v1/research-reports-tldr"] as const

/** Builds a report with only the required columns, plus the given fields. */
const report = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  gain_percentage: "25.5",
  report_text: "# Report",
  tldr_text: "Short",
  created_at: "2025-07-01T12:00:00Z",
  last_updated: "2025-07-01T12:00:00Z",
  ...fields,
})

const { requestRows, requestText, requestInvalid, readAllPages } = ListClients.makePairedListClient(paths, "ultimate")

/** Returns the report ids. Fails if the summaries, which have no ids, differ from the reports in ticker or time. */
const idsIn = ([full, tldr]: readonly [ReadonlyArray<unknown>, ReadonlyArray<unknown>]) => {
  for (const name of ["ticker", "created_at"]) {
    assert.deepStrictEqual(tldr.map((row) => valueAt(row, name)), full.map((row) => valueAt(row, name)))
  }
  return full.map((row) => valueAt(row, "report_id"))
}

const idsOf = (query: string) => Effect.map(requestRows(query), idsIn)

const loaded = (csv: string) => ListClients.loadCsv("research-reports", csv, "append")

layer(Service.layer, { excludeTestServices: true })("GET /v1/research-reports and /v1/research-reports-tldr", (it) => {
  it.effect("only research-reports requires the ultimate tier, which its 403 names (§5.3, D3)", () =>
    Effect.gen(function* () {
      const keys = yield* TestKeys
      for (const tier of ["basic", "pro"] as const) {
        for (const query of ["", "?limit=0", "?nonsense=1", "?ticker=@@"]) {
          const { body, status } = yield* requestJson(`/v1/research-reports${query}`, { key: keys[tier] })
          assert.strictEqual(status, 403)
          assert.strictEqual(valueAt(body, "error", "code"), "insufficient_tier")
          assert.deepStrictEqual(valueAt(body, "error", "details"), { required_tier: "ultimate", tier })
        }
      }
      assert.strictEqual((yield* requestJson("/v1/research-reports", { key: keys.ultimate })).status, 200)
      assert.strictEqual((yield* requestJson("/v1/research-reports", { key: null })).status, 401)
      yield* ListClients.requestOnAllTiers("/v1/research-reports-tldr")
    }))

  it.effect("return every field exactly as stored; research-reports-tldr has no report_id (§2.1, §2.5, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("research_reports", {
        report_id: "full",
        ticker: "RRFULL",
        gain_percentage: "99999999999999.9999",
        report_text: '# Heading\n\n*"Quoted"* 50% | a_b',
        tldr_text: "It ran; don't\nask why",
        volume: "9007199254740991",
        price: "0.2900",
        market_cap: "999999999999999999.99",
        tradable_float: "0",
        outstanding: "9007199254740990",
        country: "CI",
        industry: "Biotech & Co",
        post_url: "https://example.com/a?b=c&d",
        created_at: "2025-07-02T03:30:00Z",
        last_updated: "2025-07-02T20:05:00.250Z",
      })
      const [full, tldr] = yield* requestText("ticker=RRFULL")
      const after = `"price":0.29,"market_cap":999999999999999999.99,"tradable_float":0,` +
        `"outstanding":9007199254740990,"country":"CI","industry":"Biotech & Co",` +
        `"post_url":"https://example.com/a?b=c&d","created_at":"2025-07-01T22:30:00-05:00",` +
        `"last_updated":"2025-07-02T15:05:00.250-05:00"}],"page":1,"limit":10,"has_more":false}`
      assert.strictEqual(
        full,
        `{"count":1,"results":[{"report_id":"full","ticker":"RRFULL","gain_percentage":99999999999999.9999,` +
          `"report_text":"# Heading\\n\\n*\\"Quoted\\"* 50% | a_b","volume":9007199254740991,${after}`,
      )
      assert.strictEqual(
        tldr,
        `{"count":1,"results":[{"ticker":"RRFULL","gain_percentage":99999999999999.9999,` +
          `"tldr_text":"It ran; don't\\nask why",${after}`,
      )
    }))

  it.effect("missing values are null (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("research_reports", report({ report_id: "null", ticker: "RRNULL" }))
      const [[full], [tldr]] = yield* requestRows("ticker=RRNULL")
      const both = ["price", "market_cap", "tradable_float", "outstanding", "country", "industry", "post_url"]
      assert.deepStrictEqual(ListClients.getNullFieldNames(full), ["volume", ...both])
      assert.deepStrictEqual(ListClients.getNullFieldNames(tldr), both)
    }))

  it.effect("both times are instants, formatted at -05:00 all year (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      const instants = [
        ["2025-01-15T02:00:00Z", "2025-01-14T21:00:00-05:00"],
        ["2025-07-15T02:00:00Z", "2025-07-14T21:00:00-05:00"],
        ["2025-11-02T05:30:00Z", "2025-11-02T00:30:00-05:00"],
        ["2025-11-02T06:30:00Z", "2025-11-02T01:30:00-05:00"],
      ] as const
      for (const [number, [created_at, printed]] of instants.entries()) {
        yield* insertRows(
          "research_reports",
          report({ report_id: `clock${number}`, ticker: `RRC${number}`, created_at, last_updated: created_at }),
        )
        const [[full], [tldr]] = yield* requestRows(`ticker=RRC${number}`)
        for (const name of ["created_at", "last_updated"]) {
          assert.strictEqual(valueAt(full, name), printed)
          assert.strictEqual(valueAt(tldr, name), printed)
        }
      }
    }))

  it.effect("reports are ordered by time, latest first, then by report_id; following the pages shows each once (D8)", () =>
    Effect.gen(function* () {
      const times = ["2024-05-06T09:00:00Z", "2024-05-06T09:00:00.001Z", "2024-05-05T23:59:59Z"]
      const rows = Array.from({ length: 25 }, (_, number) =>
        report({
          report_id: `w${String((number * 7) % 25).padStart(2, "0")}`,
          ticker: "RRWALK",
          created_at: times[number % 3],
        }))
      yield* insertRows("research_reports", ...rows)
      const late = ["2024-05-06T09:00:00.001Z", "2024-05-06T09:00:00Z", "2024-05-05T23:59:59Z"]
      const expected = late.flatMap((time) =>
        rows.filter(({ created_at }) => created_at === time).map((row) => String(valueAt(row, "report_id"))).toSorted()
      )
      for (const limit of [1, 7, 25, 100]) {
        assert.deepStrictEqual(idsIn(yield* readAllPages("ticker=RRWALK", limit)), expected)
      }
    }))

  it.effect("the parameter `ticker` is optional, and a list without a valid symbol is refused (D5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "research_reports",
        report({ report_id: "ta", ticker: "RRTA" }),
        report({ report_id: "tb", ticker: "RRTB" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=rrtb,@@,RR%20TA"), ["ta", "tb"])
      yield* requestRows("limit=1")
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
    }))

  it.effect("min_gain_percentage and max_gain_percentage are inclusive and compare exact decimals (D9)", () =>
    Effect.gen(function* () {
      const gains = ["-12.5", "0.3", "99999999999999.9999"]
      yield* insertRows(
        "research_reports",
        ...gains.map((gain_percentage) => report({ report_id: gain_percentage, ticker: "RRGAIN", gain_percentage })),
      )
      const find = (query: string) => idsOf(`ticker=RRGAIN&${query}`)
      yield* FilterAssertions.assertRangeFilter({ find, requestInvalid }, "gain_percentage", {
        values: gains,
        keys: gains,
      })
      assert.deepStrictEqual(yield* find("min_gain_percentage=0.30001&max_gain_percentage=99999999999999"), [])
    }))

  it.effect("created_at_from and created_at_to are whole days at -05:00, even in summer (D7, §2.1)", () =>
    Effect.gen(function* () {
      // Instants at the beginning and end of days. Each report's id is the local time at -05:00.
      const reports = {
        "06-30 23:59:59.999": "2025-07-01T04:59:59.999Z",
        "07-01 00:00:00": "2025-07-01T05:00:00Z",
        "07-01 23:59:59.999": "2025-07-02T04:59:59.999Z",
        "07-02 00:00:00": "2025-07-02T05:00:00Z",
        "12-31 23:59:59": "2026-01-01T04:59:59Z",
        "01-01 00:00:00": "2026-01-01T05:00:00Z",
      }
      yield* insertRows(
        "research_reports",
        ...Object.entries(reports).map(([report_id, created_at]) => report({ report_id, ticker: "RRDAY", created_at })),
      )
      const latestFirst = Object.keys(reports).toReversed()
      const find = (query: string) => idsOf(`ticker=RRDAY&${query}`)
      assert.deepStrictEqual(yield* find("created_at_from=2025-07-01"), latestFirst.slice(0, 5))
      assert.deepStrictEqual(yield* find("created_at_to=2025-07-01"), latestFirst.slice(3))
      assert.deepStrictEqual(yield* find("created_at_from=2025-07-01&created_at_to=2025-07-01"), [
        "07-01 23:59:59.999",
        "07-01 00:00:00",
      ])
      assert.deepStrictEqual(yield* find("created_at_from=2025-12-31&created_at_to=2025-12-31"), ["12-31 23:59:59"])
      assert.deepStrictEqual(yield* find("created_at_from=2026-01-01"), ["01-01 00:00:00"])
      assert.deepStrictEqual(yield* find("created_at_to=2025-06-29"), [])
      assert.deepStrictEqual(yield* find("created_at_to=0001-01-01"), [])
      assert.deepStrictEqual(yield* find("created_at_from=0001-01-01"), latestFirst)
    }))

  it.effect("created_at_from and created_at_to must be real days, in order and not in the future (D7)", () =>
    Effect.gen(function* () {
      yield* FilterAssertions.assertFutureDaysRefused({ requestRows: idsOf, requestInvalid }, [
        "created_at_from",
        "created_at_to",
      ])
      for (const name of ["created_at_from", "created_at_to"]) {
        for (const wrong of ["", "2025-02-30", "2025-01-01T00:00:00Z"]) {
          assert.strictEqual((yield* requestInvalid(`${name}=${wrong}`)).field, name)
        }
      }
      assert.strictEqual(
        (yield* requestInvalid("created_at_from=2025-07-02&created_at_to=2025-07-01")).field,
        "created_at_from",
      )
    }))

  it.effect("filters are combined with AND, and unknown parameters are refused (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "research_reports",
        report({ report_id: "m1", ticker: "RRMIX", gain_percentage: "50" }),
        report({ report_id: "m2", ticker: "RRMIX", gain_percentage: "49" }),
        report({ report_id: "m3", ticker: "RRMIX", gain_percentage: "50", created_at: "2025-07-03T12:00:00Z" }),
        report({ report_id: "m4", ticker: "RRMIY", gain_percentage: "50" }),
      )
      assert.deepStrictEqual(
        yield* idsOf("ticker=RRMIX&min_gain_percentage=50&created_at_from=2025-07-01&created_at_to=2025-07-02"),
        ["m1"],
      )
      const names = ["report_id", "date", "country", "min_price", "created_at", "last_updated_from"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("a file with report_text and tldr_text is loaded, and invalid rows are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "report_id,ticker,gain_percentage,report_text,tldr_text,country,created_at,last_updated"
      const times = "2025-07-01T09:30:00-04:00,2025-07-01T13:30:00Z"
      const { rows, table } = yield* loaded(`${header}\nload,RRLOAD,12.5,"# A\n\nb, c",In short,,${times}\n`)
      assert.deepStrictEqual([table, rows], ["research_reports", 1])
      const [[full], [tldr]] = yield* requestRows("ticker=RRLOAD")
      assert.strictEqual(valueAt(full, "report_text"), "# A\n\nb, c")
      assert.strictEqual(valueAt(full, "created_at"), "2025-07-01T08:30:00-05:00")
      assert.strictEqual(valueAt(full, "tldr_text"), undefined)
      assert.strictEqual(valueAt(tldr, "tldr_text"), "In short")
      assert.strictEqual(valueAt(tldr, "country"), null)
      const bad = yield* Effect.flip(loaded(
        [
          header,
          `b1,RRLOAD,12.5,Text, ,,${times}`,
          `b2,RRLOAD,12.5,Text,,,${times}`,
          `b3,RRLOAD,12.5%,Text,Short,,${times}`,
          `b4,RRLOAD,12.5,Text,Short,C\0,${times}`,
          `b5,RRLOAD,12.5,Text,Short,,2025-07-01 09:30:00,2025-07-01T13:30:00Z`,
        ].join("\n"),
      ))
      const problems = ["2: tldr_text", "3: tldr_text", "4: gain_percentage", "5: country", "6: created_at"]
      for (const text of problems) assert.include(bad.message, `line ${text} must`)
      assert.deepStrictEqual(yield* idsOf("ticker=RRLOAD"), ["load"])
    }))
})
