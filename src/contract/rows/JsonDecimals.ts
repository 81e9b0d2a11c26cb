/** Decimals in responses (D16). The published Promise client contains this module, so it imports nothing else. */
import { Schema, SchemaGetter } from "effect"

declare global {
  /** Node 22 and Deno have these functions ("JSON.parse source text access"), but TypeScript does not declare them. */
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string }
    isRawJSON(value: unknown): boolean
  }
}

/**
 * Whether the value is a decimal in the form of text. Lossless JSON parsers return text if a float would lose digits.
 */
const isLosslessDecimal = (value: unknown) =>
  typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) && String(Number(value)) !== value

const isJsonNumber = (value: unknown) =>
  typeof value === "number" || isLosslessDecimal(value) || ("isRawJSON" in JSON && JSON.isRawJSON(value))

/**
 * A decimal as a JSON number (D16). The service holds decimals as text, because a float cannot hold all digits of
 * long ones, and prints them with `JSON.rawJSON`: docs/decisions/0004-decimals-are-text.md.
 */
const JsonNumber = Schema.Json.check(
  Schema.makeFilter(isJsonNumber, { expected: "a number", toJsonSchema: () => ({ type: "number" }) }),
)

/** Removes trailing zeros after the decimal point, and the point itself if nothing follows it: `1.50` becomes `1.5`. */
const removeTrailingZeros = (stored: string) => {
  if (!stored.endsWith("0") || !stored.includes(".")) return stored
  const [point, zero] = [46, 48]
  let end = stored.length
  while (stored.charCodeAt(end - 1) === zero) end -= 1
  return stored.slice(0, stored.charCodeAt(end - 1) === point ? end - 1 : end)
}

/** Creates the schema of a decimal in a response. The program handles it as text; the JSON contains a number. */
export const makeJsonDecimal = (annotations: { readonly description?: string }) =>
  JsonNumber.annotate(annotations).pipe(Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform(String),
    encode: SchemaGetter.transform((stored: string) => JSON.rawJSON(removeTrailingZeros(stored))),
  }))
