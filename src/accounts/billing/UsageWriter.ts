/**
 * D27, D29: how requests are recorded and charged. One statement writes a batch of them, adds them to the sums of
 * their days and takes their cost off the balances, all of it from the rows that are new: sent twice they count once.
 * It locks the accounts first, in one order, so that two instances never wait for each other in a circle.
 */
import { DateTime, Effect, Predicate } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import { arrayParameter, OID } from "../../db/ArrayParameters.ts"

/** A request that was answered. */
export interface UsageRecord {
  /** In milliseconds since 1970. */
  readonly requested_at: number
  readonly account_id: number
  readonly key_id: number
  readonly request_id: string
  readonly endpoint: string
  readonly status_code: number
  readonly records_returned: number
  readonly bytes: number
  readonly cost_microdollars: number
  readonly duration_ms: number
  readonly cached: boolean
  readonly deprecated: boolean
}

/** Rows and the key of each; the `request_id` may be the client's, who may send one twice. */
export interface UsageBatch {
  readonly rows: ReadonlyArray<UsageRecord>
  readonly ids: ReadonlyArray<string>
}

/** Randomness once for all, and five digits to count with: a UUID made for each row would cost more than the rest. */
export const makeUsageBatch = (rows: ReadonlyArray<UsageRecord>): UsageBatch => {
  const common = `${SecureRandom.uuidV7Unsafe().slice(0, 18)}${SecureRandom.uuidV4Unsafe().slice(18, 31)}`
  return { rows, ids: rows.map((_, at) => common + (0x100000 + at).toString(16).slice(1)) }
}

const isRepeated = ({ reason }: SqlError.SqlError) => reason._tag === "UniqueViolation"

/** PostgreSQL's code where a row has no partition: somebody dropped one since it was last seen to be there. */
const isHomeless = ({ reason: { cause } }: SqlError.SqlError) =>
  Predicate.hasProperty(cause, "code") && cause.code === "23514"

const dayLength = 86_400_000

/** Runs a write after it has made the partitions of its rows, and once more if somebody dropped one meanwhile. */
export const makePartitionedWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  /** Days whose partitions exist. */
  const days = new Set<number>()

  const prepare = Effect.fnUntraced(function* (rows: ReadonlyArray<UsageRecord>) {
    for (const { requested_at } of rows) {
      const day = Math.floor(requested_at / dayLength)
      if (days.has(day)) continue
      yield* sql`select create_usage_partition(${
        DateTime.formatIso(DateTime.makeUnsafe(requested_at))
      }::text::timestamptz)`
      days.add(day)
    }
  })

  return <A>(rows: ReadonlyArray<UsageRecord>, write: Effect.Effect<A, SqlError.SqlError>) => {
    const prepared = Effect.andThen(prepare(rows), write)
    return Effect.catchIf(prepared, isHomeless, () => {
      days.clear()
      return prepared
    })
  }
})

/** Writes a batch; safe to repeat. */
export const makeUsageWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const inPartitions = yield* makePartitionedWriter

  /** Whole numbers go as floats, which hold them up to 2^53 and are quicker to write than the driver's `bigint`. */
  const write = ({ ids, rows }: UsageBatch, unless: "on conflict do nothing" | "") =>
    sql`
      with locked as materialized (
        select account_id from accounts
        where account_id = any(${
      arrayParameter(Array.from(new Set(rows.map((row) => row.account_id))), OID.float8)
    }::bigint[])
        order by account_id for no key update
      ), recorded as (
        insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated)
        select
          unnest(${arrayParameter(ids, OID.uuid)}),
          unnest(${arrayParameter(rows.map((row) => row.requested_at), OID.timestamptz)}),
          unnest(${arrayParameter(rows.map((row) => row.account_id), OID.float8)}),
          unnest(${arrayParameter(rows.map((row) => row.key_id), OID.float8)}),
          unnest(${arrayParameter(rows.map((row) => row.request_id), OID.text)}),
          unnest(${arrayParameter(rows.map((row) => row.endpoint), OID.text)}),
          unnest(${arrayParameter(rows.map((row) => row.status_code), OID.int2)}),
          unnest(${arrayParameter(rows.map((row) => row.records_returned), OID.int4)}),
          unnest(${arrayParameter(rows.map((row) => row.bytes), OID.float8)}),
          unnest(${arrayParameter(rows.map((row) => row.cost_microdollars), OID.float8)}),
          unnest(${arrayParameter(rows.map((row) => row.duration_ms), OID.int4)}),
          unnest(${arrayParameter(rows.map((row) => row.cached), OID.bool)}),
          unnest(${arrayParameter(rows.map((row) => row.deprecated), OID.bool)})
        where (select count(*) from locked) >= 0
        ${sql.literal(unless)}
        returning requested_at, account_id, endpoint, status_code, bytes, cost_microdollars
      ), hourly as (
        -- New York's clock shows the same minutes as UTC's, and telling its day of each row would cost much more.
        select account_id, date_bin('1 hour', requested_at, timestamptz '1970-01-01 00:00:00Z') as hour, endpoint,
          count(*) as requests, count(*) filter (where status_code >= 400) as errors, sum(bytes) as bytes,
          sum(cost_microdollars) as cost
        from recorded group by 1, 2, 3
      ), daily as materialized (
        select account_id, (hour at time zone 'America/New_York')::date as usage_date, endpoint,
          sum(requests) as requests, sum(errors) as errors, sum(bytes) as bytes, sum(cost) as cost
        from hourly group by 1, 2, 3
      ), summed as (
        insert into usage_daily as kept (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
        select account_id, usage_date, endpoint, requests, errors, bytes, cost from daily
        on conflict (account_id, usage_date, endpoint) do update set
          requests = kept.requests + excluded.requests,
          errors = kept.errors + excluded.errors,
          bytes = kept.bytes + excluded.bytes,
          cost_microdollars = kept.cost_microdollars + excluded.cost_microdollars
      )
      update accounts
      set balance_microdollars = balance_microdollars - charged.cost, last_charged_at = now()
      from (
        select account_id, sum(cost)::bigint as cost from daily group by account_id having sum(cost) > 0
      ) as charged
      where accounts.account_id = charged.account_id
    `

  /** Looking for each row first would cost half as much again: only a batch that was sent before is looked for. */
  return (batch: UsageBatch) =>
    inPartitions(
      batch.rows,
      Effect.catchIf(write(batch, ""), isRepeated, () => write(batch, "on conflict do nothing")),
    )
})
