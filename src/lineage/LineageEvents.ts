/** Reads the eligible events (D19) of symbols and of all symbols connected with them (D20, components). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../db/ArrayParameters.ts"
import { compileStatement } from "../db/CompiledStatement.ts"
import { Database } from "../db/Database.ts"
import { decodePositionalRows } from "../db/DecodeRows.ts"
import { isEligibleTickerChange } from "../rules/EffectiveDates.ts"
import { type Lineage, resolveLineageOfEvents, TickerChangeEvent } from "./LineageRules.ts"

/**
 * Maximum number of events read for a symbol, which bounds the work for a symbol with millions of events. A component
 * with more than `maxLineageLinks` events is a conflict anyway.
 */
const maxEvents = 25_000

interface EventQuery {
  /** The requested symbols, without duplicates. */
  readonly tickers: ReadonlyArray<string>
  /** The date in Chicago up to which events are read: today, or the date of a future change in a preview. */
  readonly today: string
}

const decodeEvents = decodePositionalRows(Schema.Struct({ requested: Schema.String, ...TickerChangeEvent.fields }))

const makeEventReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { readValues } = yield* Database

  // The query walks from symbol to symbol with two partial indexes. The `limit` on `symbols` stops the recursion.
  const compileFind = compileStatement<EventQuery>({
    isPrepared: true,
    build: (parameter) => {
      const isEligible = isEligibleTickerChange(sql, sql`${parameter((query) => query.today)}::date`)
      const tickers = parameter((query) => makeArrayParameter(query.tickers, OID.text))
      return sql`
        select requested.ticker, event.*
        from unnest(${tickers}::text[]) as requested (ticker) cross join lateral (
          with recursive symbols (ticker) as (
            select requested.ticker
            union
            select neighbour.ticker
            from symbols, lateral (
              select new_ticker as ticker from ticker_changes
              where old_ticker = symbols.ticker and ${isEligible}
              union all
              select old_ticker from ticker_changes
              where new_ticker = symbols.ticker and ${isEligible}
            ) as neighbour
          )
          select link.*
          from (select ticker from symbols limit ${maxEvents}) as reached, lateral (
            select old_ticker, new_ticker, effective_date, cik, nullif(company_name, '') as company_name
            from ticker_changes
            where old_ticker = reached.ticker and ${isEligible}
            limit ${maxEvents}
          ) as link
          limit ${maxEvents}
        ) as event
        limit ${maxEvents}
      `
    },
  })

  return (query: EventQuery, partition?: string) => decodeEvents(readValues(compileFind(query), partition))
})

/** Returns a function that reads the component of a symbol up to `today` (in Chicago), in no particular order. */
export const makeLineageEventFinder = Effect.map(
  makeEventReader,
  (readEvents) => ({ ticker, today }: { readonly ticker: string; readonly today: string }) =>
    readEvents({ tickers: [ticker], today }),
)

/** Returns a function that resolves several symbols with one statement, in the pool partition `lineage`. */
export const makeLineageFinder = Effect.map(makeEventReader, (readEvents) => {
  const readSymbols = (query: EventQuery) =>
    Effect.map(readEvents(query, "lineage"), (events) => {
      const eventsByTicker = Map.groupBy(events, ({ requested }) => requested)
      const lineages = query.tickers.map((ticker): readonly [string, Lineage] => [
        ticker,
        resolveLineageOfEvents(eventsByTicker.get(ticker) ?? []),
      ])
      return { lineages, isComplete: events.length < maxEvents || query.tickers.length === 1 }
    })

  return Effect.fnUntraced(function* ({ tickers, today }: EventQuery) {
    const { isComplete, lineages } = yield* readSymbols({ tickers, today })
    if (isComplete) return lineages
    // The limit may have cut off the events of any symbol, so each symbol is read again separately.
    const separate = yield* Effect.forEach(tickers, (ticker) => readSymbols({ tickers: [ticker], today }))
    return separate.flatMap(({ lineages }) => lineages)
  })
})
