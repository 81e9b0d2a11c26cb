/**
 * The column types of datasets (D16, D31). The types for times are in `Timestamps.ts`. Each column type has three
 * schemas: `select` for the value from the database driver, `insert` for the text in a data file, and `json` for the
 * response.
 */
import { Effect, Schema, SchemaTransformation } from "effect"
import { Model, type VariantSchema } from "effect/schema"
import { CalendarDate } from "../rules/Dates.ts"
import { removeExponent } from "../rules/ExponentNotation.ts"
import { tickerPattern } from "../rules/Tickers.ts"
import { makeJsonDecimal } from "./JsonDecimals.ts"

/**
 * How PostgreSQL stores a column's values, which determines how responses print them. The printing is implemented in
 * `query/rows/FieldEncoders.ts`.
 */
export type ColumnType =
  | { readonly name: "text" | "textArray" | "integer" | "boolean" | "date" }
  | { readonly name: "literal"; readonly words: ReadonlyArray<string> }
  /** `precision` counts all digits; `scale` counts the digits after the decimal point. */
  | { readonly name: "decimal"; readonly precision: number; readonly scale: number }
  /** The three ways to store a time are explained in `Timestamps.ts`. */
  | { readonly name: "time"; readonly clock: "fixed offset" | "instant" | "New York" }

/** Returns the JSON schema of a row class. The OpenAPI document lists the schema under the class name. */
export const getRowJsonSchema = <Json extends Schema.Top>(
  { identifier, json }: { readonly identifier: string; readonly json: Json },
) => json.annotate({ identifier })

/** Text from a data file. `load` has already trimmed it and replaced empty cells with null (D39). */
const LoadedText = Schema.String.check(
  Schema.makeFilter((text: string) => text !== "", { message: "must not be empty" }),
  Schema.makeFilter((text: string) => text.isWellFormed() && !text.includes("\0"), {
    message: "must not contain a NUL character or half of a surrogate pair",
  }),
)

/** A text column. */
export const text = (description: string) =>
  Model.Field({
    select: Schema.String.annotate({ columnType: { name: "text" } }),
    insert: LoadedText.annotate({ title: "text", description, examples: ["text"] }),
    json: Schema.String.annotate({ description }),
  })

const TickerText = Schema.String.check(Schema.isPattern(tickerPattern, {
  message: "must be a symbol: 1 to 16 uppercase letters, numbers, dots, hyphens or carets",
}))

/** A symbol column. */
export const ticker = (description = "The symbol.", example = "ZYXA") =>
  Model.Field({
    select: Schema.String.annotate({ columnType: { name: "text" } }),
    insert: TickerText.annotate({ title: "symbol", description, examples: [example] }),
    json: Schema.String.annotate({ description, examples: [example] }),
  })

/** A text column that only allows the given words. */
export const literal = <const Words extends ReadonlyArray<string>>(words: Words, description: string) =>
  Model.Field({
    select: Schema.Literals(words).annotate({ columnType: { name: "literal", words } }),
    insert: Schema.Literals(words).annotate({ title: words.join(" | "), description }),
    json: Schema.Literals(words).annotate({ description }),
  })

/** A column for dates without a time, in the format `YYYY-MM-DD`. */
export const date = (description: string) =>
  Model.Field({
    select: Schema.String.annotate({ columnType: { name: "date" } }),
    insert: CalendarDate.annotate({ title: "date", description, examples: ["2026-06-01"] }),
    json: Schema.String.annotate({ format: "date", description }),
  })

const WholeNumberText = Schema.String.check(
  Schema.makeFilter((cell: string) => /^-?\d{1,16}$/.test(cell) && Number.isSafeInteger(Number(cell)), {
    message: "must be a whole number, at most 9007199254740991",
  }),
)

/**
 * A column of whole numbers, stored as `bigint`. The driver returns the JavaScript type `bigint`, which JSON cannot
 * represent, so values are converted to numbers. `Schema.Int` rejects values above 2^53-1, which a number cannot
 * represent exactly.
 */
