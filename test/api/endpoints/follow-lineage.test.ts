/**
 * Example tests of `follow_lineage` for lists over HTTP (D35). `test/query/lists/followed-lists.test.ts` has the
 * property tests.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { makeSessionRow } from "../../support/SessionRows.ts"
import * as Service from "../../support/Service.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { waitUntilOldDataExpires } from "../../support/Pauses.ts"

const { insertRows, requestJson, valueAt } = Service

const change = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  cik: string | null = null,
  company_name: string | null = null,
) => insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, cik, company_name, status: "confirmed" })

const store = (...rows: ReadonlyArray<readonly [ticker: string, date: string]>) =>
  insertRows("premarket_stats", ...rows.map(([ticker, date]) => makeSessionRow(ticker, date)))

/** Formats each row as `ticker date lineage_ticker`. */
const summarize = (body: unknown) => {
  const results = valueAt(body, "results")
  return Array.isArray(results)
    ? results.map((row) => [valueAt(row, "ticker"), valueAt(row, "date"), valueAt(row, "lineage_ticker")].join(" "))
    : []
}

const follow = (query: string) => requestJson(`/v1/premarket-stats?follow_lineage=true&${query}`)

const refused = Effect.fnUntraced(function* (target: string, status: number) {
  const response = yield* requestJson(target)
  assert.strictEqual(response.status, status, `${target} ${response.text}`)
  return valueAt(response.body, "error")
})

const fieldErrors = (query: string) =>
  Effect.map(
    refused(`/v1/premarket-stats?${query}`, 422),
    (error) => [valueAt(error, "details", "fields", 0, "field"), valueAt(error, "details", "fields", 0, "reason")],
  )

