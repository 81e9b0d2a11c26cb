/** The types with which a list is defined (D8): its rows, its filters, and the statement that selects them. */
import type { Statement } from "effect/sql"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import type { OptInColumn } from "../../contract/rows/Columns.ts"
import type { ResultEncoder } from "../rows/ResultWriter.ts"
import type { RowModels } from "../../contract/rows/RowModel.ts"
import type { QuerySchema } from "../../contract/rules/FilterDeclarations.ts"
import type { PagingQuery } from "../../contract/rules/Paging.ts"
import type { ListStatementParameter } from "./FilterConditions.ts"
import type { DeepPageOptions, PageClauses } from "./DeepPages.ts"
import type { SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

/** What a list says about a page of one table. The list compiler adds the order, limit and periods of the query. */
export type PageOptions = Omit<DeepPageOptions, "clauses" | "period">

/** SQL fragments from which a list builds its statement. In a statement that only counts rows, the order is empty. */
export interface ListClauses extends PageClauses {
  /** The select list: a single record with all columns of the response. */
  readonly columns: Statement.Fragment
  /** The conditions for the request's filters. */
  readonly conditions: ReadonlyArray<Statement.Fragment | string>
  /** `conditions`, joined with `and`. */
  readonly where: Statement.Fragment
  /**
   * Builds the SQL after `from` for a page of a table. The table must not have an alias. With a key, pages are fast at
   * any offset. If the query follows lineages, the SQL reads each period separately.
   */
  readonly fromPage: (options: PageOptions) => Statement.Fragment
  /** Builds the statement for a list of the rows in one table that satisfy `condition`. */
  readonly selectPage: (
    options: Pick<PageOptions, "table" | "key"> & { readonly condition?: string; readonly order: string },
  ) => Statement.Statement<object>
  /**
   * Set if the query follows lineages. A `select` that does not call `fromPage` must use `period.from` and select
   * `lineage_ticker`.
   */
  readonly period: SymbolPeriodClauses | undefined
}

type AsParameters<Query> = { readonly [Name in keyof Query]: ListStatementParameter<Exclude<Query[Name], undefined>> }

/**
 * A query as seen while its statement is compiled. It shows which parameters were sent but not their values. Only the
 * parameters in `shapedBy` have values, so that no other value can become part of the SQL text.
 */
export type ListQueryShape<Query, ShapedBy extends keyof Query = never> =
  & Pick<Query, ShapedBy>
  & AsParameters<Omit<Query, ShapedBy | Exclude<keyof PagingQuery, "after">>>

/** The model for results that are groups of rows. */
export interface RowGroupModel {
  /** Creates the encoder for groups whose rows have these additional columns. */
  readonly makeEncoder: (added: ReadonlyArray<OptInColumn>) => ResultEncoder
}

/** The definition of a list. */
export interface ListDefinition<Query extends PagingQuery, ShapedBy extends keyof Query = never> {
  /** The query's schema. The filters declared in it become `ListClauses.conditions`. */
  readonly Query?: QuerySchema
  /** The model of a row, or of a result that is a group of rows. */
  readonly Row: RowModels | RowGroupModel
  /**
   * Set if `select` itself compares the rows' dates with the followed periods, because a row has dates in several
   * columns.
   */
  readonly comparesPeriods?: true
  /** Enumerated parameters whose values change the SQL built by `select`. */
  readonly shapedBy?: ReadonlyArray<ShapedBy>
  /** Builds the statement. Called once for each variant (`ListStatementVariant`). */
  readonly select: (query: ListQueryShape<Query, ShapedBy>, clauses: ListClauses) => Statement.Statement<object>
  /**
   * The argument of SQL's `count` if results are groups of rows. `select` must return the columns that this expression
   * refers to.
   */
  readonly countedExpression?: Statement.Fragment
  /**
   * SQL that returns a row's position in the list as text, if the query has the parameter `after`. That text is the
   * value of `after` for the next page. `select` must then return only rows after the requested position, so that a
   * page starts where the previous page ended.
   */
  readonly position?: Statement.Fragment
  /** Returns the `message` in the JSON envelope for the rows on a page. */
  readonly message?: (rows: ReadonlyArray<BinaryRecord>) => string | undefined
}
