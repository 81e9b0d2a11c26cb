/**
 * Changes the symbols in a file to the spelling that the tables use (D41, spelling of symbols). For example, `BRK.B`
 * becomes `BRK-B` if a table contains `BRK-B`. A trigger on each table does the same when a row is stored
 * (`12_spellings.sql`). That is too late for a load, which first compares the rows of its file with each other and with
 * the table. For these comparisons, the symbols must already be spelled the same way.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { hasSeparator, toSymbolKey } from "../../contract/rules/Tickers.ts"

/** A symbol for which another program has stored a different spelling since the file was read. */
export interface RespelledSymbol {
  /** The symbol as spelled in the file's rows so far. */
  readonly symbol: string
  /** The stored spelling, which the rows must have instead. */
  readonly spelling: string
}

/**
 * Creates the spellings for one file. A symbol is spelled as in the tables or, if it is new, as it first occurs in the
 * file.
 */
export const makeFileSpellings = Effect.fnUntraced(function* () {
  const sql = yield* SqlClient.SqlClient
  /** The spellings to use, by the key that all spellings of a symbol have in common. */
  const spellings = new Map<string, string>()
  /** The first spelling of each symbol that no table contains. */
  const newSpellings: Array<string> = []

  /**
   * Looks up the spellings of the symbols in the tables. Symbols without a separator are skipped, because they have
   * only one spelling.
   */
  const learn = Effect.fnUntraced(function* (symbols: Iterable<string>) {
    /** The symbols to look up, by the key that all spellings of a symbol have in common. */
    const unknown = new Map<string, string>()
    for (const symbol of symbols) {
      const key = toSymbolKey(symbol)
      if (hasSeparator(symbol) && !spellings.has(key) && !unknown.has(key)) unknown.set(key, symbol)
    }
    if (unknown.size === 0) return
    const keys = Array.from(unknown.keys())
    const stored = new Map(
      (yield* sql<{ readonly key: string; readonly spelling: string }>`
        select key, spelling from symbol_spellings
        where key = any (${makeArrayParameter(keys, OID.text)}::text[])
      `).map(({ key, spelling }) => [key, spelling]),
    )
    for (const [key, symbol] of unknown) {
      const storedSpelling = stored.get(key)
      spellings.set(key, storedSpelling ?? symbol)
      if (storedSpelling === undefined) newSpellings.push(symbol)
    }
  })

  return {
    learn,
    /** Returns the spelling of a symbol that was passed to `learn` before. */
    spell: (symbol: string) => hasSeparator(symbol) ? spellings.get(toSymbolKey(symbol)) ?? symbol : symbol,
    /**
     * Stores the spellings of new symbols, so that other transactions use them. Returns the symbols for which another
     * program has stored a different spelling. Waits until other transactions that have stored spellings end. The
     * caller must already have the load locks of all tables that it loads. Otherwise, two transactions could deadlock,
     * each waiting for a lock that the other one has.
     */
    keep: Effect.suspend(() => {
      if (newSpellings.length === 0) return Effect.succeed<ReadonlyArray<RespelledSymbol>>([])
      return Effect.map(
        sql<RespelledSymbol>`
          select symbol, spell_symbol(symbol) as spelling
          from unnest(${makeArrayParameter(newSpellings, OID.text)}::text[]) as symbol
        `,
        (stored) => stored.filter(({ spelling, symbol }) => symbol !== spelling),
      )
    }),
  }
})

/** The spellings for one file, with functions that look them up, apply them and store them. */
export type FileSpellings = Effect.Success<ReturnType<typeof makeFileSpellings>>

/** Replaces symbols in a column of a staging table with their stored spellings. */
export const respellColumn = Effect.fnUntraced(
  function* (table: string, column: string, respelled: ReadonlyArray<RespelledSymbol>) {
    const sql = yield* SqlClient.SqlClient
    if (respelled.length === 0) return
    yield* sql.unsafe(
      `update ${table} set "${column}" = respelled.spelling
      from unnest($1::text[], $2::text[]) as respelled (symbol, spelling) where "${column}" = respelled.symbol`,
      [
        makeArrayParameter(respelled.map(({ symbol }) => symbol), OID.text),
        makeArrayParameter(respelled.map(({ spelling }) => spelling), OID.text),
      ],
    )
  },
)
