/**
 * Exact numbers as whole ones, and how a file writes them (D16). A price is counted in ticks of 0.0001 USD, an amount
 * in cents, a part of something in ten-thousandths; every product stays below 2^53.
 */

/** The whole number nearest to the quotient, halves away from zero; no float rounds on the way. */
export const divideRounded = (dividend: number, divisor: number): number => {
  if (dividend < 0) return -divideRounded(-dividend, divisor)
  const rest = dividend % divisor
  return (dividend - rest) / divisor + (2 * rest >= divisor ? 1 : 0)
}

/** Ticks of a price as the exchange quotes it: whole cents from one dollar on. */
export const roundToTick = (ticks: number) =>
  ticks >= 10_000 ? 100 * Math.round(ticks / 100) : Math.max(1, Math.round(ticks))

const formatDecimal = (count: number, decimals: number) => {
  const digits = String(Math.abs(count)).padStart(decimals + 1, "0")
  return `${count < 0 ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Ticks in USD, without zeros at the end. */
export const formatPrice = (ticks: number) => formatDecimal(ticks, 4).replace(/\.?0+$/, "")

/** Cents in USD. */
export const formatCents = (cents: number) => formatDecimal(cents, 2)

/** Ten-thousandths as a fraction: 1250 is 0.125. */
export const formatFraction = formatPrice

/** Cents that so many shares cost at so many ticks. */
export const valueInCents = (ticks: number, shares: number) => divideRounded(ticks * shares, 100)

/** How far a value lies above a reference, in %, to four decimals. */
export const formatPercentChange = (value: number, reference: number) => formatPrice(divideRounded((value - reference) * 1_000_000, reference))

/** The ratio of two numbers to four decimals. */
export const formatRatio = (dividend: number, divisor: number) => formatPrice(divideRounded(dividend * 10_000, divisor))

/** `f` of a value that may be missing. */
export const mapNullable = <Value, Result>(value: Value | null, f: (value: Value) => Result): Result | null =>
  value === null ? null : f(value)

/** `1.5 million`, as news say it; from cents. */
export const formatMillions = (cents: number) => `$${(Math.round(cents / 10_000_000) / 10).toFixed(1)} million`
