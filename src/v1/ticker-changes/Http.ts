import { Effect } from "effect"
import { makePipelineEndpoint } from "../../http/RequestPipeline.ts"
import { resolveSymbol, selectCandidate, UnknownCik } from "../../lineage/Lineage.ts"
import { makeAmbiguityError, makeUnknownCikError } from "../../lineage/LineageErrors.ts"
import { makeLineageEventFinder } from "../../lineage/LineageEvents.ts"
import { QueryCache } from "../../lists/QueryCache.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { makeUnpagedContent } from "../../rules/Paging.ts"
import { TickerChangesApiGroup, TickerChangesQuery, type TickerChangesResponse } from "./Api.ts"

const makeContent = (count: number, result: typeof TickerChangesResponse.Encoded["results"][0]) => {
  const response: typeof TickerChangesResponse.Encoded = { count, results: [result] }
  return makeUnpagedContent(response, 1)
}

export const tickerChangesEndpoints = Effect.gen(function* () {
  const findEvents = yield* makeLineageEventFinder
  const { makeHandler } = yield* QueryCache

  const resolve = makeHandler(
    TickerChangesApiGroup.endpoints.resolve,
    Effect.fnUntraced(function* (query: typeof TickerChangesQuery.Type & { readonly today: string }) {
      const { cik, ticker: query_ticker } = query
      const lineage = resolveSymbol(yield* findEvents(query))
      const chain = yield* Effect.mapError(
        Effect.fromResult(cik === undefined ? lineage : selectCandidate(lineage, cik)),
        (failure) =>
          failure instanceof UnknownCik
            ? makeUnknownCikError(query_ticker, failure)
            : makeAmbiguityError([{ query_ticker, conflict: failure }], false),
      )
      if (chain === undefined) {
        return makeContent(0, { query_ticker, has_changes: false, current_ticker: null, history: [] })
      }
      const { current_ticker, history } = chain
      return makeContent(history.length, { query_ticker, has_changes: true, current_ticker, history })
    }),
  )

  return [
    makePipelineEndpoint(
      TickerChangesApiGroup.endpoints.resolve,
      TickerChangesQuery,
      (query) => Effect.flatMap(todayInChicago, (today) => resolve({ ...query, today })),
    ),
  ]
})
