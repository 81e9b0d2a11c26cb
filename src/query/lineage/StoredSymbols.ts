/**
 * Finds the symbols under which a company's rows are stored, if a request uses another symbol of the same company. For
 * example, rows loaded by `ingest edgar` have only the symbol of the company's primary security. A request for GOOG
 * therefore also needs the rows of GOOGL (decision 0126). `45_symbols.sql` maintains the table `company_symbols`.
 */
import { Array, Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatabaseReader, type PastSource, type ReadSource } from "../../postgres/DatabaseReader.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import type { VersionDependency } from "../../contract/rules/EndpointResult.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/ApiErrors.ts"

const StoredSymbol = Schema.Struct({ alias: Schema.String, ticker: Schema.String })
/** A requested symbol (`alias`) and a symbol under which its rows are stored (`ticker`). */
export type StoredSymbol = typeof StoredSymbol.Type

const decodeSymbols = decodePositionalRows(StoredSymbol)

type SymbolMap = ReadonlyMap<string, ReadonlyArray<StoredSymbol>>

const noSymbols: SymbolMap = new Map()

/** The stored symbols found for a request. */
export interface FoundStoredSymbols {
  /** Empty unless rows for a requested symbol are stored under another symbol. */
  readonly found: ReadonlyArray<StoredSymbol>
  /** The version of `company_symbols` when the symbols were found. */
  readonly dependencies: ReadonlyArray<VersionDependency>
}

/**
 * Formats the header `X-Primary-Tickers`. Removes duplicates, because an old and a new holding company may have the
 * same symbols.
 */
export const formatPrimaryTickersHeader = (found: ReadonlyArray<StoredSymbol>) =>
  Array.dedupe(found.map(({ alias, ticker }) => `${alias}=${ticker}`)).join(", ")

/** Finds the symbols whose rows belong in the response to a request for other symbols. */
export class StoredSymbols extends Context.Service<StoredSymbols, {
  readonly find: (
    tickers: ReadonlyArray<string>,
    past: PastSource | undefined,
  ) => Effect.Effect<FoundStoredSymbols, DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/query/StoredSymbols") {
  static readonly layer = Layer.effect(
    StoredSymbols,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reader = yield* DatabaseReader
      const versions = yield* DatasetVersions
      const tables = ["company_symbols"]
      const getTablesVersion = versions.watchTables(tables)
      const compileFind = compileStatement<ReadonlyArray<string> | undefined>({
        isPrepared: true,
        build: (parameter) => {
          const tickers = parameter((tickers) => makeArrayParameter(tickers ?? [], OID.text))
          return sql`
            select alias, ticker from company_symbols
            where alias <> ticker and (${tickers}::text[] = '{}' or alias = any (${tickers}::text[]))
            order by alias, ticker
          `
        },
      })
      /**
       * Reads the entries of `company_symbols` for these symbols, or all entries without `tickers`. There are only a
       * few thousand entries, because most symbols have none. The result maps each requested symbol (`alias`) to its
       * entries.
       */
      const read = (tickers?: ReadonlyArray<string>, from: ReadSource = "primary") =>
        Effect.map(
          decodeSymbols(reader.read(compileFind(tickers), { partition: "lineage", from })),
          (rows): SymbolMap => Map.groupBy(rows, ({ alias }) => alias),
        )
      /** All entries of the table, and the version of the table that they were read from. */
      let cached: { readonly version: string; readonly symbols: SymbolMap } | undefined

      const readAll = (version: string) =>
        Effect.map(read(), (symbols) => {
          cached = { version, symbols }
          return symbols
        })

      /** Finds the symbols under which rows for the requested symbols are stored, now or at a past timestamp. */
      const find = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>, past: PastSource | undefined) {
        if (tickers.length === 0) return { found: [], dependencies: [] }
        const getVersion = past !== undefined ? versions.getTimeline : getTablesVersion
        const version = getVersion()
        const wasNeverWritten = version !== undefined && versions.getLastChange(tables) === undefined
        // If the table has never been written to, there is nothing to read. Past data, or data whose version is not
        // available, is read only for the requested symbols and not cached. Otherwise all entries are read once per
        // version.
        const symbols = wasNeverWritten
          ? noSymbols
          : version === undefined || past !== undefined
          ? yield* read(tickers, past)
          : cached?.version === version
          ? cached.symbols
          : yield* readAll(version)
        return {
          found: symbols.size === 0 ? [] : Array.dedupe(tickers).flatMap((ticker) => symbols.get(ticker) ?? []),
          dependencies: [{ getVersion, version }],
        }
      })
      return StoredSymbols.of({ find })
    }),
  )
}
