/** List endpoints: each answers with a page or an export, in the negotiated format (D8). */
import { Array, Context, Effect, Exit, Layer, Scope } from "effect"
import { Refusal } from "../accounts/AccountErrors.ts"
import { type AdmittedRequest, type KeyedHandler, makeHandler } from "../accounts/EndpointHandler.ts"
import { Reader } from "../db/Reader.ts"
import { AnsweringSymbols, formatAnsweringSymbols } from "../lineage/AnsweringSymbols.ts"
import { LineageResolver, type RequestedSymbol } from "../lineage/LineageResolver.ts"
import { type ListFormat, negotiateExportFormat, negotiatePageFormat, type PageFormat } from "../rows/ListFormats.ts"
import type { Answer } from "../rules/Answer.ts"
import { type ApiRequest, getHeader } from "../rules/ApiRequest.ts"
import {
  type AnnotatedEndpoint,
  AnswersEverySymbol,
  type EndpointAccess,
  getTablesReadByEndpoint,
} from "../rules/EndpointAnnotations.ts"
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
import type { QueryCodec } from "../rules/Validation.ts"
import { type CombinedTableVersion, DatasetVersions } from "../db/versions/DatasetVersions.ts"
import * as Export from "./Export.ts"
import { ExportCursors } from "./ExportCursors.ts"
import { type CompiledListQuery, type ListDefinition, makeListQueryCompiler } from "./ListQuery.ts"
import { makePrivatePage, QueryCache } from "./QueryCache.ts"

type ListError = AmbiguousTickerLineage | DatabasePoolTimeout | DataRefreshing | Refusal | ValidationError

type AnswerQuery<Query> = (query: Query, request: AdmittedRequest) => Effect.Effect<Answer, ListError>

/** The statement's values that come from the request instead of its parameters, and what they add to the answer. */
export interface ResolvedQuery<Query> {
  readonly query: Query
  /** Response headers, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  /** Further endpoints whose rows are in the answer. */
  readonly sources: ReadonlyArray<EndpointAccess>
}

/** The query of a list that belongs to an account. */
export type WithAccountId<Query> = Query & { readonly account_id: number }

/** Makes the error for a format. Its response says whether the format was negotiated. */
const makeFormatError = (field: "limit" | "format", reason: string, headers: Readonly<Record<string, string>>) =>
  new Refusal({
    error: new ValidationError({
      error: { message: `${field} ${reason}`, details: { fields: [{ field, reason }] } },
    }),
    headers,
  })

const negotiatedHeaders = { vary: "Accept" }
const noHeaders = {}

/** Returns the value of the parameter `format`. If it is missing, negotiates the format, and the response says so. */
const resolveFormat = <Name extends ListFormat>(
  { format }: PagingQuery,
  request: ApiRequest,
  negotiate: (accept: string | undefined) => Name,
) =>
  format === undefined
    ? { format: negotiate(getHeader(request, "accept")), headers: negotiatedHeaders }
    : { format, headers: noHeaders }

/** Adds headers to an answer. */
const withHeaders = (answer: Answer, headers: Readonly<Record<string, string>>): Answer => {
  if (headers === noHeaders || answer._tag === "Measurement") return answer
  const vary = [headers["vary"], answer.headers["vary"]].filter((names) => names !== undefined).join(", ")
  return { ...answer, headers: { ...answer.headers, ...headers, ...(vary === "" ? {} : { vary }) } }
}

/** Lets the response cache use a page only while what it depends on besides its tables is unchanged. */
const withCondition = (answer: Answer, isCurrent: () => boolean): Answer => {
  if (answer._tag !== "Page" || answer.isCurrent === undefined) return answer
  const { isCurrent: isPageCurrent } = answer
  return { ...answer, isCurrent: () => isPageCurrent() && isCurrent() }
}

