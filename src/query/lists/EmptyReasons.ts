/** D40: finds out why a list has no rows, with further statements that only a list without rows needs. */
import { Duration, Effect, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import type { StatementReader } from "../../postgres/Reader.ts"
import { loadableDatasets } from "../../contract/Datasets.ts"
import type { EmptyReason } from "../../contract/rules/EmptyReasons.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/Errors.ts"
import { getFilterDeclaration, type QuerySchema } from "../../contract/rules/FilterDeclarations.ts"
import { PagingParameters } from "../../contract/rules/Paging.ts"
import type { DecodedListQuery } from "./Conditions.ts"

type ReadError = DataRefreshing | DatabasePoolTimeout

/** Returns the parameters that exclude rows, apart from `ticker`. */
export const listFilterNames = ({ fields }: QuerySchema) =>
  Object.entries(fields).flatMap(([name, field]) => {
    const filter = getFilterDeclaration(field)
    const isMode = filter?.operator === "statement" && filter.narrows !== true
    return name in PagingParameters || name === "ticker" || isMode ? [] : [name]
  })

/**
 * An expensive list needs several expensive statements, so a process looks for few reasons at the same time, and gives
 * up after a while.
 */
const maxConcurrency = 2
const timeLimit = Duration.seconds(2)

interface EmptyList {
  readonly query: DecodedListQuery
  readonly filterNames: ReadonlyArray<string>
  /** Whether rows of the symbols are omitted, because the company did not use them on those days. */
  readonly omitsRows: (query: DecodedListQuery) => Effect.Effect<boolean, ReadError>
  readonly hasRows: (query: DecodedListQuery) => Effect.Effect<boolean, ReadError>
  readonly read: StatementReader
}

const symbolColumns = ["ticker", "old_ticker", "new_ticker"]

const symbolTables = loadableDatasets.flatMap(({ row, table }) =>
  symbolColumns.filter((column) => column in row.fields).map((column) => ({ table, column }))
)

/** The tables in which a symbol can become known. */
export const symbolTableNames = symbolTables.map(({ table }) => table)

export const makeEmptyReasonFinder = (sql: SqlClient.SqlClient) => {
  const compileIsKnown = compileStatement<ReadonlyArray<string>>({
    isPrepared: true,
    build: (parameter) => {
      const symbols = parameter((symbols) => makeArrayParameter(symbols, OID.text))
      const rows = symbolTables.map(({ column, table }) => {
        // Like the indexes, which other changes are not in.
        const isShown = sql.literal(table === "ticker_changes" ? " and status = 'confirmed'" : "")
        return sql`exists (select from ${sql(table)} where ${sql(column)} = any (${symbols}::text[])${isShown})`
      })
      return sql`select where ${sql.or(rows)}`
    },
  })

  const semaphore = Semaphore.makeUnsafe(maxConcurrency)

  return Effect.fnUntraced(
    function* ({ filterNames, hasRows, omitsRows, query, read }: EmptyList): Effect.fn.Return<EmptyReason, ReadError> {
      const firstRow = { ...query, after: undefined, page: 1, limit: 1 }
      if ((query.page > 1 || query.after !== undefined) && (yield* hasRows(firstRow))) {
        return { code: "page_beyond_end" }
      }
      if (yield* omitsRows(query)) return { code: "symbol_not_used" }
      const filters = filterNames.filter((name) => query[name] !== undefined)
      const without = (names: ReadonlyArray<string>) => ({
        ...firstRow,
        ...Object.fromEntries(names.map((name) => [name, undefined])),
      })
      const hasRowsWithout = (names: ReadonlyArray<string>) => hasRows(without(names))
      for (const name of filters) {
        if (yield* hasRowsWithout([name])) return { code: "filtered", without: [name] }
      }
      if (filters.length > 1 && (yield* hasRowsWithout(filters))) return { code: "filtered", without: filters }
      if (filters.length > 0 && (yield* omitsRows(without(filters)))) return { code: "symbol_not_used" }
      const symbols = [query["ticker"] ?? []].flat().map(String)
      if (symbols.length === 0) return { code: "no_rows" }
      // Symbols that became known after the moment of `as_of` would change a response that is never to change.
      const isKnown = query["as_of"] !== undefined || (yield* read(compileIsKnown(symbols))).length > 0
      return { code: isKnown ? "no_rows_for_symbol" : "unknown_symbol" }
    },
    semaphore.withPermits(1),
    Effect.timeoutOrElse({
      duration: timeLimit,
      orElse: () => Effect.succeed<EmptyReason>({ code: "undetermined" }),
    }),
  )
}
