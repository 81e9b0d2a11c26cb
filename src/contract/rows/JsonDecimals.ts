/**
 * Decimal numbers in responses (D16). This module is part of the published Promise client, so it imports nothing except
 * Effect.
 */
import { Schema, SchemaGetter } from "effect"

declare global {
  /**
   * Node 22 and Deno provide these functions (the proposal "JSON.parse source text access"), but TypeScript does not
   * declare them yet.
   */
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string }
    isRawJSON(value: unknown): boolean
  }
}

/**
 * Returns whether the value is a decimal number as a string. Lossless JSON parsers return a string when a float would
 * lose digits.
 */
const isLosslessDecimal = (value: unknown) =>
  typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) && String(Number(value)) !== value

const isJsonNumber = (value: unknown) =>
  typeof value === "number" || isLosslessDecimal(value) || ("isRawJSON" in JSON && JSON.isRawJSON(value))

/**
 * A decimal number, written as a JSON number (D16). The service stores decimals as strings, because a float cannot
 * represent every digit of a long decimal, and writes them with `JSON.rawJSON`. See
 * docs/decisions/0004-decimals-are-text.md.
 */
const JsonNumber = Schema.Json.check(
  Schema.makeFilter(isJsonNumber, { expected: "a number", toJsonSchema: () => ({ type: "number" }) }),
)

/**
 * Removes trailing zeros after the decimal point. Also removes the point if no digits are left after it: `1.50` becomes
 * `1.5`.
 */
const removeTrailingZeros = (stored: string) => {
  if (!stored.endsWith("0") || !stored.includes(".")) return stored
  const [point, zero] = [46, 48]
  let end = stored.length
  while (stored.charCodeAt(end - 1) === zero) end -= 1
  return stored.slice(0, stored.charCodeAt(end - 1) === point ? end - 1 : end)
}

/** Returns the schema of a decimal number in a response: a string in the program, a number in the JSON. */
export const makeJsonDecimal = (annotations: { readonly description?: string }) =>
  JsonNumber.annotate(annotations).pipe(Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform(String),
    encode: SchemaGetter.transform((stored: string) => JSON.rawJSON(removeTrailingZeros(stored))),
  }))
