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
 * `float_outstanding`. `47_securities.sql` computes them.
 */
export const updateMarketCaps = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>) {
  if (tickers.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select store_market_caps(jsonb_agg(to_jsonb(cap)))
    from find_market_caps(${tickers}::text[], ${yield* todayInChicago}::text::date) as cap
  `
})
