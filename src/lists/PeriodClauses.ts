/**
 * SQL for lists that follow lineages: a statement reads the rows of each period by itself, with an index on symbol and
 * date, at most as many as the page needs. docs/decisions/0091-followed-lineages.md
 */
import type { SqlClient, Statement } from "effect/sql"
import { arrayParameter, OID } from "../db/ArrayParameters.ts"
import { fieldTypes } from "../rows/FieldEncoders.ts"
import type { RowDate } from "../rows/RowEncoder.ts"
import type { QueryParameter } from "./Conditions.ts"
import type { FollowedPeriod } from "./FollowedLineages.ts"

/** SQL fragments of a statement that reads the rows of each period. */
export interface PeriodClauses {
  /** A table `period (lineage_ticker, symbol, starts, ends)` for `from`, to be joined laterally. */
  readonly from: Statement.Fragment
  /** Whether a row belongs to the period. */
  readonly where: Statement.Fragment
  /** Order and limit of the rows of one period. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
}

/** Compares the row's date with the period in a way that an index on symbol and date supports. */
const compareDate = (sql: SqlClient.SqlClient, { column, type }: RowDate) => {
  const name = sql(column)
  if (type === fieldTypes.date) return sql`${name} >= starts and ${name} < ends`
  const midnight = (day: string) => sql.literal(`${day}::timestamp at time zone interval '-05:00'`)
  return sql`${name} >= ${midnight("starts")} and ${name} < ${midnight("ends")}`
}

export interface PeriodClauseOptions {
  /** Undefined if the rows have no date. */
  readonly rowDate: RowDate | undefined
  readonly orderAndLimit: PeriodClauses["orderAndLimit"]
  readonly condition: string
}

/**
 * `intervals` are the periods, or the gaps with their company as `lineage_ticker`. `condition` selects some of them,
 * such as those of one company.
 */
export const makePeriodClauses = (
  sql: SqlClient.SqlClient,
  intervals: QueryParameter<ReadonlyArray<FollowedPeriod>>,
  { condition, orderAndLimit, rowDate }: PeriodClauseOptions,
): PeriodClauses => {
  const texts = (name: keyof FollowedPeriod) =>
    intervals.map((all) => arrayParameter(all.map((interval) => interval[name]), OID.text))
  return {
    from: sql`(
      select * from unnest(
        ${texts("lineage_ticker")}::text[], ${texts("ticker")}::text[],
        ${texts("from")}::text[]::date[], ${texts("until")}::text[]::date[]
      ) as period (lineage_ticker, symbol, starts, ends) where ${sql.literal(condition)}
    ) as period`,
    where: rowDate === undefined ? sql`ticker = symbol` : sql`ticker = symbol and ${compareDate(sql, rowDate)}`,
    orderAndLimit,
  }
}
