/**
 * Finds the moments to use as `as_of` to get the response to an earlier request again. Why:
 * docs/decisions/0114-as-of.md
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { formatMoment, makeMomentSql } from "../../contract/rules/Dates.ts"

/** When a response was produced, in milliseconds since 1970. */
export interface ResponseTime {
  readonly startedAt: number
  readonly endedAt: number
}

/** What is known about the data behind a response. */
export interface ResponseMoments {
  /** The earliest moment in the history. */
  readonly earliest: string
  /** Whether some data that the response may have been based on is no longer in the history. */
  readonly isTooEarly: boolean
  /** The tables that have no history. */
  readonly untracked: ReadonlyArray<string>
  /**
   * One moment for each state of the tables that the response may have been based on, oldest first. There is only one
   * unless the tables changed at that time.
   */
  readonly moments: ReadonlyArray<string>
  /** How many later states are left out. */
  readonly omitted: number
}

/** A response may lack changes from the last second before its request (D17, caching). */
const maxDataAgeMillis = 1_000

const maxListedChanges = 9

const Row = Schema.Struct({
  earliest: Schema.String,
  is_too_early: Schema.Boolean,
  untracked: Schema.Array(Schema.String),
  /** The last moment before the first change, or null if there is none. */
  before: Schema.NullOr(Schema.String),
  changes: Schema.Array(Schema.String),
  change_count: Schema.Int,
})

/** Returns the moments at which the tables contained the data that a response may have been based on. */
export const findResponseMoments = Effect.fnUntraced(
  function* ({ endedAt, startedAt }: ResponseTime, tables: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const toTime = (millis: number) => sql`${new Date(millis).toISOString()}::text::timestamptz`
    const names = makeArrayParameter(tables, OID.text)
    // The tables may have had any state from `before` the first change in the period up to the last change in it.
    const [row] = yield* decodeRows(Row)(sql`
      with period as (
        -- Recorded request times are truncated to the millisecond.
        select ${toTime(startedAt - maxDataAgeMillis)} as since, ${toTime(endedAt + 1)} as until
      ), changes as materialized (
        select recorded_at from history.transactions
        where recorded_at > (select since from period) and recorded_at <= (select until from period)
          and changes ?| ${names}
      )
      select ${sql.literal(makeMomentSql("earliest"))} as earliest, earliest > since as is_too_early,
        array(
          select name from unnest(${names}) as name where name not in (select dataset from history.datasets)
        ) as untracked,
        (select ${sql.literal(makeMomentSql("min(recorded_at) - interval '1 microsecond'"))} from changes) as before,
        array(
          select ${sql.literal(makeMomentSql("recorded_at"))} from changes order by recorded_at
          limit ${maxListedChanges}::int
        ) as changes,
        (select count(*) from changes)::float8 as change_count
      from history.beginning cross join period
    `)
    const found = yield* Effect.orDie(Effect.fromNullishOr(row))
    // Without changes, there is only one state, and the moment is the time of the request, with microseconds.
    const decimals = `${new Date(startedAt).toISOString().slice(20, 23)}000`
    const started = yield* Effect.orDie(Effect.fromNullishOr(formatMoment(startedAt, decimals)))
    return {
      earliest: found.earliest,
      isTooEarly: found.is_too_early,
      untracked: found.untracked,
      moments: found.before === null ? [started] : [found.before, ...found.changes],
      omitted: found.change_count - found.changes.length,
    } satisfies ResponseMoments
  },
)
