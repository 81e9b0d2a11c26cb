/** Tests the first start with an embedded database, and the service with the sample data that this start loads. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import {
  ConfigProvider,
  Console,
  Context,
  Deferred,
  Effect,
  Fiber,
  FileSystem,
  Layer,
  Logger,
  Option,
  Ref,
  Schedule,
} from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { fileURLToPath } from "node:url"
import { formatLoadLockName } from "../../../src/ingest/load/LoadingTable.ts"
import { createApiKey } from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { createDemoKey, revokeDemoKey, withDemoKeyRevocation } from "../../../src/operate/cli/DemoKey.ts"
import * as FirstStart from "../../../src/operate/cli/FirstStart.ts"
import { EmbeddedHomeDirectory } from "../../../src/postgres/ConnectionLayers.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { findDatasetFiles } from "../../../src/ingest/load/FolderScan.ts"
import { loadDatasetFile, type LoadTask } from "../../../src/ingest/load/DatasetLoad.ts"
import * as Logging from "../../../src/operate/cli/Logging.ts"
import { withProgressDisplay } from "../../../src/operate/cli/terminal/ProgressDisplay.ts"
import { startProgram } from "../../support/Processes.ts"
import { sampleCompanies } from "../../support/SampleMarket.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const { requestJson, valueAt } = Service

/** Provides an empty, migrated database. */
const FreshLayer = Layer.mergeAll(
  Service.migratedDatabaseLayer,
  NodeServices.layer,
  NodeCrypto.layer,
  Logger.layer([]),
)

const file = (path: string) =>
  Effect.flatMap(
    FileSystem.FileSystem,
    (fs) => fs.readFileString(fileURLToPath(new URL(`../../../samples/${path}`, import.meta.url))),
  )

