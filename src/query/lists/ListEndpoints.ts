/** Endpoints that return lists. Each one returns a page or an export, in the negotiated format (D8). */
import { Array, Context, Effect, Exit, Layer, Scope } from "effect"
import { ErrorWithHeaders } from "../../contract/AccountErrors.ts"
import { type AdmittedRequest, type KeyedHandler, makeHandler } from "../EndpointHandler.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import {
  formatPrimaryTickersHeader,
  type FoundStoredSymbols,
  type StoredSymbol,
  StoredSymbols,
} from "../lineage/StoredSymbols.ts"
import { LineageResolver } from "../lineage/LineageResolver.ts"
import { SymbolSpellings } from "../lineage/SymbolSpellings.ts"
import type { OptInColumn } from "../../contract/rows/Columns.ts"
import { negotiateExportFormat, negotiatePageFormat } from "../../contract/rows/ListFormats.ts"
import type { EndpointResult, Total } from "../../contract/rules/EndpointResult.ts"
import { getHeader } from "../../contract/rules/ApiRequest.ts"
import { type AnnotatedEndpoint, HasCompanyRows } from "../../contract/rules/EndpointAnnotations.ts"
import {
  type AmbiguousTickerLineage,
  type DatabasePoolTimeout,
  type DataRefreshing,
  makeFieldError,
  type ValidationError,
} from "../../contract/rules/ApiErrors.ts"
import { getSymbolsWithSelectedCiks, type LineageQuery } from "../../contract/rules/LineageParameters.ts"
import type { QuerySchema } from "../../contract/rules/FilterDeclarations.ts"
import type { PagingQuery } from "../../contract/rules/Paging.ts"
import { jsonExportErrorReason, parquetPageErrorReason } from "../../contract/rules/ParameterCombinations.ts"
import type { ProvenanceQuery } from "../../contract/rules/ProvenanceParameter.ts"
import { hasSeparator, splitTickerListEntry } from "../../contract/rules/Tickers.ts"
import type { QueryCodec } from "../../contract/rules/QueryValidation.ts"
import { listFilterNames, symbolTableNames } from "./EmptyReasonFinder.ts"
import * as Export from "./Export.ts"
import { ExportCursors } from "./ExportCursors.ts"
import type { ListDefinition } from "./ListDefinition.ts"
import { type CompiledList, makeListCompiler } from "./ListCompiler.ts"
import { type PageAdditions, type PageSource, QueryCache } from "./QueryCache.ts"

type ListError = AmbiguousTickerLineage | DatabasePoolTimeout | DataRefreshing | ErrorWithHeaders | ValidationError

/** A query with the values that were derived from the request, and what these values add to the response. */
export interface ResolvedQuery<Query> extends PageAdditions {
  readonly query: Query
}

/** The query of a list that belongs to an account. The account's id is added to it. */
export type WithAccountId<Query> = Query & { readonly account_id: number }

/** A requested symbol (`alias`) and its spelling in the tables (`ticker`). */
interface SpelledSymbol {
  readonly alias: string
  readonly ticker: string
}

/**
 * Pairs each requested entry, such as `BRK.B:0001067983`, with the same entry in the tables' spelling. Returns their
 * symbols without the CIK.
 */
const pairSpellings = (requested: ReadonlyArray<string>, stored: ReadonlyArray<string>) =>
  stored.map((entry, index): SpelledSymbol => ({
    alias: splitTickerListEntry(requested[index] ?? entry).ticker,
    ticker: splitTickerListEntry(entry).ticker,
  }))

/**
 * Returns the requested symbols whose rows are stored under another symbol or spelling, each with the stored symbol,
 * for the header `X-Primary-Tickers`. In `symbols`, `ticker` is the spelling of a requested symbol in the tables. In
 * `found`, `alias` is that spelling, and `ticker` is another symbol of the same company.
 */
const listStoredSymbols = (symbols: ReadonlyArray<SpelledSymbol>, found: ReadonlyArray<StoredSymbol>) =>
  symbols.flatMap(({ alias, ticker }) => [
    ...(alias === ticker ? [] : [{ alias, ticker }]),
    ...found.filter((stored) => stored.alias === ticker).map((stored) => ({ alias, ticker: stored.ticker })),
  ])

const noStoredSymbols: FoundStoredSymbols = { found: [], dependencies: [] }

/** Creates the error for a format that cannot be returned. The headers report whether the format was negotiated. */
const makeFormatError = (field: "limit" | "format", reason: string, headers: Readonly<Record<string, string>>) =>
  Exit.fail(new ErrorWithHeaders({ error: makeFieldError(field, reason), headers }))