layer(Service.layer, { excludeTestServices: true })("follow_lineage", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Rows
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("returns the rows of each symbol from the period in which it was used, and counts the rows outside that period (D35)", () =>
    Effect.gen(function* () {
      yield* change("AAA", "AAB", "2020-01-10")
      yield* change("AAB", "AAC", "2021-01-10")
      yield* store(
        ["AAA", "2020-01-09"],
        ["AAA", "2020-01-10"],
        ["AAB", "2020-01-09"],
        ["AAB", "2020-01-10"],
        ["AAB", "2021-01-09"],
        ["AAB", "2021-01-10"],
        ["AAC", "2021-01-09"],
        ["AAC", "2021-01-10"],
      )
      for (const symbol of ["AAA", "AAB", "AAC", "aac,AAA"]) {
        const { body, headers, status, text } = yield* follow(`ticker=${symbol}`)
        assert.strictEqual(status, 200, text)
        assert.deepStrictEqual(summarize(body), [
          "AAC 2021-01-10 AAC",
          "AAB 2021-01-09 AAC",
          "AAB 2020-01-10 AAC",
          "AAA 2020-01-09 AAC",
        ])
        assert.strictEqual(headers["x-lineage"], "AAA..2020-01-10, AAB..2021-01-10, AAC;outside=4")
      }
      const filtered = yield* follow("ticker=AAA&date_from=2021-01-10")
      assert.deepStrictEqual(summarize(filtered.body), ["AAC 2021-01-10 AAC"])
      assert.strictEqual(filtered.headers["x-lineage"], "AAA..2020-01-10, AAB..2021-01-10, AAC;outside=1")
    }))

  it.effect("a symbol without changes gets its own rows, with lineage_ticker as the last field (D35)", () =>
    Effect.gen(function* () {
      yield* store(["SAME", "2020-01-10"])
      const plain = yield* requestJson("/v1/premarket-stats?ticker=SAME")
      const followed = yield* follow("ticker=SAME")
      assert.strictEqual(followed.headers["x-lineage"], "SAME")
      assert.isUndefined(plain.headers["x-lineage"])
      assert.strictEqual(followed.text, plain.text.replace(/\}\],/, `,"lineage_ticker":"SAME"}],`))
      const unfollowed = yield* requestJson("/v1/premarket-stats?ticker=SAME&follow_lineage=false")
      assert.strictEqual(unfollowed.text, plain.text)
      const csv = yield* follow("ticker=SAME&format=csv")
      assert.deepStrictEqual(csv.text.split("\r\n").map((line) => line.split(",").at(-1)), [
        "lineage_ticker",
        "SAME",
        "",
      ])
      const ndjson = yield* follow("ticker=SAME&format=ndjson&limit=all")
      assert.strictEqual(valueAt(JSON.parse(ndjson.text), "lineage_ticker"), "SAME")
    }))

  it.effect("X-Lineage is at most 4 KB: it lacks companies with one symbol, then the last ones, and counts them (D37)", () =>
    Effect.gen(function* () {
      const long = (company: number) =>
        Array.from({ length: 8 }, (_, index) => `LONGSYMBOL${company}X${index}`.slice(0, 16))
      for (let company = 10; company < 40; company += 1) {
        const symbols = long(company)
        yield* insertRows(
          "ticker_changes",
          ...symbols.slice(1).map((new_ticker, index) => ({
            old_ticker: symbols[index],
            new_ticker,
            effective_date: `20${10 + index}-01-01`,
            status: "confirmed",
          })),
        )
      }
      yield* store(["LONGSYMBOL10X0", "2015-01-01"], ["SINGLE1", "2015-01-01"])
      const chains = Array.from({ length: 30 }, (_, index) => `LONGSYMBOL${index + 10}X0`)
      const ask = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>) {
        const { headers, status, text } = yield* follow(`ticker=${tickers.join(",")}`)
        assert.strictEqual(status, 200, text)
        const lineage = headers["x-lineage"] ?? ""
        assert.isAtMost(lineage.length, 4096)
        const [, more] = /;more=(\d+)$/.exec(lineage) ?? []
        const companies = lineage.split(", ").filter((entry) => !entry.includes(".."))
          .map((entry) => entry.replace(/;.*/, ""))
        return { companies, more: more === undefined ? undefined : Number(more), lineage }
      })
      const several = yield* ask(["SINGLE1", ...chains.slice(0, 10)])
      assert.deepStrictEqual([several.companies.length, several.more], [11, undefined])
      const mixedTickers = ["SINGLE1", ...chains, "SINGLE2"]
      const mixed = yield* ask(mixedTickers)
      assert.strictEqual(mixed.companies.length + (mixed.more ?? 0), mixedTickers.length)
      assert.notInclude(mixed.lineage, "SINGLE")
      const last = `LONGSYMBOL${mixed.companies.length + 9}X7`
      assert.include(mixed.lineage, `LONGSYMBOL10X0..2010-01-01`)
      assert.strictEqual(mixed.companies.at(-1), last)
      const singles = Array.from({ length: 70 }, (_, index) => `SINGLE${index}`)
      const chainsAfterSingles = chains.slice(0, 17)
      const first = yield* ask([...singles, ...chainsAfterSingles])
      assert.strictEqual(first.companies.length + (first.more ?? 0), singles.length + chainsAfterSingles.length)
      assert.includeMembers([...first.companies], chainsAfterSingles.map((name) => name.replace("X0", "X7")))
      assert.include(first.lineage, "SINGLE0, ")
    }))

  it.effect("a company that returns to a symbol has two periods with that symbol (D21, D35)", () =>
    Effect.gen(function* () {
      yield* change("RTA", "RTB", "2020-01-10")
      yield* change("RTB", "RTA", "2021-01-10")
      yield* store(["RTA", "2020-01-01"], ["RTA", "2020-06-01"], ["RTA", "2021-06-01"], ["RTB", "2020-06-01"])
      const { body, headers } = yield* follow("ticker=RTB")
      assert.deepStrictEqual(summarize(body), [
        "RTA 2021-06-01 RTA",
        "RTB 2020-06-01 RTA",
        "RTA 2020-01-01 RTA",
      ])
      assert.strictEqual(headers["x-lineage"], "RTA..2020-01-10, RTB..2021-01-10, RTA;outside=1")
    }))

  it.effect("counts at most a hundred omitted rows, for both GET and HEAD (D35)", () =>
    Effect.gen(function* () {
      yield* change("MNA", "MNB", "2000-01-01")
      const sql = yield* SqlClient.SqlClient
      const [columns] = [Object.keys(makeSessionRow("", ""))]
      yield* store(["MNA", "2000-01-01"])
      yield* sql.unsafe(
        `insert into premarket_stats (${columns.join(", ")})
         select ${columns.map((name) => name === "date" ? "date + n" : name).join(", ")}
         from premarket_stats, generate_series(1, 100) as n where ticker = 'MNA'`,
      )
      for (const method of ["GET", "HEAD"] as const) {
        const { headers } = yield* requestJson(
          "/v1/premarket-stats?follow_lineage=true&ticker=MNA&format=csv&limit=all",
          { method },
        )
        assert.strictEqual(headers["x-lineage"], "MNA..2000-01-01, MNB;outside=100+")
      }
    }))

  it.effect("the screener returns the row of the current symbol only (D35)", () =>
    Effect.gen(function* () {
      yield* change("SCA", "SCB", "2020-01-10")
      const row = { is_adr: false, num_gaps: 0, num_runners: 0, pending_s1: false, last_updated: "2026-06-01 20:05:00" }
      yield* insertRows("screener", { ticker: "SCA", ...row }, { ticker: "SCB", ...row })
      const { body, headers } = yield* requestJson("/v1/screener?ticker=SCA&follow_lineage=true")
      assert.strictEqual(valueAt(body, "count"), 1)
      assert.strictEqual(valueAt(body, "results", 0, "ticker"), "SCB")
      assert.strictEqual(valueAt(body, "results", 0, "lineage_ticker"), "SCB")
      assert.strictEqual(headers["x-lineage"], "SCA..2020-01-10, SCB")
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Ambiguous symbols
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("refuses ambiguous symbols, alone or in a list, with the same details as /v1/ticker-changes (D35)", () =>
    Effect.gen(function* () {
      yield* change("AMA", "AMB", "2020-01-10")
      yield* change("AMA", "AMC", "2021-01-10")
      yield* change("AMX", "AMY", "2020-01-10", "0000000001", "One")
      yield* change("AMZ", "AMX", "2021-01-10", "0000000002", "Two")
      const details = Effect.fnUntraced(function* (symbol: string) {
        return valueAt(yield* refused(`/v1/ticker-changes?ticker=${symbol}`, 409), "details")
      })
      const target = "/v1/premarket-stats?follow_lineage=true&ticker="
      assert.deepStrictEqual(valueAt(yield* refused(`${target}AMB`, 409), "details"), yield* details("AMB"))
      const error = yield* refused(`${target}AMB,FINE,AMX`, 409)
      const symbols = [yield* details("AMB"), yield* details("AMX")]
      assert.deepStrictEqual(valueAt(error, "details"), { ...Object(symbols[0]), symbols })
      assert.include(String(valueAt(error, "message")), "AMB")
      assert.include(String(valueAt(error, "message")), "AMX")
      const estimate = yield* refused("/estimate?endpoint=/v1/premarket-stats&follow_lineage=true&ticker=AMB", 409)
      assert.deepStrictEqual(estimate, yield* refused(`${target}AMB`, 409))
    }))

  it.effect("a 409 for several symbols names at most a hundred related symbols for each, and their number (D35)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        select 'LH' || n, 'LHUB', date '2001-01-01' + n, 'confirmed' from generate_series(1, 130) as n
      `
      const details = Effect.fnUntraced(function* (tickers: string) {
        return valueAt(yield* refused(`/v1/premarket-stats?follow_lineage=true&ticker=${tickers}`, 409), "details")
      })
      const all = [...Array.from({ length: 130 }, (_, index) => `LH${index + 1}`), "LHUB"].toSorted()
      const alone = yield* details("LHUB")
      assert.deepStrictEqual([valueAt(alone, "tickers"), valueAt(alone, "ticker_count")], [all, 131])
      const list = yield* details("LHUB,LH1")
      for (const symbol of [list, valueAt(list, "symbols", 0)]) {
        assert.deepStrictEqual([valueAt(symbol, "tickers"), valueAt(symbol, "ticker_count")], [all.slice(0, 100), 131])
      }
      const second = valueAt(list, "symbols", 1)
      assert.deepStrictEqual([valueAt(second, "same_history_as"), valueAt(second, "ticker_count")], ["LHUB", 131])
    }))

  it.effect("the parameter `cik` selects a candidate, alone or in a list (D35)", () =>
    Effect.gen(function* () {
      yield* change("CKA", "CKB", "2022-01-31", "0000000007", "The fund")
      yield* change("CKC", "CKA", "2022-06-09", "0000000008", "The company")
      yield* store(["CKA", "2022-01-01"], ["CKB", "2022-02-01"], ["CKA", "2022-06-08"], ["CKA", "2022-06-09"])
      const [fund, company] = ["CKA..2022-01-31, CKB", "CKC..2022-06-09, CKA"]
      const selects = Effect.fnUntraced(function* (query: string, lineage: string, rows: ReadonlyArray<string>) {
        const { body, headers, status, text } = yield* follow(query)
        assert.strictEqual(status, 200, text)
        assert.strictEqual(headers["x-lineage"], lineage, query)
        assert.deepStrictEqual(summarize(body), rows, query)
      })
      // These queries pair symbols with the wrong company: the fund never used CKC, and the company never used CKB.
      for (const query of ["ticker=CKB&cik=8", "ticker=CKB:8,CKA:7", "ticker=CKA:7,CKB&cik=CKB:8"]) {
        assert.deepStrictEqual(yield* fieldErrors(`follow_lineage=true&${query}`), [
          "cik",
          "must be a CIK in the history of CKB: 0000000007 (The fund); not 0000000008",
        ])
      }
      for (const query of ["ticker=CKA&cik=8", "ticker=CKC&cik=0000000008", "ticker=CKA:8", "ticker=cka&cik=cka:8"]) {
        yield* selects(query, `${company};outside=2`, ["CKA 2022-06-09 CKA"])
      }
      yield* selects("ticker=CKB&cik=7", `${fund};outside=2`, ["CKB 2022-02-01 CKB", "CKA 2022-01-01 CKB"])
      for (const query of ["ticker=CKA:7,CKA:8", "ticker=CKB,CKC&cik=CKC:8,CKB:7"]) {
        yield* selects(query, `${fund};outside=1, ${company};outside=1`, [
          "CKA 2022-06-09 CKA",
          "CKB 2022-02-01 CKB",
          "CKA 2022-01-01 CKB",
        ])
      }
      assert.deepStrictEqual(yield* fieldErrors("follow_lineage=true&ticker=CKA&cik=9"), [
        "cik",
        "must be a CIK in the history of CKA: 0000000007 (The fund), 0000000008 (The company); not 0000000009",
      ])
    }))

  it.effect("refuses invalid and conflicting parameters (D4, D35)", () =>
    Effect.gen(function* () {
      const cases = [
        ["ticker=A&follow_lineage=yes", "follow_lineage", "must be true or false"],
        ["ticker=A&cik=1", "cik", "needs follow_lineage=true"],
        ["ticker=A&follow_lineage=false&cik=1", "cik", "needs follow_lineage=true"],
        ["ticker=A:1,B", "ticker", "with a CIK (A:0000000001) needs follow_lineage=true"],
        ["follow_lineage=true", "follow_lineage", "needs ticker"],
        [
          "follow_lineage=true&ticker=A,B&cik=1",
          "cik",
          "must name its symbol, like META:0000000001, unless ticker is one",
        ],
        ["follow_lineage=true&ticker=A,B&cik=C:1", "cik", "names C, which ticker does not list without a CIK"],
        ["follow_lineage=true&ticker=A,B&cik=A:1,A:2", "cik", "names A twice"],
        ["follow_lineage=true&ticker=A:1&cik=2", "cik", "cannot be combined with a CIK in ticker"],
        ["follow_lineage=true&ticker=A&cik=x", "cik", "must be a CIK of one to ten digits, or SYMBOL:CIK"],
      ] as const
      for (const [query, field, reason] of cases) {
        const [name, found] = yield* fieldErrors(query)
        assert.strictEqual(name, field, query)
        assert.include(String(found), reason, query)
      }
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Caching
// ---------------------------------------------------------------------------------------------------------------------

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "The caches of follow_lineage",
  (it) => {
    it.effect("repeat X-Lineage, even with a 304, until a ticker change is recorded (D17, D35)", () =>
      Effect.gen(function* () {
        const { basic } = yield* Service.TestKeys
        const port = yield* ServiceInstances.startServiceInstance()
        const target = "/v1/premarket-stats?follow_lineage=true&ticker=KPA"
        const ask = (headers: Readonly<Record<string, string>> = {}) =>
          ServiceInstances.requestOverWire(port, target, basic, { headers })
        yield* store(["KPA", "2020-01-09"], ["KPA", "2020-01-10"])
        yield* waitUntilOldDataExpires
        const first = yield* ask()
        for (let count = 0; count < 4; count += 1) {
          const again = yield* ask()
          assert.strictEqual(again.text, first.text)
          assert.strictEqual(again.headers["x-lineage"], "KPA")
        }
        const condition = { "If-None-Match": first.headers["etag"] ?? "" }
        for (let count = 0; count < 3; count += 1) {
          const { headers, status } = yield* ask(condition)
          assert.strictEqual(status, 304)
          assert.strictEqual(headers["x-lineage"], "KPA")
        }
        yield* change("KPA", "KPB", "2020-01-10")
        yield* waitUntilOldDataExpires
        const { headers, status, text } = yield* ask(condition)
        assert.strictEqual(status, 200)
        assert.strictEqual(headers["x-lineage"], "KPA..2020-01-10, KPB;outside=1")
        assert.deepStrictEqual(summarize(JSON.parse(text)), ["KPA 2020-01-09 KPB"])
      }).pipe(Effect.scoped))
  },
)

const cachingService = CustomerUsage.serviceWithSettings({ CACHE_MEGABYTES: "16" }).pipe(
  Layer.provideMerge(StatementRecorder.layer),
)

/** Waits until the service has noticed a new change of the symbol (D17). */
const waitForChange = (ticker: string) =>
  Effect.repeat(requestJson(`/v1/ticker-changes?ticker=${ticker}`), {
    until: ({ body }) => valueAt(body, "count") !== 0,
    schedule: Schedule.spaced("20 millis"),
  })

layer(cachingService, { excludeTestServices: true })("A company with thirteen symbols", (it) => {
  it.effect("is resolved once, and each page takes one statement, or two if it has no rows (§8, D35)", () =>
    Effect.gen(function* () {
      const symbols = Array.from({ length: 13 }, (_, index) => `ST${String.fromCharCode(65 + index)}`)
      const [first = "", ...later] = symbols
      for (const [index, symbol] of later.entries()) {
        yield* change(symbols[index] ?? "", symbol, `20${10 + index}-01-10`)
      }
      yield* store([first, "2010-01-09"], [first, "2010-01-10"])
      yield* waitForChange("STM")
      const countStatements = (query: string) =>
        Effect.map(StatementRecorder.recordStatements(follow(query)), ({ result, sent }) => {
          assert.include(result.headers["x-lineage"], "STM;outside=1")
          const count = (table: string) => sent.filter(({ text }) => text.includes(table)).length
          return { pages: count("premarket_stats"), resolutions: count("ticker_changes") }
        })
      const counts = yield* Effect.forEach(symbols, (symbol) => countStatements(`ticker=${symbol}`))
      assert.deepStrictEqual(counts.map(({ pages }) => pages), symbols.map(() => 1))
      // If the service notices the stored changes between two pages, it resolves the company again.
      assert.isAtMost(counts.filter(({ resolutions }) => resolutions > 0).length, 3)
      assert.strictEqual((yield* countStatements(`ticker=${first}&date_from=2010-01-10`)).pages, 2)
    }))
})

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

layer(Layer.fresh(cachingService), { excludeTestServices: true })("A component of 5,000 events", (it) => {
  it.effect("is resolved and listed once, for any number of its symbols; counts tell what is left out (D20, D21)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, company_name, status)
        select 'HUGE' || n, 'HUGE' || n + 1, date '1990-01-01' + n, lpad((n % 150)::text, 10, '0'), '', 'confirmed'
        from generate_series(0, 4999) as n
      `
      yield* change("HUGF0", "HUGF1", "2020-01-10", "0000000007")
      yield* change("HUGF1", "HUGF2", "2021-01-10", "0000000008")
      yield* waitForChange("HUGF2")
      const tickers = ["HUGF1", ...Array.from({ length: 99 }, (_, index) => `HUGE${index * 50}`)]
      const parameters = `ticker=${tickers.join(",")}&follow_lineage=true`
      for (const target of [`/v1/premarket-stats?${parameters}`, `/v1/news?${parameters}`]) {
        const { result, sent } = yield* StatementRecorder.recordStatements(requestJson(target))
        assert.strictEqual(result.status, 409, result.text.slice(0, 1000))
        assert.isBelow(result.text.length, 150_000)
        assert.isAtMost(sent.filter(({ text }) => text.includes("recursive symbols")).length, 1)
        const error = valueAt(result.body, "error")
        assert.isBelow(String(valueAt(error, "message")).length, 5000)
        assert.strictEqual(valueAt(error, "details", "query_ticker"), "HUGF1")
        const symbols = listOf(valueAt(error, "details", "symbols"))
        assert.deepStrictEqual(symbols.map((symbol) => valueAt(symbol, "query_ticker")), tickers)
        const [other, first, ...rest] = symbols
        assert.strictEqual(valueAt(other, "candidate_count"), 2)
        const lengths = (symbol: unknown) =>
          ["tickers", "candidates", "events"].map((name) => listOf(valueAt(symbol, name)).length)
        assert.deepStrictEqual(lengths(first), [100, 0, 100])
        for (const symbol of [first, ...rest]) {
          assert.strictEqual(valueAt(symbol, "reason"), "multiple_cik_lineages")
          assert.deepStrictEqual([valueAt(symbol, "ticker_count"), valueAt(symbol, "event_count")], [5001, 5000])
        }
        for (const symbol of rest) {
          assert.strictEqual(valueAt(symbol, "same_history_as"), "HUGE0")
          assert.deepStrictEqual(lengths(symbol), [0, 0, 0])
        }
      }
    }))

  it.effect("lists at most 500 events of all components together, and counts the others (D21)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        select 'M' || company || 'X' || n, 'M' || company || 'X' || n + 1, date '2010-01-01' + n, 'confirmed'
        from generate_series(1, 50) as company, generate_series(0, 19) as n
      `
      const tickers = Array.from({ length: 50 }, (_, index) => `M${index + 1}X0`)
      yield* waitForChange("M50X0")
      const { body, status } = yield* follow(`ticker=${tickers.join(",")}`)
      assert.strictEqual(status, 409)
      const symbols = listOf(valueAt(body, "error", "details", "symbols"))
      assert.strictEqual(symbols.length, tickers.length)
      assert.deepStrictEqual(
        symbols.map((symbol) => listOf(valueAt(symbol, "events")).length),
        symbols.map((_, index) => index < 25 ? 20 : 0),
      )
      for (const symbol of symbols) {
        assert.strictEqual(valueAt(symbol, "event_count"), 20)
        assert.isUndefined(valueAt(symbol, "same_history_as"))
      }
    }))
})

/** Midnights in Chicago on days next to clock changes. In New York, these dates began an hour earlier. */
const midnights = [["2026-11-01T05:00:00Z", "2026-11-01"], ["2027-03-15T05:00:00Z", "2027-03-15"]] as const

midnights.forEach(([instant, day]) =>
  layer(Service.layerAt(Date.parse(instant) - 10_000))(`follow_lineage at ${instant}`, (it) => {
    it.effect("follows a change from its effective day in US Central time (D19, D35)", () =>
      Effect.gen(function* () {
        yield* change("MDA", "MDB", day)
        yield* TestClock.setTime(Date.parse(instant) - 1)
        assert.strictEqual((yield* follow("ticker=MDA")).headers["x-lineage"], "MDA")
        yield* TestClock.setTime(Date.parse(instant))
        assert.strictEqual((yield* follow("ticker=MDA")).headers["x-lineage"], `MDA..${day}, MDB`)
      }))
  })
)
