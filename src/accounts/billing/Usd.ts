/** D27 (prices): amounts in USD as people write and read them. */
import { Schema, SchemaTransformation } from "effect"

const millionths = 6

/** Microdollars of an amount in USD, exact for any amount. */
const microdollars = (usd: string) => {
  const [, sign = "", integer = "0", part = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(usd) ?? []
  return BigInt(`${sign}${integer}${part.padEnd(millionths, "0")}`)
}

/** Formats microdollars as USD with six decimals. */
export const formatUsd = (amount: bigint) => {
  const digits = String(amount < 0n ? -amount : amount).padStart(millionths + 1, "0")
  return `${amount < 0n ? "-" : ""}${digits.slice(0, -millionths)}.${digits.slice(-millionths)}`
}

/** Decodes an amount in USD from the command line to microdollars. */
export const UsdAmount = Schema.String.check(
  Schema.makeFilter((text: string) => /^-?\d{1,9}(\.\d{1,6})?$/.test(text) && microdollars(text) !== 0n, {
    message: "must be an amount in USD other than zero, with at most six decimals, such as 25 or 0.5",
  }),
).pipe(Schema.decodeTo(
  Schema.BigInt,
  SchemaTransformation.transform({ decode: microdollars, encode: formatUsd }),
))
