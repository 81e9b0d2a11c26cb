/**
 * Tests that the in-memory ticker changes yield the same lineages as the SQL statement that reads them (D19 to D21;
 * decision 0141).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { makeTickerChangeReader } from "../../../src/query/lineage/LineageIndex.ts"
import { makeLineageEventReader, maxLineageEvents } from "../../../src/query/lineage/LineageEvents.ts"
import { resolveLineageOfEvents, type TickerChangeEvent } from "../../../src/query/lineage/LineageRules.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { skipHistory } from "../../support/GeneratedRows.ts"
import * as HeldTransactions from "../../support/HeldTransactions.ts"
import { type Choices, makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { insertRows, requestJson, valueAt } = Service

const today = "2024-06-01"

/** Days before, on and after `today`, the day as of which lineages are resolved. */
const days: Choices<string> = [
  "1900-01-01",
  "1999-12-31",
  "2024-02-29",
  "2024-05-31",
  today,
  "2024-06-02",
  "2199-12-31",
]
const statuses: Choices<string> = [
  "confirmed",
  "confirmed",
  "confirmed",
  "estimated",
  "backfill",
  "reverted",
  "blocked",
]
const ciks: Choices<string | null> = [null, "0000000000", "0000320193", "9999999999"]
const names: Choices<string | null> = [null, "", 'Möller & Söhne "AG"', "Tab\tand\nline", "名前", "a".repeat(300)]

/** Creates random changes between a few symbols, which produces chains, cycles, forks and conflicts. */
const makeRows = (seed: number) => {
  const choose = makeRandomChooser(seed)
  const count = choose([1, 2, 3, 8, 30, 120])
  const prefix = choose(["", "A.-^", "LONGEST-SYMBOLS"])
  const numbers = Array.from({ length: choose([2, 3, 6, 13, 26]) }, (_, number) => number)
  const chooseSymbol = () => {
    const letter = String.fromCharCode(65 + choose([0, ...numbers]))
    return prefix + letter
  }
  const rows = new Map<string, TickerChangeEvent & { readonly status: string }>()
  for (let number = 0; number < count; number++) {
    const [old_ticker, new_ticker] = choose([true, false]) && number < 25
      ? [`${prefix}${String.fromCharCode(65 + number)}`, `${prefix}${String.fromCharCode(66 + number)}`]
      : [chooseSymbol(), chooseSymbol()]
    const row = {
      old_ticker,
      new_ticker,
      effective_date: choose([`${2000 + number % 24}-01-15`, choose(days)]),
      cik: choose(ciks),
      company_name: choose(names),
      status: choose(statuses),
    }
    if (old_ticker !== new_ticker) rows.set([old_ticker, new_ticker, row.effective_date, row.cik].join(), row)
  }
  return Array.from(rows.values())
}

/** Returns the events as strings, sorted so that the order in which they were read does not matter. */
const sort = (events: ReadonlyArray<TickerChangeEvent>) => events.map((event) => JSON.stringify(event)).toSorted()

/** Returns a function that reads a symbol's component from the primary with the SQL statement. */
const makeEventReader = Effect.gen(function* () {
  const { read } = yield* DatabaseReader
  const readEvents = yield* makeLineageEventReader
  return ({ ticker, today }: { readonly ticker: string; readonly today: string }) =>
    readEvents({ tickers: [ticker], today }, (statement) => read(statement, { partition: "lineage", from: "primary" }))
})

const database = Layer.provideMerge(DatabaseReader.layer, ServiceInstances.databaseWithKeysLayer)

/** More memory than any test needs. */
const maxBytes = 64 * 1_048_576

