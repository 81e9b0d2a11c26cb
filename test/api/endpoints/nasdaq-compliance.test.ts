/** Tests GET /v1/nasdaq-compliance over HTTP (resources). Each test has its own tickers. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a notice with only the required columns, plus the given fields. */
const notice = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  market: "Capital Market",
  date: "2025-07-01",
  deficiency: "Minimum bid price",
  deficiency_type: "bid_price",
  notice_type: "deficiency",
  status: "active",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const { requestColumn, requestRows, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/nasdaq-compliance",
)

const idsOf = (query: string) => requestColumn("id", query)

const loaded = (csv: string) => ListClients.loadCsv("nasdaq-compliance", csv, "append")

layer(Service.layer, { excludeTestServices: true })("GET /v1/nasdaq-compliance", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.1, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows("nasdaq_compliance", {
        id: "full",
        ticker: "CFULL",
        company: 'Zyx "A" & Sons',
        market: "Global Select",
        date: "2025-07-02",
        added_date: "2025-07-03",
        deficiency: "Stockholders' equity below $2,500,000",
        deficiency_type: "stockholders_equity",
        rule: "5550(b)(1)",
        notice_type: "staff_determination",
        compliance_deadline: "2027-01-02",
        hearing_date: "2026-12-31",
        regained_date: "2026-11-01",
        risk: "medium",
        status: "appealed",
        notes: "50% _\nüber",
        notes_updated: "2025-07-02 09:30:00",
        document_url: "https://example.com/a?b=c&d",
        last_updated: "2025-01-02 09:30:00.25",
      })
      assert.strictEqual(
        yield* requestText("ticker=CFULL"),
        `{"count":1,"results":[{"id":"full","ticker":"CFULL","company":"Zyx \\"A\\" & Sons","market":"Global Select",` +
          `"date":"2025-07-02","added_date":"2025-07-03","deficiency":"Stockholders' equity below $2,500,000",` +
          `"deficiency_type":"stockholders_equity","rule":"5550(b)(1)","notice_type":"staff_determination",` +
          `"compliance_deadline":"2027-01-02","hearing_date":"2026-12-31","regained_date":"2026-11-01",` +
          `"risk":"medium","status":"appealed","notes":"50% _\\nüber","notes_updated":"2025-07-02T08:30:00-05:00",` +
          `"document_url":"https://example.com/a?b=c&d","last_updated":"2025-01-02T09:30:00.250-05:00"}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("nasdaq_compliance", notice({ id: "null", ticker: "CNULL" }))
      const [row] = yield* requestRows("ticker=CNULL")
      assert.deepStrictEqual(ListClients.getNullFieldNames(row), [
        "company",
        "added_date",
        "rule",
        "compliance_deadline",
        "hearing_date",
        "regained_date",
        "risk",
        "notes",
        "notes_updated",
        "document_url",
      ])
    }))

  it.effect("notes_updated and last_updated are New York time printed at -05:00, an hour earlier in summer (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "nasdaq_compliance",
        ...ListClients.newYorkTimestampSamples.map(([stored], number) =>
          notice({ id: `clock${number}`, ticker: "CCLOCK", notes_updated: stored, last_updated: stored })
        ),
      )
      for (const name of ["notes_updated", "last_updated"]) {
        const times = yield* requestColumn(name, "ticker=CCLOCK")
        assert.deepStrictEqual(times, ListClients.newYorkTimestampSamples.map(([, printed]) => printed))
      }
    }))

  it.effect("rows are ordered by date descending, then by id, and following the pages shows each once (D8)", () =>
    Effect.gen(function* () {
      const days = ["2024-05-06", "2024-05-08", "2024-05-07"]
      const rows = Array.from(
        { length: 25 },
        (_, number) => notice({ id: `w${(number * 7) % 25}`.padEnd(4, "x"), ticker: "CWALK", date: days[number % 3] }),
      )
      yield* insertRows("nasdaq_compliance", ...rows)
      const expected = rows.toSorted((left, right) =>
        String(left.date) === String(right.date)
          ? String(valueAt(left, "id")) < String(valueAt(right, "id")) ? -1 : 1
          : String(left.date) < String(right.date)
          ? 1
          : -1
      ).map((row) => String(valueAt(row, "id")))
      for (const limit of [1, 7, 25, 100]) {
        const seen = yield* readAllPages("ticker=CWALK", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "id")), expected)
      }
    }))

  it.effect("the parameter `ticker` is optional and takes several symbols, at least one of which must be valid (D5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "nasdaq_compliance",
        notice({ id: "ta", ticker: "CTA", date: "2025-01-02" }),
        notice({ id: "tb", ticker: "CTB", date: "2025-01-03" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=cta,@@,CTB"), ["tb", "ta"])
      yield* requestRows("")
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
    }))

  it.effect("`date` matches one day, and date_from and date_to are inclusive (D7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "nasdaq_compliance",
        ...FilterAssertions.sampleDays.map((date) => notice({ id: date, ticker: "CDATE", date })),
      )
      yield* FilterAssertions.assertDateFilters({ find: (query) => idsOf(`ticker=CDATE&${query}`), requestInvalid })
    }))

  it.effect.each(["added_date", "compliance_deadline"])(
    "the range of %s is inclusive, and null never matches (D7, D9)",
    (name) =>
      Effect.gen(function* () {
        const ticker = name === "added_date" ? "CADD" : "CDEAD"
        yield* insertRows(
          "nasdaq_compliance",
          ...FilterAssertions.sampleDays.map((day, number) =>
            notice({ id: `${ticker}${number}`, ticker, [name]: day })
          ),
          notice({ id: `${ticker}null`, ticker }),
        )
        yield* FilterAssertions.assertDayRangeFilter(
          { find: (query) => requestColumn(name, `ticker=${ticker}&${query}`), requestInvalid },
          name,
        )
      }),
  )

  it.effect("date and added_date must not be in the future; a compliance deadline may be (D7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "nasdaq_compliance",
        notice({ id: "ahead", ticker: "CAHEAD", compliance_deadline: "2199-01-01" }),
      )
      yield* FilterAssertions.assertFutureDaysRefused({ requestRows, requestInvalid }, [
        "date",
        "date_from",
        "date_to",
        "added_date_from",
        "added_date_to",
      ])
      const find = (query: string) => idsOf(`ticker=CAHEAD&${query}`)
      yield* FilterAssertions.assertFutureDaysFound({ find, requestInvalid }, "compliance_deadline", "ahead")
    }))

  it.effect.each(
    [
      ["deficiency_type", "late_filing", "audit_committee"],
      ["notice_type", "public_reprimand", "plan_required"],
      ["risk", "high", "low"],
      ["status", "delisted", "extended"],
    ] as const,
  )(
    "%s takes one or several of its values, and refuses any other value (D4)",
    ([name, one, other]) =>
      Effect.gen(function* () {
        const ticker = `CE${name.slice(0, 3).toUpperCase()}`
        yield* insertRows(
          "nasdaq_compliance",
          notice({ id: `${name}1`, ticker, [name]: one }),
          notice({ id: `${name}2`, ticker, [name]: other }),
          notice({ id: `${name}3`, ticker }),
        )
        const find = (query: string) => idsOf(`ticker=${ticker}&${query}`)
        yield* FilterAssertions.assertEnumFilter({ find, requestInvalid }, name, one, [[one, `${name}1`], [
          other,
          `${name}2`,
        ]])
      }),
  )

  it.effect("filters are combined with AND (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "nasdaq_compliance",
        notice({ id: "m1", ticker: "CMIX", risk: "high", added_date: "2025-05-05", compliance_deadline: "2026-01-01" }),
        notice({ id: "m2", ticker: "CMIX", risk: "high", added_date: "2025-05-05", compliance_deadline: "2026-01-03" }),
        notice({ id: "m3", ticker: "CMIX", risk: "low", added_date: "2025-05-05", compliance_deadline: "2026-01-01" }),
        notice({ id: "m4", ticker: "CMIX", risk: "high", added_date: "2025-05-07", compliance_deadline: "2026-01-01" }),
        notice({ id: "m5", ticker: "CMIX", risk: "high", status: "resolved", added_date: "2025-05-05" }),
      )
      assert.deepStrictEqual(
        yield* idsOf(
          "ticker=CMIX&date=2025-07-01&risk=high&status=active&deficiency_type=bid_price&notice_type=deficiency" +
            "&added_date_to=2025-05-06&compliance_deadline_to=2026-01-02",
        ),
        ["m1"],
      )
    }))

  it.effect("unknown parameters are refused (D4)", () =>
    Effect.gen(function* () {
      const names = ["market", "hearing_date_from", "regained_date_to", "compliance_deadline", "rule", "sort"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("a file is loaded; unknown enum values are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "id,ticker,market,date,deficiency,deficiency_type,notice_type,risk,status,last_updated"
      const row = (id: string, type: string, company: string) =>
        `${id},CLOAD,Capital Market,2025-07-01,${company},${type},deficiency,,active,2025-07-01 09:30:00`
      const { rows, table } = yield* loaded(`${header}\n${row("load", "other", "No quorum")}\n`)
      assert.deepStrictEqual([table, rows], ["nasdaq_compliance", 1])
      const [stored] = yield* requestRows("ticker=CLOAD")
      assert.strictEqual(valueAt(stored, "risk"), null)
      assert.strictEqual(valueAt(stored, "last_updated"), "2025-07-01T08:30:00-05:00")
      const wrong = yield* Effect.flip(
        loaded(
          [header, row("l1", "unknown", "Bid"), row("l2", "other", " ")].join("\n"),
        ),
      )
      assert.match(wrong.message, /line 2: deficiency_type must be/)
      assert.match(wrong.message, /line 3: deficiency must not be empty$/m)
      assert.deepStrictEqual(yield* idsOf("ticker=CLOAD"), ["load"])
    }))
})
