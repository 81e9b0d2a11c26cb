/** Ticker parameters (§7.3, D5, D6: ticker lists). */
import { Array, Effect, Predicate, Schema, SchemaAST, SchemaIssue, SchemaTransformation } from "effect"
import { redactApiKeys } from "./Errors.ts"
import type { FilterDeclaration } from "./FilterDeclarations.ts"

/** The format of a ticker in requests, data files and tables. */
export const tickerPattern = /^[A-Z0-9.^-]{1,16}$/

/** Whether the symbol has a separator, and therefore more than one spelling (D41): `BRK.B` and `BRK-B`. */
export const hasSeparator = (symbol: string) => /[.-]/.test(symbol)

/**
 * Returns the text that all spellings of a symbol have in common (D41). A dot and a hyphen are the same separator. The
 * consolidated tape marks warrants and units by WS and U, the SEC by WT and UN: `ACHR.WS` is `ACHR-WT`.
 */
export const toSymbolKey = (symbol: string) =>
  hasSeparator(symbol) ? symbol.replaceAll(".", "-").replace(/-WS$/, "-WT").replace(/-U$/, "-UN") : symbol

/** Converts only ASCII letters: `toUpperCase` would turn some other letters into ASCII ones, such as `ı` into `I`. */
const toUpperCaseAscii = (text: string) => text.replace(/[a-z]/g, (letter) => letter.toUpperCase())

/** An entry of a ticker list: a symbol, with or without the CIK of its issuer. */
const tickerEntryPattern = /^[A-Z0-9.^-]{1,16}(?::\d{10})?$/

/** Matches lists in which every symbol is valid. They are the common case, and need no splitting. */
const onlyTickers = /^[A-Za-z0-9.^-]{1,16}(?:,[A-Za-z0-9.^-]{1,16})*$/

const removeSpaces = (text: string) => text.replace(/\s+/gu, "")

const padCik = (digits: string) => digits.padStart(10, "0")

/** Removes white space, converts the symbol to upper case, and pads the CIK to ten digits. */
const normalizeTickerEntry = (text: string) => toUpperCaseAscii(removeSpaces(text)).replace(/(?<=:)\d{1,10}$/, padCik)

/** Splits an entry of a ticker list, such as `META` or `META:0001326801`, into the ticker and the optional CIK. */
export const splitTickerListEntry = (entry: string) => {
  const [ticker = "", cik] = entry.split(":")
  return { ticker, cik }
}

const characterRule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
const maxTickers = 100
const maxNamedTickers = 20

/** Formats up to twenty dropped symbols, each truncated to 32 characters, so that the header stays short (D5). */
const formatDroppedTickers = (dropped: ReadonlyArray<string>) =>
  dropped
    .slice(0, maxNamedTickers)
    .map((text) => encodeURIComponent(redactApiKeys(text).slice(0, 32).toWellFormed()))
    .join(",")

/**
 * Returns an error message that names the invalid symbols and states the rule (§7.2). `advice` completes the last
 * sentence.
 */
const describeInvalidTickers = (sent: ReadonlyArray<string>, advice: string) => {
  const names = sent.slice(0, maxNamedTickers).map((text) => redactApiKeys(text).slice(0, 32)).join(", ")
  const more = sent.length > maxNamedTickers ? ` and ${sent.length - maxNamedTickers} more` : ""
  return `Invalid ticker(s): ${sent.length === 0 ? "none given" : `${names}${more}`}. ${characterRule}${advice}`
}

const makeInvalidTickersIssue = (sent: ReadonlyArray<string>) =>
  new SchemaIssue.InvalidValue({ message: describeInvalidTickers(sent, " (1 to 16 of them).") })

/**
 * Splits a list into its valid symbols without repetitions, and the entries that are dropped because they are invalid
 * (D5).
 */
const splitTickers = (text: string) => {
  const sent = text.split(",").map(normalizeTickerEntry).filter((entry) => entry !== "")
  return {
    sent,
    tickers: Array.dedupe(sent.filter((entry) => tickerEntryPattern.test(entry))),
    dropped: sent.filter((entry) => !tickerEntryPattern.test(entry)),
  }
}

/** A list needs at least one valid symbol, and has a maximum length (§7.3, §8). */
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

/** Returns the value of `X-Dropped-Tickers` for a valid list; undefined if nothing is dropped. */
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

/** Creates the schema of a single ticker with at most the given length. */
const makeTickerSchema = (maxLength: number) => {
  const pattern = new RegExp(`^\\s*[A-Za-z0-9.^-]{1,${maxLength}}\\s*$`, "u")
  const nameInvalid = Schema.makeFilter((text: string) => {
    if (pattern.test(text)) return true
    const name = removeSpaces(text)
    // Quotes the symbol as it was sent. If it is an API key with white space inside, which `redactApiKeys` would not
    // recognize, the white space is removed first.
    const sent = name === "" ? [] : [redactApiKeys(name) === name ? text.trim() : name]
    return describeInvalidTickers(sent, `. Send one symbol of 1 to ${maxLength} characters.`)
  })
  return Schema.String.annotate({
    description:
      `One current or former symbol of 1 to ${maxLength} characters; not case-sensitive. A dot and a hyphen ` +
      "are the same: `BRK.B` is `BRK-B`.",
    examples: ["BYON"],
    // The second check only shows the pattern in OpenAPI. It is never reached, because the first one aborts.
  }).check(nameInvalid.abort(), Schema.isPattern(pattern)).pipe(Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transform({
      decode: (text) => toUpperCaseAscii(text.trim()),
      encode: (text) => text,
    }),
  ))
}

/** One ticker of up to 6 characters. A comma or a space inside makes it invalid (D6). */
export const TickerParameter = makeTickerSchema(6).annotate({
  filter: { operator: "statement" } satisfies FilterDeclaration,
})

/** One ticker of up to 16 characters, the maximum in the tables. */
export const LongTickerParameter = makeTickerSchema(16)
  .annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/** The CIK of an issuer. SEC filings write it with or without leading zeros (D35); decoded, it has ten digits. */
export const CikParameter = Schema.String.annotate({
  description:
    "The CIK of the issuer that an ambiguous symbol stands for, one to ten digits; must be one of the candidates in " +
    "the 409 response.",
}).check(Schema.isPattern(/^[0-9]{1,10}$/u, { message: "must be a CIK of one to ten digits" })).pipe(Schema.decodeTo(
  Schema.String,
  SchemaTransformation.transform({ decode: padCik, encode: (text) => text }),
)).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/**
 * One CIK or, if the list has several symbols, a CIK for some of them, as `SYMBOL:CIK`. Decoding pads each CIK to ten
 * digits.
 */
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
