/** Resolves requested symbols to companies, for `follow_lineage`. Recently resolved symbols are cached in memory. */
import { Array, Context, Effect, Function, Layer, Result } from "effect"
import { LRUCache } from "lru-cache"
import { DatasetVersions, HalfCacheBytesConfig } from "../../postgres/versions/DatasetVersions.ts"
import type { PastSource } from "../../postgres/DatabaseReader.ts"
import type { VersionDependency } from "../../contract/rules/EndpointResult.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import type {
  AmbiguousTickerLineage,
  DatabasePoolTimeout,
  DataRefreshing,
  ValidationError,
} from "../../contract/rules/ApiErrors.ts"
import {
  type CompanyLineage,
  type Lineage,
  selectLineageCandidate,
  toCompanyLineage,
  UnknownLineageCik,
} from "./LineageRules.ts"
import { makeAmbiguousLineageError, makeUnknownCikError } from "./LineageErrors.ts"
import { makeLineageFinder } from "./LineageEvents.ts"

/** A requested symbol. A ten-digit CIK selects one of the symbol's candidates (D35). */
export interface RequestedSymbol {
  readonly ticker: string
  /** The symbol as the client spelled it, for error messages, if that differs from the spelling in the tables. */
  readonly query_ticker?: string | undefined
  readonly cik?: string | undefined
}

/** The time as of which lineages are resolved: the current time or the timestamp in `as_of`. */
export interface LineageTime {
  /** In milliseconds since 1970. */
  readonly now: number
  readonly past: PastSource | undefined
}

/** The companies to which a request's symbols resolve. */
export interface ResolvedLineages {
  /** One lineage per company, in the order of the requested symbols. */
  readonly lineages: Array.NonEmptyReadonlyArray<CompanyLineage>
  /**
   * The version of `ticker_changes` that was used to resolve the symbols. Lineages also depend on the date. That
   * dependency needs no check, because cached responses expire at midnight.
   */
  readonly dependencies: ReadonlyArray<VersionDependency>
}

interface CachedLineage {
  readonly lineage: Lineage
  readonly version: string
  /** The date in Chicago on which the symbol was resolved. */
  readonly today: string
}

/** The fraction of the configured cache memory that resolved symbols may use. */
const cacheShare = 1 / 8

/** Estimates the memory used by one cached symbol, in bytes. All symbols in a chain share the same chain object. */
const estimateSize = ({ lineage }: CachedLineage) =>
  Result.match(lineage, {
    onSuccess: () => 768,
    onFailure: ({ candidates, events, tickers }) =>
      512 + 128 * (candidates.length * 4 + events.length + tickers.length),
  })

/** Creates the cache of resolved symbols. */
export const makeLineageStore = (maxBytes: number) =>
  new LRUCache<string, CachedLineage>({ maxSize: maxBytes, sizeCalculation: estimateSize })

/** Returns the symbols for which a lineage is cached: every symbol of a chain, but only `ticker` for a conflict. */
const listSymbols = (ticker: string, lineage: Lineage) =>
  new Set([
    ticker,
    ...Result.match(lineage, {
      onSuccess: (chain) => chain?.history.flatMap(({ new_ticker, old_ticker }) => [old_ticker, new_ticker]) ?? [],
      onFailure: () => [],
    }),
  ])

/**
 * Memoized so that the same chain always returns the same object. Lists use that object as a key for their own memoized
 * values.
 */
const toCompany = Function.memoize(toCompanyLineage)

const selectLineage = (lineage: Lineage, { cik, ticker }: RequestedSymbol) =>
  Result.map(
    cik === undefined ? lineage : selectLineageCandidate(lineage, { cik, ticker }),
    (chain): CompanyLineage =>
      chain === undefined ? { current_ticker: ticker, periods: [{ ticker }] } : toCompany(chain),
  )

/** Removes duplicate companies. Two requested symbols from the same chain resolve to the same periods. */
const dedupeCompanies = (companies: Array.NonEmptyReadonlyArray<CompanyLineage>) =>
  companies.length === 1 ? companies : Array.map(
    Array.dedupeWith(
      Array.map(companies, (company) => ({ company, key: JSON.stringify(company.periods) })),
      (left, right) => left.key === right.key,
    ),
    ({ company }) => company,
  )

