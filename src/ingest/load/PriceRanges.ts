/** Checks that the prices of a session are between its low and its high (D42, plausible values). */
import type { RowCells } from "../../contract/Datasets.ts"

/**
 * The columns for the high and low of a session in any dataset, and the columns for other prices in the same session.
 * VWAP columns are not included. A VWAP may be outside the range, because odd-lot trades affect the VWAP but not the
 * high and the low.
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

/**
 * Converts a cell to a number. Returns NaN for a price that is null or missing, because comparisons with NaN are false.
 */
const toPrice = (cell: RowCells[string] | undefined) => typeof cell === "string" ? Number(cell) : NaN

/**
 * Returns a problem if a high is below another price of the same session, or a low is above one. This can happen if
 * only some prices in a file were adjusted for a split. Prices that are null or missing are not compared.
 */
export const findPriceOutsideRange = (row: RowCells) => {
  // `toPrice` returns NaN for a price that is null or missing, so that the comparisons below are false.
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
