/**
 * The rules for the lineage of a symbol: D20 (components: all events connected with a symbol), D21 (chains and
 * conflicts) and D35 (selection by CIK). `LineageEvents.ts` reads a component, and the pure functions in this file turn
 * it into a chain.
 */
import { Array, Data, Order, Result, Schema, Struct } from "effect"
import { type ChangeEvent, LineageEvent, type LineageReason } from "../../contract/rules/Errors.ts"

/** A ticker change, with only the columns that determine a lineage. */
export const TickerChangeEvent = Schema.Struct(Struct.omit(LineageEvent.fields, ["reasons"]))
/** A ticker change, decoded. */
export type TickerChangeEvent = typeof TickerChangeEvent.Type

/** One step of a chain: a company exchanged one symbol for another. */
export type LineageLink = typeof ChangeEvent.Type

/** A chain, oldest link first. `current_ticker` is the new symbol in the last link. */
export interface LineageChain {
  readonly history: Array.NonEmptyReadonlyArray<LineageLink>
  readonly current_ticker: string
  /** Null if no event of the chain has a CIK. */
  readonly cik: string | null
  /** The latest company name in the chain's events, or null if no event has one. */
  readonly company_name: string | null
}

/** The chain of one issuer within a conflict between the events of several issuers. */
export interface LineageCandidate extends LineageChain {
  readonly cik: string
}

/** An event of a conflict, with the reasons that it contributes to. The list of reasons may be empty. */
type ConflictingEvent = typeof LineageEvent.Type

/** Why the events of a component form no chain. */
export interface LineageConflict {
  readonly reasons: Array.NonEmptyReadonlyArray<LineageReason>
  /** The symbols involved, sorted. */
  readonly tickers: ReadonlyArray<string>
  readonly candidates: ReadonlyArray<LineageCandidate>
  /** The first `maxListedEvents` events by date. `event_count` is the number of all events. */
  readonly events: ReadonlyArray<ConflictingEvent>
  readonly event_count: number
}

/** Maximum number of links in a chain (§8, limits). A longer chain is considered bad data. */
export const maxLineageLinks = 12

/**
 * Maximum number of events that a conflict lists. It exceeds `maxLineageLinks`, so that the listed events of a chain
 * that is too long include some with `max_hops_exceeded`.
 */
const maxListedEvents = 100

type Events = ReadonlyArray<TickerChangeEvent>

/** Orders events by date. The other fields break ties, so that results do not depend on the order of the rows. */
const byEffectiveDate: Order.Order<TickerChangeEvent> = Order.combineAll([
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.effective_date),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.old_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.new_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.cik ?? ""),
])

const isSameChange = (left: TickerChangeEvent, right: TickerChangeEvent) =>
  left.old_ticker === right.old_ticker && left.new_ticker === right.new_ticker &&
  left.effective_date === right.effective_date

/**
 * Sorts events by date and merges duplicates (D20): a change may be recorded both with and without a CIK. The one
 * without is dropped. If the other has no company name, it takes over the name.
 */
const orderEvents = (events: Array.NonEmptyReadonlyArray<TickerChangeEvent>) =>
  Array.flatMap(
    Array.groupWith(Array.sort(events, byEffectiveDate), isSameChange),
    // An event without a CIK comes first in its group. There is at most one, because of the table's key (D22).
    (group): Array.NonEmptyReadonlyArray<TickerChangeEvent> => {
      const [{ cik, company_name }, ...others] = group
      if (cik !== null || !Array.isReadonlyArrayNonEmpty(others)) return group
      const [known, ...more] = others
      return more.length > 0 ? others : [{ ...known, company_name: known.company_name ?? company_name }]
    },
  )

/** Returns the distinct CIKs. A missing CIK may be any, so it does not count as a different one. */
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

/** Returns the reasons that apply, because at least one event contributes to them. */
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
  history: Array.map(
    ordered,
    ({ effective_date, new_ticker, old_ticker }) => ({ old_ticker, new_ticker, effective_date }),
  ),
  current_ticker: Array.lastNonEmpty(ordered).new_ticker,
  cik: ordered.find(({ cik }) => cik !== null)?.cik ?? null,
  company_name: ordered.findLast(({ company_name }) => company_name !== null)?.company_name ?? null,
})

/**
 * Returns one chain per issuer, ordered by first date. Empty if there are fewer than two issuers, if an event has no
 * CIK, or if the events of some issuer form no chain.
 */
const findCandidates = (ordered: Events): ReadonlyArray<LineageCandidate> => {
  const issuers = distinctCiks(ordered)
  if (issuers.length < 2 || ordered.some(({ cik }) => cik === null)) return []
  const eventsByCik = Map.groupBy(ordered, ({ cik }) => cik)
  const chains = issuers.flatMap((cik) => {
    const issuerEvents = eventsByCik.get(cik) ?? []
    if (!Array.isReadonlyArrayNonEmpty(issuerEvents) || findReasons(issuerEvents).length > 0) return []
    return [{ ...toChain(issuerEvents), cik }]
  })
  return chains.length < issuers.length ? [] : Array.sort(
    chains,
    Order.mapInput(Order.String, ({ history: [first] }: LineageCandidate) => first.effective_date),
  )
}

