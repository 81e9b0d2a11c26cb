/**
 * Determines which of a company's share counts and public floats are credible and which count is current, by
 * cross-checking everything that the company's filings state (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Schema } from "effect"
import { countDays } from "../../../contract/rules/Dates.ts"
import { byFactDate, type CompanyFact, type CompanyFacts, isPeriodicReport, listSources } from "./CompanyFacts.ts"
import { type Decision, type Decisions, type DoubtKey, formatDoubtKey } from "./Doubt.ts"
import type { EdgarFiling } from "./Submissions.ts"

const maxRatio = 10

/**
 * Returns whether the values differ by at most a factor of ten. A larger difference suggests an unknown split or an
 * error.
 */
const isSimilar = (a: number, b: number, ratio = maxRatio) => a / b <= ratio && b / a <= ratio

/**
 * Maximum change that a filing's balance sheet alone can confirm, as a factor. A larger change may be a unit error,
 * which often affects the whole filing.
 */
const maxSplitRatio = 100

const roundingUnits = [1_000, 1_000_000]

/**
 * Returns whether `small` is roughly 1,000 or 1,000,000 times smaller than `large`, as if it were stated in thousands
 * or millions.
 */
const isInThousandsOf = (small: number, large: number) =>
  roundingUnits.some((unit) => large / small >= unit / 2 && large / small <= unit * 2)

/** Returns whether the values could be the same number, with one of them rounded to thousands or millions. */
const isRounded = (a: number, b: number) =>
  roundingUnits.some((unit) => Math.abs(a - b) < unit && [a, b].some((one) => one % unit === 0 && one >= unit * 1_000))

/** Counts below this are probably placeholders, such as 1, 100, or 1,000. */
const minCount = 10_000

/**
 * Limits for prices per share, in US dollars. Among listed shares, only Berkshire Hathaway's (about 700,000) have ever
 * cost more than `maxUsualPrice`. No share price has ever been outside the range that the tables accept.
 */
const [leastPrice, maxUsualPrice, greatestPrice] = [0.0001, 10_000, 9_999_999]

/**
 * Minimum ratio of the computed price (float divided by count) to the close. The computed price is below the close,
 * because the float excludes the shares held by affiliates. If a count is a thousand times too large, the ratio is
 * below this minimum even without affiliates.
 */
const minShareOfClose = 0.002

/** Maximum number of days by which the recorded date of a split may be wrong. */
const maxSplitDelay = 7

/**
 * Maximum age of a public float, in days, when it is compared with counts. Companies state it once a year, months after
 * its date.
 */
const maxFloatAge = 600

/**
 * Maximum number of days that the date of a cover page count may precede the end of the period. The tolerance is for
 * periods whose end varies, such as a fiscal year of 52 weeks.
 */
const maxDaysBeforePeriod = 7

/**
 * Maximum number of days between the date of a cover page count and the filing date if the period is unknown. The date
 * is normally shortly before the filing date, so an earlier date is considered wrong.
 */
const maxCoverAge = 300

/** Ten years, in days. The date of an XBRL fact is never longer before its filing than this. */
const maxFactAge = 3_650

/** The fields of a listed filing that are compared with the XBRL facts. */
export type ListedReport = Pick<EdgarFiling, "accession" | "filingDate" | "form" | "reportDate">

/** A split of the security that the share counts and closing prices refer to. */
export interface KnownSplit {
  readonly day: string
  /** The number of shares that one share became. Null if it is unknown, or if sources disagree. */
  readonly ratio: number | null
}

export interface CountEvidence {
  readonly facts: CompanyFacts
  readonly filings: ReadonlyArray<ListedReport>
  /** Closing prices in US dollars, by the dates of public floats. */
  readonly closes?: ReadonlyMap<string, number> | undefined
  readonly splits?: ReadonlyArray<KnownSplit> | undefined
  readonly decisions?: Decisions | undefined
}

/**
 * A fact together with the reasons to doubt its value. A fact with one reason is marked as unconfirmed. A fact with two
 * reasons is left out.
 */
export interface AssessedFact {
  readonly fact: CompanyFact
  /** Reasons as clauses, such as "differs from 25123000 on 2025-02-15". */
  readonly reasons: ReadonlyArray<string>
  readonly isLeftOut: boolean
  /** The value that the filing states, and an operator's decision about it. */
  readonly decided?: { readonly read: string; readonly decision: Decision } | undefined
}

export interface CountAssessment {
  readonly counts: ReadonlyArray<AssessedFact>
  /**
   * Credible counts as of the report's own date. Earlier counts that a report shows for comparison are not included.
   */
  readonly balanceSheetCounts: ReadonlyArray<AssessedFact>
  readonly floats: ReadonlyArray<AssessedFact>
  /** The current count; `none` if the facts contain no usable count, or `doubtful` if the count may have changed. */
  readonly current: CompanyFact | "none" | "doubtful"
}

