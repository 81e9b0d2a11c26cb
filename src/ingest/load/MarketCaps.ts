/** Updates current market capitalizations. Every ingest must do this when it changes their inputs (D44). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"

const IncompleteSymbol = Schema.Struct({ ticker: Schema.String, reason: Schema.String })

/** A symbol with null values in its row because something about its security is unknown, and the reason. */
export type IncompleteSymbol = typeof IncompleteSymbol.Type

/** Decodes query rows as `IncompleteSymbol` values. */
export const decodeIncompleteSymbols = decodeRows(IncompleteSymbol)

/**
 * Computes the market capitalizations of the symbols, and of all other symbols of the same companies, and stores them
 * in `screener` and `float_outstanding`. The SQL functions are in `47_securities.sql`.
 */
export const updateMarketCaps = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>) {
  if (tickers.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select store_market_caps(jsonb_agg(to_jsonb(cap)))
    from find_market_caps(${tickers}::text[], ${yield* todayInChicago}::text::date) as cap
  `
})
