/** The companies whose rows a list returns with `follow_lineage`, as periods of symbols; and the header `X-Lineage`. */
import { Data, Function } from "effect"
import { type CompanyLineage, formatLineage } from "../lineage/Lineage.ts"

/** The days from `from` up to, but not including, `until`: dates, `-infinity` or `infinity`, which sort as text. */
interface Interval {
  readonly ticker: string
  readonly from: string
  readonly until: string
}

/** Days on which a company used a symbol or, for a gap, did not use it. */
interface OwnedInterval extends Interval {
  /** The current symbol of the company; for a gap, its index in `names`. */
  readonly owner: string
}

export interface FollowedInterval extends OwnedInterval {
  /** 0 for the newest periods. All days of the periods of one rank are later than all days of the next rank. */
  readonly rank: number
}

export class FollowedLineages extends Data.Class<{
  /** The entry of `X-Lineage` for each company. */
  readonly names: ReadonlyArray<string>
  /** In the order of their ranks. No day of a symbol is in two periods. */
  readonly periods: ReadonlyArray<FollowedInterval>
  /** The days of the companies' symbols that are in no period. */
  readonly gaps: ReadonlyArray<FollowedInterval>
}> {
  /** Returns the names for the keys of the query cache. They are short, and determine the periods and the gaps. */
  toJSON() {
    return this.names
  }
}

/** What is added to a query when its lineages are resolved. */
export interface WithFollowedLineages {
  readonly followed: FollowedLineages
}

const [firstDay, lastDay] = ["-infinity", "infinity"]

/**
 * Cuts the periods of one symbol so that they do not overlap, which happens if CIKs select two companies with the same
 * symbol. Where two periods overlap, the one that began later wins: a company that takes a symbol is its new user.
 */
const separatePeriods = (periods: ReadonlyArray<OwnedInterval>): ReadonlyArray<OwnedInterval> => {
  if (periods.length === 1) return periods
  const ordered = periods.toSorted((left, right) =>
    left.from === right.from ? (left.until < right.until ? -1 : 1) : (left.from > right.from ? -1 : 1)
  )
  const days = Array.from(new Set(periods.flatMap(({ from, until }) => [from, until]))).toSorted()
  const separate: Array<OwnedInterval> = []
  let previous: OwnedInterval | undefined
  for (const [index, until] of days.slice(1).entries()) {
    const from = days[index] ?? firstDay
    const user = ordered.find((period) => period.from <= from && period.until >= until)
    const last = user === previous ? separate.pop() : undefined
    if (user !== undefined) separate.push({ ...user, from: last?.from ?? from, until })
    previous = user
  }
  return separate
}

const findGaps = (ticker: string, periods: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const ordered = periods.toSorted((left, right) => left.from < right.from ? -1 : 1)
  const starts = [firstDay, ...ordered.map(({ until }) => until)]
  const ends = [...ordered.map(({ from }) => from), lastDay]
  return starts.flatMap((from, index) => {
    const until = ends[index] ?? lastDay
    return from < until ? [{ ticker, from, until }] : []
  })
}

/** Sorts periods, newest first, and ranks them. A period that ends before all newer ones begin has the next rank. */
const rankPeriods = (periods: ReadonlyArray<OwnedInterval>): ReadonlyArray<FollowedInterval> => {
  let rank = 0
  let earliest: string | undefined
  return periods.toSorted((left, right) => left.until > right.until ? -1 : 1).map((period) => {
    if (earliest !== undefined && period.until <= earliest) rank += 1
    if (earliest === undefined || period.from < earliest) earliest = period.from
    return { ...period, rank }
  })
}

const followCompanies = (lineages: ReadonlyArray<CompanyLineage>) => {
  const all = lineages.flatMap(({ current_ticker: owner, periods }) =>
    periods.map(({ from = firstDay, ticker, until = lastDay }) => ({ owner, ticker, from, until }))
  )
  const periods = Array.from(Map.groupBy(all, ({ ticker }) => ticker).values()).flatMap(separatePeriods)
  const gaps = lineages.flatMap(({ periods: [first, ...later] }, company) =>
    later.length === 0
      ? []
      : Array.from(new Set([first, ...later].map(({ ticker }) => ticker))).flatMap((ticker) =>
        findGaps(ticker, periods.filter((period) => period.ticker === ticker))
          .map((gap) => ({ ...gap, owner: String(company), rank: 0 }))
      )
  )
  return new FollowedLineages({ names: lineages.map(formatLineage), periods: rankPeriods(periods), gaps })
}

const followCompany = Function.memoize((lineage: CompanyLineage) => followCompanies([lineage]))

/** Follows the lineages in a list whose rows have a date. */
export const followPeriods = (lineages: ReadonlyArray<CompanyLineage>) => {
  const [first, ...others] = lineages
  return first !== undefined && others.length === 0 ? followCompany(first) : followCompanies(lineages)
}

/** Follows the lineages in a list whose rows describe the present: only the current symbols have rows. */
export const followCurrentSymbols = (lineages: ReadonlyArray<CompanyLineage>) =>
  new FollowedLineages({
    names: lineages.map(formatLineage),
    periods: Array.from(
      new Set(lineages.map(({ current_ticker }) => current_ticker)),
      (ticker) => ({ owner: ticker, ticker, from: firstDay, until: lastDay, rank: 0 }),
    ),
    gaps: [],
  })

/** The omitted rows of a company are counted up to this number, and shown as `100+` beyond. */
export const maxOutsideRows = 100

/** Formats `X-Lineage`. `outside` has the number of omitted rows of each company, or is empty. */
export const formatLineageHeader = ({ names }: FollowedLineages, outside: ReadonlyArray<number>) =>
  names.map((name, company) => {
    const count = outside[company] ?? 0
    if (count === 0) return name
    return `${name};outside=${count > maxOutsideRows ? `${maxOutsideRows}+` : count}`
  }).join(", ")
