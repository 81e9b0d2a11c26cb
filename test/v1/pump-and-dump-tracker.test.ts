import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Predicate, Ref } from "effect"
import { load } from "../../src/load/Load.ts"
import { todayInNewYork } from "../../src/policy/Dates.ts"
import * as Service from "../support/Service.ts"

const { ask, at, insert } = Service

/** What a row cannot do without; the ticker is its key. */
const suspect = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  known_underwriter: false,
  number_liquidations: "0",
  is_adr: false,
  num_splits: "0",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const rowsOf = (body: unknown): ReadonlyArray<unknown> => {
  const results = at(body, "results")
  return Array.isArray(results) ? results : []
}

const list = (query: string) => ask(`/v1/pump-and-dump-tracker?${query}`)

const tickersOf = (query: string) =>
  Effect.map(list(query), ({ body }) => rowsOf(body).map((row) => String(at(row, "ticker"))))

const refused = Effect.fnUntraced(function* (query: string) {
  const { body, status, text } = yield* list(query)
  assert.strictEqual(status, 422, `${query}: ${text}`)
  assert.strictEqual(at(body, "error", "code"), "validation_error")
  return {
    message: String(at(body, "error", "message")),
    field: at(body, "error", "details", "fields", 0, "field"),
  }
})

const loaded = Effect.fnUntraced(function* (csv: string) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-pump-and-dump-" })}/rows.csv`
  yield* fs.writeFileString(file, csv)
  return yield* load({ dataset: "pump-and-dump-tracker", file, append: false, check: false }, yield* Ref.make(0))
})

const levels = ["high", "medium", "low"]

