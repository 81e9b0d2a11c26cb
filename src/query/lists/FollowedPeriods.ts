/**
 * The periods in which companies used their symbols, for lists with `follow_lineage` and for the header `X-Lineage`.
 */
import { Data, Function } from "effect"
import { type CompanyLineage, formatLineage } from "../lineage/LineageRules.ts"

/**
 * The days on which a company used a symbol, from `from` (inclusive) to `until` (exclusive). The same type represents a
 * gap: the days on which none of the companies used the symbol. Both fields are dates, `-infinity` or `infinity`, and
 * can be compared as text.
 */
export interface FollowedSymbolPeriod {
  readonly ticker: string
  readonly from: string
  readonly until: string
  /** The company's current symbol. For a gap, the company's index in `names`. */
  readonly owner: string
  /** The newest periods have rank 0. All periods of a rank are later than all periods of the next higher rank. */
  readonly rank: number
}

type UnrankedPeriod = Omit<FollowedSymbolPeriod, "rank">

/** The periods that a query follows. */
export class FollowedPeriods extends Data.Class<{
  /** For each company, its entry in `X-Lineage`. */
  readonly names: ReadonlyArray<string>
  /** The periods, sorted by rank. Periods of the same symbol do not overlap. */
  readonly periods: ReadonlyArray<FollowedSymbolPeriod>
  /**
   * For each symbol, the days on which none of the companies used it. Rows for these days are omitted from the list,
   * but counted.
   */
  readonly gaps: ReadonlyArray<FollowedSymbolPeriod>
}> {
  /**
   * Returns what the keys of the query cache contain: only the names, because they are short and determine the periods
   * and gaps.
   */
  toJSON() {
    return this.names
  }
}

/** The property that is added to a query after its lineages have been resolved. */
export interface WithFollowedPeriods {
  readonly followed: FollowedPeriods
}

/**
 * The bounds of a period without a start or an end. As text, `-infinity` sorts before every date, and `infinity` after
 * every date.
 */
const [firstDay, lastDay] = ["-infinity", "infinity"]

/**
 * Resolves overlaps between periods of the same symbol. They occur if CIKs select two companies that used the same
 * symbol. The period that began later wins, because a company that takes over a symbol is its new user. For example, if
 * A used a symbol from 2010 to 2020 and B from 2015 to 2018, the result is A from 2010 to 2015, B from 2015 to 2018,
 * and A from 2018 to 2020.
 */
const separatePeriods = (periods: ReadonlyArray<UnrankedPeriod>): ReadonlyArray<UnrankedPeriod> => {
  if (periods.length === 1) return periods
  // Sorted by precedence: the latest start first, and among periods with the same start, the earliest end first.
  const byPrecedence = periods.toSorted((left, right) =>
    left.from === right.from ? (left.until < right.until ? -1 : 1) : (left.from > right.from ? -1 : 1)
  )
  // No period starts or ends between two consecutive boundaries, so each such span has at most one user.
  const boundaries = Array.from(new Set(periods.flatMap(({ from, until }) => [from, until]))).toSorted()
  const separate: Array<UnrankedPeriod> = []
  let previousUser: UnrankedPeriod | undefined
  for (const [index, until] of boundaries.slice(1).entries()) {
    const from = boundaries[index] ?? firstDay
    const user = byPrecedence.find((period) => period.from <= from && period.until >= until)
    // If the user is the same as in the previous span, extends that period instead of adding another one.
    const extended = user === previousUser ? separate.pop() : undefined
    if (user !== undefined) separate.push({ ...user, from: extended?.from ?? from, until })
    previousUser = user
  }
  return separate
}

/**
 * Returns the days not covered by the periods of a symbol: before, between and after them. The periods must not
 * overlap.
 */
const findGaps = (periods: ReadonlyArray<UnrankedPeriod>) => {
  const ordered = periods.toSorted((left, right) => left.from < right.from ? -1 : 1)
  const starts = [firstDay, ...ordered.map(({ until }) => until)]
  const ends = [...ordered.map(({ from }) => from), lastDay]
  return starts.flatMap((from, index) => {
    const until = ends[index] ?? lastDay
    return from < until ? [{ from, until }] : []
  })
}

/**
 * Sorts periods, newest first, and ranks them. A period gets the next rank if it ends before all newer periods start;
 * otherwise it has the same rank as the period before it. A list that is sorted by date can therefore be read one rank
 * after the other.
 */
const rankPeriods = (periods: ReadonlyArray<UnrankedPeriod>): ReadonlyArray<FollowedSymbolPeriod> => {
  let rank = 0
  /** The earliest start of the periods so far. */
  let earliest: string | undefined
  return periods.toSorted((left, right) => left.until > right.until ? -1 : 1).map((period) => {
    if (earliest !== undefined && period.until <= earliest) rank += 1
    if (earliest === undefined || period.from < earliest) earliest = period.from
    return { ...period, rank }
  })
}

