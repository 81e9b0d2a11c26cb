/**
 * D27, D29: how requests are recorded and charged. One statement writes a batch of them, adds them to the sums of
 * their days and takes their cost off the balances, all of it from the rows that are new: sent twice they count once.
 * It locks the accounts first, in one order, so that two instances never wait for each other in a circle.
 */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"

/** A request that was answered. */
export interface Used {
  /** Its own key; the `request_id` may be the client's, who may send one twice. */
  readonly usage_id: string
  /** ISO 8601. */
  readonly requested_at: string
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

/** Writes a batch; safe to repeat. */
export const recorder = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  /** Whose partitions are there, `YYYY-MM`. */
  const months = new Set<string>()

  const prepare = Effect.fnUntraced(function* (batch: ReadonlyArray<Used>) {
    for (const { requested_at } of batch) {
      const month = requested_at.slice(0, 7)
      if (months.has(month)) continue
      yield* sql`select create_usage_partition(${requested_at}::text::timestamptz)`
      months.add(month)
    }
  })

  const write = (batch: ReadonlyArray<Used>, accounts: ReadonlyArray<number>) =>
    sql`
      with locked as materialized (
        select account_id from accounts
        where account_id in (select jsonb_array_elements_text(${JSON.stringify(accounts)}::text::jsonb)::bigint)
        order by account_id for no key update
      ), recorded as (
        insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated)
        select usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated
        from jsonb_to_recordset(${JSON.stringify(batch)}::text::jsonb) as used (usage_id uuid,
          requested_at timestamptz, account_id bigint, key_id bigint, request_id text, endpoint text,
          status_code smallint, records_returned integer, bytes bigint, cost_microdollars bigint,
          duration_ms integer, cached boolean, deprecated boolean)
        where (select count(*) from locked) >= 0
        on conflict do nothing
        returning requested_at, account_id, endpoint, status_code, bytes, cost_microdollars
      ), summed as (
        insert into usage_daily as kept (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
        select account_id, (requested_at at time zone 'America/New_York')::date, endpoint, count(*),
          count(*) filter (where status_code >= 400), sum(bytes), sum(cost_microdollars)
        from recorded group by 1, 2, 3
        on conflict (account_id, usage_date, endpoint) do update set
          requests = kept.requests + excluded.requests,
          errors = kept.errors + excluded.errors,
          bytes = kept.bytes + excluded.bytes,
          cost_microdollars = kept.cost_microdollars + excluded.cost_microdollars
      )
      update accounts
      set balance_microdollars = balance_microdollars - charged.cost, last_charged_at = now()
      from (
        select account_id, sum(cost_microdollars)::bigint as cost from recorded
        group by account_id having sum(cost_microdollars) > 0
      ) as charged
      where accounts.account_id = charged.account_id
    `

  return Effect.fnUntraced(function* (batch: ReadonlyArray<Used>) {
    yield* prepare(batch)
    yield* write(batch, Array.from(new Set(batch.map(({ account_id }) => account_id))))
  })
})

/** Drops the partitions of raw rows that lie wholly before the moment; the daily sums stay. */
export const dropBefore = Effect.fnUntraced(function* (moment: DateTime.Utc) {
  const sql = yield* SqlClient.SqlClient
  const dropped = yield* sql<{ readonly name: string }>`
    select name from drop_usage_partitions(${DateTime.formatIso(moment)}::text::timestamptz) as name
  `
  return dropped.map(({ name }) => name)
})
