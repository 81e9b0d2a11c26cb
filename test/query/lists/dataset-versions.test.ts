/** Tests dataset versions (D17): when they change, and that no response is outdated by more than a second. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Random, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DatasetVersions } from "../../../src/postgres/versions/DatasetVersions.ts"
import { ReadRouter } from "../../../src/postgres/replicas/ReadRouter.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as Service from "../../support/Service.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"
import { paceWorkload, waitUntilOldDataExpires } from "../../support/Pauses.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

/** Waits for the second within which the service must notice earlier writes, then returns the version of the tables. */
const readVersion = Effect.fnUntraced(function* (...tables: ReadonlyArray<string>) {
  const { watchTables } = yield* DatasetVersions
  yield* waitUntilOldDataExpires
  // On a busy machine, the last poll may be too old, in which case there is no version until the next poll.
  const isKnown = Effect.sync(() => watchTables(["daily_prices"])() !== undefined)
  yield* Effect.repeat(isKnown, { until: (is) => is, schedule: Schedule.spaced("20 millis") })
  return watchTables(tables)()
})

/** A row of `ticker_changes`. */
const tickerChange = {
  old_ticker: "A",
  new_ticker: "B",
  effective_date: "2020-01-01",
  status: "confirmed",
}

const versions = Layer.provide(DatasetVersions.layer, ReadRouter.layer)

