/**
 * Finds the eligible events (D19) of symbols and of all symbols connected to them (D20, components). Uses the changes
 * in memory if possible, otherwise a statement.
 */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatabaseReader, type PastSource, type StatementReader } from "../../postgres/DatabaseReader.ts"
import { makeEligibleChangeCondition } from "../../contract/rules/EffectiveDates.ts"
import { LineageIndex } from "./LineageIndex.ts"
import { type Lineage, resolveLineageOfEvents, TickerChangeEvent } from "./LineageRules.ts"
import { TickerChangeIndex } from "./TickerChangeIndex.ts"

/**
 * Maximum number of events to find. It limits the work for a symbol with millions of events. A component with more than
 * `maxLineageLinks` events is a conflict anyway.
 */
export const maxLineageEvents = 25_000

interface EventQuery {
  /** The requested symbols, without duplicates. */
  readonly tickers: ReadonlyArray<string>
  /**
   * The last date for which events are read, in Chicago. This is today's date, or the date of a future change in a
   * preview.
   */
  readonly today: string
}

const decodeEvents = decodePositionalRows(TickerChangeEvent)

/**
 * Creates a function that reads all events in the connected components of some symbols from the table `ticker_changes`:
 * those of the symbols themselves, those of the symbols that these were changed from or to, and so on. An event is a
 * confirmed change from `old_ticker` to `new_ticker`, effective on or before the day `today`. The events are in no
 * particular order. At most `maxLineageEvents` events are returned.
 */
export const makeLineageEventReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The recursive CTE `symbols` traverses the graph of symbols over two partial indexes. `neighbor` contains the
  // symbols one change away from a symbol, `reached` all symbols of the components, and `link` the events. The `limit`
  // on `symbols` ends the recursion. The array parameter is in a subquery. Otherwise PostgreSQL would see its length
  // and plan every execution separately (decision 0072).
  const compileFind = compileStatement<EventQuery>({
    isPrepared: true,
    isShort: true,
    build: (parameter) => {
      const isEligible = makeEligibleChangeCondition(sql, sql`${parameter((query) => query.today)}::date`)
      const tickers = parameter((query) => makeArrayParameter(query.tickers, OID.text))
      // `union` removes symbols that were already reached, so the recursion ends even if the graph has cycles. Each
      // event is read only from its old symbol, so no event is returned twice.
      return sql`
        with recursive symbols (ticker) as (
          select unnest((select ${tickers}::text[]))
          union
          select neighbor.ticker
          from symbols, lateral (
            select new_ticker as ticker from ticker_changes
            where old_ticker = symbols.ticker and ${isEligible}
            union all
            select old_ticker from ticker_changes
            where new_ticker = symbols.ticker and ${isEligible}
          ) as neighbor
        )
        select link.*
        from (select ticker from symbols limit ${maxLineageEvents}) as reached, lateral (
          select old_ticker, new_ticker, effective_date, cik, nullif(company_name, '') as company_name
          from ticker_changes
          where old_ticker = reached.ticker and ${isEligible}
          limit ${maxLineageEvents}
        ) as link
        limit ${maxLineageEvents}
      `
    },
  })

  return (query: EventQuery, read: StatementReader) => decodeEvents(read(compileFind(query)))
})

/**
 * Creates a function that finds all events in a symbol's component, in no particular order. If `past` is given, the
 * events are those at that time, and `read` must read the tables as of that time.
 */
export const makeLineageEventFinder = Effect.gen(function* () {
  const { getChanges } = yield* LineageIndex
  const readEvents = yield* makeLineageEventReader
  return (
    { ticker, today }: { readonly ticker: string; readonly today: string },
    past: PastSource | undefined,
    read: StatementReader,
  ) => {
    const changes = getChanges(past?.timestamp)
    return changes === undefined
      ? readEvents({ tickers: [ticker], today }, read)
      : Exit.succeed(changes.findComponent(ticker, today, maxLineageEvents))
  }
})

/** Resolves symbols. All symbols in a component have the same lineage, so each component is resolved only once. */
const resolveSymbols = Effect.fnUntraced(function* <E>(
  tickers: ReadonlyArray<string>,
  findEvents: (ticker: string) => Effect.Effect<ReadonlyArray<TickerChangeEvent>, E>,
) {
  const lineages = new Map<string, Lineage>()
  for (const ticker of tickers) {
    if (lineages.has(ticker)) continue
    const events = yield* findEvents(ticker)
    const lineage = resolveLineageOfEvents(events)
    lineages.set(ticker, lineage)
    for (const { new_ticker, old_ticker } of events) lineages.set(old_ticker, lineage).set(new_ticker, lineage)
  }
  return lineages
})

/**
 * Creates a function that resolves several symbols to lineages, for changes up to the day `today`. With `past`, it uses
 * the changes that were visible at that past timestamp. It uses the changes in memory if they are available. Otherwise
 * it reads them in the pool partition `lineage`: with a single statement for all symbols if its result is complete, and
 * else with one statement per symbol.
 *
 * `resolveSymbols` calls the given function for each symbol, to get the events in the symbol's connected component.
 */
export const makeLineageFinder = Effect.gen(function* () {
  const { getChanges } = yield* LineageIndex
  const readEvents = yield* makeLineageEventReader
  const reader = yield* DatabaseReader
  return Effect.fnUntraced(function* ({ tickers, today }: EventQuery, past: PastSource | undefined) {
    const findIn = (changes: TickerChangeIndex) => (ticker: string) =>
      Exit.succeed(changes.findComponent(ticker, today, maxLineageEvents))
    const changes = getChanges(past?.timestamp)
    if (changes !== undefined) return yield* resolveSymbols(tickers, findIn(changes))
    const source = { partition: "lineage", from: past ?? "primary" } as const
    const read = (tickers: ReadonlyArray<string>) =>
      readEvents({ tickers, today }, (statement) => reader.read(statement, source))
    const all = yield* read(tickers)
    // For a single symbol, another read would return the same. If events were cut off, its lineage is a conflict anyway
    // (`maxLineageEvents`).
    if (tickers.length === 1) return yield* resolveSymbols(tickers, () => Exit.succeed(all))
    // The statement stops at `maxLineageEvents` events, and also at as many symbols. A component has at most one more
    // symbol than it has events, so this sum is the largest possible number of symbols. If it is below the limit,
    // nothing was cut off. Otherwise, each component is read again separately.
    const isComplete = all.length + tickers.length < maxLineageEvents
    return yield* resolveSymbols(tickers, isComplete ? findIn(TickerChangeIndex.of(all)) : (ticker) => read([ticker]))
  })
})
