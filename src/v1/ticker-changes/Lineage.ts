/**
 * The lineage of a symbol: D19 (eligible events), D20 (components: all events connected with a symbol), D21 (chains and
 * conflicts). `makeLineageEventFinder` reads a component, and `resolveLineage`, a pure function, turns it into a chain.
 */
import { Array, Effect, Order, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { compileStatement } from "../../db/CompiledStatement.ts"
import { Database } from "../../db/Database.ts"
import { decodePositionalRows } from "../../db/DecodeRows.ts"
import type { LineageReason } from "../../rules/Errors.ts"

// ---------------------------------------------------------------------------------------------------------------------
// Events
// ---------------------------------------------------------------------------------------------------------------------

/** An eligible change, as stored in `ticker_changes`. */
const TickerChangeEvent = Schema.Struct({
  old_ticker: Schema.String,
  new_ticker: Schema.String,
  effective_date: Schema.String,
  cik: Schema.NullOr(Schema.String),
  company_name: Schema.NullOr(Schema.String),
})
export type TickerChangeEvent = typeof TickerChangeEvent.Type

/**
 * Maximum number of events read for a symbol. A chain has at most twelve, so a larger component is a conflict anyway.
 * The limit bounds the work for a symbol with millions of events.
 */
const maxEvents = 25_000

interface EventQuery {
  readonly ticker: string
  readonly today: string
}

const decodeEvents = decodePositionalRows(TickerChangeEvent)

/** Returns a function that reads the component of `ticker` up to `today` (in Chicago), in no particular order. */
export const makeLineageEventFinder = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { readValues } = yield* Database

  // Walks from symbol to symbol with two partial indexes. The `limit` of `symbols` stops the recursion.
  const compileFind = compileStatement<EventQuery>({
    isPrepared: true,
    build: (parameter) => {
      const today = parameter((query) => query.today)
      return sql`
        with recursive symbols (ticker) as (
          select ${parameter(({ ticker }) => ticker)}::text
          union
          select neighbour.ticker
          from symbols, lateral (
            select new_ticker as ticker from ticker_changes
            where old_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}::date
            union all
            select old_ticker from ticker_changes
            where new_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}::date
          ) as neighbour
        )
        select event.old_ticker, event.new_ticker, event.effective_date, event.cik, event.company_name
        from (select ticker from symbols limit ${maxEvents}) as reached, lateral (
          select old_ticker, new_ticker, effective_date, cik, company_name from ticker_changes
          where old_ticker = reached.ticker and status = 'confirmed' and effective_date <= ${today}::date
          limit ${maxEvents}
        ) as event
        limit ${maxEvents}
      `
    },
  })

  return (query: EventQuery) => decodeEvents(readValues(compileFind(query)))
})

// ---------------------------------------------------------------------------------------------------------------------
// Chains
// ---------------------------------------------------------------------------------------------------------------------

export type LineageLink = Pick<TickerChangeEvent, "old_ticker" | "new_ticker" | "effective_date">

/** A chain, oldest link first. `current_ticker` is the new symbol of the last link. */
interface LineageChain {
  readonly history: ReadonlyArray<LineageLink>
  readonly current_ticker: string
}

/** The chain of one issuer, if the events of several issuers conflict. */
export interface LineageCandidate extends LineageChain {
  readonly cik: string
  readonly company_name: string | null
}

/** An event of a conflict with the reasons that it contributes to, possibly none. */
interface ConflictingEvent extends TickerChangeEvent {
  readonly reasons: ReadonlyArray<LineageReason>
}

export interface LineageConflict {
  readonly reasons: Array.NonEmptyReadonlyArray<LineageReason>
  /** The symbols involved, sorted. */
  readonly tickers: ReadonlyArray<string>
  /** At most `maxListedCandidates`, by first date; `candidate_count` is the total. */
  readonly candidates: ReadonlyArray<LineageCandidate>
  readonly candidate_count: number
  /** At most `maxListedEvents`, by date; `event_count` is the total. */
  readonly events: ReadonlyArray<ConflictingEvent>
  readonly event_count: number
}

/** Maximum length of a chain: §8 (limits). A longer one is considered bad data. */
export const maxLineageLinks = 12

/** Greater than `maxLineageLinks`, so that the listed events include some with `max_hops_exceeded`. */
const maxListedEvents = 100
const maxListedCandidates = 100

type Events = ReadonlyArray<TickerChangeEvent>

/** Sorts by date. The other fields break ties, so that results do not depend on the order of the rows. */
const byDate: Order.Order<TickerChangeEvent> = Order.combineAll([
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.effective_date),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.old_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.new_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.cik ?? ""),
])

