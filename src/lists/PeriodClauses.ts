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
  /** The same, for rows that are read in this order. An index has the symbol and then the order. */
  readonly whereInOrder: (order: Statement.Fragment) => Statement.Fragment
  /** Order and limit of the rows of one period. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /** The same order for the rows of all periods, written so that PostgreSQL reads no more periods than it needs. */
  readonly mergeOrder: (order: Statement.Fragment) => Statement.Fragment
}

interface DateRange {
  readonly date: Statement.Fragment
  readonly start: Statement.Fragment
  readonly end: Statement.Fragment
}

export const isInRange = (sql: SqlClient.SqlClient, { date, end, start }: DateRange) =>
  sql`${date} >= ${start} and ${date} < ${end}`

/**
 * For a list in another order than that of the date. Counts may use a partial index that no other statement can use
 * (migration 44). Pages use no index on the date, because PostgreSQL would read and sort all rows of the range.
 */
export const isInUnsortedRange = (sql: SqlClient.SqlClient, range: DateRange, isCount: boolean) => {
  const { date, end, start } = range
  return isCount
    ? sql`${isInRange(sql, range)} and ${date} > '-infinity'`
    : sql`case when ${date} >= ${start} then ${date} < ${end} else false end`
}

/** The days of the period, to compare with the date of the row. */
const toRange = (sql: SqlClient.SqlClient, { column, type }: RowDate): DateRange => {
  const midnight = (day: string) =>
    sql.literal(type === fieldTypes.date ? day : `${day}::timestamp at time zone interval '-05:00'`)
  return { date: sql`${sql(column)}`, start: midnight("starts"), end: midnight("ends") }
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
  const isOfSymbol = sql`ticker = symbol`
  const range = rowDate === undefined ? undefined : toRange(sql, rowDate)
  const where = range === undefined ? isOfSymbol : sql`${isOfSymbol} and ${isInRange(sql, range)}`
  return {
    areGaps,
    from: sql`(
      select * from unnest(
        ${array("owner", "text")}, ${array("ticker", "text")}, ${array("from", "date")}, ${array("until", "date")},
        ${array("rank", "int4")}
      ) as period (lineage_ticker, symbol, starts, ends, rank) ${sql.literal(selection)}
    ) as period`,
    where,
    whereInOrder: (order) =>
      range === undefined || isSortedByDate(order)
        ? where
        : sql`${isOfSymbol} and ${isInUnsortedRange(sql, range, areGaps)}`,
    orderAndLimit,
    mergeOrder: (order) => isSortedByDate(order) ? sql`period.rank, ${order}` : order,
  }
}
