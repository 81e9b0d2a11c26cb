/** Keeps the market capitalizations of the present as every ingest must leave them (D44). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"

/** A symbol whose row has values that are null, because something about its security is unknown. */
const DoubtfulSymbol = Schema.Struct({ ticker: Schema.String, reason: Schema.String })
export type DoubtfulSymbol = typeof DoubtfulSymbol.Type

export const decodeDoubtfulSymbols = decodeRows(DoubtfulSymbol)

/**
 * Stores the market capitalizations of the symbols, and of other symbols of their companies, in `screener` and
 * `float_outstanding`. `47_securities.sql` computes them. Returns the symbols without one, with the reason.
 */
export const updateMarketCaps = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>) {
  if (tickers.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  return yield* decodeDoubtfulSymbols(sql`
    select ticker, reason from update_market_caps(${tickers}::text[], ${yield* todayInChicago}::text::date)
  `)
})
