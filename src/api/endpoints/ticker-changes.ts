/** Handles `GET /v1/ticker-changes`. */
import { Effect } from "effect"
import { type AdmittedRequest, makeHandler } from "../../accounts/EndpointHandler.ts"
import type { StatementReader } from "../../postgres/Reader.ts"
import { resolveLineageOfEvents, selectLineageCandidate, UnknownLineageCik } from "../../query/lineage/LineageRules.ts"
import { makeAmbiguousLineageError, makeUnknownCikError } from "../../query/lineage/LineageErrors.ts"
import { makeLineageEventFinder } from "../../query/lineage/LineageEvents.ts"
import { QueryCache } from "../../query/lists/QueryCache.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
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

export const tickerChangesHandlers = Effect.gen(function* () {
  const findEvents = yield* makeLineageEventFinder
  const { makeCachedSource } = yield* QueryCache

  const answer = Effect.fnUntraced(
    function* (
      query: typeof TickerChangesQuery.Type & { readonly today: string },
      read: StatementReader,
      request: AdmittedRequest,
    ) {
      const { cik, ticker: query_ticker } = query
      const lineage = resolveLineageOfEvents(yield* findEvents(query, request.past, read))
      const chain = yield* Effect.mapError(
        Effect.fromResult(
          cik === undefined ? lineage : selectLineageCandidate(lineage, { cik, ticker: query_ticker }),
        ),
        (failure) =>
          failure instanceof UnknownLineageCik
            ? makeUnknownCikError(query_ticker, failure)
            : makeAmbiguousLineageError([{ query_ticker, conflict: failure }], false),
      )
      if (chain === undefined) {
        return makeContent(0, { query_ticker, has_changes: false, current_ticker: null, history: [] })
      }
      const { current_ticker, history } = chain
      return makeContent(history.length, { query_ticker, has_changes: true, current_ticker, history })
    },
  )
  const pages = makeCachedSource<Effect.Error<ReturnType<typeof answer>>>(TickerChangesApiGroup.endpoints.resolve)

  const resolve = makeHandler(TickerChangesQuery, (sent, request) => {
    const query = { ...sent, today: getDateInChicago(request.now) }
    return pages.answer(query, request, (read) => answer(query, read, request))
  })
  return { resolve }
})