export class ListEndpointFactory extends Context.Service<ListEndpointFactory, {
  /**
   * Makes the handler of a list from a dataset. Pages are cached until a table that the endpoint reads changes (D17,
   * caching). Supports `follow_lineage`, and `provenance` if it is a parameter of the query.
   */
  readonly makeEndpoint: <
    Query extends PagingQuery & LineageQuery & ProvenanceQuery,
    const ShapedBy extends keyof Query = never,
  >(
    endpoint: AnnotatedEndpoint,
    definition: ListDefinition<Query, ShapedBy> & { readonly Query: QueryCodec<Query> },
  ) => KeyedHandler<ListError>
  /** Like `makeEndpoint`, for a list whose statement needs further values. `resolve` adds them to the parameters. */
  readonly makeResolvedEndpoint: <
    Sent extends PagingQuery,
    Query extends PagingQuery & LineageQuery,
    const ShapedBy extends keyof Query,
  >(
    endpoint: AnnotatedEndpoint,
    query: QueryCodec<Sent>,
    resolve: (query: Sent, request: AdmittedRequest) => ResolvedQuery<Query>,
    definition: ListDefinition<Query, ShapedBy>,
  ) => KeyedHandler<ListError>
  /** Makes the handler of a list that depends on the account. Its pages are never cached. */
  readonly makeAccountEndpoint: <Query extends PagingQuery>(
    query: QueryCodec<Query>,
    definition: ListDefinition<WithAccountId<Query>>,
  ) => KeyedHandler<ListError>
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
      const reader = yield* Reader

      const answerExport = Effect.fnUntraced(function* <Query extends PagingQuery>(
        query: Query,
        request: AdmittedRequest,
        { compileExport, readHeaders, results }: CompiledListQuery<Query>,
        tables: ReadonlyArray<string>,
        tableVersions?: CombinedTableVersion,
      ) {
        const { past, route, scope } = request
        const { format, headers } = resolveFormat(query, request.request, negotiateExportFormat)
        if (format === "json") return yield* makeFormatError("limit", jsonExportErrorReason, headers)
        const version = tableVersions?.current()
        const from = past ?? (version === undefined ? "primary" : { tables, version })
        const dataHeaders = yield* readHeaders(query, (statement) => reader.read(statement, { partition: route, from }))
        const options = { results, format, version, headers: { ...headers, ...dataHeaders } }
        if (request.request.method === "HEAD") return Export.makeExportHead(options, route)
        const cursor = yield* Scope.provide(
          cursors.open({ tables, version, statement: compileExport(query), request }),
          scope(),
        )
        return yield* Export.makeExport(options, cursor, request)
      })

      /**
       * Prepares what all lists of an endpoint share: the tables and their versions. The returned function makes the
       * answers of one list.
       */
      const makeAnswers = (endpoint: AnnotatedEndpoint) => {
        const tables = getTablesReadByEndpoint(endpoint)
        const tableVersions = versions.watchTables(tables)
        return <Query extends PagingQuery>(list: CompiledListQuery<Query>): AnswerQuery<Query> => {
          const makePageAnswer = (format: PageFormat) =>
            queryCache.makeAnswer(
              endpoint,
              (query: Query, read) => list.readPage(query, format, read),
              (query, read) => Effect.map(list.countResults(query, read), (records) => ({ records, isPartial: false })),
            )
          const pageAnswers = {
            json: makePageAnswer("json"),
            csv: makePageAnswer("csv"),
            ndjson: makePageAnswer("ndjson"),
          }
          return (query, request) => {
            if (query.limit === "all") return answerExport(query, request, list, tables, tableVersions)
            const { format, headers } = resolveFormat(query, request.request, negotiatePageFormat)
            if (format === "parquet") return Exit.fail(makeFormatError("format", parquetPageErrorReason, headers))
            return Effect.map(pageAnswers[format](query, request), (page) => withHeaders(page, headers))
          }
        }
      }

