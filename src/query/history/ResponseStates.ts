/**
 * Finds the timestamps to use as `as_of` to reproduce the response to an earlier request. docs/decisions/0114-as-of.md
 * explains why this may be needed.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { formatHistoryTimestamp, makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"

/** When the request started and the response was complete, in milliseconds since 1970. */
export interface ResponseTime {
  readonly startedAt: number
  readonly endedAt: number
}

/** Which past states of the tables a response may have been based on. */
export interface ResponseStates {
  /** The earliest timestamp in the history. */
  readonly earliest: string
  /** Whether the history no longer contains some of the data that the response may have been based on. */
  readonly isTooEarly: boolean
  /** The requested tables that have no history. */
  readonly untracked: ReadonlyArray<string>
  /**
   * One timestamp for each state of the tables that the response may have been based on, oldest first. There is only
   * one unless the tables changed around the time of the request.
   */
  readonly moments: ReadonlyArray<string>
  /** The number of later states that are not listed. */
  readonly omitted: number
}

/**
 * The maximum age of the data in a response. A response may lack changes from the last second before its request (D17,
 * caching).
 */
const maxDataAgeMillis = 1_000

const maxListedChanges = 9

const Row = Schema.Struct({
  earliest: Schema.String,
  is_too_early: Schema.Boolean,
  untracked: Schema.Array(Schema.String),
  /** The last timestamp before the first change, or null if there were no changes. */
  before: Schema.NullOr(Schema.String),
  changes: Schema.Array(Schema.String),
  change_count: Schema.Int,
})

/** Returns timestamps at which the tables contained the data that a response may have been based on. */
export const findResponseTimestamps = Effect.fnUntraced(
  function* ({ endedAt, startedAt }: ResponseTime, tables: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const toTime = (millis: number) => sql`${new Date(millis).toISOString()}::text::timestamptz`
    const names = makeArrayParameter(tables, OID.text)
    // The response may have been based on the state before the first change in the period, or on the state after any of
    // the changes.
    const [row] = yield* decodeRows(Row)(sql`
      with period as (
        -- Recorded request times are truncated to the millisecond.
        select ${toTime(startedAt - maxDataAgeMillis)} as since, ${toTime(endedAt + 1)} as until
      ), changes as materialized (
        select recorded_at from history.transactions
        where recorded_at > (select since from period) and recorded_at <= (select until from period)
          and changes ?| ${names}
      )
      select ${sql.literal(makeHistoryTimestampSql("earliest"))} as earliest, earliest > since as is_too_early,
        array(
          select name from unnest(${names}) as name where name not in (select dataset from history.datasets)
        ) as untracked,
        (select ${
      sql.literal(makeHistoryTimestampSql("min(recorded_at) - interval '1 microsecond'"))
    } from changes) as before,
        array(
          select ${sql.literal(makeHistoryTimestampSql("recorded_at"))} from changes order by recorded_at
          limit ${maxListedChanges}::int
        ) as changes,
        (select count(*) from changes)::float8 as change_count
      from history.beginning cross join period
    `)
    const found = yield* Effect.orDie(Effect.fromNullishOr(row))
    // Without changes, there is only one state. Its timestamp is the time of the request, with microseconds.
    const decimals = `${new Date(startedAt).toISOString().slice(20, 23)}000`
    const started = yield* Effect.orDie(Effect.fromNullishOr(formatHistoryTimestamp(startedAt, decimals)))
    return {
      earliest: found.earliest,
      isTooEarly: found.is_too_early,
      untracked: found.untracked,
      moments: found.before === null ? [started] : [found.before, ...found.changes],
      omitted: found.change_count - found.changes.length,
    } satisfies ResponseStates
  },
)