export const integer = (description: string) =>
  Model.Field({
    select: Schema.BigInt.pipe(Schema.decodeTo(
      Schema.Int,
      SchemaTransformation.transform({
        decode: (value: bigint) => Number(value),
        encode: (value: number) => BigInt(value),
      }),
    )).annotate({ columnType: { name: "integer" } }),
    insert: Schema.String.pipe(Schema.decodeTo(
      WholeNumberText,
      // Some programs store integers as floating-point numbers and therefore write 100 as 100.0 (D43).
      SchemaTransformation.transform({
        decode: (cell) => removeExponent(cell).replace(/\.0+$/, ""),
        encode: (cell) => cell,
      }),
    )).annotate({ title: "whole number", description, examples: ["1200000"] }),
    json: Schema.Int.annotate({ description }),
  })

/**
 * A boolean in a data file. PostgreSQL writes booleans to CSV as `t` and `f`, pandas as `True` and `False`,
 * spreadsheets as `TRUE` and `FALSE`.
 */
const BooleanText = Schema.String.check(
  Schema.isPattern(/^(?:true|false|t|f)$/i, { message: "must be true or false" }),
)

/** A boolean column. */
export const boolean = (description: string) =>
  Model.Field({
    select: Schema.Boolean.annotate({ columnType: { name: "boolean" } }),
    insert: BooleanText.annotate({ title: "true | false", description }),
    json: Schema.Boolean.annotate({ description }),
  })

/** A text array column. CSV cells contain a JSON array. If a data file lacks the column, the arrays are empty. */
export const textArray = (description: string) =>
  Model.Field({
    select: Schema.Array(Schema.String).annotate({ columnType: { name: "textArray" } }),
    insert: Schema.Array(LoadedText).annotate({ title: "list of strings", description, examples: [["8-K", "S-3"]] })
      .pipe(
        Schema.withDecodingDefaultKey(Effect.succeed([])),
      ),
    json: Schema.Array(Schema.String).annotate({ description }),
  })

const LinkText = LoadedText.check(
  Schema.makeFilter((text: string) => /^https?:/i.test(text) && URL.canParse(text), {
    message: "must be a link that starts with https:// or http://",
  }),
)

const sourceDescription = "Links to the documents that the row comes from. A fragment names the element or fact."

/** The column `source`: links to the documents from which a row was taken; null if they are unknown. */
const sourceColumn = Model.Field({
  select: Schema.NullOr(Schema.Array(Schema.String).annotate({ columnType: { name: "textArray" } })),
  insert: Schema.optionalKey(Schema.NullOr(
    Schema.Array(LinkText).annotate({
      title: "list of links",
      description: sourceDescription,
      examples: [["https://www.sec.gov/Archives/edgar/data/1640147/000164014724000123/rdgdoc.xml#reportingOwner[1]"]],
    }),
  )),
  json: Schema.NullOr(Schema.Array(Schema.String)).annotate({
    description: `With \`provenance=true\`: ${sourceDescription} Null: unknown. Missing otherwise.`,
  }),
})

/**
 * The table column `source`, for models of rows in data files. Response models do not include it, because responses
 * only contain it with `provenance=true`.
 */
export const sourceForLoading = Model.Field({ insert: sourceColumn.schemas.insert })

/**
 * Returns the schema for a decimal number in a data file, with at most `integers` digits before and `decimals` digits
 * after the decimal point. More digits may follow if they are zeros, because some programs write all numbers with the
 * same number of digits.
 */
const makeDecimalText = (integers: number, decimals: number) => {
  const additionalZeros = new RegExp(`(?<=\\.\\d{${decimals}})0+$`)
  const text = Schema.String.check(Schema.isPattern(new RegExp(`^-?\\d{1,${integers}}(\\.\\d{1,${decimals}})?$`), {
    message: `must be a decimal number with at most ${integers} digits before the point and ${decimals} after it`,
  }))
  return Schema.String.pipe(Schema.decodeTo(
    text,
    SchemaTransformation.transform({
      decode: (cell) => removeExponent(cell).replace(additionalZeros, ""),
      encode: (cell) => cell,
    }),
  ))
}

