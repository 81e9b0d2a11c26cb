/** §7.3, D5, D6: how a ticker parameter is read. */
import { Array, Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { redactKeys } from "./Errors.ts"
import { setResponseHeaders } from "../http/RequestContext.ts"
import type { FilterDeclaration } from "./FilterOperators.ts"

/** What a symbol is, wherever it is written. */
export const tickerPattern = /^[A-Z0-9.^-]{1,16}$/

/** Only the letters of the alphabet of symbols: elsewhere an upper case can turn a look-alike into one of them. */
const upperCase = (text: string) => text.replace(/[a-z]/g, (letter) => letter.toUpperCase())

const rule = "Tickers contain only uppercase letters, numbers, dots, hyphens or carets"
const mostTickers = 100
const mostShown = 20

/** D5: at most twenty dropped symbols, each cut, so that a hostile list cannot swell the answer. */
const shown = (dropped: ReadonlyArray<string>) =>
  dropped.slice(0, mostShown).map((text) => encodeURIComponent(redactKeys(text).slice(0, 32).toWellFormed())).join(",")

const invalid = (sent: ReadonlyArray<string>) => {
  const names = sent.slice(0, mostShown).map((text) => redactKeys(text).slice(0, 32)).join(", ")
  const more = sent.length > mostShown ? ` and ${sent.length - mostShown} more` : ""
  return new SchemaIssue.InvalidValue({
    message: sent.length === 0
      ? `Invalid ticker(s): none given. ${rule} (1 to 16 of them).`
      : `Invalid ticker(s): ${names}${more}. ${rule} (1 to 16 of them).`,
  })
}

const readList = Effect.fnUntraced(function* (text: string) {
  const sent = text.split(",").map((entry) => upperCase(entry.replace(/\s+/gu, ""))).filter((entry) => entry !== "")
  const dropped = sent.filter((entry) => !tickerPattern.test(entry))
  const tickers = Array.dedupe(sent.filter((entry) => tickerPattern.test(entry)))
  if (!Array.isArrayNonEmpty(tickers)) return yield* Effect.fail(invalid(sent))
  if (tickers.length > mostTickers) {
    return yield* Effect.fail(
      new SchemaIssue.InvalidValue({
        message: `must hold at most ${mostTickers} tickers, not ${tickers.length}; send the rest in another request`,
      }),
    )
  }
  if (dropped.length > 0) yield* setResponseHeaders({ "X-Dropped-Tickers": shown(dropped) })
  return tickers
})

/** A comma-separated list: invalid symbols are dropped (and named in `X-Dropped-Tickers`); none valid is an error. */
export const TickerList = Schema.String.annotate({
  description: "Symbols, comma-separated, at most 100. Invalid ones are dropped and listed in `X-Dropped-Tickers`; " +
    "when none is valid the request is refused.",
  examples: ["META,BYON"],
}).pipe(Schema.decodeTo(
  Schema.NonEmptyArray(Schema.String),
  SchemaTransformation.transformEffect({
    decode: readList,
    encode: (tickers: Array.NonEmptyReadonlyArray<string>) => Effect.succeed(tickers.join(",")),
  }),
)).annotate({ filter: { operator: "oneOf", column: "ticker" } satisfies FilterDeclaration })

const oneSymbol = (longest: number) =>
  Schema.String.annotate({
    description: `One symbol, current or former, 1 to ${longest} characters, in any case.`,
    examples: ["META"],
  }).pipe(Schema.decodeTo(
    Schema.String.check(Schema.isPattern(new RegExp(`^[A-Z0-9.^-]{1,${longest}}$`), {
      message: `Invalid ticker: expected one symbol of 1 to ${longest} characters. ${rule}.`,
    })),
    SchemaTransformation.transform({
      decode: (text) => upperCase(text.trim()),
      encode: (text) => text,
    }),
  ))

/** One symbol (D6): a comma or a space inside makes it invalid. */
export const Ticker = oneSymbol(6).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })

/** One symbol of any length that the tables hold. */
export const LongTicker = oneSymbol(16).annotate({ filter: { operator: "statement" } satisfies FilterDeclaration })
