/** Tests GET /v1/historical-tickers over HTTP: §2.3, §4.2, D23 (historical tickers). Each test has its own symbols. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service

const change = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  fields: Readonly<Record<string, unknown>> = {},
) => ({ old_ticker, new_ticker, effective_date, status: "confirmed", ...fields })

const name = (ticker: string, former_ticker: string, date: string | null = null) => ({ ticker, former_ticker, date })

const of = (ticker: string) => requestJson(`/v1/historical-tickers?ticker=${ticker}`)

const response = (...entries: ReadonlyArray<readonly [ticker: string, date: string | null]>) => ({
  count: entries.length,
  historical_tickers: entries.map(([ticker, date]) => ({ ticker, date })),
})

const assertDeprecated = (headers: Readonly<Record<string, string | undefined>>) => {
  assert.strictEqual(headers["deprecation"], "@1793491200")
  assert.isUndefined(headers["sunset"])
  assert.strictEqual(
    headers["link"],
    `</v1/ticker-changes>; rel="successor-version", </v1/docs>; rel="deprecation"; type="text/html"`,
  )
}

layer(Service.layer, { excludeTestServices: true })("GET /v1/historical-tickers", (it) => {
  it.effect("returns the former symbols of the whole component with the day each was given up (§4.2, D23)", () =>
    Effect.gen(function* () {
      yield* insertRows("ticker_changes", change("HCB", "HCC", "2018-09-10"), change("HCA", "HCB", "2015-03-01"))
      for (const symbol of ["HCA", "HCB", "HCC"]) {
        const { body, headers, status } = yield* of(symbol)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(body, response(["HCA", "2015-03-01"], ["HCB", "2018-09-10"]))
        assertDeprecated(headers)
      }
    }))

  it.effect("the body has exactly two fields (§2.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HBA", "HBB", "2015-03-01", { cik: "0000000001", company_name: "Acme" }),
      )
      yield* insertRows("historical_tickers", name("HBB", "HB0"))
      assert.strictEqual(
        (yield* of("hbb")).text,
        `{"count":2,"historical_tickers":[{"ticker":"HBA","date":"2015-03-01"},{"ticker":"HB0","date":null}]}`,
      )
    }))

  it.effect("results are ordered by date, undated last, then by ticker (§2.3, D23)", () =>
    Effect.gen(function* () {
      yield* insertRows("ticker_changes", change("HOZ", "HOX", "2020-01-02"), change("HOB", "HOX", "2020-01-01"))
      yield* insertRows(
        "historical_tickers",
        name("HOX", "HOU"),
        name("HOX", "HOA", "2020-01-02"),
        name("HOX", "HOC"),
        name("HOX", "HO.C"),
        name("HOX", "HOT", "1999-12-31"),
        name("HOX", "HO1", "2020-01-02"),
        name("HOX", "HOA"),
      )
      assert.deepStrictEqual(
        (yield* of("HOX")).body,
        response(
          ["HOT", "1999-12-31"],
          ["HOB", "2020-01-01"],
          ["HO1", "2020-01-02"],
          ["HOA", "2020-01-02"],
          ["HOZ", "2020-01-02"],
          ["HO.C", null],
          ["HOA", null],
          ["HOC", null],
          ["HOU", null],
        ),
      )
    }))

  it.effect("equal pairs of ticker and date appear once, and count is the number of pairs (§2.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HDA", "HDB", "2015-03-01"),
        change("HDA", "HDB", "2015-03-01", { cik: "0000000001" }),
        change("HDA", "HDC", "2015-03-01"),
      )
      yield* insertRows("historical_tickers", name("HDB", "HDA", "2015-03-01"), name("HDB", "HDN"))
      assert.deepStrictEqual((yield* of("HDB")).body, response(["HDA", "2015-03-01"], ["HDN", null]))
    }))

  it.effect("a ticker with several dates appears once per date (§2.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HKA", "HKB", "2015-01-01"),
        change("HKB", "HKA", "2016-01-01"),
        change("HKA", "HKC", "2017-01-01"),
      )
      yield* insertRows("historical_tickers", name("HKC", "HKA"), name("HKC", "HKA", "2014-01-01"))
      assert.deepStrictEqual(
        (yield* of("HKC")).body,
        response(["HKA", "2014-01-01"], ["HKA", "2015-01-01"], ["HKB", "2016-01-01"], ["HKA", "2017-01-01"], [
          "HKA",
          null,
        ]),
      )
    }))

  it.effect("responds with 200 to requests that get 409 from /v1/ticker-changes (D23)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HXA", "HXB", "2020-01-01", { cik: "0000000001" }),
        change("HXA", "HXC", "2020-01-01", { cik: "0000000002" }),
        change("HXD", "HXC", "2021-01-01"),
        ...Array.from(
          { length: 13 },
          (_, number) => change(`HX${10 + number}`, `HX${11 + number}`, `${2001 + number}-01-01`),
        ),
        change("HXB", "HX10", "2000-01-01"),
      )
      assert.strictEqual((yield* requestJson("/v1/ticker-changes?ticker=HXA")).status, 409)
      for (const symbol of ["HXA", "HXD", "HX23"]) {
        const { body, status } = yield* of(symbol)
        assert.strictEqual(status, 200)
        // Two of the 17 events give up the same symbol on the same day and count as one result.
        assert.strictEqual(valueAt(body, "count"), 16)
        assert.deepStrictEqual(valueAt(body, "historical_tickers", 0), { ticker: "HXB", date: "2000-01-01" })
        assert.deepStrictEqual(valueAt(body, "historical_tickers", 15), { ticker: "HXD", date: "2021-01-01" })
      }
    }))

  it.effect("ineligible events add no former symbol (D19, D23)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HEA", "HEB", "2015-01-01"),
        change("HEC", "HEB", "2016-01-01", { status: "estimated" }),
        change("HED", "HEB", "2016-01-01", { status: "backfill" }),
        change("HEE", "HEB", "2016-01-01", { status: "reverted" }),
        change("HEF", "HEB", "2016-01-01", { status: "blocked" }),
        change("HEB", "HEG", "2099-01-01"),
      )
      assert.deepStrictEqual((yield* of("HEB")).body, response(["HEA", "2015-01-01"]))
      for (const symbol of ["HEC", "HED", "HEE", "HEF", "HEG"]) assert.strictEqual((yield* of(symbol)).status, 404)
    }))

  it.effect("former symbols without an event are added only for the requested symbol (D23)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_tickers", name("HNB", "HNA"), name("HNB", "HN0", "2001-02-03"))
      assert.deepStrictEqual((yield* of("HNB")).body, response(["HN0", "2001-02-03"], ["HNA", null]))
      assert.strictEqual((yield* of("HNA")).status, 404)
    }))

  it.effect("responds to a symbol without former symbols with 404 not_found and the deprecation headers (§4.2, §7.2)", () =>
    Effect.gen(function* () {
      for (const symbol of ["NOSUCH", "A", "^.-"]) {
        const { body, headers, status } = yield* of(symbol)
        assert.strictEqual(status, 404)
        assert.strictEqual(valueAt(body, "error", "code"), "not_found")
        assert.include(String(valueAt(body, "error", "message")), symbol)
        assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
        assertDeprecated(headers)
      }
    }))

  it.effect("removes white space around the symbol, and converts it to upper case (D6)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_tickers", name("HTRIM", "HT0"))
      for (const sent of ["htrim", "%20HTrim%09", "+htrim"]) {
        assert.deepStrictEqual((yield* of(sent)).body, response(["HT0", null]))
      }
    }))

  it.effect.each(["", "%20", "ABCDEFGHIJKLMNOPQ", "A,B", "A%20B", "@", "A%00", "%C4%B1"])(
    "refuses anything but one symbol, with the deprecation headers: %j (D6, D14)",
    (sent) =>
      Effect.gen(function* () {
        const { body, headers, status } = yield* of(sent)
        assert.strictEqual(status, 422)
        assert.strictEqual(valueAt(body, "error", "code"), "validation_error")
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "ticker")
        assertDeprecated(headers)
      }),
  )

  it.effect("the parameter `ticker` is required exactly once, and paging parameters are refused (D23)", () =>
    Effect.gen(function* () {
      for (const query of ["", "?page=1&ticker=A", "?ticker=A&limit=5", "?ticker=A&ticker=B", "?tickers=A"]) {
        const { body, headers, status } = yield* requestJson(`/v1/historical-tickers${query}`)
        assert.strictEqual(status, 422, query)
        assert.strictEqual(valueAt(body, "error", "code"), "validation_error")
        assertDeprecated(headers)
      }
    }))

  it.effect("the deprecated endpoint is available on all tiers (§3)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_tickers", name("HALL", "HAL0"))
      yield* ListClients.requestOnAllTiers("/v1/historical-tickers?ticker=HALL")
    }))

  it.effect("a component of 20,000 events returns all of its former symbols (§2.3, §2.1.3, D23)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        select 'HM' || n, 'HMANY', date '1950-01-01' + n, 'confirmed' from generate_series(0, 19999) as n
      `
      const { body, status } = yield* of("HMANY")
      assert.strictEqual(status, 200)
      assert.strictEqual(valueAt(body, "count"), 20_000)
      assert.deepStrictEqual(valueAt(body, "historical_tickers", 0), { ticker: "HM0", date: "1950-01-01" })
      assert.deepStrictEqual(valueAt(body, "historical_tickers", 19_999, "ticker"), "HM19999")
    }))
})

/** One second before midnight in Chicago. In New York, it is already the next day. */
const beforeMidnight = Date.parse("2026-12-02T05:59:59Z")

layer(Service.layerAt(beforeMidnight))(
  "GET /v1/historical-tickers at midnight",
  (it) => {
    it.effect("a symbol becomes a former symbol on the effective day of its change, in US Central time (D19, D23)", () =>
      Effect.gen(function* () {
        yield* insertRows("ticker_changes", change("HFA", "HFB", "2026-12-02"))
        assert.strictEqual((yield* of("HFA")).status, 404)
        yield* TestClock.setTime(beforeMidnight + 1000)
        assert.deepStrictEqual((yield* of("HFB")).body, response(["HFA", "2026-12-02"]))
        yield* insertRows(
          "historical_tickers",
          { ticker: "HFC", former_ticker: "HFD", date: "2026-12-02" },
          { ticker: "HFC", former_ticker: "HFE", date: "2026-12-03" },
        )
        assert.deepStrictEqual((yield* of("HFC")).body, response(["HFD", "2026-12-02"]), "known without an event")
      }))
  },
)
