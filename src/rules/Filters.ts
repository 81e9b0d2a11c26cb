/**
 * D7, D9 and the filters of the resources: the parameters that queries are made of. Each declares the column and the
 * operator that it stands for (`Operators.ts`).
 */
import { Schema, SchemaTransformation } from "effect"
import { CalendarDate, NonFutureDate } from "./Dates.ts"
import type { ColumnOperator, FilterDeclaration } from "./FilterOperators.ts"

/** Why a parameter is refused that the endpoint does not take (D4). */
export const unknownParameterReason = "is not a parameter of this endpoint"

/** The query of an endpoint without parameters; an empty struct alone would take anything (D4). */
export const NoParameters = Schema.Struct({}).check(
  Schema.makeFilter((query: object) =>
    Object.keys(query).map((name) => ({ path: [name], issue: unknownParameterReason }))
  ),
)

/** In a URL a parameter is text; `format` says how it is written. */
const written = <To extends Schema.Codec<string, string>>(
  to: To,
  format: "date" | "decimal",
  filter: FilterDeclaration,
  description: string,
) => Schema.optionalKey(Schema.String.annotate({ description, format }).pipe(Schema.decodeTo(to)).annotate({ filter }))

const pastDay = (operator: ColumnOperator, column: string, description: string) =>
  written(NonFutureDate, "date", { operator, column }, `${description}; not in the future.`)

/** `date`, or `date_from` and `date_to`: days of the column. */
export const dateFilters = (column: string) => ({
  date: written(
    NonFutureDate,
    "date",
    { operator: "onDay", column },
    "Exactly this day; not in the future, and not with date_from or date_to.",
  ),
  date_from: pastDay("fromDay", column, "This day or later"),
  date_to: pastDay("toDay", column, "This day or earlier"),
})

/** The same, for a column `date`. */
export const DateFilters = dateFilters("date")

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

const bound = (operator: "atLeast" | "atMost", column: string, says: string) =>
  written(Bound, "decimal", { operator, column }, `${column} of ${says} this.`)

/** `min_x` and `max_x` of each name, inclusive; a row without the value never matches (D9). */
export const numberRangeFilters = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "min_", "", (column) => bound("atLeast", column, "at least")),
  ...keyed(names, "max_", "", (column) => bound("atMost", column, "at most")),
})

/** `x_from` and `x_to` of each name, for days that lie in the past by nature (D7, §4.4). */
export const pastDateRangeFilters = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", (column) => pastDay("fromDay", column, `${column} on this day or later`)),
  ...keyed(names, "", "_to", (column) => pastDay("toDay", column, `${column} on this day or earlier`)),
})

/** The same for instants: days on the clock on which they print, midnight to midnight (§2.1). */
export const pastInstantRangeFilters = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", (column) => pastDay("fromDayOfInstant", column, `${column} on this day or later`)),
  ...keyed(names, "", "_to", (column) => pastDay("toDayOfInstant", column, `${column} on this day or earlier`)),
})

const anyDay = (operator: "fromDay" | "toDay", column: string, says: string) =>
  written(CalendarDate, "date", { operator, column }, `${column} on this day or ${says}.`)

/** `x_from` and `x_to` of each name, for days that may lie in the future (D7, §4.4). */
export const dateRangeFilters = <const Names extends ReadonlyArray<string>>(...names: Names) => ({
  ...keyed(names, "", "_from", (column) => anyDay("fromDay", column, "later")),
  ...keyed(names, "", "_to", (column) => anyDay("toDay", column, "earlier")),
})

/** `x=true` or `x=false` of each name. */
export const booleanFilters = <const Names extends ReadonlyArray<string>>(...names: Names) =>
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

const listedAs = (operator: ColumnOperator, how: string) => (column: string) =>
  listed(Word, `${column} is this${how}; several values comma-separated.`, { operator, column })

/** Equality of each name with one of several comma-separated identifiers, such as file numbers. */
export const exactTextFilters = <const Names extends ReadonlyArray<string>>(...names: Names) =>
  keyed(names, "", "", listedAs("oneOf", ""))

/** Equality of each name with one of several comma-separated texts, in any case (D33). */
export const caseInsensitiveTextFilters = <const Names extends ReadonlyArray<string>>(...names: Names) =>
  keyed(names, "", "", listedAs("oneOfIgnoringCase", ", in any case"))

/** `country` as two capital letters, which is how it is stored; sent in any case (D33). */
export const countryFilter = listed(
  Word.pipe(Schema.decodeTo(Schema.String, SchemaTransformation.toUpperCase())),
  "country is this, in any case; several values comma-separated.",
  { operator: "oneOf", column: "country" },
)

/** Equality with one of several statuses of HTTP, comma-separated. */
export const statusCodeFilter = listed(
  Schema.String.check(Schema.isPattern(/^[1-5]\d\d$/, { message: "must be a status of HTTP, such as 200" })),
  "status_code is this; several values comma-separated.",
  { operator: "statement" },
)

/** Equality with one of a few words, comma-separated, in any case (D33); another word is refused. */
export const literalFilter = <const Words extends ReadonlyArray<string>>(words: Words) =>
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
export const substringFilter = (column: string) => partial(column, { operator: "contains", column })

/** A part of an element of the column's array, in any case; `name` says what an element is. */
export const elementSubstringFilter = (column: string, name: string) =>
  partial(name, { operator: "elementContains", column })

/** An element of the column's array, such as a tag, in any case (D33). */
export const arrayElementFilter = (column: string, description: string) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(Schema.decodeTo(Word)).annotate({
      filter: { operator: "hasElement", column },
    }),
  )
