/** Numbers in exponent notation, such as `1e+05`, as R, pandas and JSON write large and small ones (D43). */

/** Matches a number with an exponent. Every floating-point number has a form with at most 17 digits. */
const exponentPattern = /^(-?)(\d{1,17})(?:\.(\d{1,17}))?e([+-]?\d{1,3})$/i

/**
 * Converts a number with an exponent to the same number without one: `1e+05` becomes `100000`, and `1.5e-07` becomes
 * `0.00000015`. Only the decimal point moves, so the result is exact. Returns any other text unchanged.
 */
export const removeExponent = (text: string) => {
  const [, sign, whole, decimals = "", exponent] = exponentPattern.exec(text) ?? []
  if (sign === undefined || whole === undefined) return text
  // The position of the point in the digits. There must be at least one digit before it.
  const point = whole.length + Number(exponent)
  const digits = `${whole}${decimals}`.padStart(whole.length + decimals.length + Math.max(0, 1 - point), "0")
  const end = Math.max(1, point)
  return `${sign}${digits.slice(0, end).padEnd(end, "0")}${digits.length > end ? `.${digits.slice(end)}` : ""}`
}
