/** Handlers of list endpoints: a page or an export, in the negotiated format (D8). */
import { Context, Effect, Layer, type Schema, type Scope } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { Account } from "../accounts/keys/Authentication.ts"
import { DataEndpoints, type RequestContract } from "../http/DataEndpoints.ts"
import { setResponseHeaders } from "../http/RequestContext.ts"
import { type ListFormat, negotiateFormat } from "../rows/Formats.ts"
import { type AnnotatedEndpoint, getTables } from "../rules/EndpointAnnotations.ts"
import { type DatabasePoolTimeout, type DataRefreshing, ValidationError } from "../rules/Errors.ts"
import type { PageQuery } from "../rules/Paging.ts"
import { exportNeedsFileFormat } from "../rules/ParameterCombinations.ts"
import { DatasetVersions, type TableVersions } from "./DatasetVersions.ts"
import * as Export from "./Export.ts"
import { ExportCursors } from "./ExportCursors.ts"
import { type ListDefinition, type ListQuery, makeListQueryFactory } from "./ListQuery.ts"
import { QueryCache, respondUncached } from "./QueryCache.ts"

type Response<R = never> = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  DataRefreshing | DatabasePoolTimeout | ValidationError,
  HttpServerRequest.HttpServerRequest | Scope.Scope | R
>

/** The query of a list that belongs to an account. */
export type WithAccount<Query> = Query & { readonly account_id: number }

/** The parameter `format` takes precedence over `Accept`. Only without `format` does the response vary by `Accept`. */
const resolveFormat = Effect.fnUntraced(function* ({ format }: PageQuery) {
  if (format !== undefined) return format
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  yield* setResponseHeaders({ Vary: "Accept" })
  return negotiateFormat(headers["accept"])
})

const jsonExportError = new ValidationError({
  error: {
    message: `limit ${exportNeedsFileFormat}`,
    details: { fields: [{ field: "limit", reason: exportNeedsFileFormat }] },
  },
})

export class ListHandlers extends Context.Service<ListHandlers, {
  /** For a list from a dataset. Pages are cached until a table that the endpoint reads changes (D17, caching). */
  readonly makeHandler: <Query extends PageQuery>(
    endpoint: AnnotatedEndpoint,
    definition: ListDefinition<Query> & { readonly Query: Schema.Codec<Query, unknown> },
  ) => (request: { readonly query: Query }) => Response
  /** For a list that depends on the account. Its pages are never cached. */
  readonly makeAccountHandler: <Query extends PageQuery>(
    contract: RequestContract<Query>,
    definition: ListDefinition<WithAccount<Query>>,
  ) => (request: { readonly query: Query }) => Response<Account>
}>()("tickerline/lists/ListHandlers") {
  static readonly layer = Layer.effect(
    ListHandlers,
    Effect.gen(function* () {
      const makeListQuery = yield* makeListQueryFactory
      const queryCache = yield* QueryCache
      const versions = yield* DatasetVersions
      const cursors = yield* ExportCursors
      const { register } = yield* DataEndpoints

      const respondWithExport = Effect.fnUntraced(function* <Query extends PageQuery>(
        query: Query,
        format: ListFormat,
        { makeExportStatement, results }: ListQuery<Query>,
        tables: ReadonlyArray<string>,
        tableVersions?: TableVersions,
      ) {
        if (format === "json") return yield* jsonExportError
        if (yield* Export.isHeadRequest) return yield* Export.respondToHead({ results, format })
        const version = tableVersions?.current()
        const cursor = yield* cursors.open({ tables, version, statement: makeExportStatement(query) })
        return yield* Export.sendExport({ results, format }, cursor)
      })

      const makeHandler = <Query extends PageQuery>(
        endpoint: AnnotatedEndpoint,
        definition: ListDefinition<Query> & { readonly Query: Schema.Codec<Query, unknown> },
      ) => {
        const list = makeListQuery(definition)
        const tables = getTables(endpoint)
        const tableVersions = versions.watchTables(tables)
        const makePageHandler = (format: ListFormat) =>
          queryCache.makeHandler(endpoint, (query: Query) => list.readPage(query, format))
        const pageHandlers = {
          json: makePageHandler("json"),
          csv: makePageHandler("csv"),
          ndjson: makePageHandler("ndjson"),
        }
        const respond = (query: Query) =>
          Effect.flatMap(
            resolveFormat(query),
            (format): Response =>
              query.limit === "all"
                ? respondWithExport(query, format, list, tables, tableVersions)
                : pageHandlers[format](query),
          )
        register({ path: endpoint.path, query: definition.Query }, respond)
        return ({ query }: { readonly query: Query }) => respond(query)
      }

      const makeAccountHandler = <Query extends PageQuery>(
        contract: RequestContract<Query>,
        definition: ListDefinition<WithAccount<Query>>,
      ) => {
        const list = makeListQuery(definition)
        const respond = Effect.fnUntraced(function* (query: Query, { account_id }: typeof Account.Service) {
          const format = yield* resolveFormat(query)
          const accountQuery = { ...query, account_id }
          if (query.limit === "all") return yield* respondWithExport(accountQuery, format, list, [])
          return yield* respondUncached(yield* list.readPage(accountQuery, format))
        })
        register(contract, respond)
        return ({ query }: { readonly query: Query }) => Effect.flatMap(Account, (account) => respond(query, account))
      }
      return ListHandlers.of({ makeHandler, makeAccountHandler })
    }),
  )
}
