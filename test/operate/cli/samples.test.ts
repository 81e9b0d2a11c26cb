/**
 * Tests the sample market alongside real data: how it is removed, and what an ingest does while it is present
 * (operations/data).
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Logger, Option } from "effect"
import { SqlClient } from "effect/sql"
import { createDemoKey } from "../../../src/operate/cli/DemoKey.ts"
import * as FirstStart from "../../../src/operate/cli/FirstStart.ts"
import { EmbeddedHomeDirectory } from "../../../src/postgres/ConnectionLayers.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { formatLoadLockName } from "../../../src/ingest/load/LoadingTable.ts"
import { ingestBars } from "../../ingest/prices/DayBars.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { beginTransaction, waitUntilSessionsAreBlocked } from "../../support/HeldTransactions.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

/** Runs a test with a separate database that contains the sample market. */
const withSamples = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provide(effect, Layer.fresh(Layer.merge(Service.sampleDatabaseLayer, Logger.layer([]))))

/** The number of ticker changes in the samples that really happened. Removing the samples keeps them. */
const realChanges = 193

/** Counts the rows in each dataset. */
const readCounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const counts = yield* Effect.forEach(
    loadableDatasets,
    ({ table }) =>
      Effect.map(
        sql<{ readonly count: number }>`select count(*)::int as count from ${sql(table)}`,
        ([row]) => [table, row?.count ?? 0] as const,
      ),
  )
  return Object.fromEntries(counts)
})

/** Runs a `tickerline` command in this process. */
const run = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(Service.databaseUrl, (DATABASE_URL) => runCommandInProcess(args, { DATABASE_URL }))

layer(Layer.merge(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("samples remove", (it) => {
  it.effect("removes exactly the fictional rows; changed and added rows and real facts stay (operations/data)", () =>
    withSamples(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readCounts
      yield* sql`update screener set website = 'https://example.com' where ticker = 'BIG1'`
      yield* sql`update daily_prices set close = close + 1 where ticker = 'BIG1'`
      const [own] = yield* sql<{ readonly count: number }>`
        select count(*)::int as count from daily_prices where ticker = 'BIG1'
      `
      yield* sql`insert into historical_tickers (ticker, former_ticker, date) values ('MINE', 'OURS', null)`
      const { code, err, out } = yield* run("samples", "remove")
      assert.strictEqual(code, 0, err)
      const kept: Readonly<Record<string, number>> = {
        screener: 1,
        daily_prices: own?.count ?? 0,
        historical_tickers: 1,
        ticker_changes: realChanges,
      }
      assert.isAbove(kept["daily_prices"] ?? 0, 100)
      assert.deepStrictEqual(
        yield* readCounts,
        Object.fromEntries(loadableDatasets.map(({ table }) => [table, kept[table] ?? 0])),
      )
      assert.deepStrictEqual(yield* sql`select from ticker_changes where source = 'made up'`, [])
      assert.include(out, `news: ${before["news"]} rows removed, 0 kept\n`)
      assert.include(out, `ticker_changes: 78 rows removed, ${realChanges} kept\n`)
      assert.include(out, "historical_tickers: 13 rows removed, 1 kept\n")
      assert.include(out, "screener: 50 rows removed, 1 kept, 1 of them changed since the samples were loaded\n")
      const again = yield* run("samples", "remove")
      assert.include(again.out, "news: 0 rows removed, 0 kept\n")
      assert.include(again.out, "To remove them, too, run: tickerline samples remove --changed\n")
      const last = yield* run("samples", "remove", "--changed")
      assert.notInclude(last.out, "stay")
      assert.deepInclude(yield* readCounts, {
        screener: 0,
        daily_prices: 0,
        historical_tickers: 1,
        ticker_changes: realChanges,
      })
    })))

  it.effect("waits for an ingest of prices that began earlier, without a deadlock (operations/data)", () =>
    withSamples(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const held = yield* beginTransaction(
        sql`select pg_advisory_xact_lock(hashtext(${formatLoadLockName("daily_prices")}))`,
      )
      const ingest = yield* Effect.forkChild(ingestBars(["REAL", "2026-06-01", 10]))
      yield* waitUntilSessionsAreBlocked(1)
      const removal = yield* Effect.forkChild(run("samples", "remove"))
      yield* waitUntilSessionsAreBlocked(2)
      yield* held.commit
      assert.strictEqual((yield* Fiber.join(ingest)).bars, 2)
      const { code, err } = yield* Fiber.join(removal)
      assert.strictEqual(code, 0, err)
      assert.deepInclude(yield* readCounts, { screener: 0, daily_prices: 1 })
    })))

  it.effect("removes nothing if it fails (operations/data)", () =>
    withSamples(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readCounts
      yield* sql`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`
      yield* sql`create trigger refuse before delete on screener execute function refuse()`
      const { code } = yield* run("samples", "remove")
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(yield* readCounts, before)
    })))

  it.effect("removes the rows that are still as they were loaded from the files of the first start, and revokes the demo key (SECURITY.md)", () =>
    withSamples(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-home-" })
      yield* createDemoKey(home)
      yield* fs.makeDirectory(`${home}/samples`)
      yield* fs.writeFileString(`${home}/samples/historical_tickers.csv`, "ticker,former_ticker,date\nQVL2,QVL1,\n")
      const removed = yield* Effect.provideService(FirstStart.removeSampleMarket(false), EmbeddedHomeDirectory, {
        folder: Option.some(home),
      })
      assert.deepStrictEqual(removed, [{ table: "historical_tickers", removed: 1, changed: 0, kept: 12 }])
      assert.isFalse(yield* fs.exists(`${home}/demo-key`))
      assert.deepStrictEqual(yield* sql`select 1 from api_keys where revoked_at is null`, [])
      assert.deepStrictEqual(yield* FirstStart.prepareFirstStart(home), Option.none())
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("ingest edgar into the sample market", (it) => {
  it.effect("is refused without a terminal, unless --yes is given or the samples are removed (operations/ingest-edgar)", () =>
    withSamples(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const stub = yield* Stub.startEdgarStub
      yield* Stub.removeRequestLimit
      Stub.addCompaniesAndFilings(stub)
      const DATABASE_URL = yield* Service.databaseUrl
      const ingest = (...args: ReadonlyArray<string>) =>
        runCommandInProcess(["ingest", "edgar", "--tickers", "SMEGF", "--only", "news", ...args], {
          DATABASE_URL,
          EDGAR_BASE_URL: stub.url,
          EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
        })
      const refused = yield* ingest()
      assert.strictEqual(refused.code, 1)
      assert.include(
        refused.err,
        "The database contains the fictional sample market, with which real rows would mix. Remove it with: " +
          "npm run tickerline -- samples remove. To mix them, add --yes.",
      )
      assert.deepStrictEqual(stub.requests, [])
      assert.deepStrictEqual(yield* sql`select 1 from edgar_runs`, [])
      assert.strictEqual((yield* ingest("--dry-run")).code, 0)
      const bars = `${yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())}/bars.csv`
      const prices = yield* run("ingest", "prices", bars)
      assert.strictEqual(prices.code, 1)
      assert.include(prices.err, "To mix them, add --yes.")
      assert.strictEqual((yield* ingest("--yes")).code, 0)
      const removed = yield* run("samples", "remove")
      assert.match(removed.out, /news: \d+ rows removed, [1-9]\d* kept\n/)
      const accepted = yield* ingest()
      assert.strictEqual(accepted.code, 0, accepted.err)
    })))
})
