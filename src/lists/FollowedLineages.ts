/** The companies whose rows a list returns with `follow_lineage`, as periods of symbols; and the header `X-Lineage`. */
import { type CompanyLineage, formatLineage } from "../lineage/Lineage.ts"

/** The days from `from` up to, but not including, `until`: dates, `-infinity` or `infinity`, which sort as text. */
interface Interval {
  readonly ticker: string
  readonly from: string
  readonly until: string
}

export interface FollowedPeriod extends Interval {
  /** The current symbol of the company. */
  readonly lineage_ticker: string
}

/** Days on which a company did not use one of its symbols. */
interface Gap extends Interval {
  /** Index of the company in `names`. */
  readonly company: number
}

export interface FollowedLineages {
  /** The entry of `X-Lineage` for each company. */
  readonly names: ReadonlyArray<string>
  /** No day of a symbol is in two periods. */
  readonly periods: ReadonlyArray<FollowedPeriod>
  /** The days of the companies' symbols that are in no period. */
  readonly gaps: ReadonlyArray<Gap>
}

/** The part of a query that has been resolved. */
export interface FollowedQuery {
  readonly followed: FollowedLineages
}

const [firstDay, lastDay] = ["-infinity", "infinity"]

/**
 * Cuts the periods of one symbol so that they do not overlap, which happens if CIKs select two companies with the same
 * symbol. Of two periods, the later one continues: a company that takes a symbol is its new user.
 */
const separatePeriods = (periods: ReadonlyArray<FollowedPeriod>): ReadonlyArray<FollowedPeriod> => {
  if (periods.length === 1) return periods
  const ordered = periods.toSorted((left, right) =>
    left.from === right.from ? (left.until < right.until ? -1 : 1) : (left.from > right.from ? -1 : 1)
  )
  const days = Array.from(new Set(periods.flatMap(({ from, until }) => [from, until]))).toSorted()
  const separate: Array<FollowedPeriod> = []
  let previous: FollowedPeriod | undefined
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

/** The lineages of a list whose rows have a date. */
export const followPeriods = (lineages: ReadonlyArray<CompanyLineage>): FollowedLineages => {
  const all = lineages.flatMap(({ current_ticker: lineage_ticker, periods }) =>
    periods.map(({ from = firstDay, ticker, until = lastDay }) => ({ lineage_ticker, ticker, from, until }))
  )
  const periods = Array.from(Map.groupBy(all, ({ ticker }) => ticker).values()).flatMap(separatePeriods)
  const gaps = lineages.flatMap(({ periods: [first, ...later] }, company) =>
    later.length === 0
      ? []
      : Array.from(new Set([first, ...later].map(({ ticker }) => ticker))).flatMap((ticker) =>
        findGaps(ticker, periods.filter((period) => period.ticker === ticker)).map((gap) => ({ ...gap, company }))
      )
  )
  return { names: lineages.map(formatLineage), periods, gaps }
}

/** The lineages of a list whose rows describe the present: only the current symbols. */
export const followCurrentSymbols = (lineages: ReadonlyArray<CompanyLineage>): FollowedLineages => ({
  names: lineages.map(formatLineage),
  periods: Array.from(
    new Set(lineages.map(({ current_ticker }) => current_ticker)),
    (ticker) => ({ lineage_ticker: ticker, ticker, from: firstDay, until: lastDay }),
  ),
  gaps: [],
})

/** The omitted rows of a company are counted up to this number, and shown as `100+` beyond. */
export const maxOutsideRows = 100

/** Formats `X-Lineage`. `outside` has the number of omitted rows by company. */
export const formatLineageHeader = ({ names }: FollowedLineages, outside: ReadonlyMap<number, number>) =>
  names.map((name, company) => {
    const count = outside.get(company) ?? 0
    if (count === 0) return name
    return `${name};outside=${count > maxOutsideRows ? `${maxOutsideRows}+` : count}`
  }).join(", ")
