import { Array, Effect, Order, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Api } from "../../Api.ts"
import { QueryCache } from "../../lists/QueryCache.ts"
import { Database } from "../../db/Database.ts"
import { todayInChicago } from "../../rules/Dates.ts"
import { NotFound } from "../../rules/Errors.ts"
import { makeSingleContent } from "../../rules/Paging.ts"
import { makeEventFinder } from "../ticker-changes/Events.ts"
import { FormerTicker, HistoricalTickersApiGroup, type HistoricalTickersResponse } from "./Api.ts"

type Former = typeof FormerTicker.Type

/** §2.3: by date, undated last, then by ticker. */
const order: Order.Order<Former> = Order.combine(
  Order.mapInput(Order.String, ({ date }: Former) => date ?? "9999-99-99"),
  Order.mapInput(Order.String, ({ ticker }: Former) => ticker),
)

export const historicalTickersHandlers = HttpApiBuilder.group(
  Api,
  "historicalTickers",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { read } = yield* Database
    const findEvents = yield* makeEventFinder
    const { makeHandler: from } = yield* QueryCache

    const findNames = SqlSchema.findAll({
      Request: Schema.String,
      Result: FormerTicker,
      execute: (ticker) =>
        sql`
          select former_ticker as ticker, date from historical_tickers
          where ticker = ${ticker} order by date, former_ticker
        `,
    })

    const names = from(
      HistoricalTickersApiGroup.endpoints.list,
      Effect.fnUntraced(function* (query: { readonly ticker: string; readonly today: string }) {
        const { ticker } = query
        const events = yield* findEvents(query)
        const undated = yield* read(findNames(ticker))
        const former = [
          ...events.map(({ effective_date, old_ticker }) => ({ ticker: old_ticker, date: effective_date })),
          ...undated,
        ]
        if (former.length === 0) {
          return yield* new NotFound({ error: { message: `No former symbol of ${ticker} is known.` } })
        }
        const historical_tickers = Array.sort(
          Array.dedupeWith(former, (left, right) => left.ticker === right.ticker && left.date === right.date),
          order,
        )
        const count = historical_tickers.length
        const answer: typeof HistoricalTickersResponse.Encoded = { count, historical_tickers }
        return makeSingleContent(answer, count)
      }),
    )

    return handlers.handle(
      "list",
      ({ query: { ticker } }) => Effect.flatMap(todayInChicago, (today) => names({ ticker, today })),
    )
  }),
)
