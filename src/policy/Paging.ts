/** §1, D8: every list comes in pages, in one envelope. */
import { Context, Effect, Schema } from "effect"
import { withoutKeys } from "./Errors.ts"
import { addLink, countRecords, Exchange } from "./Exchange.ts"

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

const nextPage = (target: string, page: number) => {
  const [path = "/", search = ""] = target.split("?", 2)
  const parameters = new URLSearchParams(withoutKeys(search))
  parameters.set("page", String(page + 1))
  return `${path}?${parameters}`
}

/** Puts the rows that `span` asked for into the envelope. */
export const envelope = Effect.fnUntraced(function* <Row>({ limit, page }: Page, rows: ReadonlyArray<Row>) {
  const results = rows.slice(0, limit)
  const has_more = rows.length > limit
  yield* countRecords(results.length)
  if (has_more) yield* addLink(nextPage((yield* Exchange).target, page), `rel="next"`)
  return { count: results.length, results, page, limit, has_more }
})
