/** Tests GET /v1/intraday-runners over HTTP: §2.4, §4.3. Each test has its own tickers or its own days. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { IntradayRunner } from "../../../src/contract/endpoints/intraday-runners.ts"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service

const runner = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  date: "2025-07-01",
  gap_percentage: "25.5",
  market_open: "1.255",
  previous_day_close: "1",
  percentage_gain: "80",
  open_to_high_pct: "43.4263",
  high_price: "1.8",
  low_price: "1.1",
  daily_volume_ratio: "12.5",
  market_close: "1.2",
  close_under_50pct_of_range: true,
  last_updated: "2025-07-01 20:05:00",
  anomaly_flagged: true,
  ...fields,
})

const path = "/v1/intraday-runners"

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  path,
)

const requestKeys = (query: string) =>
  Effect.map(requestRows(query), (rows) => rows.map(ListClients.formatTickerAndDate))

const requestTickers = (query: string) => requestColumn("ticker", query)

const getTickers = (body: unknown) => ListClients.getResultRows(body).map((row) => valueAt(row, "ticker"))

/**
 * Returns symbols such as `RN001` and `RN002`. The digits are padded so that alphabetical order equals numeric order.
 */
const symbol = (prefix: string, number: number) => `${prefix}${String(number).padStart(3, "0")}`