layer(Layer.provideMerge(versions, ServiceInstances.databaseWithKeysLayer), {
  excludeTestServices: true,
  timeout: "120 seconds",
})(
  "Dataset versions",
  (it) => {
    it.effect("exist for every dataset, but not for other tables (D17)", () =>
      Effect.gen(function* () {
        const { watchTables } = yield* DatasetVersions
        for (const { table } of loadableDatasets) assert.isDefined(watchTables([table])(), table)
        assert.isUndefined(watchTables(["accounts"])())
        assert.isUndefined(watchTables(["ticker_changes", "nowhere"])())
      }))

    it.effect("change with every type of statement, once it is committed (D17)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const sql = yield* SqlClient.SqlClient
        const writes: ReadonlyArray<readonly [string, Effect.Effect<unknown, unknown, SqlClient.SqlClient>]> = [
          ["insert", Service.insertRows("ticker_changes", tickerChange)],
          ["update", sql`update ticker_changes set source = 'x'`],
          ["insert … on conflict", sql`insert into ticker_changes ${sql.insert(tickerChange)} on conflict do nothing`],
          ["delete", sql`delete from ticker_changes`],
          ["truncate", sql`truncate ticker_changes`],
          [
            "as a replica",
            sql.withTransaction(Effect.andThen(
              sql`set local session_replication_role = replica`,
              Service.insertRows("ticker_changes", tickerChange),
            )),
          ],
          [
            "serializable",
            sql.withTransaction(Effect.andThen(
              sql`set transaction isolation level serializable`,
              sql`update ticker_changes set source = 'y'`,
            )),
          ],
          [
            "after a rollback to a savepoint",
            sql.withTransaction(Effect.gen(function* () {
              yield* sql`savepoint a`
              yield* sql`update ticker_changes set source = 'z'`
              yield* sql`rollback to a`
              yield* sql`update ticker_changes set source = 'w'`
            })),
          ],
        ]
        let before = yield* readVersion("ticker_changes")
        const versionOfNews = yield* readVersion("news")
        for (const [name, write] of writes) {
          yield* write
          const after = yield* readVersion("ticker_changes")
          assert.isDefined(after, name)
          assert.notStrictEqual(after, before, name)
          before = after
        }
        assert.strictEqual(yield* readVersion("news"), versionOfNews)
      }))

    it.effect("stay the same after a rollback (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const before = yield* readVersion("news")
        yield* Effect.ignore(sql.withTransaction(Effect.andThen(sql`delete from news`, Effect.fail("no"))))
        yield* sql.withTransaction(Effect.gen(function* () {
          yield* sql`savepoint a`
          yield* sql`delete from news`
          yield* sql`rollback to a`
        }))
        assert.strictEqual(yield* readVersion("news"), before)
      }))

    it.effect("count concurrent writes to a dataset without blocking them (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const update = (table: string) => sql`update ${sql(table)} set ticker = ticker`
        const updateBoth = (first: string, second: string) =>
          sql.withTransaction(Effect.gen(function* () {
            yield* update(first)
            yield* paceWorkload("100 millis")
            yield* update(second)
          }))
        const transactions = 4
        // The transactions update the tables in opposite orders. If they blocked each other, they would deadlock.
        yield* Effect.all(
          Array.from(
            { length: transactions },
            (_, i) => i % 2 === 0 ? updateBoth("gap_stats", "screener") : updateBoth("screener", "gap_stats"),
          ),
          { concurrency: transactions },
        )
        const counts = sql<{ readonly dataset: string; readonly changes: number; readonly rows: number }>`
          select dataset, sum(changes)::int as changes, count(*)::int as rows from dataset_versions
          where dataset in ('gap_stats', 'screener') group by dataset order by dataset
        `
        assert.deepStrictEqual((yield* counts).map(({ changes }) => changes), [transactions, transactions])
        yield* update("gap_stats")
        yield* update("screener")
        // Each concurrent transaction inserts one row. The next write merges the rows of its dataset into one.
        const merged = { changes: transactions + 1, rows: 1 }
        assert.deepStrictEqual((yield* counts).map(({ changes, rows }) => ({ changes, rows })), [merged, merged])
      }))

    it.effect("count a transaction with many statements as one change (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`delete from dataset_versions where dataset = 'split_status'`
        yield* sql`
          do $$ begin for i in 1..20000 loop update split_status set ticker = ticker; end loop; end $$
        `
        const [row] = yield* sql`select changes::int as changes from dataset_versions where dataset = 'split_status'`
        assert.deepStrictEqual(row, { changes: 1 })
      }))

    it.effect("are unknown for a table without an active trigger, so that its results are not cached (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`alter table screener disable trigger note_change`
        assert.isUndefined(yield* readVersion("screener"))
        yield* sql`alter table screener enable always trigger note_change`
        assert.isDefined(yield* readVersion("screener"))
        yield* sql`drop trigger note_change on screener`
        assert.isUndefined(yield* readVersion("screener"))
      }))

    it.effect("can be read but not changed by the role of the service (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql`
          select has_function_privilege('public', 'note_change()', 'execute') as may_call,
            has_table_privilege('public', 'dataset_versions', 'insert') as may_write
        `
        assert.deepStrictEqual(row, { may_call: false, may_write: false })
      }))
  },
)

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "Two instances",
  (it) => {
    it.effect("never return a result that has been outdated for more than a second, even during random writes (D17)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const sql = yield* SqlClient.SqlClient
        const { basic } = yield* Service.TestKeys
        const ports = [yield* startServiceInstance(), yield* startServiceInstance()]
        const tickers = ["AA", "BB", "CC"]
        // Each write increases a ticker's price by one, so a price lower than the committed price is outdated.
        /** The committed prices of each ticker, each with its commit time. */
        const commits = new Map(tickers.map((ticker) => [ticker, [{ price: 1, at: performance.now() }]]))
        for (const ticker of tickers) {
          yield* sql`
          insert into screener (ticker, price, is_adr, num_gaps, num_runners, pending_s1, last_updated)
          values (${ticker}, 1, false, 0, 0, false, now())
        `
        }
        yield* waitUntilOldDataExpires
        let [requested, notModified, written] = [0, 0, 0]
        const write = Effect.gen(function* () {
          const ticker = tickers[yield* Random.nextIntBetween(0, tickers.length - 1)] ?? "AA"
          const price = 1 + (commits.get(ticker)?.at(-1)?.price ?? 0)
          yield* sql`update screener set price = ${String(price)}::text::numeric where ticker = ${ticker}`
          commits.get(ticker)?.push({ price, at: performance.now() })
          written += 1
          yield* paceWorkload(yield* Random.nextIntBetween(0, 700))
        })
        /** The latest ETag that each instance sent for each ticker. */
        const tags = new Map<string, string>()
        /** The price in the response that had each ETag. */
        const prices = new Map<string, number>()
        const read = Effect.gen(function* () {
          const ticker = tickers[yield* Random.nextIntBetween(0, tickers.length - 1)] ?? "AA"
          const port = ports[yield* Random.nextIntBetween(0, 1)] ?? 0
          const began = performance.now()
          const tag = (yield* Random.nextBoolean) ? tags.get(`${port} ${ticker}`) : undefined
          const headers: Record<string, string> = tag === undefined ? {} : { "If-None-Match": tag }
          const response = yield* requestOverWire(port, `/v1/screener?ticker=${ticker}`, basic, { headers })
          const { etag = "" } = response.headers
          if (response.status === 200) {
            tags.set(`${port} ${ticker}`, etag)
            prices.set(etag, Number(/"price":(\d+)/.exec(response.text)?.[1]))
          }
          const price = prices.get(response.status === 304 ? tag ?? "" : etag)
          const leastPrice = commits.get(ticker)?.findLast(({ at }) => at <= began - 1000)?.price ?? 0
          requested += 1
          if (response.status === 304) notModified += 1
          assert.isAtLeast(price ?? -1, leastPrice, `${ticker} at ${port}`)
        })
        const writing = yield* Effect.forkChild(Effect.forever(write))
        /** Returns whether there were enough requests and concurrent writes for the test to be meaningful. */
        const isEnough = () => requested > 2000 && notModified > 200 && written > 20
        yield* Effect.all(
          Array.from(
            { length: 8 },
            () => Effect.repeat(read, { until: isEnough, schedule: Schedule.spaced("2 millis") }),
          ),
          { concurrency: "unbounded" },
        )
        yield* Effect.sync(() => writing.interruptUnsafe())
      }).pipe(Effect.scoped))
  },
)
