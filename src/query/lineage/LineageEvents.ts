/**
 * Finds the eligible events (D19) of symbols and of all symbols connected with them (D20, components), in memory if
 * possible, otherwise with a statement.
 */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { type PastSource, Reader, type StatementReader } from "../../postgres/Reader.ts"
import { isEligibleTickerChange } from "../../contract/rules/EffectiveDates.ts"
import { LineageIndex } from "./LineageIndex.ts"
import { type Lineage, resolveLineageOfEvents, TickerChangeEvent } from "./LineageRules.ts"
import { TickerChangeIndex } from "./TickerChangeIndex.ts"

/**
 * Maximum number of events to find, which limits the work for a symbol with millions of events. A component with more
 * than `maxLineageLinks` events is a conflict anyway.
 */
export const maxEvents = 25_000

interface EventQuery {
  /** The requested symbols, without duplicates. */
  readonly tickers: ReadonlyArray<string>
  /** The date in Chicago up to which events are read: today, or the date of a future change in a preview. */
  readonly today: string
}

const decodeEvents = decodePositionalRows(TickerChangeEvent)

/** Returns a function that reads the components of symbols from the table, in no particular order. */
export const makeLineageEventReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The recursive query walks from symbol to symbol over two partial indexes. The `limit` on `symbols` ends the
  // recursion. The array parameter is in a subquery, because otherwise PostgreSQL would see its length and plan every
  // execution (decision 0072).
  const compileFind = compileStatement<EventQuery>({
    isPrepared: true,
    isShort: true,
    build: (parameter) => {
      const isEligible = isEligibleTickerChange(sql, sql`${parameter((query) => query.today)}::date`)
      const tickers = parameter((query) => makeArrayParameter(query.tickers, OID.text))
      // `union` drops symbols that were already reached, so cycles end. Each event is read from its old symbol only, so
      // none is returned twice.
      return sql`
        with recursive symbols (ticker) as (
          select unnest((select ${tickers}::text[]))
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
      `
    },
  })

  return (query: EventQuery, read: StatementReader) => decodeEvents(read(compileFind(query)))
})

/**
 * Returns a function that finds a symbol's component, now or in the past, in no particular order. `read` reads the
 * table as of that time.
 */
export const makeLineageEventFinder = Effect.gen(function* () {
  const { getChanges } = yield* LineageIndex
  const readEvents = yield* makeLineageEventReader
  return (
    { ticker, today }: { readonly ticker: string; readonly today: string },
    past: PastSource | undefined,
    read: StatementReader,
  ) => {
    const changes = getChanges(past?.moment)
    return changes === undefined
      ? readEvents({ tickers: [ticker], today }, read)
      : Exit.succeed(changes.findComponent(ticker, today, maxEvents))
  }
})

/** Resolves symbols. Symbols in one component have the same lineage, which is resolved only once. */
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
 * Returns a function that resolves several symbols. Unless the changes are in memory, it uses one statement where
 * possible, in the pool partition `lineage`.
 */
export const makeLineageFinder = Effect.gen(function* () {
  const { getChanges } = yield* LineageIndex
  const readEvents = yield* makeLineageEventReader
  const reader = yield* Reader
  return Effect.fnUntraced(function* ({ tickers, today }: EventQuery, past: PastSource | undefined) {
    const findIn = (changes: TickerChangeIndex) => (ticker: string) =>
      Exit.succeed(changes.findComponent(ticker, today, maxEvents))
    const changes = getChanges(past?.moment)
    if (changes !== undefined) return yield* resolveSymbols(tickers, findIn(changes))
    const source = { partition: "lineage", from: past ?? "primary" } as const
    const read = (tickers: ReadonlyArray<string>) =>
      readEvents({ tickers, today }, (statement) => reader.read(statement, source))
    const all = yield* read(tickers)
    if (tickers.length === 1) return yield* resolveSymbols(tickers, () => Exit.succeed(all))
    // A component has at most one more symbol than events, so below this limit all symbols were reached.
    const isComplete = all.length + tickers.length < maxEvents
    // The limit may have cut off events, so each component is read again separately.
    return yield* resolveSymbols(tickers, isComplete ? findIn(TickerChangeIndex.of(all)) : (ticker) => read([ticker]))
  })
})