/** Creates the handlers for list endpoints. */
export class ListEndpointFactory extends Context.Service<ListEndpointFactory, {
  /**
   * Creates the handler for a list from a dataset. Pages are cached until a table that the endpoint reads changes (D17,
   * caching). The list supports `follow_lineage`, and also `provenance` if its query has that parameter.
   */
  readonly makeEndpoint: <
    Query extends PagingQuery & LineageQuery & ProvenanceQuery,
    const ShapedBy extends keyof Query = never,
  >(
    endpoint: AnnotatedEndpoint,
    definition: ListDefinition<Query, ShapedBy> & { readonly Query: QueryCodec<Query> },
  ) => KeyedHandler<ListError>
  /**
   * Creates the handler for a list whose statement needs more values than the request's parameters. `resolve` adds
   * these values to the query. Otherwise the list is the same as for `makeEndpoint`.
   */
  readonly makeResolvedEndpoint: <
    Sent extends PagingQuery,
    Query extends PagingQuery & LineageQuery & ProvenanceQuery,
    const ShapedBy extends keyof Query,
  >(
    endpoint: AnnotatedEndpoint,
    query: QueryCodec<Sent>,
    resolve: (query: Sent, request: AdmittedRequest) => ResolvedQuery<Query>,
    definition: ListDefinition<Query, ShapedBy>,
  ) => KeyedHandler<ListError>
  /** Creates the handler for a list that depends on the account. The list's pages are never cached. */
  readonly makeAccountEndpoint: <Query extends PagingQuery>(
    query: QueryCodec<Query> & QuerySchema,
    definition: ListDefinition<WithAccountId<Query>>,
  ) => KeyedHandler<ListError>
}>()("tickerline/query/ListEndpoints") {
  static readonly layer = Layer.effect(
    ListEndpointFactory,
    Effect.gen(function* () {
      const compileList = yield* makeListCompiler
      const lineages = yield* LineageResolver
      const spellings = yield* SymbolSpellings
      const storedSymbols = yield* StoredSymbols
      const { makeCachedSource, makePrivateSource } = yield* QueryCache
      const cursors = yield* ExportCursors
      const getSymbolsVersion = (yield* DatasetVersions).watchTables(symbolTableNames)

      /** Opens a cursor for the list's rows and returns the export. */
      const respondWithExport = Effect.fnUntraced(function* <Query extends PagingQuery>(
        list: CompiledList<Query>,
        source: PageSource<ListError>,
        query: Query,
        request: AdmittedRequest,
        { format, headers }: Pick<Export.ExportOptions, "format" | "headers">,
      ) {
        const version = source.getVersion()
        const dataHeaders = yield* list.readHeaders(query, source.makeReader(request))
        const options = { results: list.results, format, version, headers: { ...headers, ...dataHeaders } }
        const statement = list.compile(query, "export")
        const cursor = cursors.open({ tables: source.tables, version, statement, request })
        return yield* Export.makeExport(options, yield* Scope.provide(cursor, request.scope()), request)
      })

      /**
       * Returns a page or an export, in the format that the query or the header `Accept` asks for. For an estimate,
       * returns the page with the total number of results. With `explain=true`, the response also depends on which
       * symbols are known, so it contains the version of the tables that determine this.
       */
      const respond = <Query extends PagingQuery>(
        list: CompiledList<Query>,
        source: PageSource<ListError>,
        query: Query,
        request: AdmittedRequest,
        additions: PageAdditions,
      ): Effect.Effect<EndpointResult, ListError> => {
        const { purpose } = request.request
        const accept = getHeader(request.request, "accept")
        // The response differs by `Accept` only if the query does not contain the format.
        const negotiated = query.format === undefined ? { vary: "Accept" } : {}
        const headers = { ...additions.headers, ...negotiated }
        if (query.limit === "all") {
          const format = query.format ?? negotiateExportFormat(accept)
          if (format === "json") return makeFormatError("limit", jsonExportErrorReason, negotiated)
          return respondWithExport(list, source, query, request, { format, headers })
        }
        const format = query.format ?? negotiatePageFormat(accept)
        if (format === "parquet") return makeFormatError("format", parquetPageErrorReason, negotiated)
        const version = query.explain === true ? getSymbolsVersion() : undefined
        const respondWithPage = (total?: Total) =>
          source.getPage([format, query, version], request, (read) => list.readPage(query, format, read), {
            ...additions,
            ...(query.explain === true && {
              dependencies: [{ getVersion: getSymbolsVersion, version }, ...additions.dependencies ?? []],
            }),
            headers,
            total,
          })
        return purpose === "estimate"
          ? Effect.flatMap(
            list.countResults(query, source.makeReader(request)),
            (records) => respondWithPage({ records, isPartial: false }),
          )
          : respondWithPage()
      }

      const makeResolvedEndpoint: ListEndpointFactory["Service"]["makeResolvedEndpoint"] = (
        endpoint,
        schema,
        resolve,
        definition,
      ) => {
        const source = makeCachedSource<ListError>(endpoint)
        const hasCompanies = Context.get(endpoint.annotations, HasCompanyRows)
        const hasSources = definition.Query?.fields["provenance"] !== undefined
        /** Compiles the list with these additional columns, both without and with following lineages. */
        const compile = (...added: ReadonlyArray<OptInColumn>) => ({
          list: compileList(definition, added),
          followed: compileList(definition, [...added, "lineage_ticker"]),
        })
        const plain = compile()
        const withSources = hasSources ? compile("source") : plain

        /**
         * Responds to a request whose symbols may have to be replaced. In this order:
         *
         * 1. Replaces the requested symbols with their spelling in the tables.
         * 2. If the endpoint's rows belong to companies, adds the symbols under which the companies' rows are stored.
         * 3. If the client asked for that, resolves the lineages of all these symbols and follows them.
         *
         * The response depends on the versions of all data that these steps read, so they are added to its
         * `dependencies`.
         */
        const respondForCompanies = Effect.fnUntraced(function* (
          { query: sent, ...additions }: ReturnType<typeof resolve>,
          request: AdmittedRequest,
        ) {
          const { followed, list } = sent.provenance === true ? withSources : plain
          const requestedTickers = [sent.ticker ?? []].flat()
          const spelling = yield* spellings.find(requestedTickers, source.getVersion)
          const tickers = spelling.symbols
          const { dependencies: companyDependencies, found } = hasCompanies
            ? yield* storedSymbols.find(tickers, request.past)
            : noStoredSymbols
          const allTickers = Array.dedupe([...tickers, ...found.map(({ ticker }) => ticker)])
          const [firstTicker = ""] = allTickers
          // `ticker` stays a single text if possible, so that the request uses the statement for one symbol. If no
          // symbol has a separator and none was added, the query is unchanged.
          const query = spelling.dependencies.length + found.length > 0
            ? { ...sent, ticker: typeof sent.ticker === "string" && allTickers.length === 1 ? firstTicker : allTickers }
            : sent
          const dependencies = [...spelling.dependencies, ...companyDependencies]
          const spelled = pairSpellings(requestedTickers, tickers)
          const stored = hasCompanies ? listStoredSymbols(spelled, found) : []
          const headers = {
            ...additions.headers,
            ...(stored.length > 0 && { "x-primary-tickers": formatPrimaryTickersHeader(stored) }),
          }
          // The symbols whose lineages the list follows. Empty if the client did not ask to follow lineages.
          const symbols = query.follow_lineage === true
            ? getSymbolsWithSelectedCiks(query).map((symbol) => ({
              ...symbol,
              query_ticker: spelled.find(({ ticker }) => ticker === symbol.ticker)?.alias,
            }))
            : []
          if (!Array.isReadonlyArrayNonEmpty(symbols)) {
            return yield* respond(list, source, query, request, { ...additions, headers, dependencies })
          }
          const resolved = yield* lineages.resolve(symbols, request)
          const withPeriods = { ...query, followed: followed.follow(resolved.lineages) }
          return yield* respond(followed, source, withPeriods, request, {
            ...additions,
            headers,
            dependencies: [...dependencies, ...resolved.dependencies],
          })
        })

        // Most requests need none of the steps in `respondForCompanies`, so they skip them to save time.
        return makeHandler(schema, (sent, request) => {
          const resolved = resolve(sent, request)
          const { query } = resolved
          return query.follow_lineage === true || (hasCompanies && query.ticker !== undefined) ||
              [query.ticker ?? []].flat().some(hasSeparator)
            ? respondForCompanies(resolved, request)
            : respond((query.provenance === true ? withSources : plain).list, source, query, request, resolved)
        })
      }

      return ListEndpointFactory.of({
        makeEndpoint: (endpoint, definition) =>
          makeResolvedEndpoint(endpoint, definition.Query, (query) => ({ query }), definition),
        makeResolvedEndpoint,
        makeAccountEndpoint: (query, definition) => {
          const list = compileList(definition, [], listFilterNames(query))
          const source = makePrivateSource<ListError>()
          return makeHandler(
            query,
            (sent, request) => respond(list, source, { ...sent, account_id: request.account.account_id }, request, {}),
          )
        },
      })
    }),
  )
}
