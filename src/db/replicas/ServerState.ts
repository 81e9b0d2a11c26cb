/**
 * D17: what a server tells when it is looked at, four times a second: how far it is, and which version of each dataset
 * it has, as the triggers of `dataset_versions` note them. The primary is asked in the same words as a replica.
 */
import { Duration, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

/** D17 allows a second from the commit to the first request that must see it. */
export const stateTtl = Duration.toMillis(Duration.millis(900))
export const pollTimeout = Duration.millis(700)

const Row = Schema.Struct({
  dataset: Schema.String,
  version: Schema.String,
  changes: Schema.Number,
  /** Seconds since 1970; none where it was never changed. */
  changed_at: Schema.NullOr(Schema.Number),
  recovers: Schema.Boolean,
  /** How many bytes of WAL were written, or replayed where it recovers. */
  position: Schema.NullOr(Schema.Number),
  /** Another one after each failover; none where it recovers. */
  timeline: Schema.NullOr(Schema.String),
})

export interface ServerState extends Pick<typeof Row.Type, "recovers" | "position" | "timeline"> {
  /** When the server was asked, by the clock that nobody sets back. */
  readonly polledAt: number
  readonly datasets: ReadonlyMap<string, typeof Row.Type>
}

/** A table that nobody watches, as its trigger is gone, has no version. That it is another table counts as well. */
export const makePoll = (sql: SqlClient.SqlClient) => {
  const find = SqlSchema.findAll({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        select relname as dataset,
          pg_class.oid || '.' || coalesce(string_agg(mark::text, ',' order by mark), '') as version,
          coalesce(sum(changes), 0)::float8 as changes, extract(epoch from max(changed_at))::float8 as changed_at,
          pg_is_in_recovery() as recovers,
          pg_wal_lsn_diff(
            case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0'
          )::float8 as position,
          case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline
        from pg_trigger join pg_class on pg_class.oid = tgrelid left join dataset_versions on dataset = relname
        where tgfoid = 'public.note_change'::regproc and tgenabled in ('O', 'A')
          and relnamespace = 'public'::regnamespace
        group by pg_class.oid, relname
      `,
  })
  return Effect.gen(function* () {
    const began = performance.now()
    const rows = yield* find()
    const { position = null, recovers = false, timeline = null } = rows[0] ?? {}
    const look: ServerState = {
      polledAt: began,
      recovers,
      position,
      timeline,
      datasets: new Map(rows.map((row) => [row.dataset, row])),
    }
    return look
  })
}

/**
 * The version of all `tables` in a look, undefined where one of them is not watched; joined once for each look. What
 * was read in the moment after a look may hold a commit that it did not see, and that a failover then loses: so the
 * timeline is part of a version, and nothing that was kept before outlives a failover.
 */
export const versionOf = (tables: ReadonlyArray<string>) => {
  let from: ServerState | undefined
  let joined: string | undefined
  return (look: ServerState) => {
    if (from !== look) {
      const versions = tables.map((table) => look.datasets.get(table)?.version)
      joined = versions.includes(undefined) ? undefined : [look.timeline, ...versions].join(" ")
      from = look
    }
    return joined
  }
}
