/**
 * Spells the symbols of files like the tables (D41, spelling of symbols). A trigger of each table does the same
 * (`12_spellings.sql`), but a load compares the rows of its file with each other and with the table before that.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { hasSeparator, toSymbolKey } from "../../contract/rules/Tickers.ts"

/** A symbol that another program has stored with another spelling since the file was read. */
export interface RespelledSymbol {
  readonly given: string
  readonly spelling: string
}

/** Makes the spellings of one file: those of the tables or, of new symbols, the first one in the file. */
export const makeFileSpellings = Effect.fnUntraced(function* () {
  const sql = yield* SqlClient.SqlClient
  const spellings = new Map<string, string>()
  /** The spellings that no table has. */
  const newSpellings: Array<string> = []

  /** Looks up symbols. Most have no separator, and need no look-up. */
  const learn = Effect.fnUntraced(function* (symbols: Iterable<string>) {
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
      const known = stored.get(key)
      spellings.set(key, known ?? symbol)
      if (known === undefined) newSpellings.push(symbol)
    }
  })

  return {
    learn,
    /** Returns the spelling of a symbol that was looked up. */
    spell: (symbol: string) => hasSeparator(symbol) ? spellings.get(toSymbolKey(symbol)) ?? symbol : symbol,
    /**
     * Keeps the spellings of new symbols, so that other transactions use them. Waits until those end that have kept
     * spellings before. The caller must hold the load locks of all tables that it loads, which such a transaction may
     * hold too: otherwise, the two could deadlock.
     */
    keep: Effect.suspend(() => {
      if (newSpellings.length === 0) return Effect.succeed<ReadonlyArray<RespelledSymbol>>([])
      return Effect.map(
        sql<RespelledSymbol>`
          select given, spell_symbol(given) as spelling
          from unnest(${makeArrayParameter(newSpellings, OID.text)}::text[]) as given
        `,
        (kept) => kept.filter(({ given, spelling }) => given !== spelling),
      )
    }),
  }
})

/** The spellings of one file. */
export type FileSpellings = Effect.Success<ReturnType<typeof makeFileSpellings>>

/** Changes the spelling of symbols in a column of a table of rows that are about to be stored. */
export const respellColumn = Effect.fnUntraced(
  function* (table: string, column: string, respelled: ReadonlyArray<RespelledSymbol>) {
    const sql = yield* SqlClient.SqlClient
    if (respelled.length === 0) return
    yield* sql.unsafe(
      `update ${table} set "${column}" = spelling
      from unnest($1::text[], $2::text[]) as respelled (given, spelling) where "${column}" = given`,
      [
        makeArrayParameter(respelled.map(({ given }) => given), OID.text),
        makeArrayParameter(respelled.map(({ spelling }) => spelling), OID.text),
      ],
    )
  },
)
