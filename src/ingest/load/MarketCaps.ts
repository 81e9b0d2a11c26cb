/** Keeps the current market capitalizations up to date, as every ingest must do when it changes their inputs (D44). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"

const DoubtfulSymbol = Schema.Struct({ ticker: Schema.String, reason: Schema.String })

/** A symbol whose row has null where something about its security is unknown, and the reason. */
export type DoubtfulSymbol = typeof DoubtfulSymbol.Type

/** Decodes the rows of a query for doubtful symbols. */
export const decodeDoubtfulSymbols = decodeRows(DoubtfulSymbol)

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
