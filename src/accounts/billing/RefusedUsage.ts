/** D29: how requests refused with 429 are recorded. Several share a row, which grows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { arrayParameter, OID } from "../../db/ArrayParameters.ts"
import { makePartitionedWriter, type UsageRecord } from "./UsageWriter.ts"

/** How many requests were refused, and the bytes of their answers. */
interface RefusedSum {
  readonly requests: number
  readonly bytes: number
}

/** One row for several refused requests, and what it has to grow by. */
export interface RefusalCount {
  readonly id: string
  /** The first of these requests. */
  readonly row: UsageRecord
  /** What the row holds already; no requests: there is no such row yet. */
  readonly from: RefusedSum
  readonly to: RefusedSum
}

/**
 * Writes requests that were refused with 429 and cost nothing. A row grows only from the count that it is known to
 * have, so the same batch written twice counts once.
 */
export const makeRefusalWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const inPartitions = yield* makePartitionedWriter

  const write = (batch: ReadonlyArray<RefusalCount>) => {
    const floats = (of: (refused: RefusalCount) => number) => arrayParameter(batch.map(of), OID.float8)
    const texts = (of: (refused: RefusalCount) => string) => arrayParameter(batch.map(of), OID.text)
    return sql`
      with sent as materialized (
        select * from unnest(
          ${arrayParameter(batch.map(({ id }) => id), OID.uuid)},
          ${arrayParameter(batch.map(({ row }) => row.requested_at), OID.timestamptz)},
          ${floats(({ row }) => row.account_id)}::bigint[], ${floats(({ row }) => row.key_id)}::bigint[],
          ${texts(({ row }) => row.request_id)}, ${texts(({ row }) => row.endpoint)},
          ${floats(({ row }) => row.status_code)}::smallint[], ${floats(({ row }) => row.duration_ms)}::integer[],
          ${arrayParameter(batch.map(({ row }) => row.deprecated), OID.bool)},
          ${floats(({ from }) => from.requests)}::bigint[], ${floats(({ from }) => from.bytes)}::bigint[],
          ${floats(({ to }) => to.requests)}::bigint[], ${floats(({ to }) => to.bytes)}::bigint[]
        ) as refused (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, duration_ms,
          deprecated, requests_before, bytes_before, requests_after, bytes_after)
      ), locked as materialized (
        select account_id from accounts where account_id in (select account_id from sent)
        order by account_id for no key update
      ), recorded as (
        insert into usage as kept (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, request_count)
        select usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          0, bytes_after, 0, duration_ms, false, deprecated, requests_after
        from sent where (select count(*) from locked) >= 0
        on conflict (account_id, requested_at, usage_id) do update
        set request_count = excluded.request_count, bytes = excluded.bytes
        where kept.request_count = (select requests_before from sent where sent.usage_id = excluded.usage_id)
        returning usage_id
      )
      insert into usage_daily as kept (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
      select account_id, (requested_at at time zone 'America/New_York')::date, endpoint,
        sum(requests_after - requests_before), sum(requests_after - requests_before), sum(bytes_after - bytes_before), 0
      from sent join recorded using (usage_id) group by 1, 2, 3
      on conflict (account_id, usage_date, endpoint) do update set
        requests = kept.requests + excluded.requests,
        errors = kept.errors + excluded.errors,
        bytes = kept.bytes + excluded.bytes
    `
  }

  return (batch: ReadonlyArray<RefusalCount>) => inPartitions(batch.map(({ row }) => row), write(batch))
})