      /** Makes the answers of a list whose queries may follow lineages. `added`: further columns of its rows. */
      const makeFollowingAnswer = <Query extends PagingQuery & LineageQuery, ShapedBy extends keyof Query>(
        endpoint: AnnotatedEndpoint,
        definition: ListDefinition<Query, ShapedBy>,
        added: ReadonlyArray<"source">,
      ): AnswerQuery<Query> => {
        const makeAnswer = makeAnswers(endpoint)
        const answer = makeAnswer(makeListQuery(definition, added))
        const followedList = makeFollowedListQuery(definition, added)
        const answerFollowed = makeAnswer(followedList)

        const follow = Effect.fnUntraced(function* (
          query: Query,
          request: AdmittedRequest,
          requests: Array.NonEmptyReadonlyArray<RequestedSymbol>,
        ) {
          const { isCurrent, lineages } = yield* resolve(requests, request)
          const followed = yield* answerFollowed({ ...query, followed: followedList.follow(lineages) }, request)
          return withCondition(followed, isCurrent)
        })

        const answerSymbols: AnswerQuery<Query> = (query, request) => {
          const requests = query.follow_lineage === true ? getSymbolsWithSelectedCiks(query) : []
          return Array.isReadonlyArrayNonEmpty(requests) ? follow(query, request, requests) : answer(query, request)
        }
        if (!Context.get(endpoint.annotations, AnswersEverySymbol)) return answerSymbols

        /** Adds the symbols under which the companies of the requested symbols have their rows. */
        const answerCompanies = Effect.fnUntraced(function* (
          query: Query,
          request: AdmittedRequest,
          tickers: ReadonlyArray<string>,
        ) {
          const { found, isCurrent } = yield* answeringSymbols.find(tickers, request.past)
          if (found.length === 0) return withCondition(yield* answerSymbols(query, request), isCurrent)
          const ticker = Array.dedupe([...tickers, ...found.map(({ ticker }) => ticker)])
          const answered = yield* answerSymbols({ ...query, ticker }, request)
          return withHeaders(withCondition(answered, isCurrent), {
            "x-primary-tickers": formatAnsweringSymbols(found),
          })
        })

        return (query, request) =>
          query.ticker === undefined
            ? answerSymbols(query, request)
            : answerCompanies(query, request, [query.ticker].flat())
      }

      const makeEndpoint = <Query extends PagingQuery & LineageQuery & ProvenanceQuery, ShapedBy extends keyof Query>(
        endpoint: AnnotatedEndpoint,
        definition: ListDefinition<Query, ShapedBy> & { readonly Query: QueryCodec<Query> },
      ) => {
        const answer = makeFollowingAnswer(endpoint, definition, [])
        const hasSources = definition.Query.fields["provenance"] !== undefined
        const answerWithSources = hasSources ? makeFollowingAnswer(endpoint, definition, ["source"]) : answer
        return makeHandler(
          definition.Query,
          (query, request) => query.provenance === true ? answerWithSources(query, request) : answer(query, request),
        )
      }

      const makeResolvedEndpoint = <
        Sent extends PagingQuery,
        Query extends PagingQuery & LineageQuery,
        ShapedBy extends keyof Query,
      >(
        endpoint: AnnotatedEndpoint,
        query: QueryCodec<Sent>,
        resolve: (query: Sent, request: AdmittedRequest) => ResolvedQuery<Query>,
        definition: ListDefinition<Query, ShapedBy>,
      ) => {
        const answer = makeFollowingAnswer(endpoint, definition, [])
        return makeHandler(query, (sent, request) => {
          const { headers, query, sources } = resolve(sent, request)
          return Effect.map(answer(query, request), (answered) => {
            const withSources = answered._tag === "Page" ? { ...answered, sources } : answered
            return withHeaders(withSources, headers)
          })
        })
      }

      const makeAccountEndpoint = <Query extends PagingQuery>(
        query: QueryCodec<Query>,
        definition: ListDefinition<WithAccountId<Query>>,
      ) => {
        const list = makeListQuery(definition)
        const answer = Effect.fnUntraced(function* (query: Query, request: AdmittedRequest) {
          const accountQuery = { ...query, account_id: request.account.account_id }
          if (query.limit === "all") return yield* answerExport(accountQuery, request, list, [])
          const { format, headers } = resolveFormat(query, request.request, negotiatePageFormat)
          if (format === "parquet") return yield* makeFormatError("format", parquetPageErrorReason, headers)
          const read = (statement: ReturnType<typeof list.compilePage>) =>
            reader.read(statement, { partition: request.route, from: "primary" })
          const total = request.request.purpose === "estimate"
            ? { records: yield* list.countResults(accountQuery, read), isPartial: false }
            : undefined
          const page = makePrivatePage(yield* list.readPage(accountQuery, format, read), request.route)
          return withHeaders({ ...page, total }, headers)
        })
        return makeHandler(query, answer)
      }
      return ListEndpointFactory.of({ makeEndpoint, makeResolvedEndpoint, makeAccountEndpoint })
    }),
  )
}
