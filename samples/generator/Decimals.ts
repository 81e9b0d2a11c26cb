/**
 * Exact decimal arithmetic. Numbers are computed as integers and formatted as strings (D16, numbers). Prices are in
 * ticks of 0.0001 USD, amounts in cents, and fractions in ten-thousandths. All products are below 2^53, so they are
 * exact.
 */

/**
 * Divides integers and rounds the result, half away from zero. The remainder is subtracted before the division, so that
 * the division is exact and no floating-point error can affect the rounding.
 */
export const divideRounded = (dividend: number, divisor: number): number => {
  if (dividend < 0) return -divideRounded(-dividend, divisor)
  const remainder = dividend % divisor
  return (dividend - remainder) / divisor + (2 * remainder >= divisor ? 1 : 0)
}

/**
 * Rounds a price in ticks of 0.0001 USD the way exchanges quote prices: to whole cents from one dollar up, and to ticks
 * below. The result is at least one tick.
 */
export const roundToQuotedPrice = (ticks: number) =>
  ticks >= 10_000 ? 100 * Math.round(ticks / 100) : Math.max(1, Math.round(ticks))

const formatDecimal = (count: number, decimals: number) => {
  const digits = String(Math.abs(count)).padStart(decimals + 1, "0")
  return `${count < 0 ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Formats a price in ticks of 0.0001 USD as dollars, without trailing zeros: 12500 becomes 1.25. */
export const formatTicksAsDollars = (ticks: number) => formatDecimal(ticks, 4).replace(/\.?0+$/, "")

/** Formats an amount in cents as dollars with two decimals. */
export const formatCentsAsDollars = (cents: number) => formatDecimal(cents, 2)

/** Formats ten-thousandths as a decimal fraction. For example, 1250 becomes 0.125. */
export const formatTenThousandths = formatTicksAsDollars

/** Returns the value of a number of shares in cents. `ticks` is the price per share, in ticks of 0.0001 USD. */
export const computeValueInCents = (ticks: number, shares: number) => divideRounded(ticks * shares, 100)

/** Formats the percentage change from `reference` to `value`, with up to four decimals. */
export const formatPercentChange = (value: number, reference: number) =>
  formatTicksAsDollars(divideRounded((value - reference) * 1_000_000, reference))

/** Formats the ratio of two numbers, with up to four decimals. */
export const formatRatio = (dividend: number, divisor: number) =>
  formatTicksAsDollars(divideRounded(dividend * 10_000, divisor))

/** Applies `f` to the value. Returns null if the value is null. */
export const mapNullable = <Value, Result>(value: Value | null, f: (value: Value) => Result): Result | null =>
  value === null ? null : f(value)

/** Formats an amount in cents as millions of dollars, such as `$1.5 million`. */
export const formatDollarMillions = (cents: number) => `$${(Math.round(cents / 10_000_000) / 10).toFixed(1)} million`
