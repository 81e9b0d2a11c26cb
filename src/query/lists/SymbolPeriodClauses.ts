/**
 * SQL for lists that follow lineages. The statement reads each period of a symbol separately, using the index on symbol
 * and date. It reads no more rows from a period than the page could need (docs/decisions/0091-followed-lineages.md).
 */
import { Function } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { postgresTypeIds } from "../rows/FieldEncoders.ts"
import type { RowDateColumn } from "../rows/RowEncoder.ts"
import { printedOffset } from "../../contract/rules/Dates.ts"
import type { ListStatementParameter } from "./FilterConditions.ts"
import type { FollowedSymbolPeriod } from "./FollowedPeriods.ts"

/** SQL fragments for a statement that reads the rows of each period separately. */
export interface SymbolPeriodClauses {
  /**
   * Whether the intervals are the gaps between periods instead of the periods themselves. Rows in gaps are only
   * counted.
   */
  readonly areGaps: boolean
  /**
   * The intervals as a table for the `from` clause: `period (lineage_ticker, symbol, starts, ends, rank)`. Join it
   * laterally.
   */
  readonly from: Statement.Fragment
  /** The condition that a row belongs to the interval. */
  readonly where: Statement.Fragment
  /**
   * Returns the condition that a row belongs to the interval, for rows in this order. Unless the order is by date, the
   * condition is written so that PostgreSQL does not use the index on the date.
   */
  readonly whereInOrder: (order: Statement.Fragment) => Statement.Fragment
  /** Returns the order and limit for the rows of one interval. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /**
   * Returns the order for the merged rows of all intervals, written so that PostgreSQL reads no more periods than it
   * needs.
   */
  readonly mergeOrder: (order: Statement.Fragment) => Statement.Fragment
}

/** SQL for a row's date, and for the start (inclusive) and end (exclusive) of a range of dates. */
interface DateRange {
  readonly date: Statement.Fragment
  readonly start: Statement.Fragment
  readonly end: Statement.Fragment
}

/** Builds the condition that a row's date is within the range. */
export const buildDateRangeCondition = (sql: SqlClient.SqlClient, { date, end, start }: DateRange) =>
  sql`${date} >= ${start} and ${date} < ${end}`

/**
 * Builds a condition that is true for the same rows as `buildDateRangeCondition`, for a list that is not sorted by
 * date. Pages must not use an index on the date, because PostgreSQL would then read and sort the whole range.
 * PostgreSQL cannot use an index for a `case` expression. Counts (`isCount`) may use `news_ticker_filed_at_idx`, a
 * partial index on dates after `-infinity`.
 */
export const buildDateRangeConditionForOtherOrder = (sql: SqlClient.SqlClient, range: DateRange, isCount: boolean) => {
  const { date, end, start } = range
  return isCount
    ? sql`${buildDateRangeCondition(sql, range)} and ${date} > '-infinity'`
    : sql`case when ${date} >= ${start} then ${date} < ${end} else false end`
}

/** Returns SQL for a row's date and for the start and end of the interval, both converted to the type of the date. */
const toRange = (sql: SqlClient.SqlClient, { column, type }: RowDateColumn): DateRange => {
  const midnight = (day: string) =>
    sql.literal(type === postgresTypeIds.date ? day : `${day}::timestamp at time zone interval '${printedOffset.text}'`)
  return { date: sql`${sql(column)}`, start: midnight("starts"), end: midnight("ends") }
}

/**
 * Converts intervals to one SQL array per field. Memoized, because each statement needs all five arrays, and because
 * the intervals of a cached lineage are always the same object.
 */
const toArrays = Function.memoize((intervals: ReadonlyArray<FollowedSymbolPeriod>) => {
  const toArray = (name: keyof FollowedSymbolPeriod, type: number) =>
    makeArrayParameter(intervals.map((interval) => interval[name]), type)
  return {
    owner: toArray("owner", OID.text),
    ticker: toArray("ticker", OID.text),
    from: toArray("from", OID.date),
    until: toArray("until", OID.date),
    rank: toArray("rank", OID.int4),
  }
})

/** Options for the SQL of followed periods. */
export interface SymbolPeriodClauseOptions {
  /** Whether the intervals are the gaps between periods. */
  readonly areGaps: boolean
  /** The column with a row's date, or undefined if the rows have no date. */
  readonly rowDate: RowDateColumn | undefined
  /** Builds the order and limit for the rows of one interval. */
  readonly orderAndLimit: SymbolPeriodClauses["orderAndLimit"]
  /** A `where` or `order by` clause that selects or sorts the intervals. It may refer to the columns of `period`. */
  readonly selection: string
}

/**
 * Builds the SQL fragments for a query that follows lineages. `intervals` are the periods in which the requested
 * companies used their symbols or, if `areGaps` is true, the gaps between these periods. `selection` is a `where` or
 * `order by` clause for these intervals. `rowDate` is the column with the date of the list's rows, which decides to
 * which interval of its symbol a row belongs; if the rows have no date, they belong to every interval of the symbol.
 *
 * A statement joins `from` laterally with a subquery that reads one interval's rows. For example, for a company that
 * was called FB until 2022-06-09 and has been called META since then, `from` has two rows:
 *
 * | lineage_ticker | symbol | starts | ends | rank |
 * | --- | --- | --- | --- | --- |
 * | META | META | 2022-06-09 | infinity | 0 |
 * | META | FB | -infinity | 2022-06-09 | 1 |
 */
export const makeSymbolPeriodClauses = (
  sql: SqlClient.SqlClient,
  intervals: ListStatementParameter<ReadonlyArray<FollowedSymbolPeriod>>,
  { areGaps, orderAndLimit, rowDate, selection }: SymbolPeriodClauseOptions,
): SymbolPeriodClauses => {
  // Returns SQL for an array of one field's values across all intervals. The array is passed through a subquery.
  // Otherwise PostgreSQL would see its length and plan every execution separately.
  const intervalArray = (name: keyof FollowedSymbolPeriod, type: string) =>
    sql`(select ${intervals.map((values) => toArrays(values)[name])}::${sql.literal(type)}[])`
  /**
   * Returns whether the order starts with the newest rows. In that case, all rows of a period come before the rows of
   * periods with a higher rank.
   */
  const isSortedByDate = (order: Statement.Fragment) => {
    const [text] = sql`${order}`.compile()
    return rowDate !== undefined && text.startsWith(`${rowDate.column} desc`)
  }
  // `ticker` and the date are columns of the list's table. `symbol`, `starts` and `ends` are columns of `period`.
  const hasSymbol = sql`ticker = symbol`
  const range = rowDate === undefined ? undefined : toRange(sql, rowDate)
  const where = range === undefined ? hasSymbol : sql`${hasSymbol} and ${buildDateRangeCondition(sql, range)}`
  return {
    areGaps,
    from: sql`(
      select * from unnest(
        ${intervalArray("owner", "text")}, ${intervalArray("ticker", "text")}, ${intervalArray("from", "date")},
        ${intervalArray("until", "date")}, ${intervalArray("rank", "int4")}
      ) as period (lineage_ticker, symbol, starts, ends, rank) ${sql.literal(selection)}
    ) as period`,
    where,
    whereInOrder: (order) =>
      range === undefined || isSortedByDate(order)
        ? where
        : sql`${hasSymbol} and ${buildDateRangeConditionForOtherOrder(sql, range, areGaps)}`,
    orderAndLimit,
    // Sorting by rank first lets PostgreSQL stop reading periods once the page is full.
    mergeOrder: (order) => isSortedByDate(order) ? sql`period.rank, ${order}` : order,
  }
}