// ----------------------------------------------------------------------------------------------------------------
// Dates
// ----------------------------------------------------------------------------------------------------------------

const isAmendment = ({ form }: Pick<CompanyFact, "form">) => form.endsWith("/A")

/** Returns why the date of a cover page count or another fact cannot be right, or undefined if it is plausible. */
const findDateDoubt = ({ end, filed, form }: CompanyFact, isCover: boolean, period: string | undefined) => {
  if (end > filed) return "is after the filing"
  if (countDays(end, filed) > maxFactAge) return "is years before the filing"
  if (!isCover) return undefined
  if (period === undefined) {
    return !isAmendment({ form }) && countDays(end, filed) > maxCoverAge ? "is long before the filing" : undefined
  }
  return countDays(end, period) > maxDaysBeforePeriod
    ? `is before ${period}, the end of the report's own period`
    : undefined
}

/**
 * Replaces an implausible date with the operator's date. If there is none, uses the filing date, so that the order of
 * the filings determines which count is the newest. For an amendment, uses the end of its period instead, which places
 * its count next to the count in the amended report.
 */
const settleDate = (
  fact: CompanyFact,
  isCover: boolean,
  period: string | undefined,
  findDecision: (key: Omit<DoubtKey, "table">) => Decision | undefined,
  cik: string,
): CompanyFact => {
  const reason = findDateDoubt(fact, isCover, period)
  if (reason === undefined) return fact
  const decision = findDecision({ url: listSources(cik, fact)[0], column: "reported_date", read: fact.end })
  if (decision !== undefined && decision.value !== null) return { ...fact, end: decision.value }
  return {
    ...fact,
    end: isAmendment(fact) && period !== undefined ? period : fact.filed,
    date: decision === undefined
      ? { stated: fact.end, published: period ?? null, reason }
      : { stated: fact.end, published: null, reason: null },
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Splits
// ----------------------------------------------------------------------------------------------------------------

/**
 * Returns the number of shares on the day `to` that correspond to one share on the day `from`, or undefined if a split
 * ratio in between is unknown.
 */
const findSplitFactor = (splits: ReadonlyArray<KnownSplit>, from: string, to: string): number | undefined => {
  if (to < from) {
    const factor = findSplitFactor(splits, to, from)
    return factor === undefined ? undefined : 1 / factor
  }
  return splits.filter(({ day }) => from < day && day <= to)
    .reduce(
      (product: number | undefined, { ratio }) => product === undefined || ratio === null ? undefined : product * ratio,
      1,
    )
}

/**
 * Adjusts a count for the splits between its date and other days. Returns several candidates, because the filing may
 * already have adjusted the count for splits up to the filing date, and because recorded split dates can be inexact.
 * The first candidate assumes that the count is as of its own date. If a ratio is unknown, the count is not adjusted.
 */
const restate = (
  { end, filed, val }: CompanyFact,
  days: ReadonlyArray<string>,
  splits: ReadonlyArray<KnownSplit>,
): readonly [number, ...Array<number>] => {
  const isNear = ({ day }: KnownSplit) =>
    [end, filed, ...days].some((other) => Math.abs(countDays(day, other)) <= maxSplitDelay)
  const [first = val, ...others] = [splits, splits.filter((split) => !isNear(split))].flatMap((known) =>
    [end, filed].flatMap((from) => days.map((to) => val * (findSplitFactor(known, from, to) ?? 1)))
  )
  return [first, ...others]
}

/**
 * Returns whether a class on one cover page appears to be in thousands or millions of the shares that another cover
 * page states for it. If the sum of all classes is not smaller, its shares were converted into those of another class.
 */
const hasClassInThousandsOf = (small: CompanyFact, large: CompanyFact) =>
  small.val < large.val &&
  Array.from(small.instance?.shares ?? []).some(([member, shares]) =>
    isInThousandsOf(shares, large.instance?.shares?.get(member) ?? shares)
  )

/** Creates functions that compare counts after adjusting them for the splits between their dates. */
const makeComparison = (splits: ReadonlyArray<KnownSplit>) => {
  /** The same number before and after a known split is an error, such as a count copied from the previous report. */
  const isAlike = (a: CompanyFact, b: CompanyFact, ratio = maxRatio) =>
    !hasClassInThousandsOf(a, b) && !hasClassInThousandsOf(b, a) &&
    restate(a, [b.end, b.filed], splits).some((val) => isSimilar(val, b.val, a.val === b.val ? 1 : ratio))
  /** Returns whether the first count appears to be in thousands or millions of shares while the second one is not. */
  const isInSmallerUnit = (small: CompanyFact, large: CompanyFact) =>
    hasClassInThousandsOf(small, large) || (!isAlike(small, large) &&
      restate(small, [large.end, large.filed], splits).some((val) => isInThousandsOf(val, large.val)))
  const differsInUnit = (a: CompanyFact, b: CompanyFact) => isInSmallerUnit(a, b) || isInSmallerUnit(b, a)
  return { isAlike, isInSmallerUnit, differsInUnit }
}

type CountComparison = ReturnType<typeof makeComparison>

// ----------------------------------------------------------------------------------------------------------------
// Series
// ----------------------------------------------------------------------------------------------------------------

/** All counts for one date, sorted by filing date. */
interface DatedCounts {
  /**
   * The count that an operator has decided on, or otherwise the newest of the counts with the fewest doubts. A later
   * filing may correct earlier ones.
   */
  readonly newest: CompanyFact
  readonly facts: ReadonlyArray<CompanyFact>
}

/** The doubts about a series of counts. */
class CountDoubts {
  /** Counts that are probably in a wrong unit, such as thousands, each with the count that suggests this. */
  readonly unitErrors = new Map<CompanyFact, CompanyFact>()
  /** Unconfirmed counts that differ from the last reliable count, each with that reliable count. */
  readonly jumps = new Map<CompanyFact, CompanyFact>()
  /** Counts that differ from others but are repeated in another filing that does not contradict itself. */
  readonly repeated = new Set<CompanyFact>()
  /** The newest reliable count. */
  reliable: CompanyFact | undefined
  /** Whether a count newer than `reliable` is unconfirmed but may be right. */
  isDoubtful = false
}

interface SeriesEvidence {
  /** Balance sheet counts by accession number. */
  readonly balances: ReadonlyMap<string, CompanyFact>
  /** Returns how many reasons there are to doubt a count regardless of other counts. */
  readonly countOwnReasons: (fact: CompanyFact) => number
  readonly isPlaceholder: (fact: CompanyFact) => boolean
  readonly isDecided: (fact: CompanyFact) => boolean
  readonly comparison: CountComparison
}

/** Returns the newest fact with the lowest `rank`. */
const findBest = (facts: ReadonlyArray<CompanyFact>, rank: (fact: CompanyFact) => number) => {
  const lowest = Math.min(...facts.map(rank))
  return facts.findLast((fact) => rank(fact) === lowest)
}

/** Returns whether it is the count, and not the balance sheet in the same filing, that is in a wrong unit. */
const isInOtherUnit = (
  { isAlike, isInSmallerUnit }: CountComparison,
  count: CompanyFact,
  balance: CompanyFact,
  reliable: CompanyFact | undefined,
) =>
  isInSmallerUnit(count, balance) ||
  (isInSmallerUnit(balance, count) && reliable !== undefined && isAlike(balance, reliable) && !isAlike(count, reliable))

/**
 * Compares counts from oldest to newest. Each count is compared with the last reliable one.
 *
 * - If the counts differ by a factor of more than ten, the new count becomes reliable if its filing's balance sheet
 *   agrees with it, or if another filing (the next report or an amendment) repeats it.
 * - If the factor is about 1,000 or 1,000,000, one of the counts may be in a wrong unit. Repetition then confirms the
 *   new count only if more reports state it than stated the old one, and never if an operator decided on the old one.
 *   If the new count is the smaller one, at least three reports must state it, and balance sheets do not count as
 *   confirmation.
 * - A filing whose balance sheet contradicts its own count confirms nothing. If the two differ by a factor of about
 *   1,000 or 1,000,000, the count is considered to be in a wrong unit if it is the smaller of the two, or if only the
 *   balance sheet agrees with the last reliable count. A later count that repeats it is in the same unit.
 */
const compareSeries = (
  counts: ReadonlyArray<CompanyFact>,
  { balances, comparison, countOwnReasons, isDecided, isPlaceholder }: SeriesEvidence,
) => {
  const { differsInUnit, isAlike } = comparison
  const doubts = new CountDoubts()
  const { jumps, unitErrors } = doubts
  const markUnitErrors = (dates: ReadonlyArray<DatedCounts>, shownBy: CompanyFact) => {
    for (const fact of dates.flatMap(({ facts }) => facts)) {
      if (differsInUnit(fact, shownBy) && !isDecided(fact)) unitErrors.set(fact, shownBy)
    }
  }
  const markJumps = ({ facts }: DatedCounts, from: CompanyFact) => {
    for (const fact of facts) if (!isAlike(fact, from) && !isDecided(fact)) jumps.set(fact, from)
  }
  let reliable: CompanyFact | undefined
  /** Dates whose counts are similar to `reliable`. */
  let reliableDates: ReadonlyArray<DatedCounts> = []
  /** Consecutive dates with unconfirmed counts that are similar to each other. */
  let candidates: ReadonlyArray<DatedCounts> = []
  let suggestUnitError = false
  const isContradicted = (fact: CompanyFact) => !isAlike(fact, balances.get(fact.accn) ?? fact)
  /**
   * A count may differ from the balance sheet because of an event after the balance sheet date. In that case, the next
   * report confirms the count.
   */
  const explainPrevious = (newest: CompanyFact) => {
    if (isContradicted(newest)) return
    for (const fact of reliableDates.at(-1)?.facts ?? []) {
      const balance = balances.get(fact.accn)
      const mayBeEvent = balance !== undefined && isAlike(fact, balance, maxSplitRatio)
      if (mayBeEvent && isAlike(fact, newest)) doubts.repeated.add(fact)
    }
  }
  const rely = (count: CompanyFact, dates: ReadonlyArray<DatedCounts>) => {
    reliable = count
    reliableDates = dates
    candidates = []
  }

  for (const facts of Map.groupBy(counts, ({ end }) => end).values()) {
    const newest = findBest(facts, (fact) => isDecided(fact) ? -1 : countOwnReasons(fact))
    if (newest === undefined) continue
    const date = { newest, facts }
    const balance = balances.get(newest.accn)
    const sameError = Array.from(unitErrors).findLast(([fact]) => isAlike(fact, newest))
    if (isDecided(newest)) {
      rely(newest, [date])
    } else if (countOwnReasons(newest) >= 2 || (isPlaceholder(newest) && reliable !== undefined)) {
      if (reliable !== undefined) markJumps(date, reliable)
    } else if (balance !== undefined && isInOtherUnit(comparison, newest, balance, reliable)) {
      markUnitErrors([date], balance)
    } else if (reliable === undefined && sameError !== undefined) {
      markUnitErrors([date], sameError[1])
    } else if (reliable === undefined || isAlike(newest, reliable)) {
      // Confirm counts that were contradicted only by a doubtful count.
      for (const fact of reliableDates.flatMap(({ facts }) => facts)) {
        if (isAlike(fact, newest)) jumps.delete(fact)
      }
      if (reliable !== undefined) {
        markUnitErrors(candidates, reliable)
        markJumps(date, reliable)
        explainPrevious(newest)
      }
      rely(newest, [...reliableDates, date])
    } else {
      markJumps(date, reliable)
      const previous = candidates.at(-1)?.newest
      if (previous !== undefined && isAlike(newest, previous)) candidates = [...candidates, date]
      else {
        suggestUnitError = previous === undefined && differsInUnit(newest, reliable)
        candidates = [date]
      }
      const similar = candidates.flatMap(({ facts }) => facts.filter((fact) => isAlike(fact, newest)))
      // A unit error usually makes a count too small, often throughout the report, so a smaller count needs more
      // evidence.
      const mayBeInThousands = suggestUnitError && newest.val < reliable.val
      const isRepeated = suggestUnitError
        ? !isDecided(reliable) && candidates.length > reliableDates.length &&
          (!mayBeInThousands || candidates.length >= 3)
        : new Set(similar.map(({ accn }) => accn)).size >= 2 && similar.some((fact) => !isContradicted(fact))
      const isOnBalanceSheet = balance !== undefined && !mayBeInThousands && isAlike(newest, balance)
      // If two counts contradict each other and only one of them is doubtful for other reasons, that one is wrong.
      const isBetter = reliableDates.length === 1 && countOwnReasons(reliable) > 0 && countOwnReasons(newest) === 0
      if (isRepeated || isOnBalanceSheet || isBetter) {
        if (isRepeated || (isOnBalanceSheet && isAlike(newest, reliable, maxSplitRatio))) {
          similar.forEach((fact) => jumps.delete(fact))
        }
        if (isRepeated && similar.some((fact) => !isContradicted(fact))) {
          similar.forEach((fact) => doubts.repeated.add(fact))
        }
        if (isBetter || (isRepeated && newest.val > reliable.val)) markUnitErrors(reliableDates, newest)
        if (isBetter) reliableDates.forEach((former) => markJumps(former, newest))
        rely(newest, candidates)
      }
    }
  }

  doubts.reliable = reliable
  const last = candidates.at(-1)?.newest
  if (reliable === undefined || last === undefined) return doubts
  if (suggestUnitError) markUnitErrors(candidates, reliable)
  // If the newer count is larger, the older one may be the one in thousands.
  doubts.isDoubtful = !suggestUnitError || last.val > reliable.val
  return doubts
}

// ----------------------------------------------------------------------------------------------------------------
// Prices
// ----------------------------------------------------------------------------------------------------------------

interface PriceDoubt {
  readonly float: CompanyFact
  readonly price: number
  /** Whether the price is too low. This suggests an error in the float, such as a placeholder of 1 USD. */
  readonly isLow: boolean
  readonly close: number | undefined
}

const formatNumber = (value: number) => String(Number(value.toPrecision(5)))

/**
 * Returns the public float to compare a count with: the float in the same filing or, if there is none, the latest one
 * before the count's date.
 */
const findFloat = ({ accn, end }: CompanyFact, floats: ReadonlyArray<CompanyFact>) =>
  floats.findLast((float) => float.accn === accn) ??
    floats.findLast((float) => float.date === undefined && float.end <= end && countDays(float.end, end) <= maxFloatAge)

/**
 * Divides the public float by a count. Returns undefined if the result is a plausible share price, and a doubt
 * otherwise.
 */
const findPriceDoubt = (
  count: CompanyFact,
  floats: ReadonlyArray<CompanyFact>,
  { closes, splits = [] }: Pick<CountEvidence, "closes" | "splits">,
): PriceDoubt | undefined => {
  const float = findFloat(count, floats)
  if (float === undefined) return undefined
  const counts = restate(count, [float.end], splits)
  const price = float.val / counts[0]
  const isRestatable = findSplitFactor(splits, count.end, float.end) !== undefined
  const close = float.date === undefined && isRestatable ? closes?.get(float.end) : undefined
  const [least, greatest] = close === undefined
    ? [leastPrice, maxUsualPrice]
    : [close * minShareOfClose, close * maxRatio]
  return counts.some((val) => float.val / val >= least && float.val / val <= greatest)
    ? undefined
    : { float, price, isLow: price < least, close }
}

const formatPriceDoubt = (other: string, { close, float, price }: PriceDoubt) =>
  `gives a price of ${formatNumber(price)} USD per share with the ${other}${
    close === undefined ? "" : `, but the close on ${float.end} was ${formatNumber(close)} USD`
  }`

// ----------------------------------------------------------------------------------------------------------------
// Assessment
// ----------------------------------------------------------------------------------------------------------------

/** Returns the newest fact that has an earlier date and comes from another filing that was not filed later. */
const findPrevious = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) =>
  facts.findLast(({ accn, end, filed }) => accn !== fact.accn && end < fact.end && filed <= fact.filed)

const formatJump = ({ end, val }: CompanyFact, restated = val) =>
  restated === val
    ? `is more than ten times up or down from ${val} on ${end}`
    : `does not fit ${val} on ${end}, which the splits since then make ${formatNumber(restated)}`

/**
 * Describes different values that other filings state for the same date. Ignores values that differ only by rounding.
 */
const listOthers = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) => {
  const known = [fact.val]
  for (const { end, val } of facts) {
    if (end === fact.end && !known.some((one) => one === val || isRounded(one, val))) known.push(val)
  }
  return known.slice(1).map((val) => `is ${val} in another filing for the same date`)
}

