/** Ticker parameters (§7.3; D5 and D6, ticker lists). */
import { Array, Effect, Predicate, Schema, SchemaAST, SchemaIssue, SchemaTransformation } from "effect"
import { redactApiKeys } from "./ApiErrors.ts"
import type { FilterDeclaration } from "./FilterDeclarations.ts"

/** The format of tickers in requests, data files and tables. */
export const tickerPattern = /^[A-Z0-9.^-]{1,16}$/

/**
 * Returns whether the symbol contains a dot or a hyphen and can therefore be spelled in several ways, such as `BRK.B`
 * and `BRK-B` (D41).
 */
export const hasSeparator = (symbol: string) => /[.-]/.test(symbol)

/**
 * Returns a key that is the same for all spellings of a symbol (D41). Dots and hyphens are interchangeable. Suffixes
 * for warrants and units are also normalized: WS and U on the consolidated tape are WT and UN at the SEC, so `ACHR.WS`
 * is the same as `ACHR-WT`.
 */
export const toSymbolKey = (symbol: string) =>
  hasSeparator(symbol) ? symbol.replaceAll(".", "-").replace(/-WS$/, "-WT").replace(/-U$/, "-UN") : symbol

/**
 * Converts ASCII letters only. `toUpperCase` would also turn some other letters into ASCII letters, such as `ı` into
 * `I`.
 */
const toUpperCaseAscii = (text: string) => text.replace(/[a-z]/g, (letter) => letter.toUpperCase())

/**
 * An entry of a ticker list after normalization: a symbol, optionally followed by the ten-digit CIK of its issuer, as
 * in `META:0001326801`.
 */
const tickerEntryPattern = /^[A-Z0-9.^-]{1,16}(?::\d{10})?$/

/** A list in which every symbol is valid. This is the common case and requires no splitting. */
const onlyTickers = /^[A-Za-z0-9.^-]{1,16}(?:,[A-Za-z0-9.^-]{1,16})*$/

const removeSpaces = (text: string) => text.replace(/\s+/gu, "")

const padCik = (digits: string) => digits.padStart(10, "0")

/** Removes white space, converts the symbol to upper case, and pads the CIK with zeros to ten digits. */
const normalizeTickerEntry = (text: string) => toUpperCaseAscii(removeSpaces(text)).replace(/(?<=:)\d{1,10}$/, padCik)

/** Splits a ticker list entry, such as `META` or `META:0001326801`, into the ticker and the optional CIK. */
export const splitTickerListEntry = (entry: string) => {
  const [ticker = "", cik] = entry.split(":")
  return { ticker, cik }
}

const characterRule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
const maxTickers = 100
const maxNamedTickers = 20

/** Formats at most twenty dropped symbols, each truncated to 32 characters, to keep the header short (D5). */
const formatDroppedTickers = (dropped: ReadonlyArray<string>) =>
  dropped
    .slice(0, maxNamedTickers)
    .map((text) => encodeURIComponent(redactApiKeys(text).slice(0, 32).toWellFormed()))
    .join(",")

/**
 * Returns an error message that lists the invalid symbols and states the rule (§7.2). `advice` is appended to the rule.
 */
const describeInvalidTickers = (sent: ReadonlyArray<string>, advice: string) => {
  const names = sent.slice(0, maxNamedTickers).map((text) => redactApiKeys(text).slice(0, 32)).join(", ")
  const more = sent.length > maxNamedTickers ? ` and ${sent.length - maxNamedTickers} more` : ""
  return `Invalid ticker(s): ${sent.length === 0 ? "none given" : `${names}${more}`}. ${characterRule}${advice}`
}

const makeInvalidTickersIssue = (sent: ReadonlyArray<string>) =>
  new SchemaIssue.InvalidValue({ message: describeInvalidTickers(sent, " (1 to 16 of them).") })

/**
 * Splits a comma-separated list of tickers (D5). Returns all entries that are not empty (`sent`), the valid ones
 * without duplicates (`tickers`), and the invalid ones (`dropped`), which do not make the request fail. An entry is a
 * symbol, optionally with the CIK of its issuer, as in `META:0001326801`.
 */
