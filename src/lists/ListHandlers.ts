/** D8: a list is answered by the page or in whole, in the format that was asked for. */
import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { QueryCache, respondUncached } from "./QueryCache.ts"
import { DatasetVersions, type TableVersions } from "./DatasetVersions.ts"
import type { ListQuery } from "./ListQuery.ts"
import { type AnnotatedEndpoint, getTables } from "../rules/EndpointAnnotations.ts"
import { type DatabasePoolTimeout, type DataRefreshing, ValidationError } from "../rules/Errors.ts"
import { setResponseHeaders } from "../http/RequestContext.ts"
import { exportNeedsFileFormat } from "../rules/ParameterCombinations.ts"
import { type ListFormat, negotiateFormat } from "../rows/Formats.ts"
import type { PageQuery } from "../rules/Paging.ts"
import { ExportCursors } from "./ExportCursors.ts"
import * as Whole from "./Export.ts"

type Answer<Query> = (query: Query) => Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  DataRefreshing | DatabasePoolTimeout | ValidationError,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

/** The parameter goes before the header, which is then nothing to the answer. */
const formatOf = Effect.fnUntraced(function* ({ format }: PageQuery) {
  if (format !== undefined) return format
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  yield* setResponseHeaders({ Vary: "Accept" })
  return negotiateFormat(headers["accept"])
})

const notWhole = new ValidationError({
  error: {
    message: `limit ${exportNeedsFileFormat}`,
    details: { fields: [{ field: "limit", reason: exportNeedsFileFormat }] },
  },
})

export class ListHandlers extends Context.Service<ListHandlers, {
  /** The list of an endpoint; its pages are cached while the tables that the endpoint reads do not change (D17). */
  readonly makeHandler: <Query extends PageQuery>(endpoint: AnnotatedEndpoint, list: ListQuery<Query>) => Answer<Query>
  /** A list of what belongs to an account; nothing of it is kept. */
  readonly makeAccountHandler: <Query extends PageQuery>(list: ListQuery<Query>) => Answer<Query>
}>()("tickerline/lists/Lists") {
  static readonly layer = Layer.effect(
    ListHandlers,
    Effect.gen(function* () {
      const answers = yield* QueryCache
      const versions = yield* DatasetVersions
      const cursors = yield* ExportCursors

      const whole = Effect.fnUntraced(
        function* <Query extends PageQuery>(
          query: Query,
          format: ListFormat,
          { results, makeExportStatement: whole }: ListQuery<Query>,
          tables: ReadonlyArray<string>,
          watched?: TableVersions,
        ) {
          if (format === "json") return yield* notWhole
          if (yield* Whole.isHeadRequest) return yield* Whole.respondToHead({ results, format })
          const cursor = yield* cursors.open({ tables, version: watched?.current(), statement: whole(query) })
          return yield* Whole.sendExport({ results, format }, cursor)
        },
      )

      const from = <Query extends PageQuery>(endpoint: AnnotatedEndpoint, list: ListQuery<Query>): Answer<Query> => {
        const tables = getTables(endpoint)
        const watched = versions.watchTables(tables)
        const pageIn = (format: ListFormat) =>
          answers.makeHandler(endpoint, (query: Query) => list.readPage(query, format))
        const pages = { json: pageIn("json"), csv: pageIn("csv"), ndjson: pageIn("ndjson") }
        return (query) =>
          Effect.flatMap(
            formatOf(query),
            (format): ReturnType<Answer<Query>> =>
              query.limit === "all" ? whole(query, format, list, tables, watched) : pages[format](query),
          )
      }

      const own = <Query extends PageQuery>(list: ListQuery<Query>): Answer<Query> => (query) =>
        Effect.flatMap(
          formatOf(query),
          (format): ReturnType<Answer<Query>> =>
            query.limit === "all"
              ? whole(query, format, list, [])
              : Effect.flatMap(list.readPage(query, format), respondUncached),
        )
      return ListHandlers.of({ makeHandler: from, makeAccountHandler: own })
    }),
  )
}
