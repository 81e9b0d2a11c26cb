/** §1, D8: every list comes in pages, in one envelope. */
import { Context, Effect, Schema, SchemaGetter } from "effect"
import { redactKeys } from "./Errors.ts"
import { RequestContext } from "../http/RequestContext.ts"
import { type ListFormat, listFormats } from "../rows/Formats.ts"
import type { RowValues } from "../rows/RowEncoder.ts"
import { makeFileWriter, type ResultEncoder, takeResults } from "../rows/ResultWriter.ts"

/** Decimal digits alone (D8): no sign, exponent, fraction or white space. Leading zeros are digits and allowed. */
const fromDigits = <To extends Schema.Codec<number>>(to: To, message: string) =>
  Schema.String.check(Schema.isPattern(/^0*\d{1,10}$/, { message })).pipe(
    Schema.decodeTo(to, { decode: SchemaGetter.Number(), encode: SchemaGetter.String() }),
  )

const whole = (maximum: number, message: string) =>
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum }, { message }))

const oneTo = (maximum: number) => `must be a whole number from 1 to ${maximum}`

const limits = `${oneTo(100)}, or all with format=csv or format=ndjson`

export const PagingParameters = {
  page: fromDigits(
    whole(2_147_483_647, oneTo(2_147_483_647)).annotate({ default: 1, description: "The page, from 1." }),
    oneTo(2_147_483_647),
  ).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(1))),
  limit: Schema.Union([fromDigits(whole(100, limits), limits), Schema.Literal("all")]).annotate({
    default: 10,
    message: limits,
    description: "Rows a page, at most 100; `all`, with `format=csv` or `format=ndjson`: the whole list at once.",
  }).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(10))),
  format: Schema.optionalKey(
    Schema.Literals(listFormats).annotate({
      message: `must be of: ${listFormats.join(", ")}`,
      description: "In what to answer; left out, the header `Accept` decides, and without it `json`.",
    }),
  ),
}

export interface PageQuery {
  readonly page: number
  readonly limit: number | "all"
  readonly format?: ListFormat
}

/** The `count` of a list. */
export const ResultCount = Schema.Int.annotate({ description: "The length of `results`." })

/** `{ count, results, message?, page, limit, has_more }`. */
export const ListEnvelope = <Row extends Schema.Top>(row: Row) =>
  Schema.Struct({
    count: ResultCount,
    results: Schema.Array(row).annotate({ description: "The rows of the page." }),
    message: Schema.optionalKey(Schema.String.annotate({ description: "A data-quality disclaimer." })),
    page: Schema.Int.annotate({ description: "The page of this response." }),
    limit: Schema.Int.annotate({ description: "The maximum number of rows on a page." }),
    has_more: Schema.Boolean.annotate({ description: "Another page follows; the header Link has its address." }),
  })

/** What the results of a list are, where they are no rows (D28). */
export const ResultUnit = Context.Reference<"row" | "filing_group">("tickerline/policy/Unit", {
  defaultValue: () => "row",
})

/** More than any table has. */
export const allRows = Number.MAX_SAFE_INTEGER

/** What a list query asks the database for: the page and one row more, which tells whether another page follows. */
export const getRowRange = ({ limit, page }: PageQuery) =>
  limit === "all" ? { rows: allRows, skip: 0 } : { rows: limit + 1, skip: (page - 1) * limit }

const pageOf = (target: string, page: number) => {
  const [path = "/", search = ""] = target.split("?", 2)
  const parameters = new URLSearchParams(redactKeys(search))
  parameters.set("page", String(page))
  return `${path}?${parameters}`
}

/** What is known of a page that is a file of its own. */
export interface FileMetadata {
  readonly format: "csv" | "ndjson"
  /** Lines of NDJSON; records of CSV, without the header. */
  readonly rows: number
}

/** A finished answer: what is known of it beside its text. */
export interface ResponseContent {
  readonly text: string
  /** JSON, where nothing is said. */
  readonly file?: FileMetadata
  /** How many results it has (D28, D29). */
  readonly records: number
  /** The page that follows. */
  readonly nextPage: number | undefined
}

/** An answer that is no list of rows: what its Schema writes is plain JSON already. */
export const makeSingleContent = (encoded: Schema.Json, records: number): ResponseContent => ({
  text: JSON.stringify(encoded),
  records,
  nextPage: undefined,
})

interface Listed {
  readonly results: ResultEncoder
  readonly format: ListFormat
  /** The rows that `span` asked for; those of a result too many tell of another page, and are not printed. */
  readonly rows: ReadonlyArray<RowValues>
  /** Of the rows that are shown. */
  readonly message?: ((rows: ReadonlyArray<RowValues>) => string | undefined) | undefined
}

/** A page: JSON in the envelope; or else a file, without the message. */
export const encodePage = ({ limit, page }: PageQuery, { format, message, results, rows }: Listed): ResponseContent => {
  const shown = limit === "all" ? rows : takeResults(results, rows, limit)
  const has_more = shown.length < rows.length
  const next = has_more ? page + 1 : undefined
  if (format !== "json") {
    const { end, header: head, write } = makeFileWriter(results, format)
    const [most, rest] = [write(shown), end()]
    const file = { format, rows: most.rows + rest.rows }
    return { text: head + most.text + rest.text, records: most.results + rest.results, nextPage: next, file }
  }
  const printed = results.print(shown)
  const said = message?.(shown)
  const disclaimer = said === undefined ? "" : `"message":${JSON.stringify(said)},`
  const text = `{"count":${printed.length},"results":[${printed.join(",")}],${disclaimer}` +
    `"page":${page},"limit":${limit},"has_more":${has_more}}`
  return { text, records: printed.length, nextPage: next }
}

/** Tells what the exchange has to know of an answer: its results, and the page that follows. */
export const setPageMetadata = ({ nextPage: next, records }: Omit<ResponseContent, "text">) =>
  Effect.map(RequestContext, (exchange) => {
    exchange.records = records
    if (next !== undefined) exchange.links.push({ path: pageOf(exchange.target, next), attributes: `rel="next"` })
  })