/**
 * A count is outdated if the company filed a report more than this many days after it. Companies report every year, so
 * there must be newer counts that could not be read.
 */
const maxAgeInDays = 400

/** Operators' decisions about facts. */
type DecidedFacts = ReadonlyMap<CompanyFact, NonNullable<AssessedFact["decided"]>>

/** A company's facts after applying operators' decisions and replacing implausible dates. */
interface SettledFacts {
  readonly counts: ReadonlyArray<CompanyFact>
  readonly floats: ReadonlyArray<CompanyFact>
  /** The latest count from each report's balance sheet. */
  readonly balances: ReadonlyArray<CompanyFact>
  readonly decided: DecidedFacts
}

/**
 * Applies operators' decisions and replaces implausible dates. If an operator has supplied the count for an unreadable
 * cover page, adds that count. All further steps compare only the facts returned here.
 */
const settleFacts = ({ decisions, facts, filings }: CountEvidence): SettledFacts => {
  const { cik } = facts
  const reports = new Map(filings.map((filing) => [filing.accession, filing]))
  // Keyed by object identity, so later steps must pass on the fact objects themselves, not copies.
  const decided = new Map<CompanyFact, NonNullable<AssessedFact["decided"]>>()
  const findDecision = (key: Omit<DoubtKey, "table">) =>
    decisions?.get(formatDoubtKey({ table: "historical_float_pro", ...key }))
  /** Replaces a value with the operator's value, if an operator has decided about it. */
  const decide = (fact: CompanyFact, column: string) => {
    const read = String(fact.val)
    const decision = findDecision({ url: listSources(cik, fact)[0], column, read })
    if (decision === undefined) return fact
    const changed: CompanyFact = {
      ...fact,
      val: Number(decision.value ?? fact.val),
      // The operator's count does not say how many shares each class has.
      ...(fact.instance !== undefined && { instance: { ...fact.instance, shares: undefined } }),
    }
    decided.set(changed, { read, decision })
    return changed
  }
  const corrected = facts.unreadable.flatMap(
    ({ accn, end, filed, form, hasClasses = false, read, url }): ReadonlyArray<CompanyFact> => {
      const decision = findDecision({ url, column: "outstanding_shares", read })
      if (decision === undefined) return []
      // Only counts on cover pages can be unreadable, so the path is that of a cover page count.
      const path = "dei/EntityCommonStockSharesOutstanding/shares"
      const instance = { hasClasses, classes: "", source: [url] }
      // If the operator has declared the count unknown, 1 is only a filler, because the assessment leaves the fact out.
      const fact = { accn, filed, form, end: end ?? filed, val: Number(decision.value ?? 1), path, instance }
      decided.set(fact, { read, decision })
      return [fact]
    },
  )

  const statedBalances = Array.from(
    // Facts are sorted by date, so the map keeps the newest count of each report. The others are from earlier balance
    // sheets, which the report shows for comparison.
    new Map(
      facts.balanceSheetCounts.filter(({ end, filed }) => countDays(end, filed) <= maxFactAge).map((
        count,
      ) => [count.accn, settleDate(count, false, reports.get(count.accn)?.reportDate, findDecision, cik)]),
    ).values(),
  )
  const findPeriod = (accession: string) =>
    reports.get(accession)?.reportDate ??
      statedBalances.find(({ accn, date }) => accn === accession && date === undefined)?.end
  const settle = (list: ReadonlyArray<CompanyFact>, isCover: boolean, column: string) =>
    Array.from(Map.groupBy(list, ({ accn }) => accn).entries()).flatMap(([accession, stated]) => {
      const period = findPeriod(accession)
      const certain = stated.filter((fact) => findDateDoubt(fact, isCover, period) === undefined)
      // A wrong date matters little if the same filing also states a count with a plausible date.
      return certain.length > 0
        ? stated.filter(({ end, filed }) => end <= filed && countDays(end, filed) <= maxFactAge)
        : stated.map((fact) => settleDate(fact, isCover, period, findDecision, cik))
    }).map((fact) => decide(fact, column)).toSorted(byFactDate)
  return {
    counts: [...settle(facts.counts, true, "outstanding_shares"), ...corrected].toSorted(byFactDate),
    floats: settle(facts.floats, false, "details"),
    balances: statedBalances.map((count) => decide(count, "outstanding_shares")),
    decided,
  }
}

