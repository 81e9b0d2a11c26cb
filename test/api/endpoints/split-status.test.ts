import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a row with only the required columns, plus the given fields. */
const split = (fields: Readonly<Record<string, unknown>> & { readonly id: string }) => ({
  ticker: "ZYXA",
  action_type: "split_announced",
  executed: false,
  filed_at: "2025-07-01",
  form_type: "8-K",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/split-status",
)

const idsOf = (query: string) => requestColumn("id", query)

const loaded = (csv: string) => ListClients.loadCsv("split-status", csv, "replace")

/** Returns query helpers that always send the `ticker` parameter, which the endpoint requires. */
const makeTickerQueries = (ticker: string, name = "id") => ({
  find: (query: string) => requestColumn(name, `ticker=${ticker}&${query}`),
  requestRows: (query: string) => requestRows(`ticker=${ticker}&${query}`),
  requestInvalid: (query: string) => requestInvalid(`ticker=${ticker}&${query}`),
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/split-status", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("split_status", {
        id: "full",
        ticker: "SFULL",
        action_type: "split_effective",
        split_from: "12345678901234.5678",
        split_to: "1.0000",
        split_ratio_min: "0.3",
        split_ratio_max: "100.2900",
        vote_date: "2025-01-02",
        approved_date: "2025-01-03",
        authority_expires_date: "2027-01-02",
        effective_date: "2026-12-31",
        executed: true,
        details: 'One for "a hundred"\n50% _',
        filed_at: "2025-01-04",
        form_type: "DEF 14A",
        document_url: "https://example.com/a?b=c&d",
        last_updated: "2025-07-02 09:30:00",
      })
      assert.strictEqual(
        yield* requestText("ticker=SFULL"),
        `{"count":1,"results":[{"id":"full","ticker":"SFULL","action_type":"split_effective",` +
          `"split_from":12345678901234.5678,"split_to":1,"split_ratio_min":0.3,"split_ratio_max":100.29,` +
          `"vote_date":"2025-01-02","approved_date":"2025-01-03","authority_expires_date":"2027-01-02",` +
          `"effective_date":"2026-12-31","executed":true,"details":"One for \\"a hundred\\"\\n50% _",` +
          `"filed_at":"2025-01-04","form_type":"DEF 14A","document_url":"https://example.com/a?b=c&d",` +
          `"last_updated":"2025-07-02T08:30:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("split_status", split({ id: "null", ticker: "SNULL" }))
      const [row] = yield* requestRows("ticker=SNULL")
      assert.deepStrictEqual(ListClients.getNullFieldNames(row), [
        "split_from",
        "split_to",
        "split_ratio_min",
        "split_ratio_max",
        "vote_date",
        "approved_date",
        "authority_expires_date",
        "effective_date",
        "details",
        "document_url",
      ])
    }))

  it.effect("last_updated is New York time printed at -05:00, an hour earlier in daylight saving time (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "split_status",
        ...ListClients.newYorkTimestampSamples.map(([last_updated], number) =>
          split({ id: `clock ${number}`, ticker: "SCLOCK", last_updated })
        ),
      )
      assert.deepStrictEqual(
        yield* requestColumn("last_updated", "ticker=SCLOCK"),
        ListClients.newYorkTimestampSamples.map(([, printed]) => printed),
      )
    }))

  it.effect("at least one valid ticker is required; invalid symbols are dropped (§4.4, §7.2, §7.3)", () =>
    Effect.gen(function* () {
      yield* insertRows("split_status", split({ id: "dot", ticker: "S.DOT" }), split({ id: "hat", ticker: "S^HAT" }))
      for (const query of ["", "executed=true", "action_type=withdrawn&limit=5"]) {
        const { fields, message } = yield* requestInvalid(query)
        assert.deepStrictEqual(fields, [{ field: "ticker", reason: "is required" }])
        assert.strictEqual(message, "ticker is required")
      }
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      assert.deepStrictEqual(yield* idsOf("ticker=@@,s.%20dot,S%5Ehat"), ["dot", "hat"])
      assert.strictEqual((yield* request("ticker=@@,s.%20dot,S%5Ehat")).headers["x-dropped-tickers"], "%40%40")
      assert.deepStrictEqual(yield* idsOf("ticker=SNONE"), [])
    }))

  it.effect("rows are ordered by filed_at descending, then by id (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "split_status",
        split({ id: "order c", ticker: "SORDA", filed_at: "2025-02-03" }),
        split({ id: "order b", ticker: "SORDB", filed_at: "2025-02-04" }),
        split({ id: "order a", ticker: "SORDA", filed_at: "2025-02-04" }),
        split({ id: "order d", ticker: "SORDB", filed_at: "2024-12-31" }),
        split({ id: "order e", ticker: "SORDA", filed_at: "2025-02-05" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=SORDB,SORDA"), [
        "order e",
        "order a",
        "order b",
        "order c",
        "order d",
      ])
    }))

  it.effect("following Link to the end shows each row once, in order (D8)", () =>
    Effect.gen(function* () {
      const rows = Array.from(
        { length: 23 },
        (_, number) => split({ id: `page ${String(number).padStart(2, "0")}`, ticker: "SPAGE" }),
      )
      yield* insertRows("split_status", ...rows.toReversed())
      for (const limit of [1, 7, 23, 100]) {
        const seen = yield* readAllPages("ticker=SPAGE", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "id")), rows.map(({ id }) => id))
      }
    }))

  it.effect("action_type takes one or several of its values (§4.4)", () =>
    Effect.gen(function* () {
      const words = ["pending_vote", "vote_approved", "split_announced", "split_effective", "withdrawn"]
      yield* insertRows("split_status", ...words.map((word) => split({ id: word, ticker: "SWORD", action_type: word })))
      const rows = words.toSorted().map((word) => [word, word] as const)
      yield* FilterAssertions.assertEnumFilter(makeTickerQueries("SWORD"), "action_type", words.join(", "), rows)
    }))

  it.effect("the parameter `executed` takes true or false (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "split_status",
        split({ id: "yes", ticker: "SEXEC", executed: true }),
        split({ id: "no", ticker: "SEXEC", executed: false }),
      )
      yield* FilterAssertions.assertBooleanFilter(makeTickerQueries("SEXEC"), "executed", { yes: ["yes"], no: ["no"] })
    }))

  it.effect.each(["filed_at", "vote_date", "effective_date"])(
    "the range of %s is inclusive and must be in order, and null never matches (D7)",
    (name) =>
      Effect.gen(function* () {
        const ticker = `S${name.replaceAll("_", "").toUpperCase()}`
        yield* insertRows(
          "split_status",
          ...FilterAssertions.sampleDays.map((day) =>
            split({ id: `${name} ${day}`, ticker, filed_at: day, [name]: day })
          ),
          ...(name === "filed_at" ? [] : [split({ id: `${name} null`, ticker })]),
        )
        yield* FilterAssertions.assertDayRangeFilter(makeTickerQueries(ticker, name), name)
      }),
  )

  it.effect("filed_at must not be in the future; vote_date and effective_date may be (§4.4, §7.2, D7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "split_status",
        split({ id: "future", ticker: "SFUT", vote_date: "2199-01-01", effective_date: "2199-01-01" }),
      )
      for (const name of ["vote_date", "effective_date"]) {
        yield* FilterAssertions.assertFutureDaysFound(makeTickerQueries("SFUT"), name, "future")
      }
      yield* FilterAssertions.assertFutureDaysRefused(makeTickerQueries("SFUT"), ["filed_at_from", "filed_at_to"])
    }))

  it.effect("filters are combined with AND (§4.4)", () =>
    Effect.gen(function* () {
      const both = { executed: true, action_type: "withdrawn", vote_date: "2025-05-05" }
      yield* insertRows(
        "split_status",
        split({ id: "mix", ticker: "SMIX", ...both }),
        split({ id: "mix ticker", ticker: "SMIY", ...both }),
        split({ id: "mix executed", ticker: "SMIX", ...both, executed: false }),
        split({ id: "mix action", ticker: "SMIX", ...both, action_type: "pending_vote" }),
        split({ id: "mix vote", ticker: "SMIX", ...both, vote_date: "2025-05-06" }),
      )
      assert.deepStrictEqual(
        yield* idsOf("ticker=SMIX&executed=true&action_type=withdrawn&vote_date_to=2025-05-05"),
        ["mix"],
      )
    }))

  it.effect("a file is loaded; unknown enum values are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "id,ticker,action_type,split_from,split_to,executed,details,filed_at,form_type,last_updated\n"
      const line = (id: string, action = "withdrawn", form = "8-K") =>
        `${id},SLOAD,${action},100,1,true,,2025-07-01,${form},2025-07-01 20:05:00\n`
      assert.deepStrictEqual(yield* loaded(header + line("one") + line("two")), {
        table: "split_status",
        rows: 2,
        dropped: 0,
      })
      assert.deepStrictEqual(yield* idsOf("ticker=SLOAD"), ["one", "two"])
      const bad = [
        [line("a", "split"), /line 2: action_type /],
        [line(" ", "withdrawn"), /line 2: id must not be empty$/m],
        [line("a").replace("100", "1:100"), /line 2: split_from must be a decimal number/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* idsOf("ticker=SLOAD"), ["one", "two"])
      }
    }))
})