/** Reads the first column of the table below a heading in samples/README.md. */
const readDocumented = Effect.fnUntraced(function* (heading: string) {
  const [, rest = ""] = (yield* file("README.md")).split(heading)
  const table = rest.trimStart().split(/\n\n(?!\|)/).find((part) => part.includes("|")) ?? ""
  return Array.from(table.matchAll(/^\| `([^`]+)` \|/gm), ([, symbol]) => symbol ?? "")
})

const formatLinks = (history: unknown) =>
  Array.isArray(history)
    ? history.map((link) =>
      `${valueAt(link, "old_ticker")} ${valueAt(link, "new_ticker")} ${valueAt(link, "effective_date")}`
    )
    : []

interface Chain {
  readonly current: string | null
  readonly history: ReadonlyArray<string>
}

const twelve = [
  "DZ0 DZ1 2012-02-06",
  "DZ1 DZ2 2013-03-04",
  "DZ2 DZ3 2014-05-12",
  "DZ3 DZ4 2015-06-08",
  "DZ4 DZ5 2016-09-12",
  "DZ5 DZ6 2017-01-09",
  "DZ6 DZ7 2018-04-16",
  "DZ7 DZ8 2019-08-05",
  "DZ8 DZ9 2020-10-19",
  "DZ9 DZ10 2021-11-08",
  "DZ10 DZ11 2022-12-05",
  "DZ11 DZ12 2023-10-02",
]

const chains: Readonly<Record<string, Chain>> = {
  SQ: { current: "XYZ", history: ["SQ XYZ 2025-01-21"] },
  OSTK: { current: "NXH", history: ["OSTK BYON 2023-11-06", "BYON BBBY 2025-08-29", "BBBY NXH 2026-08-17"] },
  DZ5: { current: "DZ12", history: twelve },
  BMR1: { current: "BMR1", history: ["BMR1 BMR2 2019-05-06", "BMR2 BMR1 2022-08-15"] },
  STS2: { current: "STS2", history: ["STS1 STS2 2023-01-17"] },
  FTR2: { current: "FTR2", history: ["FTR1 FTR2 2025-05-05"] },
  GPS: { current: null, history: [] },
}

interface RefusedSymbol {
  readonly reasons: ReadonlyArray<string>
  readonly tickers: ReadonlyArray<string>
  /** The CIK and current symbol of each candidate. */
  readonly candidates: ReadonlyArray<readonly [string, string]>
}

const refusedSymbols: Readonly<Record<string, RefusedSymbol>> = {
  META: {
    reasons: ["multiple_cik_lineages", "broken_chain"],
    tickers: ["FB", "META", "METV"],
    candidates: [["0001683471", "METV"], ["0001326801", "META"]],
  },
  FI: {
    reasons: ["multiple_cik_lineages", "competing_destinations", "broken_chain"],
    tickers: ["FI", "FISV", "XPRO"],
    candidates: [["0001575828", "XPRO"], ["0000798354", "FISV"]],
  },
  HND2: {
    reasons: ["multiple_cik_lineages"],
    tickers: ["HND1", "HND2", "HND3"],
    candidates: [["9990000009", "HND2"], ["9990000010", "HND3"]],
  },
  GOOG: {
    reasons: ["same_date_events"],
    tickers: ["GOOCV", "GOOG", "GOOGL"],
    candidates: [],
  },
}

layer(Service.sampleServiceLayer, { excludeTestServices: true })("The service with sample data", (it) => {
  it.effect("loads at most 200 real symbol changes, and the documented numbers of rows (samples/README.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [counted] = yield* sql`
        select count(*) filter (where source <> 'made up')::int as real,
          count(*) filter (where source = 'made up')::int as made_up,
          count(*) filter (where source <> 'made up' and status = 'confirmed')::int as confirmed,
          count(*) filter (where source <> 'made up' and status = 'estimated')::int as estimated,
          (select count(*) from historical_tickers)::int as names,
          (select count(*) from intraday_runners)::int as sessions,
          (select count(*) from screener)::int as companies
        from ticker_changes
      `
      assert.deepStrictEqual(counted, {
        real: 193,
        made_up: 78,
        confirmed: 174,
        estimated: 19,
        names: 13,
        sessions: 421,
        companies: sampleCompanies,
      })
      assert.isAtMost(Number(valueAt(counted, "real")), 200)
    }))

  it.effect("marks all fictional rows as fictional (samples/README.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const symbols = (made: string) =>
        `(select old_ticker as symbol from ticker_changes where source ${made} 'made up'
          union select new_ticker from ticker_changes where source ${made} 'made up')`
      const fictional = `(select symbol from ${symbols("=")} as s union select ticker from historical_tickers
        union select former_ticker from historical_tickers union select ticker from intraday_runners)`
      const shared = yield* sql.unsafe(
        `select symbol from ${fictional} as f intersect select symbol from ${symbols("<>")} as r`,
      )
      assert.deepStrictEqual(shared, [])
      assert.deepStrictEqual(yield* sql.unsafe(`select symbol from ${fictional} as f where symbol !~ '[0-9]'`), [])
      assert.deepStrictEqual(
        yield* sql`
          select old_ticker from ticker_changes
          where source = 'made up' and (cik !~ '^(9990|0999)' or company_name not like '% (fictional)')
            or source <> 'made up' and (cik ~ '^(9990|0999)' or company_name like '%fictional%')
        `,
        [],
      )
      // Every symbol change must have a source.
      assert.deepStrictEqual(yield* sql`select old_ticker from ticker_changes where source is null`, [])
    }))

  it.effect("returns the documented response for every documented symbol (samples/README.md)", () =>
    Effect.gen(function* () {
      const named = yield* readDocumented("`/v1/ticker-changes?ticker=…`")
      assertFoundMoreThan(14, "documented symbols", named)
      for (const symbol of named) {
        const { body, status } = yield* requestJson(`/v1/ticker-changes?ticker=${symbol}`)
        const line = (yield* file("README.md")).split("\n").find((text) => text.startsWith(`| \`${symbol}\` |`)) ?? ""
        assert.strictEqual(status, line.includes("(200") ? 200 : 409, `${symbol}: ${JSON.stringify(body)}`)
        const reason = [
          "multiple_cik_lineages",
          "same_date_events",
          "competing_destinations",
          "broken_chain",
          "max_hops_exceeded",
        ]
          .find((word) => line.includes(`\`${word}\``))
        if (reason !== undefined) assert.strictEqual(valueAt(body, "error", "details", "reason"), reason, symbol)
      }
    }))

  it.effect.each(Object.entries(chains).map(([symbol, chain]) => ({ symbol, ...chain })))(
    "resolves $symbol to one complete chain (§2.2)",
    ({ current, history, symbol }) =>
      Effect.gen(function* () {
        const { body, status } = yield* requestJson(`/v1/ticker-changes?ticker=${symbol}`)
        assert.strictEqual(status, 200)
        assert.strictEqual(valueAt(body, "count"), history.length)
        assert.strictEqual(valueAt(body, "results", 0, "query_ticker"), symbol)
        assert.strictEqual(valueAt(body, "results", 0, "has_changes"), history.length > 0)
        assert.strictEqual(valueAt(body, "results", 0, "current_ticker"), current)
        assert.deepStrictEqual(formatLinks(valueAt(body, "results", 0, "history")), history)
      }),
  )

  it.effect("resolves every symbol of a chain to the same chain (§2.2)", () =>
    Effect.gen(function* () {
      for (const symbols of [["OSTK", "BYON", "BBBY", "NXH"], twelve.flatMap((link) => link.split(" ").slice(0, 2))]) {
        const responses = yield* Effect.forEach(symbols, (symbol) =>
          Effect.map(requestJson(`/v1/ticker-changes?ticker=${symbol}`), ({ body }) =>
            JSON.stringify([
              valueAt(body, "count"),
              valueAt(body, "results", 0, "current_ticker"),
              valueAt(body, "results", 0, "history"),
            ])))
        assert.strictEqual(new Set(responses).size, 1)
      }
    }))

  it.effect.each(Object.entries(refusedSymbols).map(([symbol, refused]) => ({ symbol, ...refused })))(
    "refuses $symbol with its reasons, symbols and candidates (D21)",
    ({ candidates, reasons, symbol, tickers }) =>
      Effect.gen(function* () {
        const { body, status } = yield* requestJson(`/v1/ticker-changes?ticker=${symbol}`)
        assert.strictEqual(status, 409)
        const details = valueAt(body, "error", "details")
        assert.strictEqual(valueAt(body, "error", "code"), "ambiguous_ticker_lineage")
        assert.deepStrictEqual(valueAt(details, "reasons"), reasons)
        assert.strictEqual(valueAt(details, "reason"), reasons[0])
        assert.deepStrictEqual(valueAt(details, "tickers"), tickers)
        const found = valueAt(details, "candidates")
        assert.deepStrictEqual(
          Array.isArray(found)
            ? found.map((candidate) => [valueAt(candidate, "cik"), valueAt(candidate, "current_ticker")])
            : found,
          candidates.map((candidate) => Array.from(candidate)),
        )
      }),
  )

  it.effect("refuses the ambiguous symbols SPWR, MEGX, FNGU, BD0 and KNT0, each with its reason (D21)", () =>
    Effect.gen(function* () {
      const details = (symbol: string) =>
        Effect.map(requestJson(`/v1/ticker-changes?ticker=${symbol}`), ({ body }) => valueAt(body, "error", "details"))
      const spwr = yield* details("SPWR")
      assert.strictEqual(valueAt(spwr, "reason"), "multiple_cik_lineages")
      assert.deepStrictEqual(valueAt(spwr, "candidates"), [])
      assert.strictEqual(valueAt(yield* details("MEGX"), "reason"), "competing_destinations")
      assert.deepStrictEqual(valueAt(yield* details("FNGU"), "reasons"), ["broken_chain"])
      assert.deepStrictEqual(valueAt(yield* details("BD0"), "reasons"), ["max_hops_exceeded"])
      const conflictReasons = valueAt(yield* details("KNT0"), "reasons")
      assert.strictEqual(Array.isArray(conflictReasons) ? conflictReasons.length : 0, 4)
    }))

  it.effect("resolves BNT to a chain of its two confirmed changes, without the three estimated ones (D19)", () =>
    Effect.gen(function* () {
      const { body } = yield* requestJson("/v1/ticker-changes?ticker=BNT")
      const history = formatLinks(valueAt(body, "results", 0, "history"))
      assert.strictEqual(history.length, 2)
      assert.strictEqual(valueAt(body, "results", 0, "current_ticker"), "BNT")
      assert.strictEqual(history[1], "BNRE BNT 2024-09-06")
    }))

  it.effect("ignores a symbol change in 2099, no matter which of its symbols is requested (D19)", () =>
    Effect.gen(function* () {
      const former = yield* requestJson("/v1/ticker-changes?ticker=FTR1")
      assert.deepStrictEqual(formatLinks(valueAt(former.body, "results", 0, "history")), ["FTR1 FTR2 2025-05-05"])
      for (const symbol of ["FTR3", "FTR8", "FTR9"]) {
        const { body, status } = yield* requestJson(`/v1/ticker-changes?ticker=${symbol}`)
        assert.strictEqual(status, 200)
        assert.isFalse(valueAt(body, "results", 0, "has_changes"))
      }
    }))

  it.effect("returns exactly the documented former names (D23)", () =>
    Effect.gen(function* () {
      const names: Readonly<Record<string, ReadonlyArray<{ readonly ticker: string; readonly date: string | null }>>> =
        {
          ZYX2: [{ ticker: "ZYX0", date: "2021-03-01" }, { ticker: "ZYX1", date: "2024-07-15" }, {
            ticker: "RB07",
            date: null,
          }],
          HST1: [{ ticker: "HSL9", date: "2003-05-12" }, { ticker: "H0ST", date: null }, {
            ticker: "HST0",
            date: null,
          }],
          QVL2: [{ ticker: "QVL1", date: null }],
        }
      assert.deepStrictEqual(
        yield* readDocumented("`/v1/historical-tickers?ticker=…` (all made up)"),
        Object.keys(names),
      )
      for (const [symbol, historical_tickers] of Object.entries(names)) {
        const { body } = yield* requestJson(`/v1/historical-tickers?ticker=${symbol}`)
        assert.deepStrictEqual(body, { count: historical_tickers.length, historical_tickers })
      }
    }))

  it.effect("returns rows for every documented request (samples/README.md)", () =>
    Effect.gen(function* () {
      const requests = yield* readDocumented("The made-up market (2024-11-13 to 2026-11-13)")
      assertFoundMoreThan(15, "documented requests", requests)
      const shown = (yield* file("README.md")).match(/^\| `\/v1\//gm)
      assert.strictEqual(requests.length, shown?.length, "the table has every row that begins with a request")
      for (const request of requests) {
        const { body, status } = yield* requestJson(request)
        assert.strictEqual(status, 200, request)
        assert.isAbove(Number(valueAt(body, "count")), 0, request)
      }
    }))

  it.effect("matches the documented examples (§2.5, §2.6, §2.7)", () =>
    Effect.gen(function* () {
      const first = Effect.fnUntraced(function* (request: string, ...path: ReadonlyArray<string>) {
        return valueAt((yield* requestJson(request)).body, "results", 0, ...path)
      })
      assert.strictEqual(yield* first("/v1/gap-stats?ticker=GAP7&date=2025-01-30", "gap_percentage"), 84.9673)
      assert.strictEqual(yield* first("/v1/ticker-changes?ticker=GAP7", "current_ticker"), "GPW8")
      assert.strictEqual(yield* first("/v1/pump-and-dump-tracker?ticker=PMP1", "lock_up_expiration"), "2027-03-23")
      assert.strictEqual(yield* first("/v1/float-outstanding?ticker=BIG1", "affiliate_percent"), 0)
      assert.isUndefined(valueAt((yield* requestJson("/v1/float-outstanding?ticker=BIG1")).body, "message"))
      assert.isString(valueAt((yield* requestJson("/v1/float-outstanding?ticker=QT01")).body, "message"))
      const { body } = yield* requestJson("/v1/ownership?ticker=QT01")
      assert.deepStrictEqual(valueAt(body, "results"), [])
    }))
})

const folder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" }),
)

/** Counts the rows in each table. */
const rowCounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(
    loadableDatasets,
    ({ table }) =>
      Effect.map(
        sql`select count(*)::int as rows from ${sql(table)}`,
        ([row]) => [table, valueAt(row, "rows")] as const,
      ),
  )
})

/** Begins a first start and waits ten seconds. Returns its standard error lines, and an effect that completes it. */
const startSlowly = Effect.fnUntraced(function* (home: string, LOG_FORMAT: string) {
  // A load rejects dates later than tomorrow, so the test clock must show the real date.
  yield* TestClock.setTime(Date.now())
  const sql = yield* SqlClient.SqlClient
  const lines: Array<string> = []
  const output = { ...(yield* Console.Console), error: (line: unknown) => void lines.push(String(line)) }
  const config = ConfigProvider.layer(ConfigProvider.fromUnknown({ LOG_FORMAT }))
  const starting = withProgressDisplay(FirstStart.prepareFirstStart(home)).pipe(
    Effect.provide(Layer.provide(Logging.stderrLoggingLayer, config)),
    Effect.provideService(Console.Console, output),
  )
  const waiting = sql`
    select 1 from pg_locks join pg_database on pg_database.oid = database
    where locktype = 'advisory' and not granted and datname = current_database()
  `
  const [held, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const holding = Effect.andThen(
    sql`select pg_advisory_xact_lock(hashtext(${formatLoadLockName("news")}))`,
    Effect.andThen(Deferred.succeed(held, undefined), Deferred.await(released)),
  )
  yield* Effect.forkScoped(sql.withTransaction(holding))
  yield* Deferred.await(held)
  const started = yield* Effect.forkScoped(starting)
  yield* Effect.repeat(waiting, { until: (rows) => rows.length > 0 })
  yield* TestClock.adjust("10 seconds")
  return { lines, finish: Effect.andThen(Deferred.succeed(released, undefined), Fiber.join(started)) }
})

/** A script that runs a first start in a separate process. */
const firstStart = `
  import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
  import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
  import * as NodeServices from "@effect/platform-node/NodeServices"
  import { Effect, Layer, Redacted } from "effect"
  import { databaseClientLayer } from "./src/postgres/pool/PooledClient.ts"
  import { prepareFirstStart } from "./src/operate/cli/FirstStart.ts"
  const url = Redacted.make(process.env.DATABASE_URL)
  const layer = Layer.mergeAll(databaseClientLayer({ url, applicationName: "first start" }), NodeServices.layer, NodeCrypto.layer)
  NodeRuntime.runMain(Effect.provide(prepareFirstStart(process.env.TICKERLINE_HOME), layer))
`

/** The table with the most rows. Many other tables are loaded before it. */
const longestTable = "daily_prices"

/** Runs a first start in a separate process, and kills the process while it loads the longest table. */
const killFirstStart = Effect.fnUntraced(function* (home: string) {
  const sql = yield* SqlClient.SqlClient
  const { child, ended } = yield* startProgram(
    process.execPath,
    ["--input-type=module", "--eval", firstStart],
    { DATABASE_URL: yield* Service.databaseUrl, TICKERLINE_HOME: home },
  )
  const isLoading = sql`
    select 1 from pg_stat_activity
    where datname = current_database() and application_name = 'first start'
      and query like ${`%${longestTable}%`} and query like '%loading%'
  `
  yield* Effect.repeat(isLoading, {
    until: (rows) => rows.length > 0 || child.exitCode !== null,
    schedule: Schedule.spaced("5 millis"),
  })
  child.kill("SIGKILL")
  assert.isNull((yield* Effect.promise(() => ended)).code, "it ended before it loaded the longest table")
})

/**
 * Provides a slow first start that follows a killed one. All tests below use the resulting database and home folder.
 */
class Started extends Context.Service<Started, {
  readonly home: string
  /** The file that contains the demo key. */
  readonly file: string
  /** The accounts that exist after the killed start. */
  readonly accounts: ReadonlyArray<unknown>
  /** The standard error lines with LOG_FORMAT=json. */
  readonly lines: ReadonlyArray<string>
}>()("test/operate/cli/Started") {
  static readonly layer = Layer.effect(
    Started,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const home = yield* folder
      yield* Effect.scoped(killFirstStart(home))
      const accounts = yield* sql`select 1 from accounts`
      const started = yield* startSlowly(home, "json").pipe(
        Effect.flatMap(({ finish, lines }) =>
          Effect.map(finish, (file) => ({ file: Option.getOrElse(file, () => ""), lines }))
        ),
        Effect.provide(TestClock.layer()),
      )
      return { home, accounts, ...started }
    }),
  ).pipe(Layer.provideMerge(FreshLayer))
}

layer(Started.layer, { excludeTestServices: true })("the first start", (it) => {
  it.effect("starts again after it was killed while loading a table (samples/README.md)", () =>
    Effect.gen(function* () {
      assert.isEmpty((yield* Started).accounts)
      assert.deepStrictEqual(yield* rowCounts, yield* Effect.provide(rowCounts, Service.sampleDatabaseLayer))
    }))

  it.effect("logs the progress of a slow first start as JSON with LOG_FORMAT=json (operations/monitoring)", () =>
    Effect.gen(function* () {
      const messages = (yield* Started).lines.map((line) => valueAt(JSON.parse(line), "message"))
      assert.strictEqual(messages.length, 3)
      assert.strictEqual(messages[0], "Loading sample data. Only the first start does this.")
      assert.match(String(messages[1]), /^sample data: 0:10 so far$/)
      assert.match(String(messages[2]), /^Loaded sample data/)
    }))

  it.effect("prints the progress of a slow first start as plain lines without LOG_FORMAT=json (operations/command-line)", () =>
    Effect.gen(function* () {
      const { lines } = yield* Effect.provide(startSlowly(yield* folder, "pretty"), TestClock.layer())
      assert.match(lines[0] ?? "", /Loading sample data/)
      assert.match(lines[1] ?? "", /^sample data {2}0:10 so far$/)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(FreshLayer))))

  it.effect("writes files from which `load` would load the same rows (samples/README.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { home } = yield* Started
      const { others, tasks } = yield* findDatasetFiles(`${home}/samples`)
      assert.deepStrictEqual([tasks.length, others], [loadableDatasets.length, []])
      // Skips the prices, which account for most of the rows. The first start has already loaded all of these files.
      const shorter = tasks.filter(({ dataset }) => dataset !== longestTable)
      assert.strictEqual(shorter.length, tasks.length - 1)
      const checked = yield* Effect.forEach(shorter, (task) =>
        Effect.map(
          Effect.flatMap(Ref.make(0), (rows) => loadDatasetFile({ ...task, append: false, check: true }, rows)),
          ({ rows, table }) => [table, rows] as const,
        ))
      assert.sameDeepMembers(checked, (yield* rowCounts).filter(([table]) => table !== longestTable))
      // The example request in the README depends on this ticker change.
      const found = yield* sql`select new_ticker from ticker_changes where old_ticker = 'BYON' and status = 'confirmed'`
      assert.deepStrictEqual(found, [{ new_ticker: "BBBY" }])
    }))

  it.effect("keeps data that was loaded before, and creates no demo key beside it (README.md, SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const home = yield* folder
      const own = `${home}/own.csv`
      yield* fs.writeFileString(own, "old_ticker,new_ticker,effective_date,status\nMINE,OURS,2025-01-02,confirmed\n")
      yield* loadDatasetFile({ dataset: "ticker_changes", file: own, append: false }, yield* Ref.make(0))
      assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.none())
      const kept = yield* sql`select new_ticker from ticker_changes where old_ticker = 'MINE'`
      assert.deepStrictEqual(kept, [{ new_ticker: "OURS" }])
      assert.deepStrictEqual(yield* sql`select 1 from accounts union all select 1 from api_keys`, [])
    }).pipe(Effect.provide(Layer.fresh(FreshLayer))))

  it.effect("creates neither sample data nor a demo key if INGEST_EDGAR is set, and revokes an existing one (SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const home = yield* folder
      const start = Effect.provide(
        FirstStart.prepareFirstStart(home),
        ConfigProvider.layer(ConfigProvider.fromUnknown({ INGEST_EDGAR: "daily 22:15 America/New_York" })),
      )
      assert.deepStrictEqual(yield* start, Option.none())
      assert.deepStrictEqual(yield* sql`select 1 from news union all select 1 from accounts`, [])
      yield* createDemoKey(home)
      assert.deepStrictEqual(yield* start, Option.none())
      assert.isFalse(yield* fs.exists(`${home}/demo-key`))
      assert.deepStrictEqual(yield* sql`select revoked_at is null as active from api_keys`, [{ active: false }])
    }).pipe(Effect.provide(Layer.fresh(FreshLayer))))

  it.effect("revokes the demo key even if its file was deleted (SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const home = yield* folder
      yield* createDemoKey(home)
      yield* fs.remove(`${home}/demo-key`)
      const isActive = Effect.map(sql`select 1 from api_keys where revoked_at is null`, ({ length }) => length > 0)
      yield* sql.withTransaction(revokeDemoKey(home))
      assert.isTrue(yield* isActive, "without sample data, the account is the operator's own")
      yield* fs.makeDirectory(`${home}/samples`)
      yield* sql.withTransaction(revokeDemoKey(home))
      assert.isFalse(yield* isActive)
    }).pipe(Effect.provide(Layer.fresh(FreshLayer))))

  // The last two tests modify rows and keys, so they must remain last.
  it.effect("creates a demo key that only its owner can read, once: loading other data than the samples revokes it (README.md, SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const { file, home } = yield* Started
      assert.strictEqual(file, `${home}/demo-key`)
      assert.match(yield* fs.readFileString(file), /^tl_live_[0-9A-Za-z]{38}\n$/)
      assert.strictEqual((yield* fs.stat(file)).mode & 0o777, 0o600)
      yield* sql`delete from historical_tickers`
      assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.some(file))
      // Sample data is loaded only once, so the second start does not restore the deleted rows.
      assert.deepStrictEqual(yield* sql`select 1 from historical_tickers`, [])

      const load = (task: Partial<LoadTask> & Pick<LoadTask, "file">) =>
        Effect.flatMap(Ref.make(0), (rows) =>
          withDemoKeyRevocation(
            loadDatasetFile({ dataset: "historical_tickers", append: false, ...task }, rows),
            task.file,
          )).pipe(Effect.provideService(EmbeddedHomeDirectory, { folder: Option.some(home) }))
      const own = `${yield* folder}/historical_tickers.csv`
      yield* fs.writeFileString(own, "ticker,former_ticker,date\nLATER,SOONER,2020-02-02\n")
      const active = sql`select name from api_keys where revoked_at is null`
      yield* load({ file: `${home}/samples/historical_tickers.csv` })
      yield* load({ file: own, check: true })
      yield* Effect.flip(sql.withTransaction(Effect.andThen(load({ file: own }), Effect.fail("rolled back"))))
      assert.deepStrictEqual(yield* active, [{ name: "demo" }])
      assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.some(file))

      yield* load({ file: own, append: true })
      assert.deepStrictEqual(yield* active, [])
      assert.isFalse(yield* fs.exists(file))
      assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.none())
      // Without the key file, an account named `demo` may belong to the operator, so its keys are not revoked.
      yield* createApiKey({ account: "demo", name: "demo", expires: null, endpoints: null, networks: null })
      yield* load({ file: own, append: true })
      assert.deepStrictEqual(yield* active, [{ name: "demo" }])
    }))

  it.effect("creates no second demo key after the first one stopped working (SECURITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const home = yield* folder
      for (const ended of ["revoked_at", "disabled_at", "expires_at"]) {
        yield* sql`delete from api_keys`
        yield* createDemoKey(home)
        assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.some(`${home}/demo-key`))
        yield* sql`update api_keys set ${sql(ended)} = now()`
        assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.none())
        assert.strictEqual((yield* sql`select 1 from api_keys`).length, 1)
      }
      // The demo account may use all endpoints and is not charged.
      assert.deepStrictEqual(
        yield* sql`select name, tier, balance_microdollars from accounts`,
        [{ name: "demo", tier: "ultimate", balance_microdollars: null }],
      )
    }))
})
