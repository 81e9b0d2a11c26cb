import { Array, Effect } from "effect"
import { makePipelineEndpoint } from "../../http/RequestPipeline.ts"
import { QueryCache } from "../../lists/QueryCache.ts"
import { AmbiguousTickerLineage } from "../../rules/Errors.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { makeUnpagedContent } from "../../rules/Paging.ts"
import { TickerChangesApiGroup, TickerChangesQuery, type TickerChangesResponse } from "./Api.ts"
import { type LineageConflict, makeLineageEventFinder, resolveLineage } from "./Lineage.ts"

const makeContent = (count: number, result: typeof TickerChangesResponse.Encoded["results"][0]) => {
  const response: typeof TickerChangesResponse.Encoded = { count, results: [result] }
  return makeUnpagedContent(response, 1)
}

const makeConflictError = (
  query_ticker: string,
  { candidate_count, candidates, event_count, events, reasons, tickers }: LineageConflict,
) =>
  new AmbiguousTickerLineage({
    error: {
      message: `The history of ${query_ticker} cannot be resolved to a single unambiguous chain: ${
        reasons.join(", ")
      }.`,
      details: {
        query_ticker,
        reason: reasons[0],
        reasons,
        tickers,
        candidates,
        candidate_count,
        events,
        event_count,
      },
    },
  })

export const tickerChangesEndpoints = Effect.gen(function* () {
  const findEvents = yield* makeLineageEventFinder
  const { makeHandler } = yield* QueryCache

  const resolve = makeHandler(
    TickerChangesApiGroup.endpoints.resolve,
    Effect.fnUntraced(function* (query: { readonly ticker: string; readonly today: string }) {
      const { ticker: query_ticker } = query
      const events = yield* findEvents(query)
      if (!Array.isReadonlyArrayNonEmpty(events)) {
        return makeContent(0, { query_ticker, has_changes: false, current_ticker: null, history: [] })
      }
      const { current_ticker, history } = yield* Effect.mapError(
        Effect.fromResult(resolveLineage(events)),
        (conflict) => makeConflictError(query_ticker, conflict),
      )
      return makeContent(history.length, { query_ticker, has_changes: true, current_ticker, history })
    }),
  )

  return [
    makePipelineEndpoint(
      TickerChangesApiGroup.endpoints.resolve,
      TickerChangesQuery,
      ({ ticker }) => Effect.flatMap(todayInChicago, (today) => resolve({ ticker, today })),
    ),
  ]
})
