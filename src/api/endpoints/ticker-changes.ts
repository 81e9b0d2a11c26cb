/** Handles `GET /v1/ticker-changes`. */
import { Effect, Exit, Result } from "effect"
import { type AdmittedRequest, makeHandler } from "../../query/EndpointHandler.ts"
import type { StatementReader } from "../../postgres/DatabaseReader.ts"
import {
  resolveLineageOfEvents,
  selectLineageCandidate,
  type TickerChangeEvent,
  UnknownLineageCik,
} from "../../query/lineage/LineageRules.ts"
import { makeAmbiguousLineageError, makeUnknownCikError } from "../../query/lineage/LineageErrors.ts"
import { makeLineageEventFinder } from "../../query/lineage/LineageEvents.ts"
import { SymbolSpellings } from "../../query/lineage/SymbolSpellings.ts"
import { QueryCache } from "../../query/lists/QueryCache.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import { flatMapSync } from "../../contract/rules/SynchronousResults.ts"
import { encodeUnpagedResponse } from "../../contract/rules/Paging.ts"
import {
  TickerChangesApiGroup,
  TickerChangesQuery,
  type TickerChangesResponse,
} from "../../contract/endpoints/ticker-changes.ts"

const makeContent = (count: number, result: typeof TickerChangesResponse.Encoded["results"][0]) => {
  const response: typeof TickerChangesResponse.Encoded = { count, results: [result] }
  return encodeUnpagedResponse(response, 1)
}

/** The query parameters, with the symbol as spelled in the tables (`stored`) and the current date in Chicago. */
type StoredQuery = typeof TickerChangesQuery.Type & { readonly stored: string; readonly today: string }

/** Handler that returns the chain of symbols of the company that uses a symbol (§2.1, ticker changes). */
export const tickerChangesHandlers = Effect.gen(function* () {
  const findEvents = yield* makeLineageEventFinder
  const { find: findSpellings } = yield* SymbolSpellings
  const { makeCachedSource } = yield* QueryCache

  /**
   * Determines the lineage from the ticker changes (`events`) that involve the symbol, directly or through other
   * symbols, and returns the response. It has no history if there are no such changes. Fails if the symbol belongs to
   * several companies and `cik` does not select one of them.
   */
  const makeResponse = (
    { cik, stored: ticker, ticker: query_ticker }: StoredQuery,
    events: ReadonlyArray<TickerChangeEvent>,
  ) => {
    const lineage = resolveLineageOfEvents(events)
    const selected = cik === undefined ? lineage : selectLineageCandidate(lineage, { cik, ticker })
    if (Result.isFailure(selected)) {
      const { failure } = selected
      return Exit.fail(
        failure instanceof UnknownLineageCik
          ? makeUnknownCikError(query_ticker, failure)
          : makeAmbiguousLineageError([{ query_ticker, conflict: failure }], false),
      )
    }
    const selectedLineage = selected.success
    if (selectedLineage === undefined) {
      return Exit.succeed(makeContent(0, { query_ticker, has_changes: false, current_ticker: null, history: [] }))
    }
    const { current_ticker, history } = selectedLineage
    return Exit.succeed(makeContent(history.length, { query_ticker, has_changes: true, current_ticker, history }))
  }

  /** Reads the ticker changes as of the time of the request, and returns the response. Called if none is cached. */
  const readResult = (query: StoredQuery, read: StatementReader, request: AdmittedRequest) =>
    flatMapSync(
      findEvents({ ticker: query.stored, today: query.today }, request.past, read),
      (events) => makeResponse(query, events),
    )
  const pages = makeCachedSource<Effect.Error<ReturnType<typeof readResult>>>(TickerChangesApiGroup.endpoints.resolve)

  // The symbol is first replaced with its spelling in the tables, such as `BRK-B` for `BRK.B`. The result depends on
  // the versions of the data from which the spelling was read, so they are added to the cached page's dependencies.
  const resolve = makeHandler(
    TickerChangesQuery,
    (sent, request) =>
      flatMapSync(
        findSpellings([sent.ticker], pages.getVersion),
        ({ dependencies, symbols: [stored = sent.ticker] }) => {
          const query = { ...sent, stored, today: getDateInChicago(request.now) }
          return pages.getPage(query, request, (read) => readResult(query, read, request), { dependencies })
        },
      ),
  )
  return { resolve }
})
