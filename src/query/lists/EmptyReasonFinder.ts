/** Determines why a list has no rows (D40). This needs additional statements, which run only for an empty list. */
import { Duration, Effect, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import type { StatementReader } from "../../postgres/DatabaseReader.ts"
import { loadableDatasets } from "../../contract/Datasets.ts"
import type { EmptyReason } from "../../contract/rules/EmptyListReasons.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/ApiErrors.ts"
import { getFilterDeclaration, type QuerySchema } from "../../contract/rules/FilterDeclarations.ts"
import { PagingParameters } from "../../contract/rules/Paging.ts"
import type { DecodedListQuery } from "./FilterConditions.ts"

type ReadError = DataRefreshing | DatabasePoolTimeout

/**
 * Returns the names of the parameters, other than `ticker`, that can exclude rows. A parameter such as `sort`, which is
 * handled by the list's own statement and does not narrow the list, is not among them.
 */
export const listFilterNames = ({ fields }: QuerySchema) =>
  Object.entries(fields).flatMap(([name, field]) => {
    const filter = getFilterDeclaration(field)
    const neverExcludesRows = filter?.operator === "statement" && filter.narrows !== true
    return name in PagingParameters || name === "ticker" || neverExcludesRows ? [] : [name]
  })

/**
 * Maximum number of searches for a reason that run concurrently in this process. If a list is expensive to read,
 * finding the reason is expensive too, so there is also a time limit.
 */
const maxConcurrency = 2
const timeLimit = Duration.seconds(2)

interface EmptyList {
  /** The decoded parameters of the request, by name. */
  readonly query: DecodedListQuery
  /** The endpoint's parameters that can exclude rows (`listFilterNames`). */
  readonly filterNames: ReadonlyArray<string>
  /**
   * Returns whether rows for the requested symbols were omitted because the company did not use the symbols on the
   * rows' dates.
   */
  readonly hasOmittedRows: (query: DecodedListQuery) => Effect.Effect<boolean, ReadError>
  /** Runs the list's statement for other parameters, and returns whether it has rows. */
  readonly hasRows: (query: DecodedListQuery) => Effect.Effect<boolean, ReadError>
  readonly read: StatementReader
}

const symbolColumns = ["ticker", "old_ticker", "new_ticker"]

const symbolTables = loadableDatasets.flatMap(({ row, table }) =>
  symbolColumns.filter((column) => column in row.fields).map((column) => ({ table, column }))
)

/** The tables that determine whether a symbol is known. */
export const symbolTableNames = symbolTables.map(({ table }) => table)

/**
 * Creates the function that determines why a list has no rows. It tries the possible reasons one after the other, from
 * the most specific to the most general, and returns the first one that applies:
 *
 * - `page_beyond_end`: the list has rows, but not on this page.
 * - `symbol_not_used`: rows were omitted because the company did not use the symbols on the rows' dates.
 * - `filtered`: there would be rows without the filters in `without`, either a single one or all of them.
 * - `no_rows`: the request contains no symbol, and the list is empty.
 * - `no_rows_for_symbol` or `unknown_symbol`: no filter is the reason. A symbol is known if any table contains it.
 * - `undetermined`: the search took too long.
 */
export const makeEmptyReasonFinder = (sql: SqlClient.SqlClient) => {
  // The statement that checks whether any table contains one of the symbols.
  const compileIsKnown = compileStatement<ReadonlyArray<string>>({
    isPrepared: true,
    build: (parameter) => {
      const symbols = parameter((symbols) => makeArrayParameter(symbols, OID.text))
      const hasSymbol = symbolTables.map(({ column, table }) => {
        // Unconfirmed changes are not shown and are not in the indexes.
        const isShown = sql.literal(table === "ticker_changes" ? " and status = 'confirmed'" : "")
        return sql`exists (select from ${sql(table)} where ${sql(column)} = any (${symbols}::text[])${isShown})`
      })
      // Returns one row without columns if any table contains one of the symbols, else none.
      return sql`select where ${sql.or(hasSymbol)}`
    },
  })

  const semaphore = Semaphore.makeUnsafe(maxConcurrency)

  // `hasRows` and `hasOmittedRows` run statements of the list for the parameters that they are given.
  return Effect.fnUntraced(
    function* (
      { filterNames, hasRows, hasOmittedRows, query, read }: EmptyList,
    ): Effect.fn.Return<EmptyReason, ReadError> {
      const firstRow = { ...query, after: undefined, page: 1, limit: 1 }
      if ((query.page > 1 || query.after !== undefined) && (yield* hasRows(firstRow))) {
        return { code: "page_beyond_end" }
      }
      if (yield* hasOmittedRows(query)) return { code: "symbol_not_used" }
      const filters = filterNames.filter((name) => query[name] !== undefined)
      /** Returns the query for the first row that the list would have without the given filters. */
      const withoutFilters = (names: ReadonlyArray<string>) => ({
        ...firstRow,
        ...Object.fromEntries(names.map((name) => [name, undefined])),
      })
      const hasRowsWithout = (names: ReadonlyArray<string>) => hasRows(withoutFilters(names))
      for (const name of filters) {
        if (yield* hasRowsWithout([name])) return { code: "filtered", without: [name] }
      }
      if (filters.length > 1 && (yield* hasRowsWithout(filters))) return { code: "filtered", without: filters }
      if (filters.length > 0 && (yield* hasOmittedRows(withoutFilters(filters)))) return { code: "symbol_not_used" }
      const symbols = [query["ticker"] ?? []].flat().map(String)
      if (symbols.length === 0) return { code: "no_rows" }
      // With `as_of`, every symbol counts as known. Otherwise the response would change when a symbol becomes known
      // later, but a response about the past must never change.
      const isKnown = query["as_of"] !== undefined || (yield* read(compileIsKnown(symbols))).length > 0
      return { code: isKnown ? "no_rows_for_symbol" : "unknown_symbol" }
    },
    semaphore.withPermits(1),
    // The time limit includes waiting for a permit.
    Effect.timeoutOrElse({
      duration: timeLimit,
      orElse: () => Effect.succeed<EmptyReason>({ code: "undetermined" }),
    }),
  )
}
