/**
 * Writes usage records with the usage writer of the service in `--tickerline`, and prints the cost per request as JSON.
 * It runs in a separate process, so that `usage.ts` can measure two versions: `node main.ts usage-writing --tickerline
 * FOLDER`.
 */
import type * as EffectLibrary from "effect"
import type * as SqlLibrary from "effect/sql"
import { createRequire } from "node:module"
import { join } from "node:path"
import process from "node:process"
import type * as Columns from "../../src/accounts/billing/UsageColumns.ts"
import type * as CurrentWriter from "../../src/accounts/billing/UsageWriter.ts"
import type { UsageRecord } from "../../src/accounts/billing/UsageRecord.ts"
import type * as PooledClient from "../../src/postgres/pool/PooledClient.ts"
import type * as RequestIds from "../../src/contract/rules/RequestIds.ts"
import { options } from "../options.ts"
import { readTreeCpu } from "../processStats.ts"
import { makeRandomGenerator, makeZipfNumbers } from "../symbols.ts"

/** How usage is written during a measurement. */
export interface WritingScenario {
  /** The number of concurrent writers. Each has its own connection. */
  readonly writers: number
  /**
   * The accounts that send the requests: 1,000 accounts with a Zipf distribution, 500 accounts for each of two writers
   * with no account in common, or a single account.
   */
  readonly accounts: "1,000" | "500 of each writer" | "one"
  readonly requestsPerBatch: number
  /** The number of batches per writer. */
  readonly batches: number
  /** Whether the requests are settled (charged to the accounts) during the measurement. */
  readonly isSettled: boolean
}

/** The cost per request. All figures include settling, if it is enabled. */
export interface WritingCosts {
  readonly requestsPerSecond: number
  /** PostgreSQL's CPU time, in microseconds. */
  readonly database: number
  /** The writer's CPU time, in microseconds. */
  readonly writer: number
  /** The amount of WAL written, in bytes. */
  readonly wal: number
  /** How much the usage tables grew, in bytes, including their indexes. */
  readonly disk: number
  /** The elapsed time of settling, in microseconds. The CPU time of settling is included in `database`. */
  readonly settling: number
  /** The amount of WAL written by settling, in bytes. It is included in `wal`. */
  readonly settlingWal: number
}

// Effect is imported from the measured checkout, because that checkout's modules do not accept values from another copy
// of the library.
const { resolve } = createRequire(join(options.tickerline, "package.json"))
const { Effect, Redacted, Schema }: typeof EffectLibrary = await import(resolve("effect"))
const { SqlClient }: typeof SqlLibrary = await import(resolve("effect/sql"))

const WritingTask = Schema.Struct({
  url: Schema.String,
  postgres: Schema.Int,
  writers: Schema.Int,
  accounts: Schema.Literals(["1,000", "500 of each writer", "one"]),
  requestsPerBatch: Schema.Int,
  batches: Schema.Int,
  isSettled: Schema.Boolean,
})

const load = (file: string) => import(join(options.tickerline, "src", file))
const { makeUsageWriter }: typeof CurrentWriter = await load("accounts/billing/UsageWriter.ts")
const { UsageColumns }: typeof Columns = await load("accounts/billing/UsageColumns.ts")
const { databaseClientLayer }: typeof PooledClient = await load("postgres/pool/PooledClient.ts")
const { makeRequestId }: typeof RequestIds = await load("contract/rules/RequestIds.ts")

/** Creates a function that writes a batch of requests in the same way as the service. */
const makeWriter = Effect.map(makeUsageWriter, ({ makeBatch, write }) => (rows: ReadonlyArray<UsageRecord>) => {
  const columns = new UsageColumns()
  for (const row of rows) columns.add(row)
  return write(makeBatch(columns))
})

const random = makeRandomGenerator(21)
const accounts = makeZipfNumbers(1000, 100_000, random)
const endpoints = ["/v1/intraday-runners", "/v1/news", "/v1/screener"]

/**
 * Creates the usage record for a request that was sent within the last quarter of a second. `number` counts the
 * requests: every tenth was answered from the client's cache (304), and the endpoints alternate.
 */
const makeRequest = (number: number, account_id: number): UsageRecord => {
  const requested_at = Date.now() - Math.floor(random() * 250)
  const cached = number % 10 === 0
  const bytes = cached ? 0 : 500 + Math.floor(random() * 19_000)
  return {
    requested_at,
    account_id,
    key_id: 1,
    request_id: makeRequestId(requested_at),
    endpoint: endpoints[number % 3] ?? "",
    status_code: cached ? 304 : 200,
    records_returned: 1 + number % 10,
    bytes,
    cost_microdollars: Math.ceil(bytes / 100),
    price_per_gb_microdollars: cached ? 0 : 10_000_000,
    duration_ms: 1 + Math.floor(random() * random() * 60),
    cached,
    deprecated: false,
    via: null,
    reservation_id: null,
  }
}

