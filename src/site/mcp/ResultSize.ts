/** Limits the size of tool results, because every token takes up space in a model's context window. */
import { Config, Schema } from "effect"

/** The maximum size of a result, in tokens. */
export const MaxResultTokensConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1000, maximum: 1_000_000 })),
  "MCP_RESULT_TOKENS",
).pipe(Config.withDefault(25_000))

/**
 * The assumed number of bytes per token. It is deliberately low, so that sizes in tokens are overestimated. If they
 * were underestimated, clients might truncate results that the service considers small enough.
 */
const bytesPerToken = 3

/** Estimates how many tokens a value takes up in a JSON result. */
export const estimateTokens = (value: unknown) => Math.ceil(Buffer.byteLength(JSON.stringify(value)) / bytesPerToken)

/** Cuts every string within a value to `maxLength` characters, and every list to `maxLength` items. */
const shorten = (value: unknown, maxLength: number): unknown => {
  if (typeof value === "string") return value.length > maxLength ? `${value.slice(0, maxLength)}…` : value
  if (Array.isArray(value)) return value.slice(0, maxLength).map((item) => shorten(item, maxLength))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shorten(inner, maxLength)]))
}

/**
 * Truncates the strings and lists within a value, further each time, until the value has at most `maxTokens`. Returns
 * null if that is impossible, for example because an object has too many fields. `encode` converts the value to the
 * form in which the tool's result contains it, such as a line of CSV, and the size is measured in that form.
 */
export const shortenToMaxTokens = (value: unknown, maxTokens: number, encode = (value: unknown) => value) => {
  if (estimateTokens(encode(value)) <= maxTokens) return value
  for (let maxLength = maxTokens * bytesPerToken; maxLength >= 1; maxLength = Math.floor(maxLength / 2)) {
    const shortened = shorten(value, maxLength)
    if (estimateTokens(encode(shortened)) <= maxTokens) return shortened
  }
  return null
}

/**
 * Encodes rows from the start of the list until no more fit into `maxTokens`. Returns the encoded rows. If even the
 * first row is too large, they consist of only that row, truncated, and `isShortened` is true.
 */
export const fitRowsToTokens = (rows: ReadonlyArray<unknown>, maxTokens: number, encode = (row: unknown) => row) => {
  let tokens = 0
  const encoded = rows.map(encode)
  // The callback also adds up the sizes, so `tokens` is the size of all rows up to and including `row`.
  const firstOmitted = encoded.findIndex((row) => (tokens += estimateTokens(row)) > maxTokens)
  if (firstOmitted === -1) return { rows: encoded, isShortened: false }
  if (firstOmitted > 0) return { rows: encoded.slice(0, firstOmitted), isShortened: false }
  return { rows: [encode(shortenToMaxTokens(rows[0], maxTokens, encode))], isShortened: true }
}
