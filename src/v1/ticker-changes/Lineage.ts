/** D20, D21: from the eligible events around a symbol to its chain, or to the reasons why it is none. Pure. */
import { Array, Order, Result } from "effect"
import type { LineageReason } from "../../rules/Errors.ts"

/** One eligible change, as the table holds it. */
export interface TickerChangeEvent {
  readonly old_ticker: string
  readonly new_ticker: string
  readonly effective_date: string
  readonly cik: string | null
  readonly company_name: string | null
}

export interface LineageLink {
  readonly old_ticker: string
  readonly new_ticker: string
  readonly effective_date: string
}

/** A chain, oldest first; `current_ticker` is where its last link leads. */
export interface LineageChain {
  readonly history: ReadonlyArray<LineageLink>
  readonly current_ticker: string
}

export interface LineageCandidate extends LineageChain {
  readonly cik: string
  readonly company_name: string | null
}

/** An event of what is refused, with the reasons that it is a part of; none where others clash. */
export interface ConflictingEvent extends TickerChangeEvent {
  readonly reasons: ReadonlyArray<LineageReason>
}

export interface LineageConflict {
  readonly reasons: Array.NonEmptyReadonlyArray<LineageReason>
  /** The symbols involved, sorted. */
  readonly tickers: ReadonlyArray<string>
  readonly candidates: ReadonlyArray<LineageCandidate>
  /** The first `mostShown` of them by date, and how many there are. */
  readonly events: ReadonlyArray<ConflictingEvent>
  readonly event_count: number
}

/** A chain of more links is taken for bad data (§8). */
export const maxLineageLinks = 12

/** More events than a person looks at; what is beyond the twelfth link is refused for that, so some of these clash. */
export const maxListedEvents = 100

type Events = ReadonlyArray<TickerChangeEvent>

/** By date; what shares a date is put in an order of its own, so that no answer depends on the order of rows. */
const byDate: Order.Order<TickerChangeEvent> = Order.combineAll([
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.effective_date),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.old_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.new_ticker),
  Order.mapInput(Order.String, (event: TickerChangeEvent) => event.cik ?? ""),
])

/** A missing CIK is unknown, not different. */
const ciks = (events: Events) => Array.dedupe(events.flatMap(({ cik }) => cik === null ? [] : [cik])).toSorted()

const repeated = (values: ReadonlyArray<string>): ReadonlySet<string> => {
  const seen = new Set<string>()
  return new Set(values.filter((value) => seen.size === seen.add(value).size))
}

type IsPart = (event: TickerChangeEvent, at: number) => boolean

/** Which events are a part of a reason, in the order in which reasons are tested (D21): one holds where some are. */
const clashes: ReadonlyArray<readonly [LineageReason, (ordered: Events) => IsPart]> = [
  ["multiple_cik_lineages", (ordered) => {
    const several = ciks(ordered).length > 1
    return ({ cik }) => several && cik !== null
  }],
  ["same_date_events", (ordered) => {
    const shared = repeated(ordered.map(({ effective_date }) => effective_date))
    return ({ effective_date }) => shared.has(effective_date)
  }],
  ["competing_destinations", (ordered) => {
    const vacated = repeated(ordered.map(({ old_ticker }) => old_ticker))
    return ({ old_ticker }) => vacated.has(old_ticker)
  }],
  ["broken_chain", (ordered) => ({ old_ticker }, at) => at > 0 && ordered[at - 1]?.new_ticker !== old_ticker],
  ["max_hops_exceeded", () => (_, at) => at >= maxLineageLinks],
]

const parts = (ordered: Events) => clashes.map(([reason, isPart]) => ({ reason, isPart: isPart(ordered) }))

const reasonsAgainst = (ordered: Events) =>
  parts(ordered).flatMap(({ isPart, reason }) => ordered.some(isPart) ? [reason] : [])

const clashing = (ordered: Events): ReadonlyArray<ConflictingEvent> => {
  const against = parts(ordered)
  return ordered.slice(0, maxListedEvents).map((event, at) => ({
    ...event,
    reasons: against.flatMap(({ isPart, reason }) => isPart(event, at) ? [reason] : []),
  }))
}

const toLink = ({ effective_date, new_ticker, old_ticker }: TickerChangeEvent): LineageLink => ({
  old_ticker,
  new_ticker,
  effective_date,
})

const toChain = (ordered: Array.NonEmptyReadonlyArray<TickerChangeEvent>): LineageChain => ({
  history: ordered.map(toLink),
  current_ticker: Array.lastNonEmpty(ordered).new_ticker,
})

/** One chain per issuer, where every event tells its issuer and each issuer's events stand alone; otherwise none. */
const candidates = (ordered: Events): ReadonlyArray<LineageCandidate> => {
  const issuers = ciks(ordered)
  if (issuers.length < 2 || ordered.some(({ cik }) => cik === null)) return []
  const chains = issuers.flatMap((cik) => {
    const own = ordered.filter((event) => event.cik === cik)
    if (!Array.isReadonlyArrayNonEmpty(own) || reasonsAgainst(own).length > 0) return []
    const company_name = own.findLast((event) => event.company_name !== null)?.company_name ?? null
    return [{ cik, company_name, ...toChain(own) }]
  })
  return chains.length < issuers.length ? [] : Array.sort(
    chains,
    Order.mapInput(Order.String, ({ history: [first] }: LineageCandidate) => first?.effective_date ?? ""),
  )
}

/** Every symbol of a component gives the same answer, whatever the order of its events. */
export const resolveLineage = (
  events: Array.NonEmptyReadonlyArray<TickerChangeEvent>,
): Result.Result<LineageChain, LineageConflict> => {
  const ordered = Array.sort(events, byDate)
  const reasons = reasonsAgainst(ordered)
  if (!Array.isReadonlyArrayNonEmpty(reasons)) return Result.succeed(toChain(ordered))
  const tickers = Array.dedupe(ordered.flatMap(({ new_ticker, old_ticker }) => [old_ticker, new_ticker])).toSorted()
  return Result.fail({
    reasons,
    tickers,
    candidates: candidates(ordered),
    events: clashing(ordered),
    event_count: ordered.length,
  })
}