/**
 * Returns the ID of the account that sends a request. `number` counts the requests, and `writer` is 0 or 1. With 500
 * accounts for each of two writers, the first writer gets the odd IDs, and the second the even ones.
 */
const chooseAccount = (number: number, writer: number, choice: WritingScenario["accounts"]) => {
  const account = accounts[number % accounts.length] ?? 0
  return choice === "one" ? 1 : choice === "1,000" ? 1 + account : 1 + 2 * Math.floor(account / 2) + writer
}

/**
 * Runs a scenario, and returns the cost per request. The costs of PostgreSQL are differences of counters that are read
 * before and after: the CPU time of its processes (`postgres` is the ID of the first), the bytes of WAL that it has
 * written, and the bytes of the usage tables on disk.
 */
const measure = Effect.fnUntraced(function* (task: typeof WritingTask.Type) {
  const { batches, postgres, requestsPerBatch, writers } = task
  const sql = yield* SqlClient.SqlClient
  const writeFunctions = yield* Effect.forEach(Array.from({ length: writers }), () => makeWriter)

  /** The CPU time spent on creating the requests, in microseconds. It is subtracted from the writer's CPU time. */
  let creating = 0
  let number = 0
  const makeRequests = (writer: number) => {
    const start = process.cpuUsage()
    const requests = Array.from({ length: requestsPerBatch }, () => {
      number += 1
      return makeRequest(number, chooseAccount(number, writer, task.accounts))
    })
    const { system, user } = process.cpuUsage(start)
    creating += user + system
    return requests
  }

  const readCounters = Effect.map(
    sql<{ readonly wal: number; readonly disk: number }>`
      select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal, (
        select sum(pg_total_relation_size(oid))::float8 from pg_class
        where relkind = 'r' and relname ~ '^(unsettled_)?usage' and relname <> 'usage_daily'
      ) as disk
    `,
    ([row]) => row ?? { wal: 0, disk: 0 },
  )
  /** The elapsed microseconds and the bytes of WAL of all calls of `settle`. */
  let [settling, settlingWal] = [0, 0]
  const settle = task.isSettled
    ? Effect.gen(function* () {
      const { wal } = yield* readCounters
      const start = performance.now()
      yield* sql`select settle_usage()`
      settling += (performance.now() - start) * 1000
      settlingWal += (yield* readCounters).wal - wal
    })
    : Effect.void

  /**
   * Writes batches, and settles after twenty batches of each writer: a busy process writes four batches per second and
   * settles every five seconds.
   */
  const writeAll = Effect.fnUntraced(function* (count: number) {
    for (let from = 0; from < count; from += 20) {
      yield* Effect.forEach(writeFunctions, (writeRequests, writer) =>
        Effect.forEach(
          Array.from({ length: Math.min(20, count - from) }),
          () => Effect.suspend(() => writeRequests(makeRequests(writer))),
          { discard: true },
        ), { concurrency: "unbounded", discard: true })
      yield* settle
    }
  })

  // Warm-up, because V8 optimizes functions only after many calls.
  yield* writeAll(Math.min(400, Math.max(20, Math.ceil(20_000 / requestsPerBatch))))
  ;[creating, settling, settlingWal] = [0, 0, 0]
  const before = yield* readCounters
  const [database, cpu, start] = [readTreeCpu(postgres), process.cpuUsage(), performance.now()]
  yield* writeAll(batches)
  const seconds = (performance.now() - start) / 1000
  const { system, user } = process.cpuUsage(cpu)
  const after = yield* readCounters
  const requests = requestsPerBatch * batches * writers
  const costs: WritingCosts = {
    requestsPerSecond: requests / (seconds - creating / 1e6),
    database: (readTreeCpu(postgres) - database) / requests,
    writer: (user + system - creating) / requests,
    wal: (after.wal - before.wal) / requests,
    disk: (after.disk - before.disk) / requests,
    settling: settling / requests,
    settlingWal: settlingWal / requests,
  }
  return costs
})

const task = Schema.decodeUnknownSync(Schema.fromJsonString(WritingTask))(process.env["TASK"])
console.log(JSON.stringify(
  await measure(task).pipe(
    Effect.provide(databaseClientLayer({ url: Redacted.make(task.url), applicationName: "writing" })),
    Effect.runPromise,
  ),
))
