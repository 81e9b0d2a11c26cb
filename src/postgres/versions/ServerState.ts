/**
 * The state that a PostgreSQL server reports when polled: its WAL position, its timeline, and the version of each
 * dataset. The same query runs on the primary and on replicas. Polling makes a change visible to the service within one
 * second (D17, caching).
 */
import { Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { decodeRows } from "../DecodeRows.ts"

/**
 * How long the result of a poll may be used, in milliseconds. This is one second minus the time that a request needs to
 * start.
 */
export const serverStateTtlMillis = Duration.toMillis(Duration.millis(900))
/** Time limit for a poll of a server. */
export const serverPollTimeout = Duration.millis(700)

const DatasetRow = Schema.Struct({
  dataset: Schema.String,
  version: Schema.String,
  changes: Schema.Number,
  /** When the dataset last changed, in Unix seconds. Null if it has never changed. */
  changed_at: Schema.NullOr(Schema.Number),
  is_replica: Schema.Boolean,
  /** Bytes of WAL that the primary has written or the replica has replayed. */
  wal_position: Schema.NullOr(Schema.Number),
  /** The timeline id, which changes with every failover. Null on a replica. */
  timeline: Schema.NullOr(Schema.String),
})

/** The result of a poll. */
export interface ServerState extends Pick<typeof DatasetRow.Type, "is_replica" | "wal_position" | "timeline"> {
  /** When the poll started, in monotonic milliseconds. */
  readonly polledAt: number
  readonly datasets: ReadonlyMap<string, typeof DatasetRow.Type>
}

/**
 * Returns an effect that polls a server. Only tables with the `note_change` trigger have a version, and only they may
 * be cached.
 */
export const makeServerPoll = (sql: SqlClient.SqlClient) => {
  // Returns one row per table with the trigger; each row repeats the server's state. `dataset_versions` may have
  // several rows per table. Every write adds a row with a new random `mark`, so all marks of a table together form its
  // version. On a standby, `wal_position` is the position up to which it has replayed the WAL. The first 8 digits of a
  // WAL file name are the timeline id. `tgenabled` is O or A for a trigger that is not disabled.
  const readDatasets = decodeRows(DatasetRow)(sql`
    select relname as dataset,
      coalesce(string_agg(mark::text, ',' order by mark), '') as version,
      coalesce(sum(changes), 0)::float8 as changes, extract(epoch from max(changed_at))::float8 as changed_at,
      pg_is_in_recovery() as is_replica,
      pg_wal_lsn_diff(
        case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0'
      )::float8 as wal_position,
      case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline
    from pg_trigger join pg_class on pg_class.oid = tgrelid left join dataset_versions on dataset = relname
    where tgfoid = 'public.note_change'::regproc and tgenabled in ('O', 'A')
      and relnamespace = 'public'::regnamespace
    group by pg_class.oid, relname
  `)
  return Effect.gen(function* () {
    const now = yield* makeMonotonicClock
    const polledAt = now()
    const rows = yield* readDatasets
    const { is_replica = false, timeline = null, wal_position = null } = rows[0] ?? {}
    const datasets = new Map(rows.map((row) => [row.dataset, row]))
    const state: ServerState = { polledAt, is_replica, timeline, wal_position, datasets }
    return state
  })
}

/**
 * Returns a function that combines the versions of `tables` in a polled state, or returns undefined if a table has no
 * version. The result includes the timeline, so that a row that was lost in a failover does not remain in a cache.
 */
export const makeDatasetVersionReader = (tables: ReadonlyArray<string>) => {
  let cachedFor: ServerState | undefined
  let cached: string | undefined
  return (state: ServerState) => {
    if (cachedFor !== state) {
      const versions = tables.map((table) => state.datasets.get(table)?.version)
      cached = versions.includes(undefined) ? undefined : [state.timeline, ...versions].join(" ")
      cachedFor = state
    }
    return cached
  }
}
