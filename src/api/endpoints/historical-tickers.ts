/** Handles `GET /v1/historical-tickers`. */
import { Array, Effect, Order } from "effect"
import { SqlClient } from "effect/sql"
import { type AdmittedRequest, makeHandler } from "../../query/EndpointHandler.ts"
import { QueryCache } from "../../query/lists/QueryCache.ts"
import { compileStatement } from "../../postgres/CompiledStatement.ts"
import type { StatementReader } from "../../postgres/DatabaseReader.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import { makeFormerTickerCondition } from "../../contract/rules/EffectiveDates.ts"
import { NotFound } from "../../contract/rules/ApiErrors.ts"
import { flatMapSync } from "../../contract/rules/SynchronousResults.ts"
import { encodeUnpagedResponse } from "../../contract/rules/Paging.ts"
import { makeLineageEventFinder } from "../../query/lineage/LineageEvents.ts"
import { SymbolSpellings } from "../../query/lineage/SymbolSpellings.ts"
import {
  FormerTicker,
  HistoricalTickersApiGroup,
  HistoricalTickersQuery,
  type HistoricalTickersResponse,
} from "../../contract/endpoints/historical-tickers.ts"

/** Sorts by date and then by ticker. Symbols without a date come last (§2.3, historical tickers). */
const order: Order.Order<typeof FormerTicker.Type> = Order.combine(
  Order.mapInput(Order.String, ({ date }: typeof FormerTicker.Type) => date ?? "9999-99-99"),
  Order.mapInput(Order.String, ({ ticker }: typeof FormerTicker.Type) => ticker),
)

/** Handler for the list of a company's former symbols. */
export const historicalTickersHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const findEvents = yield* makeLineageEventFinder
  const { find: findSpellings } = yield* SymbolSpellings
  const { makeCachedSource } = yield* QueryCache

  /** Selects the former symbols in `historical_tickers`, except those whose change is not in effect yet. */
  const compileFind = compileStatement<{ readonly ticker: string; readonly today: string }>({
    isPrepared: true,
    build: (parameter) =>
      sql`
          select former_ticker as ticker, date from historical_tickers
          where ticker = ${parameter(({ ticker }) => ticker)}
            and ${makeFormerTickerCondition(sql, sql`${parameter(({ today }) => today)}::text::date`)}
          order by date, former_ticker
        `,
  })
  const decodeFormerTickers = decodePositionalRows(FormerTicker)

  /**
   * Reads the former symbols and returns the response. They come from two sources: the old symbols of the company's
   * ticker changes (`events`), each with the date of the change, and the table `historical_tickers`, which contains
   * former symbols for which no change is recorded. `ticker` is the symbol as spelled in the tables, and `query_ticker`
   * the symbol as requested. Fails with 404 if there are no former symbols. Called if no response is cached.
   */
  const readResult = Effect.fnUntraced(
    function* (
      query: { readonly ticker: string; readonly query_ticker: string; readonly today: string },
      read: StatementReader,
      request: AdmittedRequest,
    ) {
      const events = yield* findEvents(query, request.past, read)
      const tickersWithoutEvent = yield* decodeFormerTickers(read(compileFind(query)))
      const formerTickers = [
        ...events.map(({ effective_date, old_ticker }) => ({ ticker: old_ticker, date: effective_date })),
        ...tickersWithoutEvent,
      ]
      if (formerTickers.length === 0) {
        return yield* new NotFound({ error: { message: `No former symbol of ${query.query_ticker} is known.` } })
      }
      const historical_tickers = Array.dedupeAdjacentWith(
        Array.sort(formerTickers, order),
        // Both sources may contain the same symbol with the same date, and sorting makes the two adjacent.
        (left, right) => left.ticker === right.ticker && left.date === right.date,
      )
      const count = historical_tickers.length
      const response: typeof HistoricalTickersResponse.Encoded = { count, historical_tickers }
      return encodeUnpagedResponse(response, count)
    },
  )
  const pages = makeCachedSource<Effect.Error<ReturnType<typeof readResult>>>(HistoricalTickersApiGroup.endpoints.list)

  const list = makeHandler(HistoricalTickersQuery, ({ ticker: query_ticker }, request) =>
    // Replaces the symbol with its spelling in the tables. The result depends on the data from which it was read.
    flatMapSync(
      findSpellings([query_ticker], pages.getVersion),
      ({ dependencies, symbols: [ticker = query_ticker] }) => {
        const query = { ticker, query_ticker, today: getDateInChicago(request.now) }
        return pages.getPage(query, request, (read) => readResult(query, read, request), { dependencies })
      },
    ))
  return { list }
})
