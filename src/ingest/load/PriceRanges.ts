/** Checks that the prices of a session lie between its high and its low (D42, plausible values). */
import type { RowCells } from "../../contract/Datasets.ts"

/**
 * The columns for the high and the low of a session, in any dataset, and those for other prices in the same session. A
 * VWAP is not among them: it may lie outside the range, because odd-lot trades count for the VWAP, but not for the high
 * and the low.
 */
const priceRanges = [
  {
    high: "high_price",
    low: "low_price",
    others: ["market_open", "market_close", "open_price", "close_price"],
  },
  { high: "premarket_high", low: "premarket_low", others: [] },
  { high: "afterhours_high", low: "afterhours_low", others: ["afterhours_close"] },
  { high: "high_365", low: "low_365", others: [] },
]

/** Returns NaN for a price that is null or missing, because comparisons with NaN are false. */
const toPrice = (cell: RowCells[string] | undefined) => typeof cell === "string" ? Number(cell) : NaN

/**
 * Returns a problem if a high is below another price of its session, or a low is above one. For example, a file may
 * have adjusted only some of its prices for a split. Prices that are null or missing are not compared.
 */
export const findPriceOutsideRange = (row: RowCells) => {
  for (const { high, low, others } of priceRanges) {
    for (const other of [low, ...others]) {
      if (toPrice(row[high]) < toPrice(row[other])) {
        return { column: high, reason: `must not be below ${other}, which is ${String(row[other])}` }
      }
    }
    for (const other of others) {
      if (toPrice(row[low]) > toPrice(row[other])) {
        return { column: low, reason: `must not be above ${other}, which is ${String(row[other])}` }
      }
    }
  }
  return undefined
}
