/**
 * D29 (usage): packs the requests that earlier releases recorded, which are rows of `usage`. They are settled already.
 * Requests of the previous release are packed an hour after they were recorded (docs/operations/upgrades.md).
 */
import { Data, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { countWindows, packUsage, type RequestKind } from "./UsagePacking.ts"
import { makeInsertBatchesSql, makePackedRowsSql, makeRequestKinds } from "./UsageWriter.ts"

/** Requests of a transaction, for which retention and erasures may have to wait. */
const batchRows = 500

const minPause = Duration.millis(50)

const RecordedRow = Schema.Struct({
  requested_at: Schema.Int,
  account_id: Schema.Int,
  key_id: Schema.Int,
  request_id: Schema.String,
  endpoint: Schema.String,
  status_code: Schema.Int,
  records_returned: Schema.Int,
  bytes: Schema.Int,
  cost_microdollars: Schema.Int,
  price_per_gb_microdollars: Schema.Null,
  duration_ms: Schema.Int,
  cached: Schema.Boolean,
  deprecated: Schema.Boolean,
  via: Schema.NullOr(Schema.Literal("mcp")),
})
const Due = Schema.Struct({ is_due: Schema.Boolean, is_left: Schema.Boolean })
const WriterNumber = Schema.Struct({ written: Schema.Int })
const Inserted = Schema.Struct({ batches: Schema.Int })

/** The requests of a transaction could not be packed. They remain as they are. */
class NotPacked extends Data.TaggedError("NotPacked")<{ readonly message: string }> {}

/** Packs the next requests, about `maxRows`, in a transaction. Returns how many. */
export const convertUsageBatch = Effect.fnUntraced(function* (maxRows: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeRows(RecordedRow)(sql`
    select (extract(epoch from requested_at) * 1000)::float8 as requested_at, account_id::float8, key_id::float8,
      request_id, endpoint, status_code, records_returned, bytes::float8, cost_microdollars::float8,
      null as price_per_gb_microdollars, duration_ms, cached and status_code = 304 as cached, deprecated, via
    from take_unconverted_usage(${maxRows}::int) order by account_id, requested_at, usage_id
  `)
  const [writer] = yield* decodeRows(WriterNumber)(sql`select written from usage_writers where writer = 0`)
  if (rows.length === 0) return 0
  if (writer === undefined) return yield* new NotPacked({ message: "The writer 0 is not in usage_writers." })
  const kinds = yield* makeRequestKinds
  yield* kinds.store(rows)
  if (rows.some((row) => kinds.find(row) === undefined)) {
    return yield* new NotPacked({ message: "Another process has just stored the same kind of request." })
  }
  // The numbers count down, because requests that are packed later come after earlier ones with the same time.
  const before = writer.written - countWindows(rows)
  const packed = packUsage(rows, before, (kind: RequestKind) => kinds.find(kind)?.kind_id ?? 0)
  const [inserted] = yield* decodeRows(Inserted)(sql`
    with numbered as (
      update usage_writers set written = ${before}::int where writer = 0 returning writer
    ), packed as materialized (
      ${makePackedRowsSql(sql, packed)}
    ), recorded as (
      ${makeInsertBatchesSql(sql)} returning writer
    ), noted as (
      insert into usage_kind_hours (account_id, kind_id, hour)
      select distinct account_id, packed_number(group_kinds, place)::integer, date_trunc('hour', moment, 'UTC')
      from packed cross join lateral generate_series(0, count_packed_numbers(group_requests) - 1) as place
      on conflict do nothing
    )
    select count(*)::int as batches from recorded
  `)
  if (inserted?.batches !== packed.length) return yield* new NotPacked({ message: "The batches were not inserted." })
  return rows.length
}, (convert) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(convert)))

/** Packs all requests that are due. May be interrupted, and run more than once at a time. */
export const convertUsage = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const readDue = decodeRows(Due)(sql`
    select exists (select from unconverted_usage where due_at <= now()) as is_due,
      exists (select from unconverted_usage) as is_left
  `)
  let converted = 0
  for (let [due] = yield* readDue; due?.is_due === true; [due] = yield* readDue) {
    const [duration, rows] = yield* Effect.timed(convertUsageBatch(batchRows))
    converted += rows
    // Leaves the server at least half of the time for other work.
    yield* Effect.sleep(Duration.max(duration, minPause))
  }
  if (converted === 0) return
  const [due] = yield* readDue
  yield* Effect.logInfo(
    `Packed ${converted} requests of earlier releases. ${
      due?.is_left === true
        ? "Some are left, because a process of an earlier release recorded them in the last hour."
        : "None are left."
    }`,
  )
})

export const usageConversionJob = {
  name: "usage-conversion",
  every: Duration.minutes(1),
  prepare: () => Effect.succeed(Option.some(convertUsage)),
} satisfies Job<never, SqlClient.SqlClient>
