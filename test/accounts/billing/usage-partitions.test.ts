/**
 * Tests that monthly usage partitions are created ahead of time and dropped after the retention period (D29, usage).
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import {
  createUpcomingUsagePartitions,
  dropUsagePartitionsBefore,
} from "../../../src/accounts/billing/UsagePartitions.ts"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { isLockTimeout } from "../../../src/postgres/SqlState.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as Service from "../../support/Service.ts"

const base = Layer.unwrap(
  Effect.map(Service.copyMigratedDatabase, (url) => databaseClientLayer({ url, applicationName: "tickerline-test" })),
).pipe(Layer.provideMerge(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)))

/** Reads the names of all usage partitions, sorted. */
const readPartitions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string }>`
    select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent in ('usage'::regclass, 'usage_batches'::regclass) order by 1
  `
  return rows.map(({ name }) => name)
})

/** Returns the expected partition names for this month and the next two, according to PostgreSQL's clock. */
const readExpectedNames = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string }>`
    select name || to_char(date_trunc('month', now(), 'UTC') at time zone 'UTC' + make_interval(months => month),
      '_YYYY_MM') as name
    from unnest(array['usage', 'usage_batches']) as name, generate_series(0, 2) as month order by 1
  `
  return rows.map(({ name }) => name)
})

layer(base, { excludeTestServices: true, timeout: "60 seconds" })("The service", (it) => {
  it.effect("creates the partitions of this month and the next two months only once (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Effect.forEach(yield* readPartitions, (name) => sql`drop table ${sql(name)}`, { discard: true })
      yield* createUpcomingUsagePartitions
      yield* createUpcomingUsagePartitions
      assert.deepStrictEqual(yield* readPartitions, yield* readExpectedNames)
    }))

  it.effect("writes rows of any month, even after the partition of the month was dropped (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into accounts (name, tier, balance_microdollars) values ('clocks', 'basic', 1000)`
      const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
      const times = ["1999-12-31T23:59:59.999Z", "2031-02-28T12:00:00.000Z"].map((text) => Date.parse(text))
      yield* write(makeBatch(times.map((requested_at) => CustomerUsage.makeUsageRecord({ requested_at }))))
      const old = sql`timestamptz '2000-01-01T00:00:00Z'`
      assert.deepStrictEqual(yield* dropUsagePartitionsBefore(old), ["usage_1999_12"])
      // The writer does not know yet that the partition was dropped, so its first attempt fails.
      yield* write(makeBatch(times.map((requested_at) => CustomerUsage.makeUsageRecord({ requested_at }))))
      const [row] = yield* sql<{ readonly rows: number; readonly requests: number; readonly balance: number }>`
        select (select count(*)::int from usage_requests) as rows, (select sum(requests)::int from usage_totals) as requests,
          (select current_balance(accounts)::int from accounts) as balance
      `
      // One of the four requests was dropped with its partition. Each request cost 7 microdollars.
      assert.deepStrictEqual({ ...row }, { rows: 3, requests: 4, balance: 1000 - 4 * 7 })
    }))

  it.effect("drops the partitions of months before the retention period, but never the last 31 days (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
      const months = ["2020-01", "2020-02", "2020-03"]
      yield* write(
        makeBatch([
          ...months.map((month) => Date.parse(`${month}-15T00:00:00Z`)),
          Date.now(),
        ].map((requested_at) => CustomerUsage.makeUsageRecord({ requested_at }))),
      )
      const after = sql`timestamptz '2099-01-01T00:00:00Z'`
      const dropped = yield* dropUsagePartitionsBefore(after)
      assert.includeMembers(dropped, ["usage_2020_01", "usage_2020_02", "usage_2020_03"])
      assert.includeMembers(yield* readPartitions, yield* readExpectedNames)
    }))

  it.effect("drops the two oldest of 36 monthly partitions (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
      const times = Array.from({ length: 36 }, (_, month) => Date.UTC(2010, month, 1))
      yield* write(makeBatch(times.map((requested_at) => CustomerUsage.makeUsageRecord({ requested_at }))))
      // With statistics, PostgreSQL may evaluate the conditions in a different order. The result must be the same.
      yield* sql`analyze`
      assert.deepStrictEqual(yield* dropUsagePartitionsBefore(sql`timestamptz '2010-03-01T00:00:00Z'`), [
        "usage_2010_01",
        "usage_2010_02",
      ])
    }))

  it.effect("gives up dropping a partition that is in use, so that writes are not delayed for long (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
      yield* write(
        makeBatch([CustomerUsage.makeUsageRecord({ requested_at: Date.parse("2021-05-15T00:00:00Z") })]),
      )
      const reading = yield* Effect.forkChild(sql`select count(*) from usage_requests, pg_sleep(60)`)
      yield* CustomerUsage.retryUntil(
        sql`select from pg_locks where relation = 'usage'::regclass and mode = 'AccessShareLock'`,
        (rows) => rows.length > 0,
      )
      // Disables the connection's `lock_timeout`, so that only the timeout inside the drop can end the wait for the
      // lock.
      const dropWithoutTimeout = sql.withTransaction(
        Effect.andThen(
          sql`set local lock_timeout = 0`,
          dropUsagePartitionsBefore(sql`timestamptz '2021-07-01T00:00:00Z'`),
        ),
      )
      const dropping = yield* Effect.forkChild(Effect.flip(dropWithoutTimeout))
      yield* write(makeBatch([CustomerUsage.makeUsageRecord({ requested_at: Date.now() })]))
      assert.isTrue(isLockTimeout(yield* Fiber.join(dropping)))
      assert.isUndefined(reading.pollUnsafe(), "neither waited for the read to end")
      yield* Fiber.interrupt(reading)
      assert.include(yield* dropUsagePartitionsBefore(sql`timestamptz '2021-07-01T00:00:00Z'`), "usage_2021_05")
    }))
})

layer(Layer.fresh(ServiceInstances.databaseWithKeysLayer), { excludeTestServices: true, timeout: "60 seconds" })(
  "The service",
  (it) => {
    it.effect("creates upcoming partitions at startup, and drops those older than USAGE_RETENTION (D29)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`select create_usage_partition(now() - interval '3 months')`
        yield* sql`select create_usage_partition(now() - interval '12 months')`
        const before = yield* readPartitions
        yield* ServiceInstances.startServiceInstance({ USAGE_RETENTION: "200 days" })
        const wanted = yield* readExpectedNames
        const found = yield* CustomerUsage.retryUntil(
          readPartitions,
          (found) => wanted.every((name) => found.includes(name)) && found.length === wanted.length + 2,
        )
        const kept = before.filter((name) => found.includes(name) && !wanted.includes(name))
        assert.strictEqual(kept.length, 2)
        assert.sameMembers(found, [...wanted, ...kept])
      }).pipe(Effect.scoped))
  },
)
