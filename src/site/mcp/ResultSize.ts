/** Limits the size of tool results, because every token takes up space in a model's context window. */
import { Config, Schema } from "effect"

/** The maximum size of a result, in tokens. */
export const MaxResultTokensConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1000, maximum: 1_000_000 })),
  "MCP_RESULT_TOKENS",
).pipe(Config.withDefault(25_000))

/**
 * Deliberately low, so that sizes in tokens are overestimated. If they were underestimated, clients might truncate
 * results that the service considers small enough.
 */
const bytesPerToken = 3

/** Estimates how many tokens a value takes up in a JSON result. */
export const estimateTokens = (value: unknown) => Math.ceil(Buffer.byteLength(JSON.stringify(value)) / bytesPerToken)

const shorten = (value: unknown, maxLength: number): unknown => {
  if (typeof value === "string") return value.length > maxLength ? `${value.slice(0, maxLength)}…` : value
  if (Array.isArray(value)) return value.slice(0, maxLength).map((item) => shorten(item, maxLength))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shorten(inner, maxLength)]))
}

/**
 * Truncates the strings and lists within a value until the value has at most `maxTokens`. Returns null if that is
 * impossible. `encode` converts the value to the form in which the result contains it, and the size is measured in that
 * form.
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
 * Encodes rows from the start of the list until no more fit. If even the first row is too large, returns only that row,
 * truncated.
 */
export const fitRowsToTokens = (rows: ReadonlyArray<unknown>, maxTokens: number, encode = (row: unknown) => row) => {
  let tokens = 0
  const encoded = rows.map(encode)
  const firstOmitted = encoded.findIndex((row) => (tokens += estimateTokens(row)) > maxTokens)
  if (firstOmitted === -1) return { rows: encoded, isShortened: false }
  if (firstOmitted > 0) return { rows: encoded.slice(0, firstOmitted), isShortened: false }
  return { rows: [encode(shortenToMaxTokens(rows[0], maxTokens, encode))], isShortened: true }
}
