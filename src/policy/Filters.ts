/**
 * D7, D9 and the filters of the resources: the parameters that queries are made of, and what they must agree on. Each
 * declares the column and the operator that it stands for (`Operators.ts`).
 */
import { BigDecimal, Schema, SchemaTransformation } from "effect"
import { Day, PastDay } from "./Dates.ts"
import type { ColumnOperator, FilterDeclaration } from "./Operators.ts"

type Filters = { readonly [name: string]: unknown }

const later = (from: string, to: string) => from > to

const greater = (low: string, high: string) =>
  BigDecimal.isGreaterThan(BigDecimal.fromStringUnsafe(low), BigDecimal.fromStringUnsafe(high))

const disordered = (
  query: Filters,
  lower: string,
  upper: string,
  exceeds: (left: string, right: string) => boolean,
) => {
  const [from, to] = [query[lower], query[upper]]
  const wrong = typeof from === "string" && typeof to === "string" && exceeds(from, to)
  return wrong ? [{ path: [lower], issue: `must not be greater than ${upper}` }] : []
}

const pairs = (query: Filters) =>
  Object.keys(query).flatMap((name) =>
    name.startsWith("min_")
      ? disordered(query, name, name.replace("min_", "max_"), greater)
      : name.endsWith("_from")
      ? disordered(query, name, name.replace(/_from$/, "_to"), later)
      : []
  )

const twoWaysToSayWhen = (query: Filters) =>
  query["date"] !== undefined && (query["date_from"] !== undefined || query["date_to"] !== undefined)
    ? [{ path: ["date"], issue: "cannot be combined with date_from or date_to" }]
    : []

/** A whole list has no pages, and is no JSON; where `Accept` decides on that, the handler says so. */
const wholeList = ({ format, limit, page }: Filters) =>
  limit !== "all" ? [] : [
    ...(page === 1 ? [] : [{ path: ["page"], issue: "cannot be combined with limit=all" }]),
    ...(format === "json" ? [{ path: ["limit"], issue: onlyWhole }] : []),
  ]

/** Why `limit=all` is refused in JSON. */
export const onlyWhole = "can be all only with format=csv or format=ndjson"

/** No range is upside down, and `date` and `limit=all` stand alone. Every query carries this check. */
export const consistent = Schema.makeFilter((query: Filters) => [
  ...pairs(query),
  ...twoWaysToSayWhen(query),
  ...wholeList(query),
])

/** Why a parameter is refused that the endpoint does not take (D4). */
export const unknownParameter = "is not a parameter of this endpoint"

/** The query of an endpoint without parameters; an empty struct alone would take anything (D4). */
export const NoParameters = Schema.Struct({}).check(
  Schema.makeFilter((query: object) => Object.keys(query).map((name) => ({ path: [name], issue: unknownParameter }))),
)

/** In a URL a parameter is text; `format` says how it is written. */
const written = <To extends Schema.Codec<string, string>>(
  to: To,
  { description, filter, format }: {
    readonly format: "date" | "decimal"
    readonly filter: FilterDeclaration
    readonly description: string
  },
) =>
  Schema.optionalKey(
    Schema.String.annotate({ description, format }).pipe(Schema.decodeTo(to)).annotate({ filter }),
  )

/** `date`, or `date_from` and `date_to`: days of the column. */
export const onDate = (column: string) => ({
  date: written(PastDay, {
    format: "date",
    filter: { operator: "onDay", column },
    description: "Exactly this day; not in the future, and not with date_from or date_to.",
  }),
  date_from: written(PastDay, {
    format: "date",
    filter: { operator: "fromDay", column },
    description: "This day or later; not in the future.",
  }),
  date_to: written(PastDay, {
    format: "date",
    filter: { operator: "toDay", column },
    description: "This day or earlier; not in the future.",
  }),
})

/** The same, for a column `date`. */
export const OnDate = onDate("date")

type Keyed<Names extends ReadonlyArray<string>, Prefix extends string, Suffix extends string, Field> = {
  readonly [Name in Names[number] as `${Prefix}${Name}${Suffix}`]: Field
}

/** The same field under each name; the one place where the compiler takes our word for a key. */
const keyed = <Names extends ReadonlyArray<string>, Prefix extends string, Suffix extends string, Field>(
  names: Names,
  prefix: Prefix,
  suffix: Suffix,
  field: (name: string) => Field,
) =>
  Object.fromEntries(names.map((name) => [`${prefix}${name}${suffix}`, field(name)])) as Keyed<
    Names,
    Prefix,
    Suffix,
    Field
  >

/** Kept as text, so that a bound is compared by all of its digits (D16). */
const Bound = Schema.String.check(
  Schema.makeFilter(
    (text: string) =>
      /^[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d{1,3})?$/.test(text) && text.length <= 64 && isFinite(Number(text)),
    { message: "must be a finite number" },
  ),
)

const bound = (operator: "atLeast" | "atMost", says: string) => (column: string) =>
  written(Bound, { format: "decimal", filter: { operator, column }, description: `${column} ${says}.` })

