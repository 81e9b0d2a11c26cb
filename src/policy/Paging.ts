/** §1, D8: every list comes in pages, in one envelope. */
import { Context, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { withoutKeys } from "./Errors.ts"
import { Exchange } from "./Exchange.ts"

const whole = (fallback: number, maximum: number, description: string) =>
  Schema.Int.check(
    Schema.isBetween({ minimum: 1, maximum }, { message: `must be a whole number from 1 to ${maximum}` }),
  ).annotate({ default: fallback, description }).pipe(
    Schema.withDecodingDefaultTypeKey(Effect.succeed(fallback)),
  )

export const Paging = {
  page: whole(1, 2_147_483_647, "The page, from 1."),
  limit: whole(10, 100, "Rows a page, at most 100."),
}

export interface Page {
  readonly page: number
  readonly limit: number
}

/** `{ count, results, message?, page, limit, has_more }`. */
export const Envelope = <Row extends Schema.Top>(row: Row) =>
  Schema.Struct({
    count: Schema.Int.annotate({ description: "The length of `results`." }),
    results: Schema.Array(row),
    message: Schema.optionalKey(Schema.String.annotate({ description: "A data-quality disclaimer." })),
    page: Schema.Int,
    limit: Schema.Int,
    has_more: Schema.Boolean.annotate({ description: "Another page follows; the header Link has its address." }),
  })

/** What the results of a list are, where they are no rows (D28). */
export const Unit = Context.Reference<"row" | "filing_group">("tickerline/policy/Unit", { defaultValue: () => "row" })

/** What a list query asks the database for: the page and one row more, which tells whether another page follows. */
export const span = ({ limit, page }: Page) => ({ rows: limit + 1, skip: (page - 1) * limit })

const pageOf = (target: string, page: number) => {
  const [path = "/", search = ""] = target.split("?", 2)
  const parameters = new URLSearchParams(withoutKeys(search))
  parameters.set("page", String(page))
  return `${path}?${parameters}`
}

/** A finished answer: what is known of it beside its text. */
export interface Content {
  /** The body, JSON. */
  readonly text: string
  /** How many results it has (D28, D29). */
  readonly records: number
  /** The page that follows. */
  readonly next: number | undefined
}

/** An answer that is no list of rows: what its Schema writes is plain JSON already. */
export const single = (encoded: Schema.Json, records: number): Content => ({
  text: JSON.stringify(encoded),
  records,
  next: undefined,
})

/** Puts the rows that `span` asked for into the envelope; the one that tells of another page is not printed. */
export const envelope = <Row>(
  { limit, page }: Page,
  rows: ReadonlyArray<Row>,
  print: (row: Row) => string,
  message?: string,
): Content => {
  const results = rows.slice(0, limit).map((row) => print(row))
  const has_more = rows.length > limit
  const disclaimer = message === undefined ? "" : `"message":${JSON.stringify(message)},`
  const text = `{"count":${results.length},"results":[${results.join(",")}],${disclaimer}` +
    `"page":${page},"limit":${limit},"has_more":${has_more}}`
  return { text, records: results.length, next: has_more ? page + 1 : undefined }
}

/** Tells what the exchange has to know of an answer: its results, and the page that follows. */
export const announce = ({ next, records }: Omit<Content, "text">) =>
  Effect.map(Exchange, (exchange) => {
    exchange.records = records
    if (next !== undefined) exchange.links.push({ path: pageOf(exchange.target, next), attributes: `rel="next"` })
  })

/** The answer as it is, for those that are not kept. */
export const respond = (content: Content) =>
  Effect.as(announce(content), HttpServerResponse.text(content.text, { contentType: "application/json" }))
