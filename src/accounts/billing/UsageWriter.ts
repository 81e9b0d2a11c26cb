/**
 * D27, D29 (usage): one statement records a batch of requests, adds it to the daily totals, charges balances and
 * budgets, and gives back reservations. It counts only new rows, so a batch can be resent. It locks accounts in a fixed
 * order.
 */
import { DateTime, Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import { makeArrayParameter, OID } from "../../db/CompiledStatement.ts"
import { isCheckViolation } from "../../db/SqlState.ts"
import { getDateInNewYork } from "../../rules/Dates.ts"

/** A completed request, or one installment of an endless stream. */
export interface UsageRecord {
  /** Milliseconds since 1970. */
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
  /** Whether the response was a 304. */
  readonly cached: boolean
  readonly deprecated: boolean
  /** `mcp` if a tool of `/mcp` sent the request; null if it came as an ordinary HTTP request. */
  readonly via: "mcp" | null
  /** The reservation of an export, which the write of this row ends; null if the balance was not reserved. */
  readonly reservation_id: string | null
}

/** Rows and their primary keys. `request_id` is not the key, because a client may send the same id twice. */
export interface UsageBatch {
  readonly rows: ReadonlyArray<UsageRecord>
  readonly ids: ReadonlyArray<string>
}

/**
 * Gives each row an id. The ids of a batch share a random part and end in a counter of five hexadecimal digits, which
 * is faster than a random UUID per row.
 */
export const makeUsageBatch = (rows: ReadonlyArray<UsageRecord>): UsageBatch => {
  const prefix = `${SecureRandom.uuidV7Unsafe().slice(0, 18)}${SecureRandom.uuidV4Unsafe().slice(18, 31)}`
  return { rows, ids: rows.map((_, index) => prefix + (0x100000 + index).toString(16).slice(1)) }
}

/** A row of `usage` that counts requests refused with 429, and its counts before and after the write. */
export interface ThrottledRequestCount {
  readonly id: string
  /** The first throttled request. Its request id, time and other details are stored in the row. */
  readonly row: UsageRecord
  /** The row's counts before the write; zero if the row does not exist yet. */
  readonly countsBefore: { readonly requests: number; readonly bytes: number }
  readonly countsAfter: { readonly requests: number; readonly bytes: number }
}

const isDuplicate = ({ reason }: SqlError.SqlError) => reason._tag === "UniqueViolation"

const dayMillis = 86_400_000

/** Makes a function that creates missing partitions and then writes rows. Repeats both if a partition was dropped. */
const makePartitionedWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const daysWithPartition = new Set<number>()

  const createPartitions = Effect.fnUntraced(function* (rows: ReadonlyArray<UsageRecord>) {
    for (const { requested_at } of rows) {
      const day = Math.floor(requested_at / dayMillis)
      if (daysWithPartition.has(day)) continue
      yield* sql`select create_usage_partition(${
        DateTime.formatIso(DateTime.makeUnsafe(requested_at))
      }::text::timestamptz)`
      daysWithPartition.add(day)
    }
  })

  return <A>(rows: ReadonlyArray<UsageRecord>, write: Effect.Effect<A, SqlError.SqlError>) => {
    const attempt = Effect.andThen(createPartitions(rows), write)
    return Effect.catchIf(attempt, isCheckViolation, () => {
      daysWithPartition.clear()
      return attempt
    })
  }
})

