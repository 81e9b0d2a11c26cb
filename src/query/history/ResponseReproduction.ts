/**
 * Finds the timestamps to use as `as_of` to reproduce the response to an earlier request. docs/decisions/0114-as-of.md
 * explains why this may be needed.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { formatHistoryTimestamp, makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"

/** When a request started and when its response was complete, in milliseconds since 1970. */
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
  readonly timestamps: ReadonlyArray<string>
  /**
   * The number of later states whose timestamps are not in `timestamps`, because there are more than `maxListedChanges`
   * changes.
   */
  readonly omitted: number
}

/**
 * The maximum age of the data in a response. A response may lack changes from the last second before its request (D17,
 * caching).
 */
const maxDataAgeMillis = 1_000

/** Maximum number of changes whose timestamps are returned. */
const maxListedChanges = 9

/**
 * The result row of the statement in `findResponseTimestamps`. `changes` are the timestamps of the first
 * `maxListedChanges` changes, and `change_count` is the number of all changes.
 */
const Row = Schema.Struct({
  earliest: Schema.String,
  is_too_early: Schema.Boolean,
  untracked: Schema.Array(Schema.String),
  /** The last timestamp before the first change in the period, or null if there were no changes. */
  before: Schema.NullOr(Schema.String),
  changes: Schema.Array(Schema.String),
  change_count: Schema.Int,
})

/**
 * Returns timestamps at which the tables contained the data that a response may have been based on.
 *
 * The data of a response may be up to `maxDataAgeMillis` older than its request. The response may therefore have been
 * based on the state of the tables before the first change in the period from then until the response was complete, or
 * on the state after any change in that period. For example, if the tables changed once during the request, there are
 * two timestamps: the last microsecond before the change, and the time of the change.
 */
export const findResponseTimestamps = Effect.fnUntraced(
  function* ({ endedAt, startedAt }: ResponseTime, tables: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const toTimeSql = (millis: number) => sql`${new Date(millis).toISOString()}::text::timestamptz`
    const tableNames = makeArrayParameter(tables, OID.text)
    // The statement returns one row (`Row`). `period` is the time in which a change may have affected the response, and
    // `changes` are the transactions that wrote to any of the tables in that time.
    const [row] = yield* decodeRows(Row)(sql`
      with period as (
        -- Recorded request times are truncated to the millisecond, so the response may have ended up to 1 ms later.
        select ${toTimeSql(startedAt - maxDataAgeMillis)} as since, ${toTimeSql(endedAt + 1)} as until
      ), changes as materialized (
        select recorded_at from history.transactions
        where recorded_at > (select since from period) and recorded_at <= (select until from period)
          and changes ?| ${tableNames}
      )
      select ${sql.literal(makeHistoryTimestampSql("earliest"))} as earliest, earliest > since as is_too_early,
        array(
          select name from unnest(${tableNames}) as name where name not in (select dataset from history.datasets)
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
    // Without changes, there is only one state, and its timestamp is the time of the request. `as_of` needs six
    // decimals, so the three decimals of the time in milliseconds are padded with zeros.
    const decimals = `${new Date(startedAt).toISOString().slice(20, 23)}000`
    const requestTimestamp = yield* Effect.orDie(Effect.fromNullishOr(formatHistoryTimestamp(startedAt, decimals)))
    return {
      earliest: found.earliest,
      isTooEarly: found.is_too_early,
      untracked: found.untracked,
      timestamps: found.before === null ? [requestTimestamp] : [found.before, ...found.changes],
      omitted: found.change_count - found.changes.length,
    } satisfies ResponseStates
  },
)
