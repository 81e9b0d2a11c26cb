/**
 * SQL for lists that follow lineages: a statement reads the rows of each period by itself, with an index on symbol and
 * date, at most as many as the page needs. docs/decisions/0091-followed-lineages.md
 */
import { Function } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { arrayParameter, OID } from "../db/ArrayParameters.ts"
import { fieldTypes } from "../rows/FieldEncoders.ts"
import type { RowDate } from "../rows/RowEncoder.ts"
import type { QueryParameter } from "./Conditions.ts"
import type { FollowedInterval } from "./FollowedLineages.ts"

/** SQL fragments of a statement that reads the rows of each period. */
export interface PeriodClauses {
  /** Whether the periods are the gaps between them, whose rows are only counted. */
  readonly areGaps: boolean
  /** A table `period (lineage_ticker, symbol, starts, ends, rank)` for `from`, to be joined laterally. */
  readonly from: Statement.Fragment
  /** Whether a row belongs to the period. */
  readonly where: Statement.Fragment
  /** Order and limit of the rows of one period. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /** The same order for the rows of all periods, written so that PostgreSQL reads no more periods than it needs. */
  readonly mergeOrder: (order: Statement.Fragment) => Statement.Fragment
}

/** Compares the row's date with the period in a way that an index on symbol and date supports. */
const compareDate = (sql: SqlClient.SqlClient, { column, type }: RowDate) => {
  const name = sql(column)
  if (type === fieldTypes.date) return sql`${name} >= starts and ${name} < ends`
  const midnight = (day: string) => sql.literal(`${day}::timestamp at time zone interval '-05:00'`)
  return sql`${name} >= ${midnight("starts")} and ${name} < ${midnight("ends")}`
}

const toArrays = Function.memoize((intervals: ReadonlyArray<FollowedInterval>) => {
  const toArray = (name: keyof FollowedInterval, type: number) =>
    arrayParameter(intervals.map((interval) => interval[name]), type)
  return {
    owner: toArray("owner", OID.text),
    ticker: toArray("ticker", OID.text),
    from: toArray("from", OID.date),
    until: toArray("until", OID.date),
    rank: toArray("rank", OID.int4),
  }
})

export interface PeriodClauseOptions {
  readonly areGaps: boolean
  /** Undefined if the rows have no date. */
  readonly rowDate: RowDate | undefined
  readonly orderAndLimit: PeriodClauses["orderAndLimit"]
  /** SQL after `from`, which selects or sorts the intervals. */
  readonly selection: string
}

export const makePeriodClauses = (
  sql: SqlClient.SqlClient,
  intervals: QueryParameter<ReadonlyArray<FollowedInterval>>,
  { areGaps, orderAndLimit, rowDate, selection }: PeriodClauseOptions,
): PeriodClauses => {
  // Subqueries, because PostgreSQL would otherwise plan each execution for the number of intervals.
  const array = (name: keyof FollowedInterval, type: string) =>
    sql`(select ${intervals.map((all) => toArrays(all)[name])}::${sql.literal(type)}[])`
  /** Whether the list has the newest rows first, so that the rows of a period precede those of the next rank. */
  const isSortedByDate = (order: Statement.Fragment) => {
    const [text] = sql`${order}`.compile()
    return rowDate !== undefined && text.startsWith(`${rowDate.column} desc`)
  }
  return {
    areGaps,
    from: sql`(
      select * from unnest(
        ${array("owner", "text")}, ${array("ticker", "text")}, ${array("from", "date")}, ${array("until", "date")},
        ${array("rank", "int4")}
      ) as period (lineage_ticker, symbol, starts, ends, rank) ${sql.literal(selection)}
    ) as period`,
    where: rowDate === undefined ? sql`ticker = symbol` : sql`ticker = symbol and ${compareDate(sql, rowDate)}`,
    orderAndLimit,
    mergeOrder: (order) => isSortedByDate(order) ? sql`period.rank, ${order}` : order,
  }
}