const splitTickers = (text: string) => {
  const sent = text.split(",").map(normalizeTickerEntry).filter((entry) => entry !== "")
  return {
    sent,
    tickers: Array.dedupe(sent.filter((entry) => tickerEntryPattern.test(entry))),
    dropped: sent.filter((entry) => !tickerEntryPattern.test(entry)),
  }
}

/** Returns whether a list has at least one valid symbol and does not exceed the maximum length (§7.3, §8). */
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

/**
 * Returns the value of the `X-Dropped-Tickers` header, which lists the invalid entries of the parameter `ticker`.
 * Returns undefined if there are none, or if the list is invalid as a whole, because the request then fails.
 */
export const findDroppedTickers = (text: string): string | undefined => {
  if (onlyTickers.test(text)) return undefined
  const { dropped, tickers } = splitTickers(text)
  return dropped.length > 0 && isListAllowed(tickers) ? formatDroppedTickers(dropped) : undefined
}

/**
 * A comma-separated list of tickers. Invalid tickers are dropped and listed in a response header. At least one ticker
 * must be valid.
 */
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

/** Returns whether the query schema has a parameter `ticker` whose value is a list of symbols. */
export const isTickerList = (query: Schema.Top) => {
  const field = Predicate.hasProperty(query, "fields") && Predicate.hasProperty(query.fields, "ticker")
    ? query.fields.ticker
    : undefined
  return Schema.isSchema(field) && SchemaAST.resolve(field.ast)?.["dropsInvalidEntries"] === true
}

/**
 * Returns the schema of a parameter that contains a single ticker of at most `maxLength` characters. White space around
 * the ticker is ignored, and lower-case letters are converted to upper case.
 */
const makeTickerSchema = (maxLength: number) => {
  const pattern = new RegExp(`^\\s*[A-Za-z0-9.^-]{1,${maxLength}}\\s*$`, "u")
  /** Like a check of the pattern, but the error message quotes the invalid ticker. */
  const checkTicker = Schema.makeFilter((text: string) => {
    if (pattern.test(text)) return true
    const withoutSpaces = removeSpaces(text)
    // Quotes the ticker as it was sent, so that the client recognizes it. But if an API key was sent by mistake and
    // contains white space, `redactApiKeys` finds it only without the white space, so the masked form is quoted.
    const quoted = withoutSpaces === ""
      ? []
      : [redactApiKeys(withoutSpaces) === withoutSpaces ? text.trim() : withoutSpaces]
    return describeInvalidTickers(quoted, `. Send one symbol of 1 to ${maxLength} characters.`)
  })
  return Schema.String.annotate({
    description:
      `One current or former symbol of 1 to ${maxLength} characters; not case-sensitive. A dot and a hyphen ` +
      "are the same: `BRK.B` is `BRK-B`.",
    examples: ["BYON"],
    // The second check only makes OpenAPI show the pattern. It never runs, because the first check aborts.
  }).check(checkTicker.abort(), Schema.isPattern(pattern)).pipe(Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transform({
      decode: (text) => toUpperCaseAscii(text.trim()),
      encode: (text) => text,
    }),
  ))
}

/** A single ticker of at most 6 characters. It must not contain commas or spaces (D6). */
export const TickerParameter = makeTickerSchema(6).annotate({
  filter: { operator: "statement" } satisfies FilterDeclaration,
})

/** A single ticker of at most 16 characters, the maximum length in the tables. */
export const LongTickerParameter = makeTickerSchema(16)
  .annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/** An issuer's CIK, which SEC filings write with or without leading zeros (D35). It is decoded to ten digits. */
export const CikParameter = Schema.String.annotate({
  description:
    "The CIK of the issuer that an ambiguous symbol stands for, one to ten digits; must be one of the candidates in " +
    "the 409 response.",
}).check(Schema.isPattern(/^[0-9]{1,10}$/u, { message: "must be a CIK of one to ten digits" })).pipe(Schema.decodeTo(
  Schema.String,
  SchemaTransformation.transform({ decode: padCik, encode: (text) => text }),
)).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/**
 * A single CIK or, if `ticker` contains several symbols, `SYMBOL:CIK` entries for some of them. Each CIK is decoded to
 * ten digits.
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
