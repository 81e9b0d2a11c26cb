/** Parses and formats USD amounts (D27, prices). */
import { Schema, SchemaTransformation } from "effect"

const decimalPlaces = 6

/** Converts a USD amount to microdollars without rounding. */
const parseUsd = (usd: string) => {
  const [, sign = "", integer = "0", fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(usd) ?? []
  return BigInt(`${sign}${integer}${fraction.padEnd(decimalPlaces, "0")}`)
}

/** Formats microdollars as USD with six decimal places. */
export const formatUsd = (amount: bigint) => {
  const digits = String(amount < 0n ? -amount : amount).padStart(decimalPlaces + 1, "0")
  return `${amount < 0n ? "-" : ""}${digits.slice(0, -decimalPlaces)}.${digits.slice(-decimalPlaces)}`
}

/** A USD amount on the command line, decoded to microdollars. It may be negative. */
export const UsdAmount = Schema.String.check(
  Schema.makeFilter((text: string) => /^-?\d{1,9}(\.\d{1,6})?$/.test(text) && parseUsd(text) !== 0n, {
    message: "must be an amount in USD other than zero, with at most six decimals, such as 25 or 0.5",
  }),
).pipe(Schema.decodeTo(
  Schema.BigInt,
  SchemaTransformation.transform({ decode: parseUsd, encode: formatUsd }),
))

/** A positive USD amount on the command line, decoded to microdollars. */
export const PositiveUsdAmount = UsdAmount.check(
  Schema.makeFilter((microdollars: bigint) => microdollars > 0n, { message: "must be above 0" }),
)