/** Resolves a component to a chain, or to a conflict if its events form none. The events may be in any order. */
export const resolveLineage = (
  events: Array.NonEmptyReadonlyArray<TickerChangeEvent>,
): Result.Result<LineageChain, LineageConflict> => {
  const ordered = orderEvents(events)
  const reasons = findReasons(ordered)
  if (!Array.isReadonlyArrayNonEmpty(reasons)) return Result.succeed(toChain(ordered))
  const tickers = Array.dedupe(ordered.flatMap(({ new_ticker, old_ticker }) => [old_ticker, new_ticker])).toSorted()
  return Result.fail({
    reasons,
    tickers,
    candidates: findCandidates(ordered),
    events: listConflictingEvents(ordered),
    event_count: ordered.length,
  })
}

// ---------------------------------------------------------------------------------------------------------------------
// Selection by CIK
// ---------------------------------------------------------------------------------------------------------------------

/** The chain of a symbol, or the conflict that prevents it. Undefined if no event involves the symbol. */
export type Lineage = Result.Result<LineageChain | undefined, LineageConflict>

/** Resolves all events of a component, or none, to a lineage. */
export const resolveLineageOfEvents = (events: Events): Lineage =>
  Array.isReadonlyArrayNonEmpty(events) ? resolveLineage(events) : Result.succeed(undefined)

/** The requested CIK belongs to none of the candidates whose chain contains the symbol. */
export class UnknownLineageCik extends Data.TaggedClass("UnknownCik")<{
  readonly cik: string
  /** The candidates whose chain contains the symbol. */
  readonly candidates: ReadonlyArray<LineageCandidate>
}> {}

const hasCik = (chain: LineageChain): chain is LineageCandidate => chain.cik !== null

const containsSymbol = ({ history }: LineageChain, ticker: string) =>
  history.some(({ new_ticker, old_ticker }) => old_ticker === ticker || new_ticker === ticker)

/**
 * Selects the chain that contains the symbol and whose issuer has this ten-digit CIK (D35). For an unambiguous symbol,
 * its issuer is the only candidate. A conflict without candidates stays a conflict, because its reasons say more than
 * an empty list would.
 */
export const selectLineageCandidate = (
  lineage: Lineage,
  { cik, ticker }: { readonly cik: string; readonly ticker: string },
): Result.Result<LineageCandidate, LineageConflict | UnknownLineageCik> => {
  if (Result.isFailure(lineage) && lineage.failure.candidates.length === 0) return Result.fail(lineage.failure)
  const candidates = Result.match(lineage, {
    onSuccess: (chain) => chain !== undefined && hasCik(chain) ? [chain] : [],
    onFailure: (conflict) => conflict.candidates.filter((candidate) => containsSymbol(candidate, ticker)),
  })
  const selected = candidates.find((candidate) => candidate.cik === cik)
  return selected === undefined ? Result.fail(new UnknownLineageCik({ cik, candidates })) : Result.succeed(selected)
}

// ---------------------------------------------------------------------------------------------------------------------
// Periods
// ---------------------------------------------------------------------------------------------------------------------

/** The days on which a company used a symbol, `YYYY-MM-DD`: from `from` up to, but not including, `until`. */
export interface SymbolPeriod {
  readonly ticker: string
  /** Missing for the oldest symbol. */
  readonly from?: string
  /** Missing for the current symbol. */
  readonly until?: string
}

/** A company's symbols, oldest first. A symbol to which the company returned has several periods. */
export interface CompanyLineage {
  readonly current_ticker: string
  readonly periods: Array.NonEmptyReadonlyArray<SymbolPeriod>
}

/** Converts a chain to periods. The dates in a chain increase, so each period has at least one day. */
export const toCompanyLineage = ({ current_ticker, history }: LineageChain): CompanyLineage => {
  const [first, ...later] = Array.map(history, ({ new_ticker: ticker, effective_date: from }, index) => {
    const until = history[index + 1]?.effective_date
    return until === undefined ? { ticker, from } : { ticker, from, until }
  })
  const [{ effective_date: until, old_ticker: ticker }] = history
  return { current_ticker, periods: [{ ticker, until }, first, ...later] }
}

/**
 * Formats a lineage for `X-Lineage`: each former symbol with the first day of its successor, then the current symbol.
 */
export const formatLineage = ({ periods }: CompanyLineage) =>
  periods.map(({ ticker, until }) => until === undefined ? ticker : `${ticker}..${until}`).join(", ")
