/**
 * Finds how the tables spell requested symbols (D41, spelling of symbols). For example, a client may ask for BRK.B or
 * BRK-B, and gets the rows of the stored spelling either way. `12_spellings.sql` maintains the table
 * `symbol_spellings`.
 */
import { Context, Effect, Exit, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { LRUCache } from "lru-cache"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import type { VersionDependency } from "../../contract/rules/EndpointResult.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/ApiErrors.ts"
import { hasSeparator, splitTickerListEntry, toSymbolKey } from "../../contract/rules/Tickers.ts"

const decodeSpellings = decodePositionalRows(Schema.Struct({ key: Schema.String, spelling: Schema.String }))

/** Maximum number of spellings in memory. Each uses about 200 bytes. */
const maxSpellings = 10_000

/** The spellings found for a request. */
export interface FoundSpellings {
  /** The requested symbols as the tables spell them. A symbol that is not in the tables is unchanged. */
  readonly symbols: ReadonlyArray<string>
  /** The version of the tables before the spellings were read. Empty if no symbol contains a separator. */
  readonly dependencies: ReadonlyArray<VersionDependency>
}

/** Finds how the tables spell symbols. */
export class SymbolSpellings extends Context.Service<SymbolSpellings, {
  /**
   * Finds the spellings of symbols, for a response from the tables whose version `getVersion` returns. Accepts ticker
   * list entries such as `BRK.B:0001067983`. Runs a statement only for symbols that contain a separator and have not
   * been found before.
   */
  readonly find: (
    entries: ReadonlyArray<string>,
    getVersion: VersionDependency["getVersion"],
  ) => Effect.Effect<FoundSpellings, DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/query/SymbolSpellings") {
  static readonly layer = Layer.effect(
    SymbolSpellings,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reader = yield* DatabaseReader
      const { getTimeline } = yield* DatasetVersions
      const compileFind = compileStatement<ReadonlyArray<string>>({
        isPrepared: true,
        isShort: true,
        build: (parameter) =>
          sql`
            select key, spelling from symbol_spellings
            where key = any ((select ${parameter((keys) => makeArrayParameter(keys, OID.text))}::text[])::text[])
          `,
      })
      // A spelling never changes, unless a failover loses the transaction that stored it. Symbols that are not in the
      // tables are not cached, but looked up every time. Once a table contains such a symbol, the table's new version
      // shows that responses without the symbol are outdated.
      const spellings = new LRUCache<string, string>({ max: maxSpellings })
      let timeline: string | undefined

      const spell = (entry: string) => {
        const { cik, ticker } = splitTickerListEntry(entry)
        const spelling = spellings.get(toSymbolKey(ticker)) ?? ticker
        return cik === undefined ? spelling : `${spelling}:${cik}`
      }

      /** Looks up all spellings that are not in memory in a single statement. */
      const find = (entries: ReadonlyArray<string>, getVersion: VersionDependency["getVersion"]) => {
        if (!entries.some(hasSeparator)) return Exit.succeed({ symbols: entries, dependencies: [] })
        if (timeline !== getTimeline()) {
          spellings.clear()
          timeline = getTimeline()
        }
        const dependencies = [{ getVersion, version: getVersion() }]
        const getResult = (): FoundSpellings => ({ symbols: entries.map(spell), dependencies })
        const unknown = entries.filter(hasSeparator).map((entry) => toSymbolKey(splitTickerListEntry(entry).ticker))
          .filter((key) => !spellings.has(key))
        return unknown.length === 0 ? Exit.succeed(getResult()) : Effect.map(
          decodeSpellings(reader.read(compileFind(unknown), { partition: "lineage", from: "primary" })),
          (found) => {
            for (const { key, spelling } of found) spellings.set(key, spelling)
            return getResult()
          },
        )
      }
      return SymbolSpellings.of({ find })
    }),
  )
}