layer(database, { excludeTestServices: true })("Ticker changes in memory", (it) => {
  it.effect("form the same components and lineages as those that the statement reads (D19, D20, D21)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const readChanges = yield* makeTickerChangeReader(maxBytes)
      const readEvents = yield* makeEventReader
      for (let seed = 1; seed <= getInputCount(200); seed++) {
        const rows = makeRows(seed)
        yield* sql`delete from ticker_changes`
        yield* insertRows("ticker_changes", ...rows.map((row) => ({ ...row })))
        const changes = yield* readChanges
        assert.isDefined(changes)
        assert.strictEqual(changes.size, rows.filter(({ status }) => status === "confirmed").length)
        const tickers = new Set(rows.flatMap(({ new_ticker, old_ticker }) => [old_ticker, new_ticker]))
        for (const ticker of [...tickers, "NONE", "A", "LONGEST-SYMBOLS", "LONGEST-SYMBOLSAA"]) {
          for (const date of [today, "2012-01-01", "2024-06-02", "9999-12-31"]) {
            const expected = yield* readEvents({ ticker, today: date })
            const found = changes.findComponent(ticker, date, maxLineageEvents)
            assert.deepStrictEqual(sort(found), sort(expected), `seed ${seed}, ${ticker} on ${date}`)
            assert.deepStrictEqual(resolveLineageOfEvents(found), resolveLineageOfEvents(expected))
          }
        }
      }
      yield* sql`delete from ticker_changes`
    }))

  it.effect("stop at the same number of events of a component (decision 0006)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      yield* skipHistory(
        "ticker_changes",
        sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        select 'HUB', 'S' || n, '2020-01-01', 'confirmed' from generate_series(1, ${maxLineageEvents}::int + 100) as n
      `,
      )
      const changes = yield* yield* makeTickerChangeReader(maxBytes)
      const readEvents = yield* makeEventReader
      for (const ticker of ["HUB", "S7"]) {
        assert.lengthOf(changes?.findComponent(ticker, today, maxLineageEvents) ?? [], maxLineageEvents)
        assert.lengthOf(yield* readEvents({ ticker, today }), maxLineageEvents)
      }
      assert.lengthOf(changes?.findComponent("HUB", "2019-12-31", maxLineageEvents) ?? [], 0)
      yield* sql`delete from ticker_changes`
    }))

  it.effect("are not kept if they need more memory than allowed (SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // With company names this long, 200 changes need about 400 KB.
      const company_name = "n".repeat(2_000)
      yield* insertRows(
        "ticker_changes",
        ...Array.from({ length: 200 }, (_, number) => ({
          old_ticker: `A${number}`,
          new_ticker: `B${number}`,
          effective_date: "2020-01-01",
          status: "confirmed",
          company_name,
        })),
      )
      assert.isDefined(yield* yield* makeTickerChangeReader(1_000_000))
      assert.isUndefined(yield* yield* makeTickerChangeReader(300_000), "too long names")
      assert.isUndefined(yield* yield* makeTickerChangeReader(10_000), "too many changes")
      yield* sql`truncate ticker_changes`
      assert.isUndefined(yield* yield* makeTickerChangeReader(1), "none, with CACHE_MEGABYTES=0")
      yield* sql`delete from ticker_changes`
    }))
})

/** Provides a service whose caches have the given total size in megabytes. */
const makeService = (megabytes: number) =>
  CustomerUsage.serviceWithSettings({ CACHE_MEGABYTES: String(megabytes) }).pipe(
    Layer.provideMerge(StatementRecorder.layer),
  )

/** Stores a confirmed ticker change. */
const insertChange = (old_ticker: string, new_ticker: string, effective_date: string, more: object = {}) =>
  insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, status: "confirmed", ...more })

/** The number of symbols that `isInMemory` has requested so far. */
let requestedSymbols = 0

/**
 * Returns whether the service resolves a symbol that has not been requested before without reading `ticker_changes`.
 */
const isInMemory = Effect.suspend(() =>
  Effect.map(
    StatementRecorder.recordStatements(requestJson(`/v1/ticker-changes?ticker=N${requestedSymbols++}`)),
    ({ sent }) => !sent.some(({ text }) => text.includes("ticker_changes")),
  )
)

const repeatUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const requestLineage = (query: string) =>
  Effect.map(requestJson(`/v1/ticker-changes?${query}`), ({ body, status }) => ({ body, status }))

/** Waits until the service reports `successor` as the current symbol and has the ticker changes in memory again. */
const waitForSuccessor = (ticker: string, successor: string) =>
  Effect.andThen(
    repeatUntil(
      Effect.map(
        requestLineage(`ticker=${ticker}`),
        ({ body }) => valueAt(body, "results", 0, "current_ticker") === successor,
      ),
    ),
    repeatUntil(isInMemory),
  )

layer(makeService(16), { excludeTestServices: true })("A service whose ticker changes fit into memory", (it) => {
  it.effect("serves all requests for lineages while another program locks the table (§8, decision 0141)", () =>
    Effect.gen(function* () {
      yield* insertChange("LKA", "LKB", "2020-01-10", { cik: "0000000001" })
      yield* insertChange("LKB", "LKC", "2021-01-10", { cik: "0000000001" })
      yield* insertChange("LKX", "LKY", "2020-01-10", { cik: "0000000002" })
      yield* insertChange("LKX", "LKZ", "2021-01-10", { cik: "0000000003" })
      yield* waitForSuccessor("LKA", "LKC")
      const { commit } = yield* HeldTransactions.beginTransaction(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`lock table ticker_changes in access exclusive mode`),
      )
      const { result, sent } = yield* StatementRecorder.recordStatements(Effect.all({
        chain: requestLineage("ticker=LKB"),
        unchanged: requestLineage("ticker=NEVER"),
        ambiguous: requestLineage("ticker=LKX"),
        selected: requestLineage("ticker=LKX&cik=0000000003"),
        unknown: requestLineage("ticker=LKX&cik=0000000009"),
        historical: requestJson("/v1/historical-tickers?ticker=LKC"),
        followed: requestJson("/v1/premarket-stats?ticker=LKB&follow_lineage=true"),
      }))
      yield* commit
      assert.deepStrictEqual(sent.filter(({ text }) => text.includes("ticker_changes")), [])
      assert.strictEqual(valueAt(result.chain.body, "count"), 2)
      assert.isFalse(valueAt(result.unchanged.body, "results", 0, "has_changes"))
      assert.strictEqual(result.ambiguous.status, 409)
      assert.strictEqual(valueAt(result.ambiguous.body, "error", "details", "candidate_count"), 2)
      assert.strictEqual(valueAt(result.selected.body, "results", 0, "current_ticker"), "LKZ")
      assert.strictEqual(result.unknown.status, 422)
      assert.deepStrictEqual(valueAt(result.historical.body, "historical_tickers"), [
        { ticker: "LKA", date: "2020-01-10" },
        { ticker: "LKB", date: "2021-01-10" },
      ])
      assert.strictEqual(result.followed.headers["x-lineage"], "LKA..2020-01-10, LKB..2021-01-10, LKC")
    }).pipe(Effect.scoped))

  it.effect("notices every change of the table, and reads the past from the table (D17, decision 0141)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insertChange("CHA", "CHB", "2020-01-10")
      yield* waitForSuccessor("CHA", "CHB")
      const before = yield* Service.readDatabaseClock
      yield* insertChange("CHB", "CHC", "2021-01-10")
      yield* waitForSuccessor("CHA", "CHC")
      yield* sql`update ticker_changes set status = 'reverted' where old_ticker = 'CHB'`
      yield* waitForSuccessor("CHA", "CHB")
      const past = `as_of=${encodeURIComponent(before)}`
      yield* insertChange("CHB", "CHD", "2022-01-10")
      yield* waitForSuccessor("CHA", "CHD")
      const { body } = yield* requestLineage(`ticker=CHA&${past}`)
      assert.strictEqual(valueAt(body, "results", 0, "current_ticker"), "CHB")
    }))
})

layer(makeService(1), { excludeTestServices: true })(
  "A service with more ticker changes than fit into memory",
  (it) => {
    it.effect("reads each lineage with a statement (decision 0141)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* repeatUntil(isInMemory)
        yield* skipHistory(
          "ticker_changes",
          sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        select 'A' || n, 'B' || n, '2020-01-01', 'confirmed' from generate_series(1, 5000) as n
      `,
        )
        yield* repeatUntil(Effect.map(isInMemory, (inMemory) => !inMemory))
        const { result } = yield* StatementRecorder.recordStatements(requestLineage("ticker=A7"))
        assert.strictEqual(valueAt(result.body, "results", 0, "current_ticker"), "B7")
        assert.isFalse(yield* isInMemory)
      }))
  },
)