/**
 * Returns the periods of several companies, without overlaps and with ranks, and the gaps between them. A company that
 * has always had the same symbol has no gaps: all rows for that symbol are its rows, or those of another requested
 * company.
 *
 * For a gap, `owner` is the index of the company whose count of omitted rows includes the rows in the gap. Gaps are not
 * part of the list, so their rank does not matter and is always 0.
 */
const followCompanies = (lineages: ReadonlyArray<CompanyLineage>) => {
  const overlapping = lineages.flatMap(({ current_ticker: owner, periods }) =>
    periods.map(({ from = firstDay, ticker, until = lastDay }) => ({ owner, ticker, from, until }))
  )
  const periods = Array.from(Map.groupBy(overlapping, ({ ticker }) => ticker).values()).flatMap(separatePeriods)
  const gaps = lineages.flatMap(({ periods: companyPeriods }, company) => {
    if (companyPeriods.length === 1) return []
    const tickers = Array.from(new Set(companyPeriods.map(({ ticker }) => ticker)))
    return tickers.flatMap((ticker) =>
      findGaps(periods.filter((period) => period.ticker === ticker))
        .map((gap) => ({ ...gap, ticker, owner: String(company), rank: 0 }))
    )
  })
  return new FollowedPeriods({ names: lineages.map(formatLineage), periods: rankPeriods(periods), gaps })
}

/** Memoized, so that requests for the same single company share the SQL arrays that are memoized by its periods. */
const followCompany = Function.memoize((lineage: CompanyLineage) => followCompanies([lineage]))

/** Returns the periods in which the companies used their symbols, to follow in a list whose rows have a date. */
export const makeFollowedPeriods = (lineages: ReadonlyArray<CompanyLineage>) => {
  const [first, ...others] = lineages
  return first !== undefined && others.length === 0 ? followCompany(first) : followCompanies(lineages)
}

/**
 * Returns the periods to follow in a list whose rows have no date. These are the companies' current symbols, for all
 * days.
 */
export const makeFollowedCurrentSymbols = (lineages: ReadonlyArray<CompanyLineage>) =>
  new FollowedPeriods({
    names: lineages.map(formatLineage),
    periods: Array.from(
      new Set(lineages.map(({ current_ticker }) => current_ticker)),
      (ticker) => ({ owner: ticker, ticker, from: firstDay, until: lastDay, rank: 0 }),
    ),
    gaps: [],
  })

/** For each company, omitted rows are counted only up to this number. If there are more, `X-Lineage` reports `100+`. */
export const maxCountedOmittedRows = 100

/** Maximum length of `X-Lineage`, in bytes (D37). Many clients and proxies reject longer headers. */
const maxHeaderLength = 4096

const separator = ", "

/** The maximum length of the text that reports how many companies were left out. */
const maxMoreLength = ";more=100".length

/**
 * Formats `X-Lineage`: one entry per company, separated by commas. `names` contains the symbols of each company, and
 * `outside` is empty or contains the number of omitted rows for each company. For example, a company with the symbols
 * `FB..2022-06-09, META` and three omitted rows gets the entry `FB..2022-06-09, META;outside=3`.
 *
 * If the header would be too long, companies are left out, starting with the last one. Companies with a single symbol
 * are left out before all others, because their entry says no more than the request. `more` is the number of companies
 * that were left out (D37).
 */
export const formatLineageHeader = ({ names }: FollowedPeriods, outside: ReadonlyArray<number>) => {
  const entries = names.map((name, company) => {
    const count = outside[company] ?? 0
    const omittedText = count > maxCountedOmittedRows ? `${maxCountedOmittedRows}+` : count
    return { text: count === 0 ? name : `${name};outside=${omittedText}`, hasOneSymbol: !name.includes(separator) }
  })
  // There is one separator less than there are entries.
  let length = entries.reduce((sum, { text }) => sum + text.length + separator.length, -separator.length)
  if (length <= maxHeaderLength) return entries.map(({ text }) => text).join(separator)
  // Removed from the end.
  const removable = [
    ...entries.filter(({ hasOneSymbol }) => !hasOneSymbol),
    ...entries.filter(({ hasOneSymbol }) => hasOneSymbol),
  ]
  const remaining = new Set(entries)
  while (length > maxHeaderLength - maxMoreLength) {
    const removed = removable.pop()
    if (removed === undefined) break
    remaining.delete(removed)
    length -= removed.text.length + separator.length
  }
  return `${Array.from(remaining, ({ text }) => text).join(separator)};more=${entries.length - remaining.size}`
}
