/**
 * The rules for a symbol's lineage: D20 (connected components: all events connected to a symbol), D21 (chains and
 * conflicts) and D35 (selection by CIK). `LineageEvents.ts` reads the events of a component, and the pure functions in
 * this file convert them to a chain.
 */
import { Array, Data, Order, Result, Schema, Struct } from "effect"
import { type ChangeEvent, LineageEvent, type LineageReason } from "../../contract/rules/ApiErrors.ts"

/** A ticker change with only the columns that determine a lineage. */
export const TickerChangeEvent = Schema.Struct(Struct.omit(LineageEvent.fields, ["reasons"]))
/** A decoded ticker change. */
export type TickerChangeEvent = typeof TickerChangeEvent.Type

/** One step in a chain: a company replaced one symbol with another. */
export type LineageLink = typeof ChangeEvent.Type

/** A company's ticker changes, oldest first. `current_ticker` is the new symbol of the last change. */
export interface LineageChain {
  readonly history: Array.NonEmptyReadonlyArray<LineageLink>
  readonly current_ticker: string
  /** The company's CIK, or null if no event in the chain has one. */
  readonly cik: string | null
  /** The latest company name in the chain's events, or null if none of them has a name. */
  readonly company_name: string | null
}

/** The chain of one issuer, in a conflict between the events of several issuers. */
export interface LineageCandidate extends LineageChain {
  readonly cik: string
}

/** An event in a conflict, with the reasons for the conflict that it contributes to. There may be none. */
type ConflictingEvent = typeof LineageEvent.Type

/** Why the events of a component do not form a chain. */
export interface LineageConflict {
  readonly reasons: Array.NonEmptyReadonlyArray<LineageReason>
  /** All symbols in the component, sorted. */
  readonly tickers: ReadonlyArray<string>
  readonly candidates: ReadonlyArray<LineageCandidate>
  /** The first `maxListedEvents` events by date. `event_count` is the total number of events. */
  readonly events: ReadonlyArray<ConflictingEvent>
  readonly event_count: number
}

/** Maximum number of links in a chain (§8, limits). A longer chain is treated as bad data. */
export const maxLineageLinks = 12

/**
 * Maximum number of events to list for a conflict. This is more than `maxLineageLinks`, so the list for a chain that is
 * too long includes events with the reason `max_hops_exceeded`.
 */
const maxListedEvents = 100

type Events = ReadonlyArray<TickerChangeEvent>

/**
 * Orders events by date. The other fields break ties, so that results do not depend on the order of the database rows.
 */
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
 * Sorts events by date and merges duplicates (D20). If a change is recorded both with and without a CIK, the event
 * without a CIK is dropped. If exactly one event remains and it has no company name, it takes the name of the dropped
 * event.
 */
const orderEvents = (events: Array.NonEmptyReadonlyArray<TickerChangeEvent>) =>
  Array.flatMap(
    Array.groupWith(Array.sort(events, byEffectiveDate), isSameChange),
    // An event without a CIK comes first in its group. The table's key allows at most one such event (D22).
    (group): Array.NonEmptyReadonlyArray<TickerChangeEvent> => {
      const [{ cik, company_name }, ...others] = group
      if (cik !== null || !Array.isReadonlyArrayNonEmpty(others)) return group
      const [known, ...more] = others
      return more.length > 0 ? others : [{ ...known, company_name: known.company_name ?? company_name }]
    },
  )

/** Returns the distinct CIKs. A missing CIK could be any CIK, so it is not counted as a different one. */
const distinctCiks = (events: Events) => Array.dedupe(events.flatMap(({ cik }) => cik === null ? [] : [cik])).toSorted()

/** Returns the values that occur more than once: those that do not make the set of values seen so far larger. */
const repeatedValues = (values: ReadonlyArray<string>): ReadonlySet<string> => {
  const seen = new Set<string>()
  return new Set(values.filter((value) => seen.size === seen.add(value).size))
}

type ContributesTo = (event: TickerChangeEvent, index: number) => boolean

/**
 * For each reason, in the order of D21 (reasons), a check that takes a component's events, ordered by date, and returns
 * a function that determines which of these events contribute to the reason.
 */
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

/** Returns the reasons to which at least one event contributes. */
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
 * Returns one chain per issuer, ordered by the date of the first change. Returns an empty array if there are fewer than
 * two issuers, if an event has no CIK, or if the events of any issuer do not form a chain.
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

/**
 * Resolves the ticker changes of a component (`events`), which are connected through shared symbols, to the chain of
 * symbols of one company, such as A to B to C, or to a conflict if they do not form one. The events may be in any
 * order.
 */
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

/** A symbol's chain, or the conflict that prevents one. The chain is undefined if no event involves the symbol. */
export type Lineage = Result.Result<LineageChain | undefined, LineageConflict>

/** Resolves a component's events to a lineage. The array may be empty. */
export const resolveLineageOfEvents = (events: Events): Lineage =>
  Array.isReadonlyArrayNonEmpty(events) ? resolveLineage(events) : Result.succeed(undefined)

/** The requested CIK does not match any candidate whose chain contains the symbol. */
export class UnknownLineageCik extends Data.TaggedClass("UnknownCik")<{
  readonly cik: string
  /** The candidates whose chains contain the symbol. */
  readonly candidates: ReadonlyArray<LineageCandidate>
}> {}

const hasCik = (chain: LineageChain): chain is LineageCandidate => chain.cik !== null

const containsSymbol = ({ history }: LineageChain, ticker: string) =>
  history.some(({ new_ticker, old_ticker }) => old_ticker === ticker || new_ticker === ticker)

/**
 * Selects the chain that contains the symbol and whose issuer has this ten-digit CIK (D35). If the symbol is
 * unambiguous, its issuer is the only candidate. If a conflict has no candidates, returns the conflict, because its
 * reasons are more informative than an empty list of candidates.
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

/** The days on which a company used a symbol, from `from` (inclusive) to `until` (exclusive), as `YYYY-MM-DD`. */
export interface SymbolPeriod {
  readonly ticker: string
  /** Missing for the company's oldest symbol. */
  readonly from?: string
  /** Missing for the company's current symbol. */
  readonly until?: string
}

/**
 * The symbols that a company has used, oldest first. If the company returned to a symbol, that symbol has several
 * periods.
 */
export interface CompanyLineage {
  readonly current_ticker: string
  readonly periods: Array.NonEmptyReadonlyArray<SymbolPeriod>
}

/** Converts a chain to periods. The dates in a chain are strictly increasing, so each period has at least one day. */
export const toCompanyLineage = ({ current_ticker, history }: LineageChain): CompanyLineage => {
  const [first, ...later] = Array.map(history, ({ new_ticker: ticker, effective_date: from }, index) => {
    const until = history[index + 1]?.effective_date
    return until === undefined ? { ticker, from } : { ticker, from, until }
  })
  const [{ effective_date: until, old_ticker: ticker }] = history
  return { current_ticker, periods: [{ ticker, until }, first, ...later] }
}

/**
 * Formats a lineage for `X-Lineage`: each former symbol with the first day of the next symbol, followed by the current
 * symbol.
 */
export const formatLineage = ({ periods }: CompanyLineage) =>
  periods.map(({ ticker, until }) => until === undefined ? ticker : `${ticker}..${until}`).join(", ")