layer(Service.layer, { excludeTestServices: true })("GET /v1/intraday-runners", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Rows
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("returns every field exactly as stored, with the right type (§2.4, §2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("intraday_runners", {
        ticker: "RFULL",
        date: "2025-07-02",
        gap_percentage: "-3.1",
        market_open: "0.0001",
        previous_day_close: "9999998.5678",
        percentage_gain: "1000000",
        open_to_high_pct: "0.3000",
        high_price: "100",
        high_time: "2025-07-02 09:30:00",
        low_price: "1.10",
        low_time: "2025-01-02 09:30:00",
        spike_start_time: "2025-07-02 09:30:00.25",
        spike_start_price: "0.29",
        spike_duration_minutes: "0",
        est_halt_minutes: "15",
        daily_volume_ratio: "9.0001",
        volume: "9007199254740991",
        dollar_volume: "123456789012345678.91",
        rth_volume: "1",
        rth_dollar_volume: "0.01",
        market_close: "1.2",
        close_under_50pct_of_range: false,
        afterhours_close: "2.05",
        afterhours_high: "2.5",
        afterhours_low: "2",
        afterhours_volume: "1000000",
        afterhours_dollar_volume: "100000000000000000.1",
        premarket_vwap: "1.3333",
        premarket_volume: "12",
        premarket_dollar_volume: "16",
        premarket_high: "3",
        premarket_low: "0.7",
        market_cap: "999999999999999999.99",
        filing_types: ["8-K", "S-3"],
        all_tags: ['a "quoted" tag', "ünï"],
        last_updated: "2025-07-02 20:05:00",
        anomaly_flagged: true,
      })
      assert.strictEqual(
        yield* requestText("ticker=RFULL"),
        `{"count":1,"results":[{"ticker":"RFULL","date":"2025-07-02","gap_percentage":-3.1,"market_open":0.0001,` +
          `"previous_day_close":9999998.5678,"percentage_gain":1000000,"open_to_high_pct":0.3,` +
          `"high_price":100,` +
          `"high_time":"2025-07-02T08:30:00-05:00","low_price":1.1,"low_time":"2025-01-02T09:30:00-05:00",` +
          `"spike_start_time":"2025-07-02T08:30:00.250-05:00","spike_start_price":0.29,"spike_duration_minutes":0,` +
          `"est_halt_minutes":15,"daily_volume_ratio":9.0001,"volume":9007199254740991,` +
          `"dollar_volume":123456789012345678.91,"rth_volume":1,"rth_dollar_volume":0.01,"market_close":1.2,` +
          `"close_under_50pct_of_range":false,"afterhours_close":2.05,"afterhours_high":2.5,"afterhours_low":2,` +
          `"afterhours_volume":1000000,"afterhours_dollar_volume":100000000000000000.1,"premarket_vwap":1.3333,` +
          `"premarket_volume":12,"premarket_dollar_volume":16,"premarket_high":3,"premarket_low":0.7,` +
          `"market_cap":999999999999999999.99,"filing_types":["8-K","S-3"],"all_tags":["a \\"quoted\\" tag","ünï"],` +
          `"last_updated":"2025-07-02T20:05:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null, and an empty list is [] (§2.4, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("intraday_runners", runner({ ticker: "RNULL" }))
      const { body } = yield* request("ticker=RNULL")
      const missing = [
        "high_time",
        "low_time",
        "spike_start_time",
        "spike_start_price",
        "spike_duration_minutes",
        "est_halt_minutes",
        "volume",
        "dollar_volume",
        "rth_volume",
        "rth_dollar_volume",
        "afterhours_close",
        "afterhours_high",
        "afterhours_low",
        "afterhours_volume",
        "afterhours_dollar_volume",
        "premarket_vwap",
        "premarket_volume",
        "premarket_dollar_volume",
        "premarket_high",
        "premarket_low",
        "market_cap",
      ]
      missing.forEach((name) => assert.strictEqual(valueAt(body, "results", 0, name), null, name))
      assert.deepStrictEqual(valueAt(body, "results", 0, "filing_types"), [])
      assert.deepStrictEqual(valueAt(body, "results", 0, "all_tags"), [])
      const fields = Object.keys(Object(valueAt(body, "results", 0)))
      assert.deepStrictEqual(fields, Object.keys(IntradayRunner.json.fields))
    }))

  it.effect("returns only flagged sessions with more than nine times the volume (§2.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        runner({ ticker: "RNINE", date: "2025-03-03", daily_volume_ratio: "9" }),
        runner({ ticker: "RNINE", date: "2025-03-04", daily_volume_ratio: "9.0001" }),
        runner({ ticker: "RNINE", date: "2025-03-05", daily_volume_ratio: "8.9999" }),
        runner({ ticker: "RNINE", date: "2025-03-06", daily_volume_ratio: "50", anomaly_flagged: false }),
        runner({ ticker: "RNINE", date: "2025-03-07", daily_volume_ratio: "1000000" }),
      )
      assert.deepStrictEqual(yield* requestKeys("ticker=RNINE"), ["RNINE 2025-03-07", "RNINE 2025-03-04"])
      assert.strictEqual(valueAt((yield* request("ticker=RNINE")).body, "count"), 2)
    }))

  it.effect("session times are an hour earlier in summer; last_updated is unchanged all year (§2.1.4)", () =>
    Effect.gen(function* () {
      const clocks = [
        // Timestamps in winter, in summer and around both clock changes, as stored and as formatted.
        ["2025-01-15 16:00:00", "2025-01-15T16:00:00-05:00"],
        ["2025-07-15 16:00:00", "2025-07-15T15:00:00-05:00"],
        ["2025-03-09 01:59:59", "2025-03-09T01:59:59-05:00"],
        ["2025-03-09 02:30:00", "2025-03-09T02:30:00-05:00"],
        ["2025-03-09 03:00:00", "2025-03-09T02:00:00-05:00"],
        ["2025-11-02 00:59:59", "2025-11-01T23:59:59-05:00"],
        ["2025-11-02 01:30:00", "2025-11-02T01:30:00-05:00"],
        ["2025-11-02 02:00:00", "2025-11-02T02:00:00-05:00"],
        ["2025-07-01 00:15:00", "2025-06-30T23:15:00-05:00"],
      ] as const
      yield* insertRows(
        "intraday_runners",
        ...clocks.map(([stored], number) =>
          runner({
            ticker: symbol("RT", number),
            high_time: stored,
            low_time: stored,
            spike_start_time: stored,
            last_updated: stored,
          })
        ),
      )
      const { body } = yield* request(`ticker=${clocks.map((_, number) => symbol("RT", number)).join(",")}`)
      clocks.forEach(([stored, printed], number) => {
        for (const name of ["high_time", "low_time", "spike_start_time"]) {
          assert.strictEqual(valueAt(body, "results", number, name), printed)
        }
        assert.strictEqual(valueAt(body, "results", number, "last_updated"), `${stored.replace(" ", "T")}-05:00`)
      })
    }))

  it.effect("whole seconds have no fraction, other times have milliseconds (§2.1.1, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        runner({ ticker: "RMS1", last_updated: "2025-07-01 20:05:00.007" }),
        runner({ ticker: "RMS2", last_updated: "2025-07-01 20:05:00.000" }),
      )
      const { body } = yield* request("ticker=RMS1,RMS2")
      assert.strictEqual(valueAt(body, "results", 0, "last_updated"), "2025-07-01T20:05:00.007-05:00")
      assert.strictEqual(valueAt(body, "results", 1, "last_updated"), "2025-07-01T20:05:00-05:00")
    }))

  it.effect("rows are ordered by date descending, then by ticker (§2.4, §4.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        runner({ ticker: "ROB", date: "2025-02-03" }),
        runner({ ticker: "ROA", date: "2025-02-04" }),
        runner({ ticker: "ROC", date: "2025-02-04" }),
        runner({ ticker: "ROA", date: "2025-02-03" }),
        runner({ ticker: "ROB", date: "2024-12-31" }),
      )
      assert.deepStrictEqual(yield* requestKeys("ticker=ROC,ROA,ROB"), [
        "ROA 2025-02-04",
        "ROC 2025-02-04",
        "ROA 2025-02-03",
        "ROB 2025-02-03",
        "ROB 2024-12-31",
      ])
    }))

  it.effect("all tiers can read it without any parameter (§4.3, §3)", () =>
    Effect.gen(function* () {
      for (const { body } of yield* ListClients.requestOnAllTiers(path)) {
        assert.strictEqual(valueAt(body, "page"), 1)
        assert.strictEqual(valueAt(body, "limit"), 10)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("`date` matches one day, and date_from and date_to are inclusive (§4.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        ...FilterAssertions.sampleDays.map((date) => runner({ ticker: "RDATE", date })),
      )
      yield* FilterAssertions.assertDateFilters({
        find: (query) => requestColumn("date", `ticker=RDATE&${query}`),
        requestInvalid,
      })
    }))

  it.effect("gap bounds are inclusive, may be negative, and compare exact decimals (§4.3, D9)", () =>
    Effect.gen(function* () {
      const gaps = ["-12.5", "-0.0001", "0", "0.3", "25.5", "99999999999999.9999"]
      yield* insertRows(
        "intraday_runners",
        ...gaps.map((gap_percentage, number) => runner({ ticker: symbol("RG", number), gap_percentage })),
      )
      const all = gaps.map((_, number) => symbol("RG", number))
      const find = (query: string) => requestTickers(`ticker=${all.join(",")}&${query}`)
      yield* FilterAssertions.assertRangeFilter({ find, requestInvalid }, "gap_percentage", { values: gaps, keys: all })
      assert.deepStrictEqual(yield* find("max_gap_percentage=-0"), all.slice(0, 3))
      assert.deepStrictEqual(yield* find("min_gap_percentage=0.30001&max_gap_percentage=25.49999"), [])
      assert.deepStrictEqual(yield* find("min_gap_percentage=-12.5&max_gap_percentage=-0.0001"), ["RG000", "RG001"])
      assert.deepStrictEqual(yield* find("min_gap_percentage=2.55e1"), all.slice(4))
      assert.deepStrictEqual(yield* find("min_gap_percentage=5e-324"), all.slice(3))
    }))

  it.effect("a bound includes an equal stored decimal that no float can represent (D9, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("intraday_runners", runner({ ticker: "RBIG", gap_percentage: "99999999999999.9999" }))
      const find = (query: string) => Effect.map(request(`ticker=RBIG&${query}`), ({ body }) => valueAt(body, "count"))
      assert.strictEqual(yield* find("min_gap_percentage=99999999999999.9999"), 1)
      assert.strictEqual(yield* find("max_gap_percentage=99999999999999.9999"), 1)
      assert.strictEqual(yield* find("max_gap_percentage=99999999999999.9998"), 0)
      yield* requestInvalid("min_gap_percentage=99999999999999.9999&max_gap_percentage=99999999999999.9998")
    }))

  it.effect("filters are combined with AND (§4.3)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        runner({ ticker: "RMIXA", date: "2025-05-05", gap_percentage: "10" }),
        runner({ ticker: "RMIXA", date: "2025-05-06", gap_percentage: "20" }),
        runner({ ticker: "RMIXB", date: "2025-05-06", gap_percentage: "20" }),
        runner({ ticker: "RMIXC", date: "2025-05-06", gap_percentage: "20" }),
      )
      const query = "ticker=RMIXA,RMIXB&date=2025-05-06&min_gap_percentage=15&max_gap_percentage=20&limit=5"
      assert.deepStrictEqual(yield* requestTickers(query), ["RMIXA", "RMIXB"])
    }))

  it.effect("refuses `date` together with date_from or date_to (D7)", () =>
    Effect.gen(function* () {
      for (const range of ["date_from=2025-01-01", "date_to=2025-01-01", "date_from=2025-01-01&date_to=2025-01-02"]) {
        const { field, message } = yield* requestInvalid(`date=2025-01-01&${range}`)
        assert.strictEqual(field, "date")
        assert.include(message, "date_from")
      }
    }))

  it.effect("refuses a date_from later than date_to (D7)", () =>
    Effect.gen(function* () {
      const { field, message } = yield* requestInvalid("date_from=2025-01-02&date_to=2025-01-01")
      assert.strictEqual(field, "date_from")
      assert.include(message, "date_to")
    }))

  it.effect.each([
    "2025-02-29",
    "2025-13-01",
    "2025-00-10",
    "2025-01-32",
    "2025-1-1",
    "20250101",
    "2025-01-01T00:00:00",
    "01/02/2025",
    "2025-01-01 ",
    "0000-01-01",
    "-2025-01-01",
    "today",
    "",
    "2025-01-01,2025-01-02",
    "２０２５-01-01",
    "12025-01-01",
  ])("refuses an invalid date: %j (D7)", (date) =>
    Effect.gen(function* () {
      for (const name of ["date", "date_from", "date_to"]) {
        const { field, reason } = yield* requestInvalid(`${name}=${encodeURIComponent(date)}`)
        assert.strictEqual(field, name)
        assert.include(reason, "YYYY-MM-DD")
      }
    }))

  it.effect("accepts 29 February of a leap year and early years (D7)", () =>
    Effect.gen(function* () {
      for (const date of ["2024-02-29", "2000-02-29", "0001-01-01"]) {
        assert.strictEqual((yield* request(`date=${date}`)).status, 200)
      }
      yield* requestInvalid("date=1900-02-29")
    }))

  it.effect("refuses a minimum that is above the maximum (D9)", () =>
    Effect.gen(function* () {
      const { field, message } = yield* requestInvalid("min_gap_percentage=5.0001&max_gap_percentage=5")
      assert.strictEqual(field, "min_gap_percentage")
      assert.include(message, "max_gap_percentage")
    }))

  it.effect.each([
    "abc",
    "",
    " ",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "1,5",
    "5%",
    "--5",
    "0x10",
    "1_000",
    "null",
    "true",
  ])(
    "refuses a bound that is not a finite number: %j (D9)",
    (text) =>
      Effect.gen(function* () {
        for (const name of ["min_gap_percentage", "max_gap_percentage"]) {
          const { field } = yield* requestInvalid(`${name}=${encodeURIComponent(text)}`)
          assert.strictEqual(field, name)
        }
      }),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Tickers
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("invalid symbols are dropped and listed in X-Dropped-Tickers (§7.3.1, §9.5.5, D5)", () =>
    Effect.gen(function* () {
      yield* insertRows("intraday_runners", runner({ ticker: "RDROP" }), runner({ ticker: "RDROQ" }))
      const { body, headers, status } = yield* request("ticker=rdrop,@@,%2C,toolongtoolong123,a_b,%C3%A9")
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(getTickers(body), ["RDROP"])
      const dropped = String(headers["x-dropped-tickers"]).split(",").map((text) =>
        decodeURIComponent(text).toUpperCase()
      )
      assert.deepStrictEqual(dropped, ["@@", "TOOLONGTOOLONG123", "A_B", "É"])
      assert.isUndefined(valueAt(body, "message"))
    }))

  it.effect("X-Dropped-Tickers lists at most 20 symbols, percent-encoded (D5)", () =>
    Effect.gen(function* () {
      const bad = Array.from({ length: 30 }, (_, number) => `@\r\n"${number}`)
      const { headers, status } = yield* request(`ticker=ROK,${encodeURIComponent(bad.join(","))}`)
      assert.strictEqual(status, 200)
      const listed = String(headers["x-dropped-tickers"])
      assert.match(listed, /^[A-Za-z0-9%._~!'()*,-]+$/)
      assert.deepStrictEqual(
        listed.split(",").map(decodeURIComponent),
        bad.slice(0, 20).map((text) => text.replace(/\s/g, "")),
      )
    }))

  it.effect("X-Dropped-Tickers is absent if nothing was dropped, and on errors, which name the symbols (D5)", () =>
    Effect.gen(function* () {
      const good = yield* request("ticker=ROK,,ROK2,")
      assert.strictEqual(good.status, 200)
      assert.isUndefined(good.headers["x-dropped-tickers"])
    }))

  it.effect.each([
    ["@@", "@@"],
    ["a_b,c_d", "A_B, C_D"],
    ["toolongtoolong123", "TOOLONGTOOLONG123"],
  ])(
    "refuses a list of invalid symbols only, and never returns all tickers: %s (§7.2, §7.3.2, §7.3.3)",
    ([sent, named]) =>
      Effect.gen(function* () {
        const { field, message } = yield* requestInvalid(`ticker=${sent}`)
        assert.strictEqual(field, "ticker")
        assert.isTrue(message.startsWith(`Invalid ticker(s): ${named}. `), message)
        assert.match(message, /contain only uppercase letters, numbers, dots, hyphens or carets/)
      }),
  )

  it.effect.each(["", ",", ",,,", "%20", "%20,%09,%0A", "%C2%A0", "+"])(
    "refuses the parameter `ticker` without any symbol: ticker=%s (D5)",
    (sent) =>
      Effect.gen(function* () {
        const { field, message } = yield* requestInvalid(`ticker=${sent}`)
        assert.strictEqual(field, "ticker")
        assert.match(message, /^Invalid ticker\(s\): /)
        assert.match(message, /contain only uppercase letters, numbers, dots, hyphens or carets/)
      }),
  )

  it.effect("white space inside a symbol is removed, and case is ignored (§7.3.4, D5)", () =>
    Effect.gen(function* () {
      yield* insertRows("intraday_runners", runner({ ticker: "RSPACE" }), runner({ ticker: "R.S-P^C" }))
      for (
        const sent of [
          "RS%20PACE",
          "%20r%20s%20p%20a%20c%20e%20",
          "RS+PACE",
          "RS%09PA%0ACE",
          "rspace",
          "RS%C2%A0PACE",
          "RS%E2%80%83PACE",
        ]
      ) {
        const { body, headers, status } = yield* request(`ticker=${sent}`)
        assert.strictEqual(status, 200, sent)
        assert.deepStrictEqual(getTickers(body), ["RSPACE"], sent)
        assert.isUndefined(headers["x-dropped-tickers"])
      }
      assert.deepStrictEqual(yield* requestTickers("ticker=r.s-p%5Ec"), ["R.S-P^C"])
    }))

  it.effect("a non-ASCII look-alike that upper-cases to ASCII is not a symbol (D5)", () =>
    Effect.gen(function* () {
      for (const sent of ["%C4%B1", "%C5%BF", "%C3%9F", "%EF%BC%A1", "%D0%90"]) yield* requestInvalid(`ticker=${sent}`)
    }))

  it.effect("accepts 100 valid symbols and refuses 101, not counting invalid and repeated ones (§8, D5)", () =>
    Effect.gen(function* () {
      const symbols = Array.from({ length: 101 }, (_, number) => symbol("RC", number))
      yield* insertRows("intraday_runners", runner({ ticker: "RC099" }), runner({ ticker: "RC100" }))
      const hundred = symbols.slice(0, 100)
      for (const sent of [hundred, [...hundred, "@@", "a_b"], [...hundred, ...hundred], [...hundred, "rc%20099", ""]]) {
        const { body, status } = yield* request(`ticker=${sent.join(",")}`)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(getTickers(body), ["RC099"])
      }
      const { field, reason } = yield* requestInvalid(`ticker=${symbols.join(",")}`)
      assert.strictEqual(field, "ticker")
      assert.match(reason, /at most 100 tickers, not 101/)
      yield* requestInvalid(`ticker=@@,${symbols.join(",")}`)
    }))

  it.effect("a symbol has 1 to 16 characters, and an unknown symbol has no rows (§7.3)", () =>
    Effect.gen(function* () {
      for (const sent of ["Q", "Q234567890123456"]) {
        const { body, status } = yield* request(`ticker=${sent}`)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(body, { count: 0, results: [], page: 1, limit: 10, has_more: false })
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Pages
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("following Link to the end shows each of 125 rows once, in order, for any limit (D8)", () =>
    Effect.gen(function* () {
      // 25 tickers on each of five days, so that the date alone does not determine the order.
      const days = ["2023-06-05", "2023-06-06", "2023-06-07", "2023-06-08", "2023-06-09"]
      const rows = days.flatMap((date) =>
        Array.from({ length: 25 }, (_, number) => runner({ ticker: symbol("RP", number), date }))
      )
      yield* insertRows("intraday_runners", ...rows)
      const expected = rows.map(({ date, ticker }) => `${ticker} ${date}`).toSorted((left, right) => {
        const [[a = "", x = ""], [b = "", y = ""]] = [left.split(" "), right.split(" ")]
        return x === y ? (a < b ? -1 : 1) : x < y ? 1 : -1
      })
      for (const limit of [1, 7, 10, 25, 99, 100]) {
        const seen = yield* readAllPages("date_from=2023-06-05&date_to=2023-06-09", limit)
        assert.deepStrictEqual(seen.map(ListClients.formatTickerAndDate), expected)
      }
    }))

  it.effect("has_more is false on a full last page and on every page after it (D8)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        ...Array.from({ length: 20 }, (_, number) => runner({ ticker: symbol("RL", number), date: "2022-03-01" })),
      )
      const find = (page: number) => requestJson(`/v1/intraday-runners?date=2022-03-01&page=${page}`)
      const [first, last, after] = [yield* find(1), yield* find(2), yield* find(3)]
      assert.strictEqual(valueAt(first.body, "has_more"), true)
      assert.strictEqual(valueAt(last.body, "has_more"), false)
      assert.strictEqual(valueAt(last.body, "count"), 10)
      assert.isUndefined(last.headers["link"])
      assert.deepStrictEqual(after.body, { count: 0, results: [], page: 3, limit: 10, has_more: false })
      assert.isUndefined(after.headers["link"])
    }))

  it.effect("Link keeps every other parameter and is also sent for HEAD (D8)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        ...Array.from({ length: 3 }, (_, number) => runner({ ticker: symbol("RK", number), date: "2022-04-01" })),
      )
      const query = "limit=1&ticker=rk000,rk%20001,RK002,@?&min_gap_percentage=-1e3&date_from=2022-04-01&page=2"
      for (const method of ["GET", "HEAD"] as const) {
        const { headers } = yield* requestJson(`/v1/intraday-runners?${query}`, { method })
        const link = new URL(ListClients.getNextPageUrl(headers) ?? "nothing", "http://base")
        assert.strictEqual(link.pathname, "/v1/intraday-runners")
        assert.deepStrictEqual(Object.fromEntries(link.searchParams), {
          limit: "1",
          ticker: "rk000,rk 001,RK002,@?",
          min_gap_percentage: "-1e3",
          date_from: "2022-04-01",
          page: "3",
        })
        assert.strictEqual(headers["x-dropped-tickers"], "%40%3F")
      }
      const { headers } = yield* requestJson(`/v1/intraday-runners?${query}`)
      const followed = yield* requestJson(ListClients.getNextPageUrl(headers) ?? "nothing")
      assert.deepStrictEqual(getTickers(followed.body), ["RK002"])
      assert.strictEqual(valueAt(followed.body, "has_more"), false)
    }))

  it.effect("returns the same page again while the data do not change (D8)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "intraday_runners",
        ...Array.from({ length: 30 }, (_, number) => runner({ ticker: symbol("RS", number), date: "2022-05-02" })),
      )
      const find = requestJson("/v1/intraday-runners?date=2022-05-02&page=2&limit=10")
      const responses = yield* Effect.all(Array.from({ length: 12 }, () => find), { concurrency: 12 })
      assert.strictEqual(new Set(responses.map(({ text }) => text)).size, 1)
    }))

  it.effect.each(["0", "-1", "1.5", "abc", "", " ", "1e999", "NaN", "9007199254740993", "2147483648", "1,2"])(
    "refuses page=%j with 422 (§8, D8)",
    (page) =>
      Effect.gen(function* () {
        assert.strictEqual((yield* requestInvalid(`page=${encodeURIComponent(page)}`)).field, "page")
      }),
  )

  it.effect.each(["0", "101", "-5", "10.5", "ten", "", " ", "1000000", "Infinity"])(
    "refuses limit=%j with 422 (§8, §4.3)",
    (limit) =>
      Effect.gen(function* () {
        assert.strictEqual((yield* requestInvalid(`limit=${encodeURIComponent(limit)}`)).field, "limit")
      }),
  )

  it.effect("accepts limit 1 and 100 and the largest page number (§8)", () =>
    Effect.gen(function* () {
      for (const query of ["limit=1", "limit=100", "page=2147483647&limit=100"]) {
        assert.strictEqual((yield* request(query)).status, 200, query)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Refusals
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("reports every invalid parameter at once (D4, D11)", () =>
    Effect.gen(function* () {
      const { fields, message } = yield* requestInvalid("tickers=A&date=x&limit=0&page=0&min_gap_percentage=y")
      const names = Array.isArray(fields) ? fields.map((field) => valueAt(field, "field")) : []
      assert.sameMembers(names, ["tickers", "date", "limit", "page", "min_gap_percentage"])
      assert.include(message, "Did you mean ticker?")
    }))

  it.effect("the message names the invalid parameter and the reason, even without the details (D11)", () =>
    Effect.gen(function* () {
      for (
        const name of ["page", "limit", "min_gap_percentage", "max_gap_percentage", "date", "date_from", "date_to"]
      ) {
        for (const text of ["x", "", "1.5x", "Infinity"]) {
          const { message, reason } = yield* requestInvalid(`${name}=${text}`)
          assert.match(message, new RegExp(`^${name} must be `))
          assert.strictEqual(message, `${name} ${reason}`)
        }
      }
      for (const query of ["page=1.5", "limit=10.5"]) {
        assert.match((yield* requestInvalid(query)).message, /^(page|limit) must be /)
      }
    }))

  it.effect("refuses filters of other endpoints and other columns of the table (D4)", () =>
    Effect.gen(function* () {
      const names = [
        "anomaly_flagged",
        "min_daily_volume_ratio",
        "sort",
        "min_volume",
        "order",
        "offset",
        "last_updated_from",
      ]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/intraday-runners without indexes", (it) => {
  it.effect("the query itself orders ties, without the help of an index (D8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        create table bare as table intraday_runners with no data
      `
      yield* sql`drop table intraday_runners`
      yield* sql`alter table bare rename to intraday_runners`
      // Since 37 and 101 are coprime, this visits every number exactly once, in a scrambled order.
      const rows = Array.from({ length: 101 }, (_, number) =>
        runner({
          ticker: symbol("RX", number * 37 % 101),
          date: "2021-01-04",
          filing_types: [],
          all_tags: [],
        }))
      yield* insertRows("intraday_runners", ...rows)
      const seen = yield* readAllPages("", 7)
      assert.deepStrictEqual(seen.map((row) => valueAt(row, "ticker")), rows.map(({ ticker }) => ticker).toSorted())
    }))
})

/**
 * Midnight in New York, in daylight and in standard time. Each case has the previous day, the new day and the next day.
 */
const midnights = [
  ["2026-07-01T04:00:00Z", "2026-06-30", "2026-07-01", "2026-07-02"],
  ["2027-01-01T05:00:00Z", "2026-12-31", "2027-01-01", "2027-01-02"],
] as const

midnights.forEach(([instant, before, day, after]) =>
  layer(Service.layerAt(Date.parse(instant) - 10_000))(`GET /v1/intraday-runners at ${instant}`, (it) => {
    it.effect("today in New York is accepted; tomorrow is refused with the reason (D7, §7.2)", () =>
      Effect.gen(function* () {
        const check = Effect.fnUntraced(function* (today: string, tomorrow: string) {
          for (const name of ["date", "date_from", "date_to"]) {
            assert.strictEqual((yield* request(`${name}=${today}`)).status, 200)
            for (const future of [tomorrow, "9999-12-31"]) {
              const { field, message } = yield* requestInvalid(`${name}=${future}`)
              assert.strictEqual(field, name)
              assert.match(message, /must be in the past/)
            }
          }
        })
        yield* TestClock.setTime(Date.parse(instant) - 1000)
        yield* check(before, day)
        yield* TestClock.setTime(Date.parse(instant))
        yield* check(day, after)
      }))
  })
)
