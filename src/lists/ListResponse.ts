/** D8: a list is answered by the page or in whole, in the format that was asked for. */
import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Answers, fresh } from "./QueryCache.ts"
import { Versions, type Watched } from "./DatasetVersions.ts"
import type { List } from "./Listing.ts"
import { type Annotated, tablesOf } from "../rules/EndpointAnnotations.ts"
import { type DatabasePoolTimeout, type DataRefreshing, ValidationError } from "../rules/Errors.ts"
import { setHeaders } from "../http/RequestContext.ts"
import { onlyWhole } from "../rules/ParameterCombinations.ts"
import { type Format, negotiated } from "../rows/Formats.ts"
import type { Page } from "../rules/Paging.ts"
import { Cursors } from "./ExportCursors.ts"
import * as Whole from "./Export.ts"

type Answer<Query> = (query: Query) => Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  DataRefreshing | DatabasePoolTimeout | ValidationError,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

/** The parameter goes before the header, which is then nothing to the answer. */
const formatOf = Effect.fnUntraced(function* ({ format }: Page) {
  if (format !== undefined) return format
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  yield* setHeaders({ Vary: "Accept" })
  return negotiated(headers["accept"])
})

const notWhole = new ValidationError({
  error: { message: `limit ${onlyWhole}`, details: { fields: [{ field: "limit", reason: onlyWhole }] } },
})

export class Lists extends Context.Service<Lists, {
  /** The list of an endpoint; its pages are cached while the tables that the endpoint reads do not change (D17). */
  readonly from: <Query extends Page>(endpoint: Annotated, list: List<Query>) => Answer<Query>
  /** A list of what belongs to an account; nothing of it is kept. */
  readonly own: <Query extends Page>(list: List<Query>) => Answer<Query>
}>()("tickerline/lists/Lists") {
  static readonly layer = Layer.effect(
    Lists,
    Effect.gen(function* () {
      const answers = yield* Answers
      const versions = yield* Versions
      const cursors = yield* Cursors

      const whole = Effect.fnUntraced(
        function* <Query extends Page>(
          query: Query,
          format: Format,
          { results, whole }: List<Query>,
          tables: ReadonlyArray<string>,
          watched?: Watched,
        ) {
          if (format === "json") return yield* notWhole
          if (yield* Whole.isHead) return yield* Whole.announced({ results, format })
          const cursor = yield* cursors.open({ tables, version: watched?.current(), statement: whole(query) })
          return yield* Whole.send({ results, format }, cursor)
        },
      )

      const from = <Query extends Page>(endpoint: Annotated, list: List<Query>): Answer<Query> => {
        const tables = tablesOf(endpoint)
        const watched = versions.of(tables)
        const pageIn = (format: Format) => answers.from(endpoint, (query: Query) => list.page(query, format))
        const pages = { json: pageIn("json"), csv: pageIn("csv"), ndjson: pageIn("ndjson") }
        return (query) =>
          Effect.flatMap(
            formatOf(query),
            (format): ReturnType<Answer<Query>> =>
              query.limit === "all" ? whole(query, format, list, tables, watched) : pages[format](query),
          )
      }

      const own = <Query extends Page>(list: List<Query>): Answer<Query> => (query) =>
        Effect.flatMap(
          formatOf(query),
          (format): ReturnType<Answer<Query>> =>
            query.limit === "all" ? whole(query, format, list, []) : Effect.flatMap(list.page(query, format), fresh),
        )
      return Lists.of({ from, own })
    }),
  )
}
