/** Ticker parameters (§7.3, D5, D6: ticker lists). */
import { Array, Effect, Predicate, Schema, SchemaAST, SchemaIssue, SchemaTransformation } from "effect"
import { redactApiKeys } from "./Errors.ts"
import type { FilterDeclaration } from "./FilterDeclarations.ts"

/** The format of a ticker in requests, data files and tables. */
export const tickerPattern = /^[A-Z0-9.^-]{1,16}$/

/** Whether the symbol has a separator, so that it has several spellings (D41). */
export const hasSeparator = (symbol: string) => /[.-]/.test(symbol)

/** Returns text that is equal for all spellings of a symbol (D41): a dot and a hyphen are one separator. */
export const toSymbolKey = (symbol: string) => symbol.replaceAll(".", "-")

/** Changes only ASCII letters, because `toUpperCase` turns some other letters into ASCII ones, such as `ı` into `I`. */
const toUpperCaseAscii = (text: string) => text.replace(/[a-z]/g, (letter) => letter.toUpperCase())

/** A symbol in a list, with or without the CIK of its issuer. */
const tickerEntryPattern = /^[A-Z0-9.^-]{1,16}(?::\d{10})?$/

/** Lists that drop nothing, without a closer look. */
const onlyTickers = /^[A-Za-z0-9.^-]{1,16}(?:,[A-Za-z0-9.^-]{1,16})*$/

const removeSpaces = (text: string) => text.replace(/\s+/gu, "")

const padCik = (digits: string) => digits.padStart(10, "0")

const normalizeTickerEntry = (text: string) => toUpperCaseAscii(removeSpaces(text)).replace(/(?<=:)\d{1,10}$/, padCik)

/** Splits an entry of a ticker list, such as `META` or `META:0001326801`, into the ticker and the optional CIK. */
export const splitTickerListEntry = (entry: string) => {
  const [ticker = "", cik] = entry.split(":")
  return { ticker, cik }
}

const characterRule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
const maxTickers = 100
const maxNamedTickers = 20

/** Formats up to twenty dropped tickers, each cut to 32 characters, so that the header stays short (D5). */
const formatDroppedTickers = (dropped: ReadonlyArray<string>) =>
  dropped
    .slice(0, maxNamedTickers)
    .map((text) => encodeURIComponent(redactApiKeys(text).slice(0, 32).toWellFormed()))
    .join(",")

/** Names the invalid symbols, and states the rule (§7.2). `advice` ends the sentence of the rule. */
const describeInvalidTickers = (sent: ReadonlyArray<string>, advice: string) => {
  const names = sent.slice(0, maxNamedTickers).map((text) => redactApiKeys(text).slice(0, 32)).join(", ")
  const more = sent.length > maxNamedTickers ? ` and ${sent.length - maxNamedTickers} more` : ""
  return `Invalid ticker(s): ${sent.length === 0 ? "none given" : `${names}${more}`}. ${characterRule}${advice}`
}

const makeInvalidTickersIssue = (sent: ReadonlyArray<string>) =>
  new SchemaIssue.InvalidValue({ message: describeInvalidTickers(sent, " (1 to 16 of them).") })

/** Splits a list into valid symbols, each once, and the entries that are dropped because they are invalid (D5). */
const splitTickers = (text: string) => {
  const sent = text.split(",").map(normalizeTickerEntry).filter((entry) => entry !== "")
  return {
    sent,
    tickers: Array.dedupe(sent.filter((entry) => tickerEntryPattern.test(entry))),
    dropped: sent.filter((entry) => !tickerEntryPattern.test(entry)),
  }
}

const isListAllowed = (tickers: ReadonlyArray<string>) => tickers.length > 0 && tickers.length <= maxTickers

const parseTickers = (text: string) => {
  const { sent, tickers } = splitTickers(text)
  if (!Array.isArrayNonEmpty(tickers)) return Effect.fail(makeInvalidTickersIssue(sent))
  if (!isListAllowed(tickers)) {
    return Effect.fail(
      new SchemaIssue.InvalidValue({
        message: `must contain at most ${maxTickers} tickers, not ${tickers.length}; send the rest in another request`,
      }),
    )
  }
  return Effect.succeed(tickers)
}

/** Returns the value of `X-Dropped-Tickers` for a list that has a valid symbol; undefined if none is dropped. */
export const findDroppedTickers = (text: string): string | undefined => {
  if (onlyTickers.test(text)) return undefined
  const { dropped, tickers } = splitTickers(text)
  return dropped.length > 0 && isListAllowed(tickers) ? formatDroppedTickers(dropped) : undefined
}

