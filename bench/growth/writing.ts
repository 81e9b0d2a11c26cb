/** What a row of usage costs, written by the service's own recorder beside the rows that are there. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { batchOf, recorder, type Used } from "../../src/account/Usage.ts"
import { client } from "../../src/db/Database.ts"
import { cpuOf, cpuOfFamily } from "../measure.ts"
import type { Postgres } from "../postgres.ts"
import { random, zipf } from "../symbols.ts"

export interface Written {
  readonly rowsABatch: number
  readonly rows: number
  readonly seconds: number
  /** Microseconds of processor for a row. */
  readonly database: number
  readonly writer: number
  /** Bytes of WAL for a row. */
  readonly wal: number
}

const accounts = zipf(1000, 100_000, random(21))

/** One of so many accounts, by Zipf's law. */
const row = (place: number): Used => ({
  requested_at: Date.now() - (place % 250),
  account_id: 1 + (accounts[place % accounts.length] ?? 0),
  key_id: 1,
  request_id: `01980000-0000-7000-8000-${place.toString(16).padStart(12, "0")}`,
  endpoint: ["/v1/intraday-runners", "/v1/news", "/v1/screener"][place % 3] ?? "",
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

const measure = Effect.fnUntraced(function* (postgres: Postgres, rowsABatch: number, batches: number) {
  const write = yield* recorder
  const some = (count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, at) => at),
      (at) => write(batchOf(Array.from({ length: rowsABatch }, (_, place) => row(at * rowsABatch + place)))),
      { discard: true },
    )
  yield* some(10)
  const [wal, cpu, own, began] = [yield* position, cpuOfFamily(postgres.pid), cpuOf(process.pid), performance.now()]
  yield* some(batches)
  const seconds = (performance.now() - began) / 1000
  const rows = rowsABatch * batches
  const written: Written = {
    rowsABatch,
    rows,
    seconds,
    database: (cpuOfFamily(postgres.pid) - cpu) / rows,
    writer: (cpuOf(process.pid) - own) / rows,
    wal: ((yield* position) - wal) / rows,
  }
  return written
})

/** Accounts 1 to 1,000 must be there. A checkpoint is not near, so pages are logged in whole once and then no more. */
export const writing = (postgres: Postgres, url: string) =>
  Effect.forEach([[2000, 100], [250, 200], [25, 400], [1, 2000]] as const, ([rows, batches]) =>
    measure(postgres, rows, batches)).pipe(
      Effect.provide(client({ url: Redacted.make(url), applicationName: "writing" })),
      Effect.runPromise,
    )
