/** Limits the size of tool results, because every token takes up space in a model's context. */
import { Config, Schema } from "effect"

/** Maximum size of a result in tokens. */
export const MaxResultTokensConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1000, maximum: 1_000_000 })),
  "MCP_RESULT_TOKENS",
).pipe(Config.withDefault(25_000))

/** A low estimate, which overestimates sizes: a client might cut a result that the service considers small enough. */
const bytesPerToken = 3

/** Estimates the size of a value in a JSON result, in tokens. */
export const estimateTokens = (value: unknown) => Math.ceil(Buffer.byteLength(JSON.stringify(value)) / bytesPerToken)

const shorten = (value: unknown, maxLength: number): unknown => {
  if (typeof value === "string") return value.length > maxLength ? `${value.slice(0, maxLength)}…` : value
  if (Array.isArray(value)) return value.slice(0, maxLength).map((item) => shorten(item, maxLength))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shorten(inner, maxLength)]))
}

/**
 * Shortens the strings and lists in a value until it has at most `maxTokens`. Returns null if that is impossible.
 * `encode` returns what the result contains in place of the value; the size of that counts.
 */
export const shortenToMaxTokens = (value: unknown, maxTokens: number, encode = (value: unknown) => value) => {
  if (estimateTokens(encode(value)) <= maxTokens) return value
  for (let maxLength = maxTokens * bytesPerToken; maxLength >= 1; maxLength = Math.floor(maxLength / 2)) {
    const shortened = shorten(value, maxLength)
    if (estimateTokens(encode(shortened)) <= maxTokens) return shortened
  }
  return null
}

/** Encodes as many of the first rows as fit. If not even the first row fits, encodes only that row, shortened. */
export const fitRowsToTokens = (rows: ReadonlyArray<unknown>, maxTokens: number, encode = (row: unknown) => row) => {
  let tokens = 0
  const encoded = rows.map(encode)
  const firstOmitted = encoded.findIndex((row) => (tokens += estimateTokens(row)) > maxTokens)
  if (firstOmitted === -1) return { rows: encoded, isShortened: false }
  if (firstOmitted > 0) return { rows: encoded.slice(0, firstOmitted), isShortened: false }
  return { rows: [encode(shortenToMaxTokens(rows[0], maxTokens, encode))], isShortened: true }
}
