/** List endpoints: each responds with a page or an export, in the negotiated format (D8). */
import { Array, Context, Effect, Layer, type Schema, type Scope } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import type { CurrentAccount } from "../accounts/keys/Authentication.ts"
import { makePipelineEndpoint, type PipelineEndpoint } from "../http/RequestPipeline.ts"
import { RequestContext, setResponseHeaders } from "../http/RequestContext.ts"
import { AnsweringSymbols, formatAnsweringSymbols } from "../lineage/AnsweringSymbols.ts"
import { LineageResolver, type RequestedSymbol } from "../lineage/LineageResolver.ts"
import { type ListFormat, negotiateExportFormat, negotiatePageFormat, type PageFormat } from "../rows/ListFormats.ts"
import { type AnnotatedEndpoint, AnswersEverySymbol, getTablesReadByEndpoint } from "../rules/EndpointAnnotations.ts"
import {
  type AmbiguousTickerLineage,
  type DatabasePoolTimeout,
  type DataRefreshing,
  ValidationError,
} from "../rules/Errors.ts"
import { getSymbolsWithSelectedCiks, type LineageQuery } from "../rules/LineageParameters.ts"
import type { PagingQuery } from "../rules/Paging.ts"
import { jsonExportErrorReason, parquetPageErrorReason } from "../rules/ParameterCombinations.ts"
import type { ProvenanceQuery } from "../rules/ProvenanceParameter.ts"
import { type CombinedTableVersion, DatasetVersions } from "./DatasetVersions.ts"
import * as Export from "./Export.ts"
import { ExportCursors } from "./ExportCursors.ts"
import { type CompiledListQuery, type ListDefinition, makeListQueryCompiler } from "./ListQuery.ts"
import { QueryCache, respondUncached } from "./QueryCache.ts"

type ListError = AmbiguousTickerLineage | DatabasePoolTimeout | DataRefreshing | ValidationError

type Response = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  ListError,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

type QueryResolver<Sent, Query> = (
  query: Sent,
  account: typeof CurrentAccount.Service,
) => Effect.Effect<Query, ListError>

/** The query of a list that belongs to an account. */
export type WithAccountId<Query> = Query & { readonly account_id: number }

const makeFormatError = (field: "limit" | "format", reason: string) =>
  new ValidationError({ error: { message: `${field} ${reason}`, details: { fields: [{ field, reason }] } } })

/** Returns the value of the parameter `format`. If it is missing, negotiates the format and adds `Vary: Accept`. */
const resolveFormat = <Name extends ListFormat>(
  { format }: PagingQuery,
  negotiate: (accept: string | undefined) => Name,
) =>
  format !== undefined ? Effect.succeed(format) : Effect.flatMap(
    HttpServerRequest.HttpServerRequest,
    ({ headers }) => Effect.as(setResponseHeaders({ Vary: "Accept" }), negotiate(headers["accept"])),
  )

const resolvePageFormat = Effect.fnUntraced(function* (query: PagingQuery) {
  const format = yield* resolveFormat(query, negotiatePageFormat)
  return format === "parquet" ? yield* makeFormatError("format", parquetPageErrorReason) : format
})

const resolveExportFormat = Effect.fnUntraced(function* (query: PagingQuery) {
  const format = yield* resolveFormat(query, negotiateExportFormat)
  return format === "json" ? yield* makeFormatError("limit", jsonExportErrorReason) : format
})

