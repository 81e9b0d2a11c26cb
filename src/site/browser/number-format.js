/** Formats numbers and money for display. Pure. */

/**
 * Formats 1234567 as `1,234,567`.
 * @param {number | bigint} value
 */
export const formatInteger = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 })

/**
 * Formats 25000 as `25K`, for axis labels.
 * @param {number} value
 */
export const formatCompactNumber = (value) =>
  value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 })

/**
 * Formats microdollars as USD without rounding: 25000 is `$0.025`.
 * @param {number} microdollars
 */
export const formatDollars = (microdollars) => {
  const amount = BigInt(Math.round(Number.isFinite(microdollars) ? microdollars : 0))
  const [sign, size] = amount < 0n ? ["−", -amount] : ["", amount]
  const fraction = String(size % 1_000_000n).padStart(6, "0").replace(/0{1,4}$/, "")
  return `${sign}$${formatInteger(size / 1_000_000n)}.${fraction}`
}
