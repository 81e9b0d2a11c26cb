/** Measures the cost of writing usage rows with the service's recorder into a filled table. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { makeUsageBatch, makeUsageWriter, type UsageRecord } from "../../src/accounts/billing/UsageWriter.ts"
import { databaseClientLayer } from "../../src/db/Database.ts"
import { cpuMicroseconds, cpuMicrosecondsWithChildren } from "../processUsage.ts"
import type { Postgres } from "../postgres.ts"
import { makeRandom, makeZipf } from "../symbols.ts"

export interface WriteResult {
  /** Concurrent writers, each with its own connection. */
  readonly writers: number
  /** Whether the writers' batches share accounts. */
  readonly accounts: "each its own" | "the same"
  readonly rowsABatch: number
  readonly rows: number
  readonly seconds: number
  /** CPU time per row in microseconds. */
  readonly database: number
  readonly writer: number
  /** WAL bytes per row. */
  readonly wal: number
}

const accounts = makeZipf(1000, 100_000, makeRandom(21))

/** A usage row of an account drawn by Zipf's law. */
const row = (place: number, account: (number: number) => number): UsageRecord => ({
  requested_at: Date.now() - (place % 250),
  account_id: 1 + account(accounts[place % accounts.length] ?? 0),
  key_id: 1,
  request_id: `01980000-0000-7000-8000-${place.toString(16).padStart(12, "0")}`,
  endpoint: ["/v1/intraday-runners", "/v1/news", "/v1/screener"][place % 3] ??
    "",
  status_code: place % 10 === 0 ? 304 : 200,
  records_returned: 10,
  bytes: 9500,
  cost_microdollars: 95,
  duration_ms: 2,
  cached: place % 2 === 0,
  deprecated: false,
})

const position = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [at] = yield* sql<{ readonly bytes: number }>`
    select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as bytes
  `
  return at?.bytes ?? 0
})

interface Way {
  readonly writers: number
  readonly accounts: WriteResult["accounts"]
  readonly rowsABatch: number
  /** Batches per writer. */
  readonly batches: number
}

const measure = Effect.fnUntraced(function* (postgres: Postgres, way: Way) {
  const { batches, rowsABatch, writers } = way
  const write = yield* makeUsageWriter
  /** If accounts are separate, one writer gets the odd account numbers and the other the even ones. */
  const accountOf = (writer: number) => (number: number) =>
    way.accounts === "the same" ? number : Math.floor(number / writers) * writers + writer
  const writeAll = (writer: number, count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, at) => at),
      (at) =>
        write(makeUsageBatch(
          Array.from(
            { length: rowsABatch },
            (_, place) => row(at * rowsABatch + place, accountOf(writer)),
          ),
        )),
      { discard: true },
    )
  const some = (count: number) =>
    Effect.forEach(
      Array.from({ length: writers }, (_, writer) => writer),
      (writer) => writeAll(writer, count),
      {
        concurrency: "unbounded",
        discard: true,
      },
    )
  yield* some(10)
  const [wal, cpu, own, began] = [
    yield* position,
    cpuMicrosecondsWithChildren(postgres.pid),
    cpuMicroseconds(process.pid),
    performance.now(),
  ]
  yield* some(batches)
  const seconds = (performance.now() - began) / 1000
  const rows = rowsABatch * batches * writers
  const written: WriteResult = {
    writers,
    accounts: way.accounts,
    rowsABatch,
    rows,
    seconds,
    database: (cpuMicrosecondsWithChildren(postgres.pid) - cpu) / rows,
    writer: (cpuMicroseconds(process.pid) - own) / rows,
    wal: ((yield* position) - wal) / rows,
  }
  return written
})

const ways: ReadonlyArray<Way> = [
  { writers: 1, accounts: "the same", rowsABatch: 2000, batches: 100 },
  { writers: 2, accounts: "the same", rowsABatch: 2000, batches: 50 },
  { writers: 2, accounts: "each its own", rowsABatch: 2000, batches: 50 },
  { writers: 1, accounts: "the same", rowsABatch: 250, batches: 200 },
  { writers: 1, accounts: "the same", rowsABatch: 25, batches: 400 },
  { writers: 1, accounts: "the same", rowsABatch: 1, batches: 2000 },
]

/** Requires accounts 1 to 1,000. No checkpoint is near, so full-page images are written only once. */
export const measureUsageWrites = (postgres: Postgres, url: string) =>
  Effect.forEach(ways, (way) => measure(postgres, way)).pipe(
    Effect.provide(
      databaseClientLayer({ url: Redacted.make(url), applicationName: "writing" }),
    ),
    Effect.runPromise,
  )