/** Makes the function that writes a batch. Writing the same batch again changes nothing. */
export const makeUsageWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const withPartitions = yield* makePartitionedWriter

  /** Writes a batch. `bigint` columns are sent as floats, which are exact up to 2^53 and faster than `bigint`. */
  const write = ({ ids, rows }: UsageBatch, onConflict: "on conflict do nothing" | "") => {
    // The newest month. Costs of the month before it no longer count towards budgets.
    const newest = rows.reduce((latest, { requested_at }) => Math.max(latest, requested_at), 0)
    const month = sql`${getDateInNewYork(newest).replace(/..$/, "01")}::text::date`
    const reservations = rows.flatMap(({ reservation_id }) => reservation_id ?? [])
    const givenBack = reservations.length === 0 ? sql.literal("") : sql`, given_back as (
        delete from balance_reservations where reservation_id = any(${makeArrayParameter(reservations, OID.uuid)})
      )`
    return sql`
      with locked as materialized (
        select account_id from accounts
        where account_id = any(${
      makeArrayParameter(Array.from(new Set(rows.map((row) => row.account_id))), OID.float8)
    }::bigint[])
        order by account_id for no key update
      ), recorded as (
        insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, via)
        select
          unnest(${makeArrayParameter(ids, OID.uuid)}),
          unnest(${makeArrayParameter(rows.map((row) => row.requested_at), OID.timestamptz)}),
          unnest(${makeArrayParameter(rows.map((row) => row.account_id), OID.float8)}),
          unnest(${makeArrayParameter(rows.map((row) => row.key_id), OID.float8)}),
          unnest(${makeArrayParameter(rows.map((row) => row.request_id), OID.text)}),
          unnest(${makeArrayParameter(rows.map((row) => row.endpoint), OID.text)}),
          unnest(${makeArrayParameter(rows.map((row) => row.status_code), OID.int2)}),
          unnest(${makeArrayParameter(rows.map((row) => row.records_returned), OID.int4)}),
          unnest(${makeArrayParameter(rows.map((row) => row.bytes), OID.float8)}),
          unnest(${makeArrayParameter(rows.map((row) => row.cost_microdollars), OID.float8)}),
          unnest(${makeArrayParameter(rows.map((row) => row.duration_ms), OID.int4)}),
          unnest(${makeArrayParameter(rows.map((row) => row.cached), OID.bool)}),
          unnest(${makeArrayParameter(rows.map((row) => row.deprecated), OID.bool)}),
          unnest(${makeArrayParameter(rows.map((row) => row.via), OID.text)})
        where (select count(*) from locked) >= 0
        ${sql.literal(onConflict)}
        returning requested_at, account_id, endpoint, status_code, bytes, cost_microdollars
      ), hourly as (
        -- Sums rows by hour before the time zone is converted, because a conversion per row is much slower. The hours
        -- of UTC and of New York begin at the same times.
        select account_id, date_bin('1 hour', requested_at, timestamptz '1970-01-01 00:00:00Z') as hour, endpoint,
          count(*) as requests, count(*) filter (where status_code >= 400) as errors, sum(bytes) as bytes,
          sum(cost_microdollars) as cost
        from recorded group by 1, 2, 3
      ), daily as materialized (
        select account_id, (hour at time zone 'America/New_York')::date as usage_date, endpoint,
          sum(requests) as requests, sum(errors) as errors, sum(bytes) as bytes, sum(cost) as cost
        from hourly group by 1, 2, 3
      ), summed as (
        insert into usage_daily as existing
          (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
        select account_id, usage_date, endpoint, requests, errors, bytes, cost from daily
        on conflict (account_id, usage_date, endpoint) do update set
          requests = existing.requests + excluded.requests,
          errors = existing.errors + excluded.errors,
          bytes = existing.bytes + excluded.bytes,
          cost_microdollars = existing.cost_microdollars + excluded.cost_microdollars
      )${givenBack}
      update accounts
      set balance_microdollars = balance_microdollars - charged.cost, last_charged_at = now(),
        budget_month = case when budget_microdollars is not null then greatest(budget_month, ${month}) end,
        budget_spent_microdollars = case when budget_microdollars is not null then
          case when budget_month >= ${month} then budget_spent_microdollars else 0 end
          + case when budget_month > ${month} then 0 else charged.month_cost end
        end
      from (
        select account_id, sum(cost)::bigint as cost,
          coalesce(sum(cost) filter (where usage_date >= ${month}), 0)::bigint as month_cost
        from daily group by account_id having sum(cost) > 0
      ) as charged
      where accounts.account_id = charged.account_id
    `
  }

  /** `on conflict` makes the statement 50% slower, so it is used only if some rows turn out to be duplicates. */
  return (batch: UsageBatch) =>
    withPartitions(
      batch.rows,
      Effect.catchIf(write(batch, ""), isDuplicate, () => write(batch, "on conflict do nothing")),
    )
})

/** Makes the function that writes counts of throttled requests. Writing the same counts again changes nothing. */
export const makeThrottledRequestCountWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const withPartitions = yield* makePartitionedWriter

  const write = (batch: ReadonlyArray<ThrottledRequestCount>) => {
    const floats = (get: (count: ThrottledRequestCount) => number) => makeArrayParameter(batch.map(get), OID.float8)
    const texts = (get: (count: ThrottledRequestCount) => string | null) => makeArrayParameter(batch.map(get), OID.text)
    // Updates a row only if its count is still `countsBefore`, so that sending the same batch again changes nothing.
    return sql`
      with sent as materialized (
        select * from unnest(
          ${makeArrayParameter(batch.map(({ id }) => id), OID.uuid)},
          ${makeArrayParameter(batch.map(({ row }) => row.requested_at), OID.timestamptz)},
          ${floats(({ row }) => row.account_id)}::bigint[], ${floats(({ row }) => row.key_id)}::bigint[],
          ${texts(({ row }) => row.request_id)}, ${texts(({ row }) => row.endpoint)},
          ${floats(({ row }) => row.status_code)}::smallint[], ${floats(({ row }) => row.duration_ms)}::integer[],
          ${makeArrayParameter(batch.map(({ row }) => row.deprecated), OID.bool)}, ${texts(({ row }) => row.via)},
          ${floats(({ countsBefore }) => countsBefore.requests)}::bigint[], ${
      floats(({ countsBefore }) => countsBefore.bytes)
    }::bigint[],
          ${floats(({ countsAfter }) => countsAfter.requests)}::bigint[], ${
      floats(({ countsAfter }) => countsAfter.bytes)
    }::bigint[]
        ) as refused (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, duration_ms,
          deprecated, via, requests_before, bytes_before, requests_after, bytes_after)
      ), locked as materialized (
        select account_id from accounts where account_id in (select account_id from sent)
        order by account_id for no key update
      ), recorded as (
        insert into usage as existing (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, via, request_count)
        select usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          0, bytes_after, 0, duration_ms, false, deprecated, via, requests_after
        from sent where (select count(*) from locked) >= 0
        on conflict (account_id, requested_at, usage_id) do update
        set request_count = excluded.request_count, bytes = excluded.bytes
        where existing.request_count = (select requests_before from sent where sent.usage_id = excluded.usage_id)
        returning usage_id
      )
      insert into usage_daily as existing (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
      select account_id, (requested_at at time zone 'America/New_York')::date, endpoint,
        sum(requests_after - requests_before), sum(requests_after - requests_before), sum(bytes_after - bytes_before), 0
      from sent join recorded using (usage_id) group by 1, 2, 3
      on conflict (account_id, usage_date, endpoint) do update set
        requests = existing.requests + excluded.requests,
        errors = existing.errors + excluded.errors,
        bytes = existing.bytes + excluded.bytes
    `
  }

  return (batch: ReadonlyArray<ThrottledRequestCount>) => withPartitions(batch.map(({ row }) => row), write(batch))
})
