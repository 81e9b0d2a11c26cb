/** D42 (plausible values): the prices of a session lie between its high and its low. */
import type { RowCells } from "../../contract/Datasets.ts"

/**
 * The columns of a session's high and low, in any dataset, and of the other prices of the same session. A VWAP may be
 * outside of them, because trades of odd lots count for it, but not for the high and the low.
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

const toPrice = (cell: RowCells[string] | undefined) => typeof cell === "string" ? Number(cell) : NaN

/**
 * Finds a high below another price of its session, or a low above one, as after a split that a file has applied to some
 * of its prices only. Prices that are null or missing are not compared.
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
