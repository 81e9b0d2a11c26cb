import { Array, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../Api.ts"
import { AmbiguousTickerLineage } from "../../policy/Errors.ts"
import { countRecords } from "../../policy/Exchange.ts"
import { finder } from "./Events.ts"
import { type Refusal, resolve } from "./Lineage.ts"

const unchanged = (query_ticker: string) => ({
  count: 0,
  results: [{ query_ticker, has_changes: false, current_ticker: null, history: [] }] as const,
})

const refusal = (query_ticker: string, { candidates, reasons, tickers }: Refusal) =>
  new AmbiguousTickerLineage({
    error: {
      message: `The history of ${query_ticker} cannot be resolved to a single unambiguous chain: ${
        reasons.join(", ")
      }.`,
      details: { query_ticker, reason: reasons[0], reasons, tickers, candidates },
    },
  })

export const layer = HttpApiBuilder.group(
  Api,
  "tickerChanges",
  Effect.fnUntraced(function* (handlers) {
    const findEvents = yield* finder

    return handlers.handle(
      "resolve",
      Effect.fnUntraced(function* ({ query: { ticker } }) {
        const events = yield* findEvents(ticker)
        yield* countRecords(1)
        if (!Array.isArrayNonEmpty(events)) return unchanged(ticker)
        const { current_ticker, history } = yield* Effect.mapError(
          Effect.fromResult(resolve(events)),
          (why) => refusal(ticker, why),
        )
        return {
          count: history.length,
          results: [{ query_ticker: ticker, has_changes: true, current_ticker, history }] as const,
        }
      }),
    )
  }),
)
