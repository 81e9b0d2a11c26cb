/**
 * D16, D31: the kinds of column that datasets are made of (the three of time are in `Timestamps.ts`).
 * Each says three things at once: how PostgreSQL hands the value over (`select`), how a file of rows writes it
 * (`insert`, always text) and how it prints (`json`). `print` is the short way from the first to the last.
 */
import { Effect, Predicate, Schema, SchemaAST, SchemaGetter, SchemaTransformation } from "effect"
import { Model, type VariantSchema } from "effect/schema"
import { CalendarDate } from "../rules/Dates.ts"
import * as Printing from "./RowEncoder.ts"
import { tickerPattern } from "../rules/Tickers.ts"

/** The JSON of a row; OpenAPI names it like its class. */
export const getRowJsonSchema = <Json extends Schema.Top>(
  { identifier, json }: { readonly identifier: string; readonly json: Json },
) => json.annotate({ identifier })

const tidy = Schema.String.check(
  Schema.makeFilter((text: string) => text !== "" && text.trim() === text, {
    message: "must not be empty and must not start or end with white space",
  }),
  Schema.makeFilter((text: string) => text.isWellFormed() && !text.includes("\0"), {
    message: "must not contain a NUL character or half of a surrogate pair",
  }),
)

/** Text; stray white space is refused when rows are loaded. */
export const textColumn = (description: string) =>
  Model.Field({
    select: Schema.String.annotate({ print: Printing.encodeText }),
    insert: tidy.annotate({ title: "text", description, examples: ["text"] }),
    json: Schema.String.annotate({ description }),
  })

const writtenSymbol = Schema.String.check(Schema.isPattern(tickerPattern, {
  message: "must be a symbol: 1 to 16 uppercase letters, numbers, dots, hyphens or carets",
}))

/** A ticker symbol. */
export const tickerColumn = (description = "The symbol.", example = "ZYXA") =>
  Model.Field({
    select: Schema.String.annotate({ print: Printing.encodeText }),
    insert: writtenSymbol.annotate({ title: "symbol", description, examples: [example] }),
    json: Schema.String.annotate({ description, examples: [example] }),
  })

const printWord = (words: ReadonlyArray<string>): Printing.ValueEncoder => {
  const printed = new Map<unknown, string>(words.map((word) => [word, JSON.stringify(word)]))
  return (value) => printed.get(value)
}

/** One of a few words. */
export const literalColumn = <const Words extends ReadonlyArray<string>>(words: Words, description: string) =>
  Model.Field({
    select: Schema.Literals(words).annotate({ print: printWord(words) }),
    insert: Schema.Literals(words).annotate({ title: words.join(" | "), description }),
    json: Schema.Literals(words).annotate({ description }),
  })

/** A date without a time. */
export const dateColumn = (description: string) =>
  Model.Field({
    select: Schema.String.annotate({ print: Printing.encodeUnescapedText }),
    insert: CalendarDate.annotate({ title: "date", description, examples: ["2026-06-01"] }),
    json: Schema.String.annotate({ format: "date", description }),
  })

const printWhole: Printing.ValueEncoder = (value) =>
  typeof value === "bigint" && Number.isSafeInteger(Number(value)) ? String(value) : undefined

/** A whole number up to 2^53-1; the driver hands `bigint` over as such, which JSON refuses. */
export const integerColumn = (description: string) =>
  Model.Field({
    select: Schema.BigInt.pipe(Schema.decodeTo(
      Schema.Int,
      SchemaTransformation.transform({
        decode: (value: bigint) => Number(value),
        encode: (value: number) => BigInt(value),
      }),
    )).annotate({ print: printWhole }),
    insert: Schema.String.check(
      Schema.makeFilter((cell: string) => /^-?\d{1,16}$/.test(cell) && Number.isSafeInteger(Number(cell)), {
        message: "must be a whole number, at most 9007199254740991",
      }),
    ).annotate({ title: "whole number", description, examples: ["1200000"] }),
    json: Schema.Int.annotate({ description }),
  })

const printFlag: Printing.ValueEncoder = (value) => typeof value === "boolean" ? String(value) : undefined

/** Yes or no. */
export const booleanColumn = (description: string) =>
  Model.Field({
    select: Schema.Boolean.annotate({ print: printFlag }),
    insert: Schema.Literals(["true", "false"]).annotate({ title: "true | false", description }),
    json: Schema.Boolean.annotate({ description }),
  })

