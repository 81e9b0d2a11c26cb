/** List pagination (§1, D8): the parameters and the JSON envelope. */
import { Context, Effect, Schema, SchemaGetter, SchemaTransformation } from "effect"
import { type ListFormat, listFormats } from "../rows/ListFormats.ts"
import { countRowsToRead, type CursorReader, makeCursorParameter } from "./Cursors.ts"
import { redactApiKeys } from "./ApiErrors.ts"
import { NonNegativeInt } from "./NonNegativeInt.ts"

/**
 * Returns the schema of a number written as decimal digits, with no sign, exponent, fraction or white space. Leading
 * zeros are allowed (D8). `to` checks the number, and `message` is the error for any other text.
 */
const decodeDigits = <To extends Schema.Codec<number>>(to: To, message: string) =>
  Schema.String.check(Schema.isPattern(/^0*\d{1,10}$/, { message })).pipe(
    Schema.decodeTo(to, { decode: SchemaGetter.Number(), encode: SchemaGetter.String() }),
  )

const integerUpTo = (maximum: number, message: string) =>
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum }, { message }))

/** Returns the part of an error message that states the allowed range. */
export const describeRange = (maximum: number) => `must be a whole number from 1 to ${maximum}`

const limitMessage = `${describeRange(100)}, or all with format=csv, format=ndjson or format=parquet`

/** The highest page number that requests may contain. It is the largest 32-bit signed integer. */
export const maxPage = 2_147_483_647

/** The parameters of every paginated list. */
export const PagingParameters = {
  page: decodeDigits(
    integerUpTo(maxPage, describeRange(maxPage)).annotate({ default: 1, description: "The page, from 1." }),
    describeRange(maxPage),
  ).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(1))),
  limit: Schema.String.annotate({
    default: "10",
    examples: ["100"],
    description: "Rows per page, at most 100. `all`, with a `format` other than `json`, exports the list at once.",
  }).check(Schema.isPattern(/^(0*([1-9][0-9]?|100)|all)$/u, { message: limitMessage })).pipe(
    Schema.decodeTo(
      Schema.Union([Schema.Int, Schema.Literal("all")]),
      SchemaTransformation.transform({
        decode: (text): number | "all" => text === "all" ? text : Number(text),
        encode: String,
      }),
    ),
    Schema.withDecodingDefaultTypeKey(Effect.succeed(10)),
  ),
  format: Schema.optionalKey(
    Schema.Literals(listFormats).annotate({
      message: `must be one of: ${listFormats.join(", ")}`,
      examples: ["csv"],
      description:
        "The format of the response. By default the header `Accept` decides; without it, `json`. `parquet` " +
        "needs `limit=all`.",
    }),
  ),
  explain: Schema.optionalKey(
    Schema.Boolean.annotate({
      description: "`true`: if there are no rows, `X-Empty-Reason` and, in JSON, `message` say why.",
    }),
  ),
}

/**
 * Returns the parameter `after` for a list that may grow while a client reads it. The parameter comes from the link to
 * the next page. It makes that page start after the last row of the current page, even if rows have been added in the
 * meantime.
 */
export const makePageAfterParameter = (readCursor: CursorReader<unknown>) =>
  makeCursorParameter(readCursor, "must be that of the link to a next page, unchanged", {
    description: "Where the page begins: the link to the next page has it, so that new rows do not shift the pages. " +
      "`page` then only numbers the page.",
  })

/** Returns the parameter `limit` for a list with cursors instead of page numbers. `standard` is the default value. */
export const makeLimitParameterForCursors = (maximum: number, standard: number, description: string) =>
  decodeDigits(integerUpTo(maximum, describeRange(maximum)), describeRange(maximum)).annotate({
    default: standard,
    description,
  }).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(standard)))

/** The decoded paging parameters. */
export interface PagingQuery {
  readonly page: number
  readonly limit: number | "all"
  /** The position after which the page starts. If present, the page number has no effect on which rows are returned. */
  readonly after?: string | undefined
  readonly format?: ListFormat
  readonly explain?: boolean
}

/** The `count` field in a list response. */
export const ResultCount = NonNegativeInt.annotate({ description: "The length of `results`." })

/** Returns the schema of a list response: `{ count, results, message?, page, limit, has_more }`. */
export const makeListEnvelope = <Row extends Schema.Top>(row: Row) =>
  Schema.Struct({
    count: ResultCount,
    results: Schema.Array(row).annotate({ description: "The rows of the page." }),
    message: Schema.optionalKey(
      Schema.String.annotate({
        description: "A data-quality disclaimer or, with `explain=true`, why there are no rows.",
      }),
    ),
    page: NonNegativeInt.annotate({ description: "The page of this response." }),
    limit: NonNegativeInt.annotate({ description: "The maximum number of rows on a page." }),
    has_more: Schema.Boolean.annotate({ description: "Another page follows; the header Link has its address." }),
  })

/** The unit in which estimates count an endpoint's results (D28). */
export const ResultUnit = Context.Reference<"row" | "filing_group">("tickerline/contract/ResultUnit", {
  defaultValue: () => "row",
})

/** The SQL `limit` of an export, which has no limit: it exceeds the number of rows in any table. */
export const unlimitedRowCount = Number.MAX_SAFE_INTEGER

/**
 * Returns the SQL `limit` and `offset` for reading a page. The limit includes one extra row, which shows whether there
 * is a next page and is removed by `cutPage` in `Cursors.ts`. With `after`, the offset is 0, because the SQL condition
 * already excludes the rows of earlier pages.
 */
export const getPageRowRange = ({ after, limit, page }: PagingQuery) =>
  limit === "all"
    ? { limit: unlimitedRowCount, offset: 0 }
    : { limit: countRowsToRead(limit), offset: after === undefined ? (page - 1) * limit : 0 }

/** The parameters that distinguish the request for the next page from the current request. */
export type NextPage = Required<Pick<PagingQuery, "page">> & Pick<PagingQuery, "after">

/**
 * Returns the path and query string of the next page: those of the current request with `page` and, for lists that
 * continue after a row, `after` replaced. API keys that were sent in the query string are masked.
 */
export const makeNextPageTarget = (target: string, { after, page }: NextPage) => {
  const [path = "/", ...search] = target.split("?")
  const parameters = new URLSearchParams(redactApiKeys(search.join("?")))
  parameters.set("page", String(page))
  if (after !== undefined) parameters.set("after", after)
  return `${path}?${parameters}`
}

/** The format and row count of a page in CSV or NDJSON. */
export interface PageFileMetadata {
  readonly format: "csv" | "ndjson"
  /** The number of NDJSON lines or of CSV records, not counting the CSV header. */
  readonly rows: number
}

/** An encoded response body, with metadata. */
export interface ResponseContent {
  readonly body: Uint8Array
  /** Absent if the page is JSON. */
  readonly file?: PageFileMetadata
  /** The number of results, for estimates (D28) and usage (D29). */
  readonly records: number
  /** Undefined on the last page. */
  readonly nextPage: NextPage | undefined
  /** Response headers that depend on the data, keyed by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Whether the same request may get a different response even though the data is unchanged. Such a response must not
   * be stored.
   */
  readonly isTransient?: boolean
}

/** Encodes a response that is not paginated. */
export const encodeUnpagedResponse = (encoded: Schema.Json, records: number): ResponseContent => ({
  body: new TextEncoder().encode(JSON.stringify(encoded)),
  records,
  nextPage: undefined,
})
