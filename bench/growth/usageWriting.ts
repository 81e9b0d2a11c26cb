/** Measures the cost of writing usage rows with the service's own writer, into a table that is already large. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { makeUsageBatch, makeUsageWriter, type UsageRecord } from "../../src/accounts/billing/UsageWriter.ts"
import { databaseClientLayer } from "../../src/db/pool/PooledClient.ts"
import { readCpu, readTreeCpu } from "../processStats.ts"
import type { Postgres } from "../postgres.ts"
import { makeRandomGenerator, makeZipfNumbers } from "../symbols.ts"

export interface WritingResult {
  /** Number of concurrent writers; each has its own connection. */
  readonly writers: number
  /** Whether the writers write for the same accounts. */
  readonly accounts: "each its own" | "the same"
  readonly rowsABatch: number
  readonly rows: number
  readonly seconds: number
  /** CPU time per row in microseconds: of PostgreSQL, and of the writer. */
  readonly database: number
  readonly writer: number
  /** Bytes of WAL per row. */
  readonly wal: number
}

const accounts = makeZipfNumbers(1000, 100_000, makeRandomGenerator(21))

/** Makes a usage row for an account from a Zipf distribution. */
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
  via: null,
  reservation_id: null,
})

const readWalPosition = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [at] = yield* sql<{ readonly bytes: number }>`
    select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as bytes
  `
  return at?.bytes ?? 0
})

interface WritingScenario {
  readonly writers: number
  readonly accounts: WritingResult["accounts"]
  readonly rowsABatch: number
  /** Number of batches per writer. */
  readonly batches: number
}

const measure = Effect.fnUntraced(function* (postgres: Postgres, scenario: WritingScenario) {
  const { batches, rowsABatch, writers } = scenario
  const write = yield* makeUsageWriter
  /** If each of two writers has its own accounts, one has the even numbers and the other the odd ones. */
  const accountOf = (writer: number) => (number: number) =>
    scenario.accounts === "the same" ? number : Math.floor(number / writers) * writers + writer
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
    yield* readWalPosition,
    readTreeCpu(postgres.pid),
    readCpu(process.pid),
    performance.now(),
  ]
  yield* some(batches)
  const seconds = (performance.now() - began) / 1000
  const rows = rowsABatch * batches * writers
  const written: WritingResult = {
    writers,
    accounts: scenario.accounts,
    rowsABatch,
    rows,
    seconds,
    database: (readTreeCpu(postgres.pid) - cpu) / rows,
    writer: (readCpu(process.pid) - own) / rows,
    wal: ((yield* readWalPosition) - wal) / rows,
  }
  return written
})

const scenarios: ReadonlyArray<WritingScenario> = [
  { writers: 1, accounts: "the same", rowsABatch: 2000, batches: 100 },
  { writers: 2, accounts: "the same", rowsABatch: 2000, batches: 50 },
  { writers: 2, accounts: "each its own", rowsABatch: 2000, batches: 50 },
  { writers: 1, accounts: "the same", rowsABatch: 250, batches: 200 },
  { writers: 1, accounts: "the same", rowsABatch: 25, batches: 400 },
  { writers: 1, accounts: "the same", rowsABatch: 1, batches: 2000 },
]

/** Needs the accounts 1 to 1,000. There is no checkpoint meanwhile, so WAL has each full page only once. */
export const measureUsageWriting = (postgres: Postgres, url: string) =>
  Effect.forEach(scenarios, (scenario) => measure(postgres, scenario)).pipe(
    Effect.provide(
      databaseClientLayer({ url: Redacted.make(url), applicationName: "writing" }),
    ),
    Effect.runPromise,
  )