const printWords: Printing.ValueEncoder = (value) =>
  Array.isArray(value) && value.every(Predicate.isString) ? JSON.stringify(value) : undefined

/** A list of words, never a comma-separated string. In a CSV cell it is JSON; left out it is empty. */
export const textArrayColumn = (description: string) =>
  Model.Field({
    select: Schema.Array(Schema.String).annotate({ print: printWords }),
    insert: Schema.Array(tidy).annotate({ title: "list of texts", description, examples: [["8-K", "S-3"]] }).pipe(
      Schema.withDecodingDefaultKey(Effect.succeed([])),
    ),
    json: Schema.Array(Schema.String).annotate({ description }),
  })

/** Exactly this many digits may follow the point of a decimal before it is refused. */
const decimalCell = (integers: number, decimals: number) =>
  Schema.String.check(Schema.isPattern(new RegExp(`^-?\\d{1,${integers}}(\\.\\d{1,${decimals}})?$`), {
    message: `must be a decimal number with at most ${integers} digits before the point and ${decimals} after it`,
  }))

declare global {
  /** ECMAScript's JSON.parse source text access, in Node 22 and Deno; TypeScript's library does not know it yet. */
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string }
    isRawJSON(value: unknown): boolean
  }
}

/** Digits that no float holds, as a client that reads JSON with all of them hands them over. Nothing prints them so. */
const isDigits = (value: unknown) =>
  typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) && String(Number(value)) !== value

const isPrintedNumber = (value: unknown) =>
  typeof value === "number" || isDigits(value) || ("isRawJSON" in JSON && JSON.isRawJSON(value))

/**
 * D16: a decimal prints exactly as stored. Within the service it is its text; on the wire a JSON number of the same
 * digits without trailing zeros, which `JSON.rawJSON` gives also where a float could not hold it.
 */
const PrintedNumber = Schema.Json.check(
  Schema.makeFilter(isPrintedNumber, { expected: "a number", toJsonSchema: () => ({ type: "number" }) }),
)

const canonical = (stored: string) => {
  if (!stored.endsWith("0") || !stored.includes(".")) return stored
  let end = stored.length
  while (stored.charCodeAt(end - 1) === 48) end -= 1
  return stored.slice(0, stored.charCodeAt(end - 1) === 46 ? end - 1 : end)
}

/** PostgreSQL's NaN and Infinity are no numbers of JSON. */
const printDecimal: Printing.ValueEncoder = (value) =>
  typeof value === "string" && value.charCodeAt(value.length - 1) <= 57 ? canonical(value) : undefined

const decimal = (integers: number, decimals: number) => (description: string) =>
  Model.Field({
    select: Schema.String.annotate({ print: printDecimal }),
    insert: decimalCell(integers, decimals).annotate({
      title: `decimal, up to ${decimals} places`,
      description,
      examples: ["12.34"],
    }),
    json: PrintedNumber.annotate({ description }).pipe(Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transform(String),
      encode: SchemaGetter.transform((stored: string) => JSON.rawJSON(canonical(stored))),
    })),
  })

/** A price in USD, up to four decimals: `numeric(18,4)`. */
export const priceColumn = decimal(14, 4)

/** A price in USD, up to three decimals (§2.5): `numeric(18,3)`. */
export const priceInThousandthsColumn = decimal(15, 3)

/** An amount in USD, up to two decimals: `numeric(20,2)`. */
export const moneyColumn = decimal(18, 2)

/** A percentage (15 is 15 %), a fraction (0.15 is 15 %) or a ratio, up to four decimals: `numeric(18,4)`. */
export const ratioColumn = decimal(14, 4)

const printNull = ({ ast }: Schema.Top) => {
  const print = SchemaAST.resolve(ast)?.print
  return print === undefined ? {} : { print: Printing.encodeNullable(print) }
}

/** The column may be empty: `null`, never `""` and never `0`. */
export const nullableColumn = <Select extends Schema.Top, Insert extends Schema.Top, Json extends Schema.Top>(
  kind: VariantSchema.Field<{ readonly select: Select; readonly insert: Insert; readonly json: Json }>,
) =>
  Model.Field({
    select: Schema.NullOr(kind.schemas.select).annotate(printNull(kind.schemas.select)),
    insert: Schema.NullOr(kind.schemas.insert),
    json: Schema.NullOr(kind.schemas.json),
  })