export class ListEndpointFactory extends Context.Service<ListEndpointFactory, {
  /**
   * Makes the endpoint of a list from a dataset. Pages are cached until a table that the endpoint reads changes (D17,
   * caching). Supports `follow_lineage`, and `provenance` if it is a parameter of the query.
   */
  readonly makeEndpoint: <
    Query extends PagingQuery & LineageQuery & ProvenanceQuery,
    const ShapedBy extends keyof Query = never,
  >(
    endpoint: AnnotatedEndpoint,
    definition: ListDefinition<Query, ShapedBy> & { readonly Query: Schema.Codec<Query, unknown> },
  ) => PipelineEndpoint
  /** Like `makeEndpoint`, for a list whose statement needs further values. `resolve` adds them to the parameters. */
  readonly makeResolvedEndpoint: <
    Sent extends PagingQuery,
    Query extends PagingQuery & LineageQuery,
    const ShapedBy extends keyof Query,
  >(
    endpoint: AnnotatedEndpoint,
    query: Schema.Codec<Sent, unknown>,
    resolve: QueryResolver<Sent, Query>,
    definition: ListDefinition<Query, ShapedBy>,
  ) => PipelineEndpoint
  /** Makes the endpoint of a list that depends on the account. Its pages are never cached. */
  readonly makeAccountEndpoint: <Query extends PagingQuery>(
    endpoint: AnnotatedEndpoint,
    query: Schema.Codec<Query, unknown>,
    definition: ListDefinition<WithAccountId<Query>>,
  ) => PipelineEndpoint
}>()("tickerline/lists/ListEndpoints") {
  static readonly layer = Layer.effect(
    ListEndpointFactory,
    Effect.gen(function* () {
      const { makeFollowedListQuery, makeListQuery } = yield* makeListQueryCompiler
      const { resolve } = yield* LineageResolver
      const answeringSymbols = yield* AnsweringSymbols
      const queryCache = yield* QueryCache
      const versions = yield* DatasetVersions
      const cursors = yield* ExportCursors

      const respondWithExport = Effect.fnUntraced(function* <Query extends PagingQuery>(
        query: Query,
        { compileExport, readHeaders, results }: CompiledListQuery<Query>,
        tables: ReadonlyArray<string>,
        tableVersions?: CombinedTableVersion,
      ) {
        const format = yield* resolveExportFormat(query)
        yield* setResponseHeaders(yield* readHeaders(query))
        const version = tableVersions?.current()
        const options = { results, format, version }
        if (yield* Export.isHeadRequest) return yield* Export.respondToExportHead(options)
        const cursor = yield* cursors.open({ tables, version, statement: compileExport(query) })
        return yield* Export.sendExport(options, cursor)
      })

      /**
       * Prepares what all lists of an endpoint share: the tables and their versions. The returned function makes the
       * responder of one list.
       */
      const makeResponders = (endpoint: AnnotatedEndpoint) => {
        const tables = getTablesReadByEndpoint(endpoint)
        const tableVersions = versions.watchTables(tables)
        return <Query extends PagingQuery>(list: CompiledListQuery<Query>) => {
          const makePageHandler = (format: PageFormat) =>
            queryCache.makeHandler(endpoint, (query: Query) => list.readPage(query, format))
          const pageHandlers = {
            json: makePageHandler("json"),
            csv: makePageHandler("csv"),
            ndjson: makePageHandler("ndjson"),
          }
          return (query: Query): Response =>
            query.limit === "all"
              ? respondWithExport(query, list, tables, tableVersions)
              : Effect.flatMap(resolvePageFormat(query), (format) => pageHandlers[format](query))
        }
      }

      /** Lets the response cache use a response only while its tables and the lineages of its query are unchanged. */
      const cacheWhile = Effect.fnUntraced(function* (response: Response, isCurrent: () => boolean) {
        const responded = yield* response
        const context = yield* RequestContext
        const { isCurrent: isPageCurrent } = context.response
        if (isPageCurrent !== undefined) context.response.isCurrent = () => isPageCurrent() && isCurrent()
        return responded
      })

      /** Makes the responder of a list whose queries may follow lineages. `added`: further columns of its rows. */
      const makeFollowingResponder = <Query extends PagingQuery & LineageQuery, ShapedBy extends keyof Query>(
        endpoint: AnnotatedEndpoint,
        definition: ListDefinition<Query, ShapedBy>,
        added: ReadonlyArray<"source">,
      ) => {
        const makeResponder = makeResponders(endpoint)
        const respond = makeResponder(makeListQuery(definition, added))
        const followedList = makeFollowedListQuery(definition, added)
        const respondWithFollowed = makeResponder(followedList)

        const follow = Effect.fnUntraced(function* (
          query: Query,
          requests: Array.NonEmptyReadonlyArray<RequestedSymbol>,
        ) {
          const { isCurrent, lineages } = yield* resolve(requests)
          const response = respondWithFollowed({ ...query, followed: followedList.follow(lineages) })
          return yield* cacheWhile(response, isCurrent)
        })

        const respondToSymbols = (query: Query): Response => {
          const requests = query.follow_lineage === true ? getSymbolsWithSelectedCiks(query) : []
          return Array.isReadonlyArrayNonEmpty(requests) ? follow(query, requests) : respond(query)
        }
        if (!Context.get(endpoint.annotations, AnswersEverySymbol)) return respondToSymbols

        /** Adds the symbols under which the companies of the requested symbols have their rows. */
        const respondToCompanies = Effect.fnUntraced(function* (query: Query, tickers: ReadonlyArray<string>) {
          const { found, isCurrent } = yield* answeringSymbols.find(tickers)
          if (found.length === 0) return yield* cacheWhile(respondToSymbols(query), isCurrent)
          yield* setResponseHeaders({ "X-Primary-Tickers": formatAnsweringSymbols(found) })
          const ticker = Array.dedupe([...tickers, ...found.map(({ ticker }) => ticker)])
          return yield* cacheWhile(respondToSymbols({ ...query, ticker }), isCurrent)
        })

        return (query: Query): Response =>
          query.ticker === undefined ? respondToSymbols(query) : respondToCompanies(query, [query.ticker].flat())
      }

      const makeEndpoint = <Query extends PagingQuery & LineageQuery & ProvenanceQuery, ShapedBy extends keyof Query>(
        endpoint: AnnotatedEndpoint,
        definition: ListDefinition<Query, ShapedBy> & { readonly Query: Schema.Codec<Query, unknown> },
      ) => {
        const respond = makeFollowingResponder(endpoint, definition, [])
        const hasSources = definition.Query.fields["provenance"] !== undefined
        const respondWithSources = hasSources ? makeFollowingResponder(endpoint, definition, ["source"]) : respond
        return makePipelineEndpoint(
          endpoint,
          definition.Query,
          (query) => query.provenance === true ? respondWithSources(query) : respond(query),
        )
      }

      const makeResolvedEndpoint = <
        Sent extends PagingQuery,
        Query extends PagingQuery & LineageQuery,
        ShapedBy extends keyof Query,
      >(
        endpoint: AnnotatedEndpoint,
        query: Schema.Codec<Sent, unknown>,
        resolve: QueryResolver<Sent, Query>,
        definition: ListDefinition<Query, ShapedBy>,
      ) => {
        const respond = makeFollowingResponder(endpoint, definition, [])
        return makePipelineEndpoint(
          endpoint,
          query,
          (sent, account): Response => Effect.flatMap(resolve(sent, account), respond),
        )
      }

      const makeAccountEndpoint = <Query extends PagingQuery>(
        endpoint: AnnotatedEndpoint,
        query: Schema.Codec<Query, unknown>,
        definition: ListDefinition<WithAccountId<Query>>,
      ) => {
        const list = makeListQuery(definition)
        const respond = Effect.fnUntraced(function* (query: Query, { account_id }: typeof CurrentAccount.Service) {
          const accountQuery = { ...query, account_id }
          if (query.limit === "all") return yield* respondWithExport(accountQuery, list, [])
          const format = yield* resolvePageFormat(query)
          return yield* respondUncached(yield* list.readPage(accountQuery, format))
        })
        return makePipelineEndpoint(endpoint, query, respond)
      }
      return ListEndpointFactory.of({ makeEndpoint, makeResolvedEndpoint, makeAccountEndpoint })
    }),
  )
}