/** A missing CIK is unknown, so it does not count as a different one. */
const distinctCiks = (events: Events) => Array.dedupe(events.flatMap(({ cik }) => cik === null ? [] : [cik])).toSorted()

const repeatedValues = (values: ReadonlyArray<string>): ReadonlySet<string> => {
  const seen = new Set<string>()
  return new Set(values.filter((value) => seen.size === seen.add(value).size))
}

type ContributesTo = (event: TickerChangeEvent, index: number) => boolean

/** For each reason, in the order of D21 (reasons), a check that finds the events that contribute to it. */
const reasonChecks: ReadonlyArray<readonly [LineageReason, (ordered: Events) => ContributesTo]> = [
  ["multiple_cik_lineages", (ordered) => {
    const hasSeveralCiks = distinctCiks(ordered).length > 1
    return ({ cik }) => hasSeveralCiks && cik !== null
  }],
  ["same_date_events", (ordered) => {
    const dates = repeatedValues(ordered.map(({ effective_date }) => effective_date))
    return ({ effective_date }) => dates.has(effective_date)
  }],
  ["competing_destinations", (ordered) => {
    const tickers = repeatedValues(ordered.map(({ old_ticker }) => old_ticker))
    return ({ old_ticker }) => tickers.has(old_ticker)
  }],
  [
    "broken_chain",
    (ordered) => ({ old_ticker }, index) => index > 0 && ordered[index - 1]?.new_ticker !== old_ticker,
  ],
  ["max_hops_exceeded", () => (_, index) => index >= maxLineageLinks],
]

const applyChecks = (ordered: Events) =>
  reasonChecks.map(([reason, check]) => ({ reason, contributes: check(ordered) }))

/** A reason applies if at least one event contributes to it. */
const findReasons = (ordered: Events) =>
  applyChecks(ordered).flatMap(({ contributes, reason }) => ordered.some(contributes) ? [reason] : [])

const listConflictingEvents = (ordered: Events): ReadonlyArray<ConflictingEvent> => {
  const checks = applyChecks(ordered)
  return ordered.slice(0, maxListedEvents).map((event, index) => ({
    ...event,
    reasons: checks.flatMap(({ contributes, reason }) => contributes(event, index) ? [reason] : []),
  }))
}

const toChain = (ordered: Array.NonEmptyReadonlyArray<TickerChangeEvent>): LineageChain => ({
  history: ordered.map(({ effective_date, new_ticker, old_ticker }) => ({ old_ticker, new_ticker, effective_date })),
  current_ticker: Array.lastNonEmpty(ordered).new_ticker,
})

/** One chain per issuer, by first date. Empty unless all events have a CIK and each issuer's events form a chain. */
const findCandidates = (ordered: Events): ReadonlyArray<LineageCandidate> => {
  const issuers = distinctCiks(ordered)
  if (issuers.length < 2 || ordered.some(({ cik }) => cik === null)) return []
  const eventsByCik = Map.groupBy(ordered, ({ cik }) => cik)
  const chains = issuers.flatMap((cik) => {
    const own = eventsByCik.get(cik) ?? []
    if (!Array.isReadonlyArrayNonEmpty(own) || findReasons(own).length > 0) return []
    const company_name = own.findLast((event) => event.company_name !== null)?.company_name ?? null
    return [{ cik, company_name, ...toChain(own) }]
  })
  return chains.length < issuers.length ? [] : Array.sort(
    chains,
    Order.mapInput(Order.String, ({ history: [first] }: LineageCandidate) => first?.effective_date ?? ""),
  )
}

/** Resolves a component to a chain, or to a conflict if there is none. The order of the events does not matter. */
export const resolveLineage = (
  events: Array.NonEmptyReadonlyArray<TickerChangeEvent>,
): Result.Result<LineageChain, LineageConflict> => {
  const ordered = Array.sort(events, byDate)
  const reasons = findReasons(ordered)
  if (!Array.isReadonlyArrayNonEmpty(reasons)) return Result.succeed(toChain(ordered))
  const tickers = Array.dedupe(ordered.flatMap(({ new_ticker, old_ticker }) => [old_ticker, new_ticker])).toSorted()
  const candidates = findCandidates(ordered)
  return Result.fail({
    reasons,
    tickers,
    candidates: candidates.slice(0, maxListedCandidates),
    candidate_count: candidates.length,
    events: listConflictingEvents(ordered),
    event_count: ordered.length,
  })
}