interface DoubtedPrices {
  readonly ofCounts: ReadonlyMap<CompanyFact, PriceDoubt>
  readonly ofFloats: ReadonlyMap<CompanyFact, { readonly count: CompanyFact; readonly doubt: PriceDoubt }>
}

/**
 * Finds counts that imply an impossible share price when a public float is divided by them. Either the count or the
 * float is then doubted, whichever has less support. `getSupport` returns the number of confirming statements minus the
 * number of contradicting ones.
 */
const findDoubtedPrices = (
  counts: ReadonlyArray<CompanyFact>,
  floats: ReadonlyArray<CompanyFact>,
  { evidence, getSupport, isDecided }: {
    readonly evidence: CountEvidence
    readonly getSupport: (count: CompanyFact) => number
    readonly isDecided: (fact: CompanyFact) => boolean
  },
): DoubtedPrices => {
  const ofCounts = new Map<CompanyFact, PriceDoubt>()
  const ofFloats = new Map<CompanyFact, { readonly count: CompanyFact; readonly doubt: PriceDoubt }>()
  const { isAlike } = makeComparison(evidence.splits ?? [])
  const priced = counts.flatMap((count) => {
    const doubt = findPriceDoubt(count, floats, evidence)
    return doubt === undefined ? [] : [{ count, doubt, support: isDecided(count) ? Infinity : getSupport(count) }]
  })
  const getSupportOfFloat = (float: CompanyFact) => {
    const previous = findPrevious(float, floats)
    return previous === undefined ? 0 : isSimilar(float.val, previous.val) ? 1 : -1
  }
  for (const [float, ofFloat] of Map.groupBy(priced, ({ doubt }) => doubt.float)) {
    const best = ofFloat.toSorted((one, other) => other.support - one.support)[0]
    if (best === undefined) continue
    const advantage = isDecided(float) ? -1 : best.support - getSupportOfFloat(float)
    const isFloatWrong = advantage > 0
    if (isFloatWrong || (advantage === 0 && best.doubt.isLow)) ofFloats.set(float, best)
    for (const { count, doubt } of ofFloat) {
      // A count similar to the one that exposed the error in the float is equally credible.
      const isExcused = isDecided(count) || (isFloatWrong && isAlike(count, best.count))
      if (!isExcused) ofCounts.set(count, doubt)
    }
  }
  return { ofCounts, ofFloats }
}