/** A comma-separated list of tickers. Invalid ones are dropped and listed in a header; at least one must be valid. */
export const TickerListParameter = Schema.String.annotate({
  description: "Symbols, comma-separated, at most 100. Invalid ones are dropped and listed in `X-Dropped-Tickers`; " +
    "when none is valid the request is refused. A dot and a hyphen are the same: `BRK.B` is `BRK-B`. With " +
    "`follow_lineage=true`, `SYMBOL:CIK` names the issuer that an ambiguous symbol stands for.",
  examples: ["BYON,AAPL"],
}).pipe(Schema.decodeTo(
  Schema.NonEmptyArray(Schema.String),
  SchemaTransformation.transformEffect({
    decode: parseTickers,
    encode: (tickers: Array.NonEmptyReadonlyArray<string>) => Effect.succeed(tickers.join(",")),
  }),
)).annotate({
  filter: { operator: "oneOf", column: "ticker" } satisfies FilterDeclaration,
  dropsInvalidEntries: true,
})

/** Whether the parameter `ticker` of a query is a list of tickers. */
export const isTickerList = (query: Schema.Top) => {
  const field = Predicate.hasProperty(query, "fields") && Predicate.hasProperty(query.fields, "ticker")
    ? query.fields.ticker
    : undefined
  return Schema.isSchema(field) && SchemaAST.resolve(field.ast)?.["dropsInvalidEntries"] === true
}

const makeTickerSchema = (maxLength: number) => {
  const pattern = new RegExp(`^\\s*[A-Za-z0-9.^-]{1,${maxLength}}\\s*$`, "u")
  const nameInvalid = Schema.makeFilter((text: string) => {
    if (pattern.test(text)) return true
    const name = removeSpaces(text)
    // As it was sent, unless it is an API key, which `redactApiKeys` does not recognize with white space inside.
    const sent = name === "" ? [] : [redactApiKeys(name) === name ? text.trim() : name]
    return describeInvalidTickers(sent, `. Send one symbol of 1 to ${maxLength} characters.`)
  })
  return Schema.String.annotate({
    description:
      `One current or former symbol of 1 to ${maxLength} characters; not case-sensitive. A dot and a hyphen ` +
      "are the same: `BRK.B` is `BRK-B`.",
    examples: ["BYON"],
    // The second check only documents the pattern, because the first one ends the validation.
  }).check(nameInvalid.abort(), Schema.isPattern(pattern)).pipe(Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transform({
      decode: (text) => toUpperCaseAscii(text.trim()),
      encode: (text) => text,
    }),
  ))
}

/** One ticker of up to 6 characters; a comma or space inside makes it invalid (D6). */
export const TickerParameter = makeTickerSchema(6).annotate({
  filter: { operator: "statement" } satisfies FilterDeclaration,
})

/** One ticker of up to 16 characters, the maximum in the tables. */
export const LongTickerParameter = makeTickerSchema(16)
  .annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/** The CIK of an issuer, which SEC filings write with or without leading zeros (D35). Decodes to ten digits. */
export const CikParameter = Schema.String.annotate({
  description:
    "The CIK of the issuer that an ambiguous symbol stands for, one to ten digits; must be one of the candidates in " +
    "the 409 response.",
}).check(Schema.isPattern(/^[0-9]{1,10}$/u, { message: "must be a CIK of one to ten digits" })).pipe(Schema.decodeTo(
  Schema.String,
  SchemaTransformation.transform({ decode: padCik, encode: (text) => text }),
)).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/** One CIK, or the CIKs of several symbols of a list as `SYMBOL:CIK`. Decoding pads each CIK to ten digits. */
export const CikListParameter = Schema.String.annotate({
  description:
    "With `follow_lineage=true`: the CIK of the issuer that an ambiguous symbol stands for. If `ticker` has " +
    "several symbols: `SYMBOL:CIK`, comma-separated.",
}).pipe(Schema.decodeTo(
  Schema.Array(
    Schema.String.check(Schema.isPattern(/^(?:[A-Z0-9.^-]{1,16}:)?\d{10}$/, {
      message: "must be a CIK of one to ten digits, or SYMBOL:CIK for a symbol of a list",
    })),
  ),
  SchemaTransformation.transform({
    decode: (text): ReadonlyArray<string> =>
      text.split(",").map((entry) => normalizeTickerEntry(entry).replace(/^\d{1,10}$/, padCik)),
    encode: (entries: ReadonlyArray<string>) => entries.join(","),
  }),
)).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })
