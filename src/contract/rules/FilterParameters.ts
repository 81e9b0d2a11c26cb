/**
 * Filter parameters, from which endpoints build their query schemas (D7, D9). Each parameter declares the column it
 * filters and the operator it uses.
 */
import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { CalendarDate, CalendarMonth, calendarMonthMessage, NonFutureDate, type QueryNow } from "./Dates.ts"
import type { FilterDeclaration, FilterOperator } from "./FilterDeclarations.ts"
import { formatTextList, parseTextList } from "./CommaSeparatedLists.ts"

/** The error message for an unknown parameter (D4). The parameter name is put in front of it. */
export const unknownParameterReason = "is not a parameter of this endpoint"

/**
 * The query schema of the health checks. All parameters are ignored, because a load balancer whose probe adds a
 * parameter must not take the service out of rotation.
 */
export const AnyParameters = Schema.Struct({})

/** The query schema of an endpoint without parameters (D4). */
export const NoParameters = AnyParameters.check(
  Schema.makeFilter((query: object) =>
    Object.keys(query).map((name) => ({ path: [name], issue: unknownParameterReason }))
  ),
)

/** Returns an optional date parameter. */
const dateParameter = <To extends Schema.Codec<string, string, QueryNow>>(
  to: To,
  filter: FilterDeclaration,
  description: string,
) =>
  Schema.optionalKey(
    Schema.String.annotate({ description, format: "date" }).pipe(Schema.decodeTo(to)).annotate({ filter }),
  )

const nonFutureDateFilter = (operator: FilterOperator, column: string, description: string) =>
  dateParameter(NonFutureDate, { operator, column, refusesFuture: true }, `${description}; not in the future.`)

/** Returns the filters for a date column: `date` for a single day, `date_from` and `date_to` for a range. */
export const makeDateFilters = (column: string) => ({
  date: dateParameter(
    NonFutureDate,
    { operator: "onDay", column, refusesFuture: true },
    "Exactly this day; not in the future, and not with date_from or date_to.",
  ),
  date_from: nonFutureDateFilter("fromDay", column, "This day or later"),
  date_to: nonFutureDateFilter("toDay", column, "This day or earlier"),
})

/** The filters `date`, `date_from` and `date_to` for the column `date`. */
export const defaultDates = makeDateFilters("date")

/** Creates a field for each name. The type assertion restores the keys, which `Object.fromEntries` loses. */
const makeFields = <Name extends string, Key extends string, Field>(
  names: ReadonlyArray<Name>,
  makeKey: (name: Name) => Key,
  makeField: (name: Name) => Field,
) => Object.fromEntries(names.map((name) => [makeKey(name), makeField(name)])) as { readonly [Each in Key]: Field }

/** The pattern for decimal numbers in parameters, as shown in OpenAPI. */
export const decimalPattern = /^[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$/

/** A decimal number represented as a string, so that comparisons use every digit (D16, decimals). */
const DecimalText = Schema.String.check(
  Schema.makeFilter(
    (text: string) => decimalPattern.test(text) && text.length <= 64 && isFinite(Number(text)),
    {
      message: "must be a finite number without separators, such as 1234.5",
      toJsonSchema: () => [{ maxLength: 64, pattern: decimalPattern.source }, true],
    },
  ),
)

const boundFilter = (operator: "atLeast" | "atMost", column: string, comparison: string) =>
  Schema.optionalKey(
    Schema.String.annotate({ description: `${column} of ${comparison} this.` })
      .pipe(Schema.decodeTo(DecimalText)).annotate({ filter: { operator, column } }),
  )

/** Returns the inclusive filters `min_x` and `max_x` for each column `x`. Rows with a null value never match (D9). */
export const makeNumberRanges = <Name extends string>(...names: ReadonlyArray<Name>) => ({
  ...makeFields(names, (name) => `min_${name}` as const, (column) => boundFilter("atLeast", column, "at least")),
  ...makeFields(names, (name) => `max_${name}` as const, (column) => boundFilter("atMost", column, "at most")),
})

/** Returns a function that creates the filters `x_from` and `x_to` for each column `x`. */
const makeDayRanges = <Field>(
  from: FilterOperator,
  to: FilterOperator,
  makeFilter: (operator: FilterOperator, column: string, description: string) => Field,
) =>
<Name extends string>(...names: ReadonlyArray<Name>) => ({
  ...makeFields(
    names,
    (name) => `${name}_from` as const,
    (name) => makeFilter(from, name, `${name} on this day or later`),
  ),
  ...makeFields(
    names,
    (name) => `${name}_to` as const,
    (name) => makeFilter(to, name, `${name} on this day or earlier`),
  ),
})

/**
 * Returns the filters `x_from` and `x_to` for each date column `x` with past dates. The filters reject future dates
 * (D7, §4.4).
 */
export const makePastDateRanges = makeDayRanges("fromDay", "toDay", nonFutureDateFilter)

/**
 * Returns the filters `x_from` and `x_to` for each column `x` with past instants. Days begin and end at midnight at
 * -05:00. The filters reject future dates.
 */
export const makePastInstantRanges = makeDayRanges("fromDayOfInstant", "toDayOfInstant", nonFutureDateFilter)

/** Returns the filters `x_from` and `x_to` for each date column `x` whose dates may lie in the future (D7, §4.4). */
export const makeDateRanges = makeDayRanges(
  "fromDay",
  "toDay",
  (operator, column, description) => dateParameter(CalendarDate, { operator, column }, `${description}.`),
)

/** Returns the filter `x` for each boolean column `x`. It accepts `true` or `false`. */
export const makeBooleanFilters = <Name extends string>(...names: ReadonlyArray<Name>) =>
  makeFields(names, (name) => name, (column) =>
    Schema.optionalKey(
      Schema.Boolean.annotate({
        description: `Rows whose ${column} has this value.`,
        filter: { operator: "equals", column },
      }),
    ))

/** The maximum length of a value in a text filter, in characters. No value in the tables is longer. */
const maxTextLength = 256

/** The maximum length of a list parameter in characters, including commas. */
const maxTextListLength = 1_024

/** Splits a list and removes duplicates, which have no effect (D33). */
const makeListDecoder = (itemMessage: string | undefined) => (text: string) => {
  const parsed = parseTextList(text)
  return "values" in parsed
    ? Effect.succeed<ReadonlyArray<string>>(Array.from(new Set(parsed.values)))
    : Effect.fail(new SchemaIssue.InvalidValue({ message: itemMessage ?? parsed.reason }))
}

/**
 * Returns a filter whose value is a comma-separated list. `itemMessage` describes what each value must be; omit it if
 * any text is valid.
 */
const listFilter = <Item extends Schema.Codec<string, string>>(
  item: Item,
  description: string,
  filter: FilterDeclaration,
  itemMessage?: string,
) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).check(Schema.isMaxLength(maxTextListLength, {
      message: `must be at most ${maxTextListLength} characters long; send the other values in another request`,
    })).pipe(Schema.decodeTo(
      Schema.Array(item),
      SchemaTransformation.transformEffect({
        decode: makeListDecoder(itemMessage),
        encode: (items: ReadonlyArray<string>) => Effect.succeed(formatTextList(items)),
      }),
    )).annotate({ filter }),
  )

/** A value in a text filter. */
export const NonEmptyText = Schema.String.check(
  Schema.makeFilter((text: string) => text !== "" && !text.includes("\0"), {
    message: "must not contain an empty value",
    toJsonSchema: () => [{ minLength: 1 }, true],
  }),
  Schema.isMaxLength(maxTextLength, { message: `must be at most ${maxTextLength} characters long per value` }),
)

const quotingRule = "A value that contains a comma is written in double quotes."

const describeTextList = (column: string) =>
  `Rows whose ${column} is one of these comma-separated values, ignoring case. ${quotingRule}`

const makeTextListFilter = (operator: FilterOperator) => (column: string) =>
  listFilter(NonEmptyText, describeTextList(column), { operator, column })

/**
 * Returns a filter for each column. A row matches if the column equals one of the filter's values, ignoring case (D33).
 */