const makeDecimalColumn = (integers: number, decimals: number) => (description: string) =>
  Model.Field({
    select: Schema.String.annotate({
      columnType: { name: "decimal", precision: integers + decimals, scale: decimals },
    }),
    insert: makeDecimalText(integers, decimals).annotate({
      title: `decimal, up to ${decimals} places`,
      description,
      examples: ["12.34"],
    }),
    json: makeJsonDecimal({ description }),
  })

/** A price in USD with four decimal places: `numeric(18,4)`. */
export const price = makeDecimalColumn(14, 4)

/** A price in USD with three decimal places (§2.5): `numeric(18,3)`. */
export const threeDecimalPrice = makeDecimalColumn(15, 3)

/** An amount in USD with two decimal places: `numeric(20,2)`. */
export const money = makeDecimalColumn(18, 2)

/**
 * The product of a price and a number of shares, rounded to two decimal places. `numeric(38,2)` is wide enough for
 * every product.
 */
export const priceTimesShares = makeDecimalColumn(36, 2)

/** A percentage (15 means 15%), a fraction (0.15 means 15%) or a ratio, with four decimal places: `numeric(18,4)`. */
export const ratio = makeDecimalColumn(14, 4)

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      /** How PostgreSQL stores the column's values and how responses format them. */
      readonly columnType?: ColumnType | undefined
      /** Whether the column contains the row's date. See `markAsRowDate`. */
      readonly isRowDate?: boolean | undefined
    }
  }
}

/**
 * Marks the column that contains the row's date. With `follow_lineage=true`, a row is returned only if the company used
 * the row's symbol on that date, because another company may have used it before or after. If the column contains an
 * instant, the date is the one that the API prints, at the offset -05:00 (§2.1, timestamps).
 */
export const markAsRowDate = <Select extends Schema.Top, Insert extends Schema.Top, Json extends Schema.Top>(
  column: VariantSchema.Field<{ readonly select: Select; readonly insert: Insert; readonly json: Json }>,
) =>
  Model.Field({
    select: column.schemas.select.annotate({ isRowDate: true }),
    insert: column.schemas.insert,
    json: column.schemas.json,
  })

const lineageTickerColumn = ticker(
  "With `follow_lineage=true`: the current symbol of the company. Missing otherwise.",
  "ZYXB",
)

/** Columns that `provenance` and `follow_lineage` add to each row. They come after all other columns, in this order. */
export const optInColumns = { source: sourceColumn, lineage_ticker: lineageTickerColumn }

/** The name of a column that responses contain only on request. */
export type OptInColumn = keyof typeof optInColumns

interface JsonRow<Fields> {
  readonly identifier: string
  readonly json: { readonly fields: Fields }
}

/** Returns a variant of `getRowJsonSchema` that adds the given optional fields to the schema. */
const withFields =
  <Added extends Schema.Struct.Fields>(added: Added) =>
  <Fields extends Schema.Struct.Fields>({ identifier, json }: JsonRow<Fields>) =>
    Schema.Struct({ ...json.fields, ...added }).annotate({ identifier })

const optionalSource = { source: Schema.optionalKey(sourceColumn.schemas.json) }
const optionalLineageTicker = { lineage_ticker: Schema.optionalKey(lineageTickerColumn.schemas.json) }

/** Returns the JSON schema of a row class for lists that support `follow_lineage`. */
export const getRowJsonSchemaWithLineage = withFields(optionalLineageTicker)

/** Returns the JSON schema of a row class for lists that support `provenance`. */
export const getRowJsonSchemaWithSource = withFields(optionalSource)

/** Returns the JSON schema of a row class for lists that support both `provenance` and `follow_lineage`. */
export const getRowJsonSchemaWithSourceAndLineage = withFields({ ...optionalSource, ...optionalLineageTicker })

/** Makes a column nullable. In JSON, a missing value is `null`, never `""` or `0`. */
export const nullable = <Select extends Schema.Top, Insert extends Schema.Top, Json extends Schema.Top>(
  column: VariantSchema.Field<{ readonly select: Select; readonly insert: Insert; readonly json: Json }>,
) =>
  Model.Field({
    select: Schema.NullOr(column.schemas.select),
    insert: Schema.NullOr(column.schemas.insert),
    json: Schema.NullOr(column.schemas.json),
  })