/**
 * Returns the reasons to doubt a public float. `floats` must not contain values that an operator has declared unknown.
 */
const listFloatReasons = (fact: CompanyFact, floats: ReadonlyArray<CompanyFact>, { ofFloats }: DoubtedPrices) => {
  const previous = findPrevious(fact, floats)
  const same = floats.find(({ end, val }) => end < fact.end && val === fact.val)
  const price = ofFloats.get(fact)
  return [
    ...(previous === undefined || isSimilar(fact.val, previous.val) ? [] : [formatJump(previous)]),
    ...(price === undefined ? [] : [formatPriceDoubt(`${price.count.val} shares of ${price.count.end}`, price.doubt)]),
    ...listOthers(fact, floats),
    ...(same === undefined ? [] : [`was also reported for ${same.end}`]),
    ...(fact.date === undefined ? [] : [`has the date ${fact.date.stated}, which ${fact.date.reason}`]),
  ]
}

/** Determines the current count. `counts` must not contain values that an operator has declared unknown. */
const findCurrent = (
  { facts, filings, splits = [] }: CountEvidence,
  { counts, leftOut, onBalanceSheet, onCover, unknown }: {
    readonly counts: ReadonlyArray<CompanyFact>
    /** Counts that an operator has declared unknown. */
    readonly unknown: ReadonlyArray<CompanyFact>
    readonly leftOut: ReadonlySet<CompanyFact>
    readonly onBalanceSheet: CountDoubts
    readonly onCover: CountDoubts
  },
): CountAssessment["current"] => {
  const isOutdated = ({ filed }: CompanyFact) =>
    filings.some(({ filingDate, form }) => isPeriodicReport(form) && countDays(filed, filingDate) > maxAgeInDays)
  const hasCount = (accession: string) => counts.some(({ accn }) => accn === accession)
  /** Filing date of the newest filing whose cover page count is unreadable or unknown. */
  const unread = [...facts.unreadable, ...unknown].filter((count) => !isAmendment(count) && !hasCount(count.accn))
    .map(({ filed }) => filed).toSorted().at(-1)
  const [cover, balance] = [onCover.reliable, onBalanceSheet.reliable].map((count) =>
    count === undefined || isOutdated(count) || leftOut.has(count) || (unread !== undefined && count.filed < unread)
      ? undefined
      : count
  )
  const newest = counts.at(-1)
  const isNewestCurrent = newest !== undefined && !isOutdated(newest)
  if (isNewestCurrent && onCover.isDoubtful) return "doubtful"
  const isBalanceNewer = cover !== undefined && balance !== undefined && balance.end > cover.end &&
    makeComparison(splits).isAlike(balance, cover)
  return (isBalanceNewer ? balance : cover ?? balance) ??
    (unread !== undefined || (isNewestCurrent && leftOut.has(newest)) ? "doubtful" : "none")
}