/** Tickers of a test of its own: `P0A`, `P0B`, … */
const symbols = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${prefix}${String.fromCharCode(65 + number)}`)

layer(Service.layer, { excludeTestServices: true })("GET /v1/pump-and-dump-tracker", (it) => {
  it.effect("§2.1 D15 D16 prints every field, exactly as stored, each with the right kind", () =>
    Effect.gen(function* () {
      yield* insert("pump_and_dump_tracker", {
        ticker: "PFULL",
        company: 'The "Pump" Co, 100%',
        ipo_date: "2025-01-02",
        lock_up_expiration: "2999-07-02",
        lock_up_shares: "9007199254740991",
        underwriters: "A & B; Cé",
        known_underwriter: true,
        number_liquidations: "3",
        last_liquidation_date: "2025-05-06",
        liquidation_history: "medium",
        tradable_float: "0",
        outstanding_shares: "9007199254740990",
        market_cap: "999999999999999999.99",
        country: "MY",
        exchange: "Nasdaq",
        sector: "Industrials",
        industry: "Ships",
        is_adr: true,
        gain_1_day: "-0.3000",
        gain_7_day: "12345678901234.5678",
        gain_14_day: "0",
        gain_30_day: "1234.5",
        num_splits: "2",
        last_split_date: "2025-04-05",
        underwriter_risk: "high",
        country_risk: "medium",
        float_risk: "low",
        scam_risk: "high",
        scam_description: "Posts\nin groups",
        last_post_date: "2025-06-07",
        document_url: "https://example.com/a?b=c&d",
        filed_at: "2024-12-01",
        effective_date: "2024-12-31",
        last_updated: "2025-07-02 09:30:00",
      })
      const { headers, status, text } = yield* list("ticker=PFULL")
      assert.strictEqual(status, 200)
      assert.match(String(headers["content-type"]), /^application\/json/)
      assert.strictEqual(
        text,
        `{"count":1,"results":[{"ticker":"PFULL","company":"The \\"Pump\\" Co, 100%","ipo_date":"2025-01-02",` +
          `"lock_up_expiration":"2999-07-02","lock_up_shares":9007199254740991,"underwriters":"A & B; Cé",` +
          `"known_underwriter":true,"number_liquidations":3,"last_liquidation_date":"2025-05-06",` +
          `"liquidation_history":"medium","tradable_float":0,"outstanding_shares":9007199254740990,` +
          `"market_cap":999999999999999999.99,"country":"MY","exchange":"Nasdaq","sector":"Industrials",` +
          `"industry":"Ships","is_adr":true,"gain_1_day":-0.3,"gain_7_day":12345678901234.5678,"gain_14_day":0,` +
          `"gain_30_day":1234.5,"num_splits":2,"last_split_date":"2025-04-05","underwriter_risk":"high",` +
          `"country_risk":"medium","float_risk":"low","scam_risk":"high","scam_description":"Posts\\nin groups",` +
          `"last_post_date":"2025-06-07","document_url":"https://example.com/a?b=c&d","filed_at":"2024-12-01",` +
          `"effective_date":"2024-12-31","last_updated":"2025-07-02T08:30:00-05:00"}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("D16 what is missing is null, never an empty text and never 0", () =>
    Effect.gen(function* () {
      yield* insert("pump_and_dump_tracker", suspect("PNULL"))
      const row = rowsOf((yield* list("ticker=PNULL")).body)[0]
      const there = Predicate.isObject(row) ? Object.entries(row).filter(([, value]) => value !== null) : []
      assert.deepStrictEqual(there, [
        ["ticker", "PNULL"],
        ["known_underwriter", false],
        ["number_liquidations", 0],
        ["is_adr", false],
        ["num_splits", 0],
        ["last_updated", "2025-07-01T19:05:00-05:00"],
      ])
      assert.strictEqual(Object.keys(Predicate.isObject(row) ? row : {}).length, 34)
    }))

  it.effect("§2.1.4 D15 last_updated is New York's clock: an hour earlier in daylight time", () =>
    Effect.gen(function* () {
      const clocks = [
        ["2025-01-15 16:00:00", "2025-01-15T16:00:00-05:00"],
        ["2025-07-15 16:00:00.250", "2025-07-15T15:00:00.250-05:00"],
        ["2025-03-09 02:30:00", "2025-03-09T02:30:00-05:00"],
        ["2025-11-02 01:30:00", "2025-11-02T01:30:00-05:00"],
      ] as const
      const tickers = symbols("PCLOCK", clocks.length)
      yield* insert(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) => suspect(ticker, { last_updated: clocks[number]?.[0] })),
      )
      const { body } = yield* list(`ticker=${tickers.join(",")}`)
      assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "last_updated")), clocks.map(([, printed]) => printed))
    }))

  it.effect("§7.3 ticker is optional; when every symbol is invalid it never widens to all", () =>
    Effect.gen(function* () {
      yield* insert("pump_and_dump_tracker", suspect("P.DOT"))
      const all = yield* list("")
      assert.strictEqual(all.status, 200)
      assert.isAbove(rowsOf(all.body).length, 0)
      for (const sent of ["@@", "", ","]) assert.strictEqual((yield* refused(`ticker=${sent}`)).field, "ticker")
      const { body, headers } = yield* list("ticker=@@,p.%20dot")
      assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "ticker")), ["P.DOT"])
      assert.strictEqual(headers["x-dropped-tickers"], "%40%40")
    }))

  it.effect("§4.4 rows are ordered by ipo_date descending, those without one last, then by ticker", () =>
    Effect.gen(function* () {
      yield* insert(
        "pump_and_dump_tracker",
        suspect("PORDF"),
        suspect("PORDA", { ipo_date: "2025-02-03" }),
        suspect("PORDC", { ipo_date: "2025-02-04" }),
        suspect("PORDB", { ipo_date: "2025-02-04" }),
        suspect("PORDD", { ipo_date: "2024-12-31" }),
        suspect("PORDE"),
      )
      const ordered = ["PORDB", "PORDC", "PORDA", "PORDD", "PORDE", "PORDF"]
      assert.deepStrictEqual(yield* tickersOf("ticker=PORDA,PORDB,PORDC,PORDD,PORDE,PORDF"), ordered)
      const everything = yield* tickersOf("limit=100")
      assert.deepStrictEqual(everything.filter((ticker) => ordered.includes(ticker)), ordered)
    }))

  it.effect("D8 following Link to its end shows each row once, in order, with and without an ipo_date", () =>
    Effect.gen(function* () {
      const tickers = symbols("PPAGE", 23)
      yield* insert(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) =>
          suspect(ticker, { country: "ZZ", ipo_date: number < 12 ? "2025-03-03" : null })
        ).toReversed(),
      )
      for (const limit of [1, 7, 23, 100]) {
        const seen: Array<unknown> = []
        let path: string | undefined = `/v1/pump-and-dump-tracker?country=ZZ&limit=${limit}`
        while (path !== undefined) {
          const { body, headers }: Effect.Success<ReturnType<typeof ask>> = yield* ask(path)
          seen.push(...rowsOf(body).map((row) => at(row, "ticker")))
          path = /^<([^>]*)>; rel="next"$/.exec(headers["link"] ?? "")?.[1]
          assert.strictEqual(at(body, "has_more"), path !== undefined)
        }
        assert.deepStrictEqual(seen, tickers)
      }
    }))

  it.effect.each(["underwriter_risk", "country_risk", "float_risk", "scam_risk"])(
    "§4.4 %s is high, medium or low, or several of them; null never matches",
    (name) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 10).toUpperCase()}`, 4)
        const [high, medium, low] = tickers
        yield* insert(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => suspect(ticker, { [name]: levels[number] ?? null })),
        )
        const asked = (words: string) => tickersOf(`ticker=${tickers.join(",")}&${name}=${words}`)
        assert.deepStrictEqual(yield* asked("high"), [high])
        assert.deepStrictEqual(yield* asked("medium"), [medium])
        assert.deepStrictEqual(yield* asked("low,%20high"), [high, low])
        assert.deepStrictEqual(yield* asked("low,medium,high"), [high, medium, low])
        for (const sent of ["", "High", "severe", "high,", "high,x"]) {
          const { field, message } = yield* refused(`${name}=${sent}`)
          assert.strictEqual(field, name)
          assert.include(message, "high, medium, low")
        }
      }),
  )

  it.effect("§4.4 country is equal to one of several", () =>
    Effect.gen(function* () {
      const [first, second, third] = symbols("PLAND", 4)
      yield* insert(
        "pump_and_dump_tracker",
        suspect("PLANDA", { country: "HK" }),
        suspect("PLANDB", { country: "SG" }),
        suspect("PLANDC", { country: "CN" }),
        suspect("PLANDD"),
      )
      const asked = (country: string) => tickersOf(`ticker=PLANDA,PLANDB,PLANDC,PLANDD&country=${country}`)
      assert.deepStrictEqual(yield* asked("HK"), [first])
      assert.deepStrictEqual(yield* asked("CN,%20SG"), [second, third])
      assert.deepStrictEqual(yield* asked("H%25"), [])
      assert.deepStrictEqual(yield* asked("US"), [])
      for (const sent of ["", "HK,"]) assert.strictEqual((yield* refused(`country=${sent}`)).field, "country")
    }))

  it.effect("§4.4 underwriters is a part of the text in any case; %, _, quotes and backslashes are text", () =>
    Effect.gen(function* () {
      const names = ["Spartan, Revere", "100% Bank_of 'A' \\ B", "100x Banknof", "ÜBER Capital"]
      const tickers = symbols("PPART", 5)
      yield* insert(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) => suspect(ticker, { underwriters: names[number] ?? null })),
      )
      const asked = (part: string) =>
        Effect.map(
          tickersOf(`ticker=${tickers.join(",")}&underwriters=${encodeURIComponent(part)}`),
          (found) => found.map((ticker) => names[tickers.indexOf(ticker)]),
        )
      assert.deepStrictEqual(yield* asked("REVere"), ["Spartan, Revere"])
      assert.deepStrictEqual(yield* asked("n, R"), ["Spartan, Revere"])
      assert.deepStrictEqual(yield* asked("100% bank_of"), ["100% Bank_of 'A' \\ B"])
      assert.deepStrictEqual(yield* asked("'a' \\ b"), ["100% Bank_of 'A' \\ B"])
      assert.deepStrictEqual(yield* asked("über"), ["ÜBER Capital"])
      for (const miss of ["%%%", "___", "S%n", "n__R", "\\\\\\", `"""`, "Spartans"]) {
        assert.deepStrictEqual(yield* asked(miss), [], miss)
      }
      for (const sent of ["", "ab", "%20%20a", "a%00bc", "x".repeat(101)]) {
        assert.strictEqual((yield* refused(`underwriters=${sent}`)).field, "underwriters")
      }
    }))

  it.effect.each([["known_underwriter", "PKNOWN"], ["is_adr", "PADR"]] as const)(
    "§4.4 %s is true or false",
    ([name, prefix]) =>
      Effect.gen(function* () {
        const [no = "", yes = ""] = symbols(prefix, 2)
        yield* insert("pump_and_dump_tracker", suspect(no, { [name]: false }), suspect(yes, { [name]: true }))
        assert.deepStrictEqual(yield* tickersOf(`ticker=${no},${yes}&${name}=true`), [yes])
        assert.deepStrictEqual(yield* tickersOf(`ticker=${no},${yes}&${name}=false`), [no])
        for (const sent of ["", "1", "yes", "TRUE"]) {
          assert.strictEqual((yield* refused(`${name}=${sent}`)).field, name)
        }
      }),
  )

  it.effect.each(["number_liquidations", "tradable_float", "outstanding_shares"])(
    "D9 min_%s and its max include their whole number; a bound may be any number",
    (name) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 9).toUpperCase()}`, 5)
        const counts = ["0", "1", "75000000", "9007199254740991"]
        yield* insert(
          "pump_and_dump_tracker",
          ...tickers.slice(0, 4).map((ticker, number) => suspect(ticker, { [name]: counts[number] })),
          // The one column that is never null lies out of every range below.
          suspect(tickers[4] ?? "", { [name]: name === "number_liquidations" ? "-5" : null }),
        )
        const asked = (query: string) =>
          Effect.map(
            tickersOf(`ticker=${tickers.join(",")}&${query}`),
            (found) => found.map((ticker) => counts[tickers.indexOf(ticker)]),
          )
        assert.deepStrictEqual(yield* asked(`min_${name}=0`), counts)
        assert.deepStrictEqual(yield* asked(`min_${name}=0&max_${name}=0`), ["0"])
        assert.deepStrictEqual(yield* asked(`min_${name}=0.5&max_${name}=7.5e7`), ["1", "75000000"])
        assert.deepStrictEqual(yield* asked(`min_${name}=9007199254740991`), ["9007199254740991"])
        assert.deepStrictEqual(yield* asked(`min_${name}=1.5&max_${name}=9007199254740990`), ["75000000"])
        assert.deepStrictEqual(yield* asked(`min_${name}=1e300`), [])
        assert.deepStrictEqual(yield* asked(`min_${name}=0&max_${name}=1e300`), counts)
        assert.strictEqual((yield* refused(`min_${name}=2&max_${name}=1`)).field, `min_${name}`)
        assert.strictEqual((yield* refused(`max_${name}=x`)).field, `max_${name}`)
      }),
  )

  it.effect.each(
    [
      ["market_cap", "0.01", "123456789012345.67"],
      ["gain_1_day", "-0.0001", "0.3"],
      ["gain_7_day", "-99.9999", "0.3"],
      ["gain_14_day", "-0.3", "99999999999999.9999"],
      ["gain_30_day", "0.1", "0.3"],
    ] as const,
  )(
    "D9 min_%s and its max include their value, compare exact decimals and never match what is missing",
    ([name, small, great]) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").toUpperCase()}`, 3)
        const [less, more] = tickers
        yield* insert(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => suspect(ticker, { [name]: [small, great][number] ?? null })),
        )
        const asked = (query: string) => tickersOf(`ticker=${tickers.join(",")}&${query}`)
        assert.deepStrictEqual(yield* asked(`min_${name}=${small}`), [less, more])
        assert.deepStrictEqual(yield* asked(`max_${name}=${small}`), [less])
        assert.deepStrictEqual(yield* asked(`min_${name}=0.2&max_${name}=1e300`), [more])
        assert.deepStrictEqual(yield* asked(`min_${name}=${small}00001`), [
          ...(small.startsWith("-") ? [less] : []),
          more,
        ])
        assert.deepStrictEqual(yield* asked(`max_${name}=-1e300`), [])
        const { field, message } = yield* refused(`min_${name}=2&max_${name}=1`)
        assert.strictEqual(field, `min_${name}`)
        assert.strictEqual(message, `min_${name} must not be greater than max_${name}`)
        assert.strictEqual((yield* refused(`max_${name}=Infinity`)).field, `max_${name}`)
      }),
  )

  it.effect.each(["filed_at", "effective_date", "ipo_date", "last_liquidation_date", "lock_up_expiration"])(
    "D7 §4.4 %s_from and _to include their day, never match what is missing, and keep their order",
    (name) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 12).toUpperCase()}`, 5)
        const days = ["2025-04-10", "2025-04-09", "2025-04-08", "2025-04-07"]
        yield* insert(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => suspect(ticker, { [name]: days[number] ?? null })),
        )
        const daysOf = (query: string) =>
          Effect.map(
            list(`ticker=${tickers.join(",")}&${query}`),
            ({ body }) => rowsOf(body).map((row) => at(row, name)),
          )
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-09`), days.slice(0, 2))
        assert.deepStrictEqual(yield* daysOf(`${name}_to=2025-04-08`), days.slice(2))
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-09`), days.slice(1, 3))
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-08`), ["2025-04-08"])
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-11`), [])
        const { field, message } = yield* refused(`${name}_from=2025-04-02&${name}_to=2025-04-01`)
        assert.strictEqual(field, `${name}_from`)
        assert.strictEqual(message, `${name}_from must not be greater than ${name}_to`)
        for (const sent of ["2025-02-29", "20250101", "x", ""]) {
          assert.strictEqual((yield* refused(`${name}_to=${sent}`)).field, `${name}_to`)
        }
      }),
  )

  it.effect("§4.4 §7.2 lock_up_expiration may lie in the future, and its order is enforced there too", () =>
    Effect.gen(function* () {
      yield* insert("pump_and_dump_tracker", suspect("PFUT", { lock_up_expiration: "2999-01-01" }))
      assert.deepStrictEqual(
        yield* tickersOf("ticker=PFUT&lock_up_expiration_from=2998-12-31&lock_up_expiration_to=9999-12-31"),
        ["PFUT"],
      )
      assert.deepStrictEqual(yield* tickersOf("ticker=PFUT&lock_up_expiration_from=2999-01-02"), [])
      const { field } = yield* refused("lock_up_expiration_from=2999-01-02&lock_up_expiration_to=2999-01-01")
      assert.strictEqual(field, "lock_up_expiration_from")
    }))

  it.effect.each(["filed_at", "effective_date", "ipo_date", "last_liquidation_date"])(
    "§4.4 §7.2 D7 %s_from and _to reject the future and say so; today is accepted",
    (name) =>
      Effect.gen(function* () {
        for (const parameter of [`${name}_from`, `${name}_to`]) {
          const { field, message } = yield* refused(`${parameter}=9999-12-31`)
          assert.strictEqual(field, parameter)
          assert.match(message, /must be in the past/)
          assert.strictEqual((yield* list(`${parameter}=${yield* todayInNewYork}`)).status, 200)
        }
      }),
  )

  it.effect("D4 date and the columns that are no filters are unknown", () =>
    Effect.gen(function* () {
      for (const name of ["date", "liquidation_history", "exchange", "min_num_splits", "min_lock_up_shares", "sort"]) {
        assert.strictEqual((yield* refused(`${name}=1`)).field, name)
      }
    }))

  it.effect("§4.4 filters narrow each other", () =>
    Effect.gen(function* () {
      const all = { scam_risk: "high", country: "HK", is_adr: true, underwriters: "Mixed Bank", gain_1_day: "10" }
      yield* insert(
        "pump_and_dump_tracker",
        suspect("PMIXA", all),
        suspect("PMIXB", { ...all, scam_risk: "low" }),
        suspect("PMIXC", { ...all, country: "SG" }),
        suspect("PMIXD", { ...all, is_adr: false }),
        suspect("PMIXE", { ...all, underwriters: "Fixed Bank" }),
        suspect("PMIXF", { ...all, gain_1_day: "9.9999" }),
      )
      assert.deepStrictEqual(
        yield* tickersOf("scam_risk=high&country=HK&is_adr=true&underwriters=mixed&min_gain_1_day=10"),
        ["PMIXA"],
      )
    }))

  it.effect("D31 a file becomes rows; a wrong word, stray white space and a repeated ticker refuse it", () =>
    Effect.gen(function* () {
      const header = "ticker,company,ipo_date,known_underwriter,number_liquidations,is_adr,num_splits,country," +
        "scam_risk,last_updated\n"
      const line = (ticker: string, country = "HK", risk = "high", company = "Pump Co") =>
        `${ticker},${company},,true,2,false,0,${country},${risk},2025-07-01 20:05:00\n`
      assert.deepStrictEqual(yield* loaded(header + line("PLOADA") + line("PLOADB", "", "")), {
        table: "pump_and_dump_tracker",
        rows: 2,
        dropped: 0,
      })
      assert.deepStrictEqual(yield* tickersOf(""), ["PLOADA", "PLOADB"])
      const bad = [
        [line("PBAD", "HK", "severe"), /line 2: scam_risk /],
        [line("PBAD", "HK", "high "), /line 2: scam_risk /],
        [line("PBAD", "hk"), /line 2: country must be a country's two letters/],
        [line("PBAD", "HKG"), /line 2: country must be a country's two letters/],
        [line("PBAD", "HK", "high", " Pump"), /line 2: company must not be empty and must not start or end with white/],
        [line("pbad"), /line 2: ticker must be a symbol/],
        [line("PBAD") + line("PBAD"), /line 3: ticker repeats a row/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* tickersOf(""), ["PLOADA", "PLOADB"])
      }
    }))
})