export const makeTextFilters = <Name extends string>(...names: ReadonlyArray<Name>) =>
  makeFields(names, (name) => name, makeTextListFilter("oneOfIgnoringCase"))

/**
 * Like `makeTextFilters`, but for columns with codes that are entirely in lower case or entirely in upper case. Only
 * these two spellings have to be compared, so no index on `lower(…)` is needed (D33).
 */
export const makeCodeFilters = <Name extends string>(...names: ReadonlyArray<Name>) =>
  makeFields(names, (name) => name, makeTextListFilter("oneOfCodes"))

/**
 * Filters by country codes, which may be sent in upper or lower case. The column `country` stores them in upper case
 * (D33).
 */
export const countryFilter = listFilter(
  Schema.String.pipe(Schema.decodeTo(NonEmptyText, SchemaTransformation.toUpperCase())),
  describeTextList("country"),
  { operator: "oneOf", column: "country" },
)

/**
 * Filters by endpoint paths, which may be sent in upper or lower case. The column `endpoint` stores them in lower case
 * (D33).
 */
export const endpointFilter = listFilter(
  Schema.String.pipe(Schema.decodeTo(NonEmptyText, SchemaTransformation.toLowerCase())),
  describeTextList("endpoint"),
  { operator: "oneOf", column: "endpoint" },
)

const statusCodeMessage = "must be an HTTP status code, such as 200"

/** Filters by comma-separated HTTP status codes. */
export const statusCodeFilter = listFilter(
  Schema.String.check(Schema.isPattern(/^[1-5]\d\d$/, { message: statusCodeMessage })),
  "Rows whose status_code is one of these comma-separated values.",
  { operator: "statement", narrows: true },
  statusCodeMessage,
)

/** Filters by comma-separated months. The column `month` stores months as `YYYY-MM`. */
export const monthFilter = listFilter(
  CalendarMonth,
  "Rows whose month is one of these comma-separated months, YYYY-MM.",
  { operator: "oneOf", column: "month" },
  calendarMonthMessage,
)

/**
 * Returns a filter that accepts one or more of `words`, comma-separated and in upper or lower case. Any other word is
 * rejected (D33).
 */
export const makeEnumFilter = <const Words extends ReadonlyArray<string>>(words: Words) => {
  const message = `must be one of: ${words.join(", ")}`
  return listFilter(
    Schema.String.pipe(Schema.decodeTo(
      Schema.Literals(words).annotate({ message }),
      SchemaTransformation.toLowerCase(),
    )),
    `One of ${words.join(", ")}; several comma-separated.`,
    { operator: "oneOf" },
    message,
  )
}

const SearchText = Schema.String.check(
  Schema.makeFilter((text: string) => text.trim().length >= 3 && text.length <= 100 && !text.includes("\0"), {
    message: "must be a part of the text, 3 to 100 characters",
    toJsonSchema: () => [{ maxLength: 100, pattern: "\\S[\\s\\S]+\\S" }, true],
  }),
)

const partialTextFilter = (name: string, filter: FilterDeclaration) =>
  Schema.optionalKey(
    Schema.String.annotate({ description: `Part of ${name}, 3 to 100 characters, ignoring case.` }).pipe(
      Schema.decodeTo(SearchText),
    ).annotate({ filter }),
  )

/**
 * Returns a filter that matches text containing the value, ignoring case. `%`, `_` and quotes have no special meaning.
 */
export const makeSubstringFilter = (column: string) => partialTextFilter(column, { operator: "contains", column })

/**
 * Returns a filter that matches arrays in which some element contains the value, ignoring case. OpenAPI describes the
 * value as "Part of `name`".
 */
export const makeArrayElementSubstring = (column: string, name: string) =>
  partialTextFilter(name, { operator: "elementContains", column })

/**
 * Returns a filter that matches arrays in which some element equals one of the values, ignoring case (D33), such as a
 * list of tags. `rows` is the noun that OpenAPI uses for the rows, such as `Sessions`.
 */
export const makeArrayElement = (column: string, rows: string) =>
  listFilter(
    NonEmptyText,
    `${rows} with one of these comma-separated values in ${column}, ignoring case. ${quotingRule}`,
    { operator: "hasElement", column },
  )