/** Resolves symbols to companies. */
export class LineageResolver extends Context.Service<LineageResolver, {
  /**
   * Resolves symbols to companies. Fails with 409 if a symbol is ambiguous, and with 422 if no candidate has the
   * requested CIK.
   */
  readonly resolve: (
    requests: Array.NonEmptyReadonlyArray<RequestedSymbol>,
    time: LineageTime,
  ) => Effect.Effect<
    ResolvedLineages,
    AmbiguousTickerLineage | ValidationError | DataRefreshing | DatabasePoolTimeout
  >
}>()("tickerline/query/LineageResolver") {
  static readonly layer = Layer.effect(
    LineageResolver,
    Effect.gen(function* () {
      const findLineages = yield* makeLineageFinder
      const versions = yield* DatasetVersions
      const getChangesVersion = versions.watchTables(["ticker_changes"])
      const cache = makeLineageStore(Math.ceil((yield* HalfCacheBytesConfig) * cacheShare))

      /**
       * Returns the lineage of each symbol: from the cache, if it was resolved at this version of the table and on this
       * day, and otherwise from the ticker changes. Stores new lineages in the cache, under every symbol of their
       * chain. Without a version, nothing is cached.
       */
      const findAll = Effect.fnUntraced(function* (
        tickers: ReadonlyArray<string>,
        version: string | undefined,
        { now, past }: LineageTime,
      ) {
        const today = getDateInChicago(now)
        const keyOf = (ticker: string) => past === undefined ? ticker : `${past.timestamp} ${ticker}`
        const found = new Map<string, Lineage>()
        for (const ticker of tickers) {
          const cached = version === undefined ? undefined : cache.get(keyOf(ticker))
          if (cached?.version === version && cached?.today === today) found.set(ticker, cached.lineage)
        }
        const missing = tickers.filter((ticker) => !found.has(ticker))
        if (missing.length === 0) return found
        const lineages = yield* findLineages({ tickers: missing, today }, past)
        for (const ticker of missing) {
          const lineage = lineages.get(ticker) ?? Result.succeed(undefined)
          found.set(ticker, lineage)
          if (version === undefined) continue
          const cached = { lineage, version, today }
          for (const symbol of listSymbols(ticker, lineage)) cache.set(keyOf(symbol), cached)
        }
        return found
      })

      /** Implements `resolve`: finds the lineages, selects candidates by CIK, and fails if any symbol has none. */
      const resolve = Effect.fnUntraced(function* (
        requests: Array.NonEmptyReadonlyArray<RequestedSymbol>,
        time: LineageTime,
      ) {
        // Past data never changes unless a failover loses transactions. In that case the timeline changes.
        const getVersion = time.past === undefined ? getChangesVersion : versions.getTimeline
        const version = getVersion()
        const lineages = yield* findAll(Array.dedupe(requests.map(({ ticker }) => ticker)), version, time)
        const results = Array.map(requests, (request) => ({
          query_ticker: request.query_ticker ?? request.ticker,
          result: selectLineage(lineages.get(request.ticker) ?? Result.succeed(undefined), request),
        }))
        // An unknown CIK (422) takes precedence over ambiguous symbols (409), and only the first unknown CIK is
        // reported.
        const failures = results.flatMap(({ query_ticker, result }) =>
          Result.isFailure(result) ? [{ query_ticker, failure: result.failure }] : []
        )
        const unknown = failures.flatMap(({ failure, query_ticker }) =>
          failure instanceof UnknownLineageCik ? [makeUnknownCikError(query_ticker, failure)] : []
        )
        if (Array.isArrayNonEmpty(unknown)) return yield* unknown[0]
        const ambiguous = failures.flatMap(({ failure, query_ticker }) =>
          failure instanceof UnknownLineageCik ? [] : [{ query_ticker, conflict: failure }]
        )
        if (Array.isArrayNonEmpty(ambiguous)) return yield* makeAmbiguousLineageError(ambiguous, requests.length > 1)
        return {
          lineages: dedupeCompanies(Array.map(results, ({ result }) => Result.getOrThrow(result))),
          dependencies: [{ getVersion, version }],
        }
      })
      return LineageResolver.of({ resolve })
    }),
  )
}