/** `min_x` and `max_x` of each name, inclusive; a row without the value never matches (D9). */
export const bounds = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "min_", "", bound("atLeast", "of at least this")),
  ...keyed(names, "max_", "", bound("atMost", "of at most this")),
})

const pastDay = (operator: ColumnOperator, says: string) => (column: string) =>
  written(PastDay, {
    format: "date",
    filter: { operator, column },
    description: `${column} on this day or ${says}; not in the future.`,
  })

/** `x_from` and `x_to` of each name, for days that lie in the past by nature (D7, §4.4). */
export const pastDays = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", pastDay("fromDay", "later")),
  ...keyed(names, "", "_to", pastDay("toDay", "earlier")),
})

/** The same for instants: days on the clock on which they print, midnight to midnight (§2.1). */
export const pastDaysOfInstants = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", pastDay("fromDayOfInstant", "later")),
  ...keyed(names, "", "_to", pastDay("toDayOfInstant", "earlier")),
})

const anyDay = (operator: "fromDay" | "toDay", says: string) => (column: string) =>
  written(Day, {
    format: "date",
    filter: { operator, column },
    description: `${column} on this day or ${says}.`,
  })

/** `x_from` and `x_to` of each name, for days that may lie in the future (D7, §4.4). */
export const anyDays = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", anyDay("fromDay", "later")),
  ...keyed(names, "", "_to", anyDay("toDay", "earlier")),
})

/** `x=true` or `x=false` of each name. */
export const flags = <const Names extends ReadonlyArray<string>>(...names: Names) =>
  keyed(
    names,
    "",
    "",
    (column) =>
      Schema.optionalKey(
        Schema.Boolean.annotate({
          description: `Only rows whose ${column} is this.`,
          filter: { operator: "equals", column },
        }),
      ),
  )

const listed = <Item extends Schema.Codec<string, string>>(
  item: Item,
  description: string,
  filter: FilterDeclaration,
) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(Schema.decodeTo(
      Schema.Array(item),
      SchemaTransformation.transform({
        decode: (text): ReadonlyArray<string> => text.split(",").map((word) => word.trim()),
        encode: (items: ReadonlyArray<string>) => items.join(","),
      }),
    )).annotate({ filter }),
  )

const Word = Schema.String.check(
  Schema.makeFilter((text: string) => text !== "" && !text.includes("\0"), { message: "must not hold an empty value" }),
)

/** Equality of each name with one of several comma-separated identifiers, such as file numbers. */
export const identifiers = <const Names extends ReadonlyArray<string>>(...names: Names) =>
  keyed(
    names,
    "",
    "",
    (column) => listed(Word, `${column} is this; several values comma-separated.`, { operator: "oneOf", column }),
  )

/** Equality of each name with one of several comma-separated texts, in any case (D33). */
export const texts = <const Names extends ReadonlyArray<string>>(...names: Names) =>
  keyed(
    names,
    "",
    "",
    (column) =>
      listed(Word, `${column} is this, in any case; several values comma-separated.`, {
        operator: "oneOfIgnoringCase",
        column,
      }),
  )

/** `country` as two capital letters, which is how it is stored; sent in any case (D33). */
export const countryCodes = listed(
  Word.pipe(Schema.decodeTo(Schema.String, SchemaTransformation.toUpperCase())),
  "country is this, in any case; several values comma-separated.",
  { operator: "oneOf", column: "country" },
)

/** Equality with one of several statuses of HTTP, comma-separated. */
export const statusCodes = listed(
  Schema.String.check(Schema.isPattern(/^[1-5]\d\d$/, { message: "must be a status of HTTP, such as 200" })),
  "status_code is this; several values comma-separated.",
  { operator: "statement" },
)

/** Equality with one of a few words, comma-separated, in any case (D33); another word is refused. */
export const someOf = <const Words extends ReadonlyArray<string>>(words: Words) =>
  listed(
    Schema.String.pipe(Schema.decodeTo(
      Schema.Literals(words).annotate({ message: `must be of: ${words.join(", ")}` }),
      SchemaTransformation.toLowerCase(),
    )),
    `One of ${words.join(", ")}; several comma-separated.`,
    { operator: "oneOf" },
  )

const Part = Schema.String.check(
  Schema.makeFilter((text: string) => text.trim().length >= 3 && text.length <= 100 && !text.includes("\0"), {
    message: "must be a part of the text, 3 to 100 characters",
  }),
)

const partial = (name: string, filter: FilterDeclaration) =>
  Schema.optionalKey(
    Schema.String.annotate({ description: `A part of ${name}, 3 to 100 characters, in any case.` }).pipe(
      Schema.decodeTo(Part),
    ).annotate({ filter }),
  )

/** A part of the column's text, in any case. `%`, `_` and quotes are text. */
export const part = (column: string) => partial(column, { operator: "contains", column })

/** A part of an element of the column's array, in any case; `name` says what an element is. */
export const partOfElement = (column: string, name: string) => partial(name, { operator: "elementContains", column })

/** An element of the column's array, such as a tag, in any case (D33). */
export const word = (column: string, description: string) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(Schema.decodeTo(Word)).annotate({
      filter: { operator: "hasElement", column },
    }),
  )