/** Assesses all of a company's share counts and public floats. */
export const assessCounts = (evidence: CountEvidence): CountAssessment => {
  const { facts: { isFloatZero }, splits = [] } = evidence
  const { balances, counts, decided, floats } = settleFacts(evidence)
  const comparison = makeComparison(splits)
  const isDecided = (fact: CompanyFact) => decided.has(fact)
  const isKept = (fact: CompanyFact) => decided.get(fact)?.decision.value !== null
  const [keptCounts, keptFloats] = [counts.filter(isKept), floats.filter(isKept)]
  const isPlaceholder = (fact: CompanyFact) => fact.val < minCount && !isFloatZero && !isDecided(fact)

  const balanceSheetCounts = balances.filter((count) =>
    isDecided(count) || (count.val >= minCount && findPriceDoubt(count, keptFloats, evidence) === undefined)
  ).toSorted(byFactDate)
  /**
   * Returns whether the balance sheet contradicts its own cover, and only the close speaks against it. The cover may be
   * the wrong one then.
   */
  const isOpposed = (balance: CompanyFact) =>
    balance.val >= minCount && findPriceDoubt(balance, keptFloats, { splits }) === undefined &&
    keptCounts.some((cover) => cover.accn === balance.accn && !comparison.isAlike(cover, balance))
  const balanceByFiling = new Map(
    balances.filter((count) => balanceSheetCounts.includes(count) || isOpposed(count))
      .map((count) => [count.accn, count]),
  )

  // The first comparison ignores prices, because the support of a count determines whether a price casts doubt on it.
  const alone = { balances: balanceByFiling, comparison, isDecided, isPlaceholder }
  const unpriced = compareSeries(keptCounts, {
    ...alone,
    countOwnReasons: (fact) => isPlaceholder(fact) ? 1 : 0,
  })
  const getSupport = (count: CompanyFact) => {
    const witnesses = [balanceByFiling.get(count.accn), findPrevious(count, keptCounts)]
    const known = witnesses.flatMap((witness) => witness === undefined ? [] : [comparison.isAlike(count, witness)])
    return known.reduce((sum, agrees) => sum + (agrees ? 1 : -1), 0) -
      [isPlaceholder(count), unpriced.jumps.has(count), unpriced.unitErrors.has(count)].filter(Boolean).length
  }
  const prices = findDoubtedPrices(keptCounts, keptFloats, { evidence, getSupport, isDecided })
  const countOwnReasons = (fact: CompanyFact) => {
    const doubt = prices.ofCounts.get(fact)
    // A price above `greatestPrice` is sufficient reason on its own, because no share has ever cost that much.
    return (isPlaceholder(fact) ? 1 : 0) + (doubt === undefined ? 0 : doubt.price > greatestPrice ? 2 : 1)
  }
  const onCover = compareSeries(keptCounts, { ...alone, countOwnReasons })
  const onBalanceSheet = compareSeries(balanceSheetCounts.filter(isKept), {
    balances: new Map(),
    comparison,
    countOwnReasons: () => 0,
    isDecided,
    isPlaceholder: () => false,
  })

  const listCountReasons = (fact: CompanyFact, doubts: CountDoubts, all: ReadonlyArray<CompanyFact>) => {
    if (isDecided(fact)) return []
    const [shownBy, from, price] = [doubts.unitErrors.get(fact), doubts.jumps.get(fact), prices.ofCounts.get(fact)]
    const balance = all === keptCounts ? balanceByFiling.get(fact.accn) : undefined
    const contradictsBalance = balance !== undefined && balance !== shownBy && !comparison.isAlike(fact, balance) &&
      !doubts.repeated.has(fact)
    return [
      ...(shownBy !== undefined
        ? [`differs from ${shownBy.val} on ${shownBy.end} as if it were in another unit, such as thousands`]
        : from !== undefined
        ? [formatJump(from, restate(from, [fact.end], splits)[0])]
        : []),
      ...(contradictsBalance ? [`differs from ${balance.val} on the balance sheet of ${balance.end}`] : []),
      ...(price === undefined ? [] : [formatPriceDoubt(`public float of ${price.float.val} USD`, price)]),
      ...(isPlaceholder(fact) ? ["is so small that it may be a placeholder"] : []),
      // A count is not contradicted by a count that has more reasons against it.
      ...listOthers(
        fact,
        all.filter((one) =>
          !doubts.unitErrors.has(one) && (isDecided(one) || countOwnReasons(one) <= countOwnReasons(fact))
        ),
      ),
    ]
  }
  const assess = (fact: CompanyFact, reasons: ReadonlyArray<string>, isImpossible = false): AssessedFact => ({
    fact,
    reasons,
    isLeftOut: !isKept(fact) || reasons.length >= 2 || isImpossible,
    decided: decided.get(fact),
  })
  const assessedCounts = counts.map((fact) =>
    assess(fact, listCountReasons(fact, onCover, keptCounts), countOwnReasons(fact) >= 2)
  )
  const leftOut = new Set(assessedCounts.flatMap(({ fact, isLeftOut }) => isLeftOut ? [fact] : []))
  return {
    counts: assessedCounts,
    balanceSheetCounts: balanceSheetCounts.map((fact) =>
      assess(fact, listCountReasons(fact, onBalanceSheet, balances.filter(isKept)))
    ),
    floats: floats.map((fact) => assess(fact, isDecided(fact) ? [] : listFloatReasons(fact, keptFloats, prices))),
    current: findCurrent(
      evidence,
      { counts: keptCounts, unknown: counts.filter((fact) => !isKept(fact)), leftOut, onBalanceSheet, onCover },
    ),
  }
}

/**
 * The current number of shares outstanding, with the columns that describe its source. All columns are null if it is
 * unknown.
 */
export const CurrentCount = Schema.Struct({
  outstanding: Schema.NullOr(Schema.String),
  reported_date: Schema.NullOr(Schema.String),
  filed_at: Schema.NullOr(Schema.String),
  document_url: Schema.NullOr(Schema.String),
  /** URLs of the documents that state the count. */
  source: Schema.Array(Schema.String),
})
export type CurrentCount = typeof CurrentCount.Type

export const unknownCount: CurrentCount = {
  outstanding: null,
  reported_date: null,
  filed_at: null,
  document_url: null,
  source: [],
}
