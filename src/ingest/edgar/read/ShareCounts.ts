/**
 * Determines which of a company's share counts and public floats are credible and which count is current, by
 * cross-checking everything that the company's filings state (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Schema } from "effect"
import { countDays } from "../../../contract/rules/Dates.ts"
import { toSymbolKey } from "../../../contract/rules/Tickers.ts"
import {
  byFactDate,
  type ClassShares,
  type CompanyFact,
  type CompanyFacts,
  isPeriodicReport,
  listSources,
  type UnreadableCount,
} from "./CompanyFacts.ts"
import { type Decision, type Decisions, type DoubtKey, formatDoubtKey } from "./Doubt.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** The largest factor between two public floats, or between a price and a close, that are still considered similar. */
const maxRatio = 10

/**
 * The largest factor between the share counts of two filings that are still considered similar. It is below ten,
 * because a lost or doubled digit makes a factor of about ten, less what the number has changed since.
 */
const maxCountRatio = 8

/**
 * The largest factor between a cover page and the balance sheet in the same filing, whose dates are at most
 * `maxDaysInFiling` apart.
 */
const maxRatioInFiling = 3

/**
 * As `maxRatioInFiling`, if the cover page states classes, because a wrong or forgotten class changes the sum only a
 * little.
 */
const maxRatioOfSum = 1.25

/** The largest factor between a number that an operator has corrected and another one with the same error. */
const maxRatioOfErrors = 1.1

/** The largest number of days between the dates of a cover page and of a balance sheet that are compared closely. */
const maxDaysInFiling = 100

/** Returns whether the values differ by at most the factor `ratio`. */
const isSimilar = (a: number, b: number, ratio = maxRatio) => a / b <= ratio && b / a <= ratio

/**
 * Largest factor between a count and the previous reliable count that the balance sheet in the same filing can confirm
 * on its own. A larger factor may be a unit error (thousands instead of shares), which often affects the cover page and
 * the balance sheet of a filing alike.
 */
const maxSplitRatio = 100

/** Units in which filings state numbers of shares by mistake, or to which they round them. */
const roundingUnits = [1_000, 1_000_000]

/**
 * Returns whether `small` is roughly 1,000 or 1,000,000 times smaller than `large`, as if it were stated in thousands
 * or millions.
 */
const isInThousandsOf = (small: number, large: number) =>
  roundingUnits.some((unit) => large / small >= unit / 2 && large / small <= unit * 2)

/**
 * Returns whether the values could be the same number, one of them rounded to thousands or millions. For example,
 * 25,123,000 is a rounded 25,123,456.
 */
const isRounded = (a: number, b: number) =>
  roundingUnits.some((unit) => Math.abs(a - b) < unit && [a, b].some((one) => one % unit === 0 && one >= unit * 1_000))

/**
 * Counts below this are probably placeholders that a filer entered in place of the real number, such as 1, 100, or
 * 1,000.
 */
const minCount = 10_000

/** Few companies have more shares than this. A count that is larger is not stated in thousands. */
const maxUsualCount = 10_000_000_000

/**
 * Limits for prices per share, in US dollars. A price outside of `leastPrice` to `maxUsualPrice` suggests an error:
 * among listed shares, only Berkshire Hathaway's (about 700,000) have ever cost more. A price above `greatestPrice`
 * proves an error: no share has ever cost that much.
 */
const [leastPrice, maxUsualPrice, greatestPrice] = [0.0001, 10_000, 9_999_999]

/**
 * Minimum ratio of the computed price (public float divided by share count) to the closing price. The computed price is
 * normally somewhat below the close, because the float excludes the shares held by affiliates. If the count is a
 * thousand times too large, the ratio is at most 0.001.
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
 * Maximum number of days that the date of a cover page count may precede the end of the period that the report covers.
 * The tolerance is for periods whose end varies, such as a fiscal year of 52 weeks.
 */
const maxDaysBeforePeriod = 7

/**
 * Maximum number of days between the date of a cover page count and the filing date, if the period that the report
 * covers is unknown. The date is normally a few weeks before the filing date, so an earlier date is considered wrong.
 */
const maxCoverAge = 300

/** Ten years, in days. An XBRL fact that is dated longer before its filing than this has a wrong date. */
const maxFactAge = 3_650

/** The fields of a filing in the company's filing list that are compared with the XBRL facts. */
export type ListedReport = Pick<EdgarFiling, "accession" | "filingDate" | "form" | "reportDate">

/** A split of the security that the share counts and closing prices refer to. */
export interface KnownSplit {
  readonly day: string
  /** The number of shares that one share became. Null if it is unknown, or if sources disagree. */
  readonly ratio: number | null
}

/** Everything that a company's share counts and public floats are checked against. */
export interface CountEvidence {
  readonly facts: CompanyFacts
  readonly filings: ReadonlyArray<ListedReport>
  /** Closing prices in US dollars, by the dates of public floats. */
  readonly closes?: ReadonlyMap<string, number> | undefined
  readonly splits?: ReadonlyArray<KnownSplit> | undefined
  /** The current symbols of the company. */
  readonly tickers?: ReadonlyArray<string> | undefined
  readonly decisions?: Decisions | undefined
}

/**
 * A share count or public float together with the reasons to doubt its value. With one reason, it is published and
 * marked as unconfirmed. With two, it is left out of the row.
 */
export interface AssessedFact {
  readonly fact: CompanyFact
  /** Reasons as clauses, such as "differs from 25123000 on 2025-02-15". */
  readonly reasons: ReadonlyArray<string>
  readonly isLeftOut: boolean
  /** If an operator has decided about the value: the value that the filing states (`read`) and the decision. */
  readonly decided?: { readonly read: string; readonly decision: Decision } | undefined
}

/** A company's share counts and public floats, each with the reasons to doubt it. */
export interface CountAssessment {
  /** Counts from cover pages. */
  readonly counts: ReadonlyArray<AssessedFact>
  /**
   * Credible counts from balance sheets, at most one per report. The counts of earlier dates that a report repeats for
   * comparison are not included.
   */
  readonly balanceSheetCounts: ReadonlyArray<AssessedFact>
  readonly floats: ReadonlyArray<AssessedFact>
  /**
   * The company's current count. It is `none` if the facts contain no usable count, and `doubtful` if the count has
   * probably changed but the new one is not credible.
   */
  readonly current: CompanyFact | "none" | "doubtful"
  /** The known splits around the current count. Market caps restate it for those that it does not include. */
  readonly countedSplits: ReadonlyArray<CountedSplit>
}

// ----------------------------------------------------------------------------------------------------------------
// Dates
// ----------------------------------------------------------------------------------------------------------------

/** Returns whether the filing amends an earlier one, as Form 10-K/A does. */
const isAmendment = ({ form }: Pick<CompanyFact, "form">) => form.endsWith("/A")

/**
 * Returns why the date of a fact cannot be right, as a clause such as "is after the filing", or undefined if it is
 * plausible. Cover page counts (`isCover`) are checked more strictly, because they are as of a day shortly before the
 * filing. `period` is the last day of the period that the report covers, if known.
 */
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
 * Returns the fact with a usable date (`end`). A plausible date does not change. An implausible date is replaced:
 *
 * - with the date that an operator has set, if any;
 * - for an amendment, with `period`, the last day of the period that the report covers, so that its count is sorted
 *   next to the count in the amended report;
 * - otherwise with the filing date, so that the order of the filings determines which count is the newest.
 *
 * The last two are only substitutes for sorting. The field `date` then contains the date that the filing states and the
 * date to publish in its place: `period`, or null if an operator has declared the date unknown. `findDecision` returns
 * the operator's decision about a value of this company.
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
  const dateForSorting = isAmendment(fact) && period !== undefined ? period : fact.filed
  const isDeclaredUnknown = decision !== undefined
  return {
    ...fact,
    end: dateForSorting,
    date: isDeclaredUnknown
      // No reason, because the date is no longer an open doubt.
      ? { stated: fact.end, published: null, reason: null }
      : { stated: fact.end, published: period ?? null, reason },
  }
}

// ----------------------------------------------------------------------------------------------------------------
// Splits
// ----------------------------------------------------------------------------------------------------------------

/** Whether a count is stated in the shares after a split, by the day of the split. Undecided splits are absent. */
type DecidedSplits = ReadonlyMap<string, boolean>

const noneDecided: DecidedSplits = new Map()

/** A count at one end of a comparison: its day, and what is known about the splits around it. */
interface SplitBasis {
  readonly day: string
  readonly decided: DecidedSplits
}

const isAfter = (split: KnownSplit, { day, decided }: SplitBasis) => !(decided.get(split.day) ?? split.day <= day)

/**
 * Returns the number of shares at `to` that correspond to one share at `from`. For example, the factor is 4 if a
 * 4-for-1 split lies in between, and 1/4 if the two are swapped. Returns undefined if the ratio of a split in between
 * is unknown.
 */
const findFactorBetween = (
  splits: ReadonlyArray<KnownSplit>,
  from: SplitBasis,
  to: SplitBasis,
): number | undefined =>
  splits.filter((split) => isAfter(split, from) !== isAfter(split, to)).reduce(
    // Once a ratio is unknown, the product remains undefined.
    (product: number | undefined, split) =>
      product === undefined || split.ratio === null
        ? undefined
        : isAfter(split, from)
        ? product * split.ratio
        : product / split.ratio,
    1,
  )

/** As `findFactorBetween`, for two days. */
const findSplitFactor = (splits: ReadonlyArray<KnownSplit>, from: string, to: string) =>
  findFactorBetween(splits, { day: from, decided: noneDecided }, { day: to, decided: noneDecided })

/**
 * Returns what a count may be on one of the `days`, after the splits between its date and that day. There are several
 * candidates, because it is not known whether the filing has already adjusted the count for splits up to the filing
 * date, and because recorded split dates can be inexact, unless the evidence decides it: `decided` for the count, and
 * `decidedThere` for the count of these days. The first candidate assumes that the count is as of its own date and
 * applies to the first day. If a ratio is unknown, the count is not adjusted.
 */
const restate = (
  { end, filed, val }: CompanyFact,
  days: ReadonlyArray<string>,
  splits: ReadonlyArray<KnownSplit>,
  { decided, decidedThere }: { readonly decided: DecidedSplits; readonly decidedThere: DecidedSplits } = {
    decided: noneDecided,
    decidedThere: noneDecided,
  },
): readonly [number, ...Array<number>] => {
  const isNear = ({ day }: KnownSplit) =>
    [...(decided.has(day) ? [] : [end, filed]), ...(decidedThere.has(day) ? [] : days)]
      .some((other) => Math.abs(countDays(day, other)) <= maxSplitDelay)
  const restateWith = (known: ReadonlyArray<KnownSplit>) =>
    [end, filed].flatMap((from) =>
      days.map((to) => {
        const factor = findFactorBetween(known, { day: from, decided }, { day: to, decided: decidedThere })
        return { from, to, factor: factor ?? 1 }
      })
    )
  const others = splits.filter((split) => !isNear(split))
  // The splits near one of the dates may be on either side of it.
  const inBetween = splits.filter(isNear).reduce((product, { ratio }) => product * (ratio ?? 1), 1)
  const [first = val, ...rest] = [
    ...restateWith(splits).map(({ factor }) => factor * val),
    ...restateWith(others).flatMap(({ factor, from, to }) => {
      const all = from <= to ? factor * inBetween : factor / inBetween
      return [factor * val, all * val]
    }),
  ]
  return [first, ...rest]
}

/** A known split around the date of a count and its filing. */
export interface CountedSplit {
  readonly day: string
  /** Whether the count is stated in the shares after the split. Null if nothing decides it. */
  readonly isCounted: boolean | null
}

/** The smallest factor by which a number of shares plausibly changes in a year, except by a split. */
const minGrowth = 2 / 3

/** The largest factor by which a number of shares plausibly grows in a year, for a company with a forward split. */
const maxGrowth = 1.5

/**
 * As `maxGrowth`, for a company with a reverse split, which often issues many shares. It is below ten, so that reverse
 * splits of 1 for 10 or more can be recognized.
 */
const maxGrowthWithReverseSplit = 9

/**
 * Returns the position of the only one of the `factors` of splits that explains the change from one number of shares to
 * another, or undefined if several do, or none does. The rest of the change must be plausible without a split. For
 * example, neither reading of 1,200,000 shares can be excluded if 1,000,000 came before a split of 5 for 4: they may
 * include the split, or 200,000 new shares.
 */
const findOnlyExplanation = (factors: ReadonlyArray<number>, from: number, to: number, isReverse: boolean) => {
  const largest = isReverse ? maxGrowthWithReverseSplit : maxGrowth
  const plausible = factors.flatMap((factor, position) => {
    const growth = to / (from * factor)
    return growth >= minGrowth && growth <= largest ? [position] : []
  })
  return plausible.length === 1 ? plausible[0] : undefined
}

/** What decides which splits a count includes. */
interface SplitEvidence {
  /** The balance sheet in the same filing. */
  readonly balance: CompanyFact | undefined
  /** Other counts of the company that are certain, sorted by date. */
  readonly certain: ReadonlyArray<CompanyFact>
  readonly splits: ReadonlyArray<KnownSplit>
}

/**
 * Returns the splits around a count (`near`), and how many of them it includes according to each witness (`witnessed`).
 * Filings restate the counts on their cover page for splits until the filing, or do not, and the recorded day of a
 * split may be wrong by a week. The witnesses are:
 *
 * - the newest of the `certain` counts that was filed before all of these splits, if only one number of splits explains
 *   the change since then;
 * - the balance sheet in the same filing, if its number differs by the ratio of the splits.
 */
const weighSplits = (count: CompanyFact, { balance, certain, splits }: SplitEvidence) => {
  const { accn, end, val } = count
  const isAround = ({ day }: KnownSplit, one: CompanyFact) =>
    countDays(one.end, day) >= -maxSplitDelay && countDays(day, one.filed) >= -maxSplitDelay
  const near = splits.filter((split) => isAround(split, count))
  const isKnown = near.every(({ ratio }) => ratio !== null)
  /** The factors by which the first 0, 1, 2 … of these splits change a number of shares. */
  const factors = near.reduce<ReadonlyArray<number>>(
    (products, { ratio }) => products.concat((products.at(-1) ?? 1) * (ratio ?? 1)),
    [1],
  )
  const isReverse = factors.some((factor) => factor < 1)
  const previous = certain.findLast((other) =>
    other.accn !== accn && other.end < end && near.every(({ day }) => countDays(other.filed, day) > maxSplitDelay)
  )
  const others = splits.filter((split) => !near.includes(split))
  // What the previous count includes must be certain.
  const change = previous === undefined || others.some((split) => isAround(split, previous))
    ? undefined
    : findSplitFactor(others, previous.end, end)
  const byPrevious = isKnown && previous !== undefined && change !== undefined
    ? findOnlyExplanation(factors, previous.val * change, val, isReverse)
    : undefined
  // If the two numbers are in different shares, their ratio is that of a split, in one direction or the other.
  const pairs = factors.flatMap((cover, included) => factors.map((other) => ({ included, ratio: cover / other })))
  const ratios = Array.from(Map.groupBy(pairs, ({ ratio }) => ratio).values())
  const pair = isKnown && balance !== undefined
    ? ratios[findOnlyExplanation(ratios.map(([first]) => first?.ratio ?? 1), balance.val, val, isReverse) ?? -1]
    : undefined
  const byBalance = pair?.length === 1 ? pair[0]?.included : undefined
  return { near, witnessed: new Set([byPrevious, byBalance].filter((included) => included !== undefined)) }
}

/** Returns which splits around a count it includes, if the witnesses tell and do not contradict each other. */
const findDecidedSplits = (count: CompanyFact, evidence: SplitEvidence): DecidedSplits => {
  const { near, witnessed } = weighSplits(count, evidence)
  const [included] = witnessed
  return included === undefined || witnessed.size > 1
    ? noneDecided
    : new Map(near.map(({ day }, position) => [day, position < included]))
}

/**
 * Decides for each split around a count whether the count is stated in the shares after it. Without a witness, the
 * dates decide for a split before the date of the count or after the filing.
 */
const findCountedSplits = (count: CompanyFact, evidence: SplitEvidence): ReadonlyArray<CountedSplit> => {
  const { date, end, filed } = count
  const { near, witnessed } = weighSplits(count, evidence)
  const decided = findDecidedSplits(count, evidence)
  return near.map(({ day }) => ({
    day,
    isCounted: decided.get(day) ??
      (witnessed.size > 1 || date !== undefined || (end < day && day <= filed) ? null : day <= end),
  }))
}

/**
 * Returns whether a class on one cover page appears to be in thousands or millions of the shares that another cover
 * page states for it. If the sum of all classes is not smaller, its shares were converted into those of another class.
 */
const hasClassInThousandsOf = (small: CompanyFact, large: CompanyFact) =>
  small.val < large.val &&
  Array.from(small.instance?.shares ?? []).some(([name, { shares }]) =>
    isInThousandsOf(shares, large.instance?.shares?.get(name)?.shares ?? shares)
  )

/**
 * Returns whether a class differs so much between two cover pages that one of its numbers is an error, such as one with
 * a lost digit, although the sums of all classes are similar. Most of the difference must be in the sum, too, because
 * shares may be converted into those of another class.
 */
const hasClassError = (a: CompanyFact, b: CompanyFact) =>
  isSimilar(a.val, b.val, maxCountRatio) &&
  Array.from(a.instance?.shares ?? []).some(([name, { shares }]) => {
    const other = b.instance?.shares?.get(name)?.shares ?? shares
    const difference = shares - other
    return !isSimilar(shares, other, maxCountRatio) &&
      (a.val - b.val) * Math.sign(difference) >= Math.abs(difference) / 2
  })

/** Returns the count with another number of shares, and each class changed by the same factor. */
const changeCount = (fact: CompanyFact, val: number): CompanyFact => {
  const shares = fact.instance?.shares
  if (fact.instance === undefined || shares === undefined) return { ...fact, val }
  const changed = Array.from(shares, ([name, one]) => [name, { ...one, shares: one.shares * val / fact.val }] as const)
  return { ...fact, val, instance: { ...fact.instance, shares: new Map(changed) } }
}

/** A class that a cover page lacks although the one before states it. */
interface MissingClass extends ClassShares {
  /** Whether the symbol of the class is still one of the company's, so that the class was only forgotten. */
  readonly isListed: boolean
}

/**
 * The smallest part of all shares that a class must have had for its absence to be noticed if it has no symbol. Shares
 * that are bought back in a quarter are fewer.
 */
const minMissingPart = 0.1

/**
 * Returns a class that the earlier of two cover pages states and that the later one seems to have forgotten, or
 * undefined if there is none:
 *
 * - a class whose symbol the company still has, unless the later page states it for another class;
 * - another class with a tenth of the shares or more, if most of its shares are missing in the sum, too. Otherwise,
 *   they may have been converted into those of another class.
 *
 * If the later page has only a total, or all its classes have other names, its sum tells for a class with a symbol,
 * too.
 */
const findMissingClass = (
  a: CompanyFact,
  b: CompanyFact,
  { splits = [], tickers = [] }: Pick<CountEvidence, "splits" | "tickers">,
): MissingClass | undefined => {
  const [earlier, later] = byFactDate(a, b) <= 0 ? [a, b] : [b, a]
  const [before, after] = [earlier.instance?.shares, later.instance?.shares]
  if (before === undefined || before.size < 2 || !later.path.startsWith("dei/")) return undefined
  const hasCommonName = Array.from(before.keys()).some((name) => after?.has(name))
  const stated = new Set(Array.from(after?.values() ?? [], ({ symbol }) => symbol))
  const factor = findSplitFactor(splits, earlier.end, later.end) ?? 1
  return Array.from(before).flatMap(([name, one]): ReadonlyArray<MissingClass> => {
    const { symbol } = one
    const isListed = symbol !== null && !stated.has(symbol) &&
      tickers.some((ticker) => toSymbolKey(ticker) === toSymbolKey(symbol))
    const shares = one.shares * factor
    const isMissingInSum = shares >= earlier.val * factor * minMissingPart &&
      earlier.val * factor - later.val >= shares / 2
    const isForgotten = hasCommonName
      ? after?.has(name) === false && (isListed || isMissingInSum)
      : isListed && isMissingInSum
    return isForgotten ? [{ ...one, shares, isListed }] : []
  }).toSorted((one, other) => other.shares - one.shares)[0]
}

/**
 * Creates functions that compare counts after adjusting them for the splits between their dates:
 *
 * - `isAlike`: whether the counts, and those of each class, differ by at most the factor `ratio`, and the later one
 *   lacks no class of the earlier one
 * - `findMissingClass`: the class that the later count lacks
 * - `restateFor`: what the first count may be in the shares of the second one (see `restate`)
 * - `agreesWithBalance`: whether a count from a cover page agrees with the balance sheet in the same filing
 * - `isInSmallerUnit`: whether the first count, or one of its classes, appears to be in thousands or millions of shares
 *   while the second one is in shares
 * - `differsInUnit`: whether this is so for either count
 */
const makeComparison = (
  { splits = [], tickers }: Pick<CountEvidence, "splits" | "tickers">,
  decidedSplits: ReadonlyMap<CompanyFact, DecidedSplits> = new Map(),
) => {
  /** What the first count may be in the shares of the second one. */
  const restateFor = (a: CompanyFact, b: CompanyFact) =>
    restate(a, [b.end, b.filed], splits, {
      decided: decidedSplits.get(a) ?? noneDecided,
      decidedThere: decidedSplits.get(b) ?? noneDecided,
    })
  /** The same number before and after a known split is an error, such as a count copied from the previous report. */
  const isAlike = (a: CompanyFact, b: CompanyFact, ratio = maxCountRatio) =>
    findMissingClass(a, b, { splits, tickers }) === undefined &&
    restateFor(a, b).some((val) => {
      const restated = changeCount(a, val)
      return !hasClassInThousandsOf(restated, b) && !hasClassInThousandsOf(b, restated) &&
        !hasClassError(restated, b) && isSimilar(val, b.val, a.val === b.val ? 1 : ratio)
    })
  /** Returns whether the first count appears to be in thousands or millions of shares while the second one is not. */
  const isInSmallerUnit = (small: CompanyFact, large: CompanyFact) =>
    !isAlike(small, large) &&
    restateFor(small, large).some((val) =>
      isInThousandsOf(val, large.val) || hasClassInThousandsOf(changeCount(small, val), large)
    )
  const differsInUnit = (a: CompanyFact, b: CompanyFact) => isInSmallerUnit(a, b) || isInSmallerUnit(b, a)
  const agreesWithBalance = (cover: CompanyFact, balance: CompanyFact) => {
    const isClose = Math.abs(countDays(balance.end, cover.end)) <= maxDaysInFiling &&
      findSplitFactor(splits, balance.end, cover.filed) !== undefined
    const names = Array.from(cover.instance?.shares?.keys() ?? [])
    const ratio = names.some((name) => name !== "") ? maxRatioOfSum : maxRatioInFiling
    return isAlike(cover, balance, isClose ? ratio : maxCountRatio)
  }
  return {
    restateFor,
    agreesWithBalance,
    isAlike,
    isInSmallerUnit,
    differsInUnit,
    findMissingClass: (a: CompanyFact, b: CompanyFact) => findMissingClass(a, b, { splits, tickers }),
  }
}

type CountComparison = ReturnType<typeof makeComparison>

// ----------------------------------------------------------------------------------------------------------------
// Series
// ----------------------------------------------------------------------------------------------------------------

/** All counts of the company for one date, from one or several filings, sorted by filing date. */
interface DatedCounts {
  /**
   * The count that represents the date when dates are compared: the one that an operator has decided on, or otherwise
   * the newest of those with the fewest reasons to doubt them. The newest is preferred because a later filing may
   * correct an earlier one.
   */
  readonly newest: CompanyFact
  readonly facts: ReadonlyArray<CompanyFact>
}

/** The result of comparing a company's counts with each other over time (`compareSeries`). */
class CountDoubts {
  /**
   * Counts that are probably in a wrong unit, such as thousands of shares, each with the other count that shows this.
   */
  readonly unitErrors = new Map<CompanyFact, CompanyFact>()
  /**
   * Unconfirmed counts that differ from the last reliable count before them by a factor of more than eight, each
   * with that reliable count.
   */
  readonly jumps = new Map<CompanyFact, CompanyFact>()
  /**
   * Counts that contradict their own balance sheet, but that another filing without such a contradiction repeats. The
   * contradiction is then no reason to doubt them.
   */
  readonly repeated = new Set<CompanyFact>()
  /** Counts that repeat an error that an operator has corrected. */
  readonly knownErrors = new Set<CompanyFact>()
  /** The newest reliable count. */
  reliable: CompanyFact | undefined
  /** Whether a count newer than `reliable` is unconfirmed but may be right, so that the current count is uncertain. */
  isDoubtful = false
}

/** What `compareSeries` takes into account in addition to the counts themselves. */
interface SeriesEvidence {
  /** The count on the balance sheet of each filing, by accession number. */
  readonly balances: ReadonlyMap<string, CompanyFact>
  /**
   * Returns how many reasons there are to doubt a count regardless of other counts, such as an impossible share price.
   */
  readonly countOwnReasons: (fact: CompanyFact) => number
  readonly isPlaceholder: (fact: CompanyFact) => boolean
  readonly isDecided: (fact: CompanyFact) => boolean
  /** Returns whether the count is like one that an operator has replaced in another document of the company. */
  readonly isKnownError: (fact: CompanyFact) => boolean
  readonly comparison: CountComparison
}

/** Returns the newest fact with the lowest `rank`. */
const findBest = (facts: ReadonlyArray<CompanyFact>, rank: (fact: CompanyFact) => number) => {
  const lowest = Math.min(...facts.map(rank))
  return facts.findLast((fact) => rank(fact) === lowest)
}

/**
 * Returns whether a count and the balance sheet in its filing are in different units and the count is the wrong one. A
 * unit error makes a number too small, so this is the smaller number, unless only the balance sheet agrees with the
 * last reliable count.
 */
const isInOtherUnit = (
  { isAlike, isInSmallerUnit }: CountComparison,
  count: CompanyFact,
  balance: CompanyFact,
  reliable: CompanyFact | undefined,
) =>
  isInSmallerUnit(count, balance) ||
  (isInSmallerUnit(balance, count) && reliable !== undefined && isAlike(balance, reliable) && !isAlike(count, reliable))

/**
 * Finds the counts that contradict earlier or later counts of the same company, and the newest reliable count. `counts`
 * must be sorted by date. Each is compared with the last reliable count before it:
 *
 * - The first count is reliable, and so is each count that an operator has decided on.
 * - A count that is similar to the last reliable one is reliable.
 * - A count with two or more reasons of its own to doubt it never becomes reliable, and neither does a later
 *   placeholder.
 * - If a count differs by a factor of more than eight, it becomes reliable if its filing's balance sheet agrees with
 *   it, or if another filing (the next report or an amendment) repeats it.
 * - If a count lacks a class of the last reliable one, its filing's balance sheet can confirm it, or three reports, but
 *   neither if the company still has the symbol of the class.
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
  { balances, comparison, countOwnReasons, isDecided, isKnownError, isPlaceholder }: SeriesEvidence,
) => {
  const { agreesWithBalance, differsInUnit, findMissingClass, isAlike } = comparison
  const doubts = new CountDoubts()
  const { jumps, unitErrors } = doubts
  /** Marks those counts for these dates whose unit differs from that of the count `shownBy`. */
  const markUnitErrors = (dates: ReadonlyArray<DatedCounts>, shownBy: CompanyFact) => {
    for (const fact of dates.flatMap(({ facts }) => facts)) {
      if (differsInUnit(fact, shownBy) && !isDecided(fact)) unitErrors.set(fact, shownBy)
    }
  }
  /** Marks the counts of a date that differ from the count `from` by a factor of more than eight. */
  const markJumps = ({ facts }: DatedCounts, from: CompanyFact) => {
    for (const fact of facts) if (!isAlike(fact, from) && !isDecided(fact)) jumps.set(fact, from)
  }
  /** The newest count that is considered right. */
  let reliable: CompanyFact | undefined
  /** The dates whose counts confirm `reliable`, oldest first. */
  let reliableDates: ReadonlyArray<DatedCounts> = []
  /**
   * Consecutive dates after `reliableDates` whose counts are similar to each other but differ from `reliable`. They
   * replace `reliable` once there is enough evidence for them.
   */
  let candidates: ReadonlyArray<DatedCounts> = []
  /** Whether the first of the candidates differs from `reliable` by a factor of about 1,000 or 1,000,000. */
  let suggestUnitError = false
  /** Returns whether the balance sheet in the count's own filing contradicts the count. */
  const isContradicted = (fact: CompanyFact) => !isAlike(fact, balances.get(fact.accn) ?? fact)
  /**
   * Withdraws the doubt about the counts of the last reliable date that contradict their own balance sheet, if the
   * count `newest`, from a later report, confirms them. The contradiction is then explained by an event after the
   * balance sheet date, such as an issue of shares.
   */
  const excusePrevious = (newest: CompanyFact) => {
    if (!agreesWithBalance(newest, balances.get(newest.accn) ?? newest)) return
    for (const fact of reliableDates.at(-1)?.facts ?? []) {
      const balance = balances.get(fact.accn)
      const mayBeEvent = balance !== undefined && isAlike(fact, balance, maxSplitRatio)
      if (mayBeEvent && isAlike(fact, newest, maxRatioInFiling)) doubts.repeated.add(fact)
    }
  }
  const rely = (count: CompanyFact, dates: ReadonlyArray<DatedCounts>) => {
    reliable = count
    reliableDates = dates
    candidates = []
  }
  /** Accepts the first count, or a count that is similar to the last reliable one (`previous`), as reliable. */
  const acceptSimilar = (date: DatedCounts, previous: CompanyFact | undefined) => {
    const { newest } = date
    // Confirm counts that were contradicted only by a doubtful count.
    for (const fact of reliableDates.flatMap(({ facts }) => facts)) {
      if (isAlike(fact, newest)) jumps.delete(fact)
    }
    if (previous !== undefined) {
      // The candidates in between were followed by a return to the former count, so they are refuted.
      markUnitErrors(candidates, previous)
      // Other filings may state different counts for the same date.
      markJumps(date, previous)
      excusePrevious(newest)
    }
    rely(newest, [...reliableDates, date])
  }
  /**
   * Handles a count that differs from the last reliable one (`former`): marks it, adds it to the candidates, and
   * accepts the candidates if there is enough evidence for them. The evidence can be that they are repeated, that the
   * balance sheet agrees with the count, or that there are other reasons to doubt `former`.
   */
  const judgeJump = (date: DatedCounts, former: CompanyFact) => {
    const { newest } = date
    const balance = balances.get(newest.accn)
    markJumps(date, former)
    const lastCandidate = candidates.at(-1)?.newest
    if (lastCandidate !== undefined && isAlike(newest, lastCandidate)) candidates = [...candidates, date]
    else {
      suggestUnitError = lastCandidate === undefined && differsInUnit(newest, former)
      candidates = [date]
    }
    const similar = candidates.flatMap(({ facts }) => facts.filter((fact) => isAlike(fact, newest)))
    /** Those that the newest one repeats so closely that they have no lost or doubled digit. */
    const repeated = similar.filter((fact) => isAlike(fact, newest, maxRatioInFiling))
    const isConfirmedByOther = similar.some((fact) => !isContradicted(fact))
    // A unit error usually makes a count too small, often throughout the report, so a smaller count needs more
    // evidence.
    const mayBeInThousands = suggestUnitError && newest.val < former.val
    const missing = findMissingClass(newest, former)
    // The number of the last report, although a split lies between, was copied, however many reports copy it. A class
    // that was forgotten once may be forgotten again.
    const isRepeated = newest.val === former.val || missing?.isListed === true
      ? false
      : missing !== undefined
      ? candidates.length >= 3
      : suggestUnitError
      ? !isDecided(former) && candidates.length > reliableDates.length &&
        (!mayBeInThousands || candidates.length >= 3)
      : new Set(similar.map(({ accn }) => accn)).size >= 2 && isConfirmedByOther
    const isOnBalanceSheet = balance !== undefined && !mayBeInThousands && isAlike(newest, balance) &&
      (missing === undefined || (!missing.isListed && balance.val - newest.val < missing.shares / 2))
    // If two counts contradict each other and only the former has reasons of its own to doubt it, the former is wrong.
    const isBetter = reliableDates.length === 1 && countOwnReasons(former) > 0 && countOwnReasons(newest) === 0
    if (!isRepeated && !isOnBalanceSheet && !isBetter) return
    if (isRepeated || (isOnBalanceSheet && isAlike(newest, former, maxSplitRatio))) {
      repeated.forEach((fact) => jumps.delete(fact))
    }
    if (isRepeated && isConfirmedByOther) repeated.forEach((fact) => doubts.repeated.add(fact))
    if (isBetter || (isRepeated && newest.val > former.val)) markUnitErrors(reliableDates, newest)
    if (isBetter) reliableDates.forEach((formerDate) => markJumps(formerDate, newest))
    rely(newest, candidates)
  }

  for (const facts of Map.groupBy(counts, ({ end }) => end).values()) {
    // The rank -1 puts counts that an operator has decided on before all others.
    const newest = findBest(facts, (fact) => isDecided(fact) ? -1 : countOwnReasons(fact))
    if (newest === undefined) continue
    const date = { newest, facts }
    const balance = balances.get(newest.accn)
    const sameError = Array.from(unitErrors).findLast(([fact]) => isAlike(fact, newest))
    if (isDecided(newest)) {
      rely(newest, [date])
    } else if (
      countOwnReasons(newest) >= 2 || (reliable !== undefined &&
        (isPlaceholder(newest) || (isKnownError(newest) && !differsInUnit(newest, reliable))))
    ) {
      // Such a count is marked but never becomes reliable, however often it is repeated. A placeholder is accepted only
      // as the first count.
      if (reliable !== undefined) markJumps(date, reliable)
      if (isKnownError(newest)) doubts.knownErrors.add(newest)
    } else if (balance !== undefined && isInOtherUnit(comparison, newest, balance, reliable)) {
      markUnitErrors([date], balance)
    } else if (reliable === undefined && sameError !== undefined) {
      markUnitErrors([date], sameError[1])
    } else if (reliable === undefined || isAlike(newest, reliable)) {
      acceptSimilar(date, reliable)
    } else {
      judgeJump(date, reliable)
    }
  }

  doubts.reliable = reliable
  const last = candidates.at(-1)?.newest
  if (reliable === undefined || last === undefined) return doubts
  // The series ends with candidates that nothing has confirmed or refuted.
  if (suggestUnitError) markUnitErrors(candidates, reliable)
  // If the newer count is larger, the older one may be the one in thousands.
  doubts.isDoubtful = !suggestUnitError || last.val > reliable.val
  return doubts
}

// ----------------------------------------------------------------------------------------------------------------
// Prices
// ----------------------------------------------------------------------------------------------------------------

/** An impossible share price: the result of dividing a public float by a share count. */
interface PriceDoubt {
  readonly float: CompanyFact
  /** The price in US dollars. */
  readonly price: number
  /** Whether the price is too low. This suggests an error in the float, such as a placeholder of 1 USD. */
  readonly isLow: boolean
  /** The closing price on the date of the float, if known. It is then what the price contradicts. */
  readonly close: number | undefined
  /** Whether the price would be possible if the count were stated in thousands or millions of shares. */
  readonly mayBeInOtherUnit: boolean
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
 * Checks a count against a public float, which is the market value in US dollars of the shares that affiliates of the
 * company do not hold. Divided by the number of all shares, it gives the share price or somewhat less. Returns a doubt
 * if that price is impossible, and undefined if it is plausible or if there is no float to compare with.
 *
 * - `floats`: the company's public floats, sorted by date. `findFloat` selects the one to compare with.
 * - `closes`: closing prices, by the dates of public floats. If the close on the date of the float is known, the price
 *   must be near it. Otherwise, the price must be within the usual range of share prices.
 *
 * Example: 25,123 shares and a float of 300,000,000 USD give a price of 11,941 USD, which suggests that the count is in
 * thousands.
 */
const findPriceDoubt = (
  count: CompanyFact,
  floats: ReadonlyArray<CompanyFact>,
  { closes, splits = [] }: Pick<CountEvidence, "closes" | "splits">,
): PriceDoubt | undefined => {
  const float = findFloat(count, floats)
  if (float === undefined) return undefined
  // What the count may be on the date of the float, the most likely number first. There is a doubt only if the price is
  // impossible for all of them. The doubt then states the price for the first.
  const counts = restate(count, [float.end], splits)
  const price = float.val / counts[0]
  const isRestatable = findSplitFactor(splits, count.end, float.end) !== undefined
  // A close is of no use if the date of the float is wrong or if an unknown split lies between the two dates.
  const close = float.date === undefined && isRestatable ? closes?.get(float.end) : undefined
  const [least, greatest] = close === undefined
    ? [leastPrice, maxUsualPrice]
    : [close * minShareOfClose, close * maxRatio]
  const isPossible = (val: number) => float.val / val >= least && float.val / val <= greatest
  if (counts.some(isPossible)) return undefined
  const mayBeInOtherUnit = roundingUnits.some((unit) =>
    counts.some((val) => val * unit <= maxUsualCount && isPossible(val * unit))
  )
  return { float, price, isLow: price < least, close, mayBeInOtherUnit }
}

/** Formats the reason for a doubt as a clause. `other` describes the number that the doubted one was combined with. */
const formatPriceDoubt = (other: string, { close, float, price }: PriceDoubt) =>
  `gives a price of ${formatNumber(price)} USD per share with the ${other}${
    close === undefined ? "" : `, but the close on ${float.end} was ${formatNumber(close)} USD`
  }`

// ----------------------------------------------------------------------------------------------------------------
// Assessment
// ----------------------------------------------------------------------------------------------------------------

/**
 * Returns the newest fact that has an earlier date than this one, among other filings that were not filed later.
 * `facts` is sorted by date.
 */
const findPrevious = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) =>
  facts.findLast(({ accn, end, filed }) => accn !== fact.accn && end < fact.end && filed <= fact.filed)

const formatJump = (ratio: string, { end, val }: CompanyFact, restated = val) =>
  restated === val
    ? `is more than ${ratio} times up or down from ${val} on ${end}`
    : `does not fit ${val} on ${end}, which the splits since then make ${formatNumber(restated)}`

/**
 * Returns clauses about the different values that other filings state for the same date. Values that differ only by
 * rounding count as equal.
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

/** Facts that an operator has decided about, each with the value that the filing states and the decision. */
type DecidedFacts = ReadonlyMap<CompanyFact, NonNullable<AssessedFact["decided"]>>

/** A company's facts with the operators' values in place of the stated ones, and with usable dates. */
interface SettledFacts {
  /** Counts from cover pages, sorted by date. */
  readonly counts: ReadonlyArray<CompanyFact>
  readonly floats: ReadonlyArray<CompanyFact>
  /** The latest count from each report's balance sheet. */
  readonly balances: ReadonlyArray<CompanyFact>
  readonly decided: DecidedFacts
}

/** Builds the count that an operator has supplied for an unreadable cover page. */
const makeSuppliedCount = (
  { accn, end, filed, form, hasClasses = false, url }: UnreadableCount,
  { value }: Decision,
): CompanyFact => ({
  accn,
  filed,
  form,
  end: end ?? filed,
  // If the operator has declared the count unknown, 1 is only a filler, because the assessment leaves the fact out.
  val: Number(value ?? 1),
  // Only counts on cover pages can be unreadable, so the path is that of a cover page count.
  path: "dei/EntityCommonStockSharesOutstanding/shares",
  instance: { hasClasses, classes: "", source: [url] },
})

/**
 * Returns the number of shares of each class for a sum that an operator has set to `val`: those of the earlier cover
 * page with the most similar sum. Later cover pages are compared with them. Undefined if no sum is similar.
 */
const findClasses = ({ end }: CompanyFact, val: number, counts: ReadonlyArray<CompanyFact>) => {
  const similar = counts.filter((other) =>
    other.end < end && other.instance?.shares !== undefined && isSimilar(other.val, val, maxRatioInFiling)
  )
  const distance = (other: CompanyFact) => Math.abs(Math.log(other.val / val))
  return similar.toReversed().toSorted((one, other) => distance(one) - distance(other))[0]?.instance?.shares
}

/**
 * Applies operators' decisions and replaces implausible dates. If an operator has supplied the count for an unreadable
 * cover page, adds that count. All further steps compare only the facts returned here.
 */
const settleFacts = ({ decisions, facts, filings }: CountEvidence): SettledFacts => {
  const { cik } = facts
  /** The company's filings by accession number. */
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
    const val = Number(decision.value ?? fact.val)
    const shares = val === fact.val ? fact.instance?.shares : findClasses(fact, val, facts.counts)
    const changed = { ...fact, val, ...(fact.instance !== undefined && { instance: { ...fact.instance, shares } }) }
    decided.set(changed, { read, decision })
    return changed
  }
  /** The counts that an operator has supplied for unreadable cover pages. */
  const supplied = facts.unreadable.flatMap((count): ReadonlyArray<CompanyFact> => {
    const decision = findDecision({ url: count.url, column: "outstanding_shares", read: count.read })
    if (decision === undefined) return []
    const fact = makeSuppliedCount(count, decision)
    decided.set(fact, { read: count.read, decision })
    return [fact]
  })

  const statedBalances = Array.from(
    // Facts are sorted by date, so the map keeps the newest count of each report. The others are from earlier balance
    // sheets, which the report shows for comparison.
    new Map(
      facts.balanceSheetCounts.filter(({ end, filed }) => countDays(end, filed) <= maxFactAge).map((
        count,
      ) => [count.accn, settleDate(count, false, reports.get(count.accn)?.reportDate, findDecision, cik)]),
    ).values(),
  )
  /**
   * Returns the last day of the period that a report covers. If the filing list does not state it, it is the date of
   * the report's balance sheet, provided that this date is plausible.
   */
  const findPeriod = (accession: string) =>
    reports.get(accession)?.reportDate ??
      statedBalances.find(({ accn, date }) => accn === accession && date === undefined)?.end
  /** Settles the facts of each filing: first their dates, then their values. */
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
    counts: [...settle(facts.counts, true, "outstanding_shares"), ...supplied].toSorted(byFactDate),
    floats: settle(facts.floats, false, "details"),
    balances: statedBalances.map((count) => decide(count, "outstanding_shares")),
    decided,
  }
}

/** The counts and public floats that are doubted because they give an impossible share price. */
interface DoubtedPrices {
  /** By the doubted count. */
  readonly ofCounts: ReadonlyMap<CompanyFact, PriceDoubt>
  /** By the doubted float, with the count that shows the error. */
  readonly ofFloats: ReadonlyMap<CompanyFact, { readonly count: CompanyFact; readonly doubt: PriceDoubt }>
}

/**
 * Finds share counts and public floats that give an impossible share price when the float is divided by the count. At
 * least one of the two numbers is then wrong. To find out which, the support of the float is compared with the support
 * of the count that has the most support among those with an impossible price (the best count):
 *
 * - The best count has more support: the float is doubted, together with all counts that differ from the best one. If
 *   the counts may be in thousands, they are doubted, too, because filings repeat errors of unit.
 * - The float has more support: all of these counts are doubted, but not the float.
 * - Both have the same support: all of these counts are doubted. If the price is too low, the float is doubted as well,
 *   because it may be a placeholder such as 1 USD.
 *
 * A number that an operator has decided on is never doubted. The support of a number is how many other statements
 * confirm it minus how many contradict it; `getSupport` returns it for a count.
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
  const { isAlike } = makeComparison(evidence)
  const priced = counts.flatMap((count) => {
    const doubt = findPriceDoubt(count, floats, evidence)
    // Infinite support makes a decided count win against every float, except against a decided one.
    return doubt === undefined ? [] : [{ count, doubt, support: isDecided(count) ? Infinity : getSupport(count) }]
  })
  /** A public float has only one other statement to compare it with: the previous float. */
  const getSupportOfFloat = (float: CompanyFact) => {
    const previous = findPrevious(float, floats)
    return previous === undefined ? 0 : isSimilar(float.val, previous.val) ? 1 : -1
  }
  for (const [float, pricedWithFloat] of Map.groupBy(priced, ({ doubt }) => doubt.float)) {
    const best = pricedWithFloat.toSorted((one, other) => other.support - one.support)[0]
    if (best === undefined) continue
    // A negative advantage means that the float is right. An operator's decision always has this effect.
    const advantageOfCount = isDecided(float) ? -1 : best.support - getSupportOfFloat(float)
    const isFloatWrong = advantageOfCount > 0
    if (isFloatWrong || (advantageOfCount === 0 && best.doubt.isLow)) ofFloats.set(float, best)
    for (const { count, doubt } of pricedWithFloat) {
      // A count similar to the best one is equally credible.
      const isExcused = isDecided(count) ||
        (isFloatWrong && isAlike(count, best.count) && (isDecided(best.count) || !doubt.mayBeInOtherUnit))
      if (!isExcused) ofCounts.set(count, doubt)
    }
  }
  return { ofCounts, ofFloats }
}

/** What may cast doubt on a count. */
interface CountContext {
  readonly comparison: CountComparison
  /** The result of comparing all counts of the same kind with each other. */
  readonly doubts: CountDoubts
  /** The balance sheet count in the same filing, if the count is from a cover page. */
  readonly balance: CompanyFact | undefined
  readonly price: PriceDoubt | undefined
  readonly isPlaceholder: boolean
  /** Whether the filing states the same number as its public float in US dollars, so that one of them is wrong. */
  readonly isFloat: boolean
  /** The counts that are credible enough to contradict this one if they are for the same date. */
  readonly rivals: ReadonlyArray<CompanyFact>
}

/** Returns the reasons to doubt a count, as clauses. */
const listCountReasons = (
  fact: CompanyFact,
  { balance, comparison, doubts, isFloat, isPlaceholder, price, rivals }: CountContext,
): ReadonlyArray<string> => {
  const [shownBy, jumpFrom] = [doubts.unitErrors.get(fact), doubts.jumps.get(fact)]
  const missing = jumpFrom === undefined ? undefined : comparison.findMissingClass(fact, jumpFrom)
  const contradictsBalance = balance !== undefined && balance !== shownBy && !doubts.repeated.has(fact) &&
    !comparison.agreesWithBalance(fact, balance)
  return [
    // A unit error or a known error explains the jump, so only one of them is a reason.
    ...(shownBy !== undefined
      ? [`differs from ${shownBy.val} on ${shownBy.end} as if it were in another unit, such as thousands`]
      : doubts.knownErrors.has(fact) && jumpFrom === undefined
      ? ["is like a number that an operator has corrected"]
      : jumpFrom !== undefined
      ? [
        missing !== undefined
          ? `lacks ${missing.name}, which has ${formatNumber(missing.shares)} shares on ${jumpFrom.end}`
          : hasClassError(fact, jumpFrom)
          ? `has a class that is more than eight times up or down from that on ${jumpFrom.end}`
          : formatJump("eight", jumpFrom, comparison.restateFor(jumpFrom, fact)[0]),
      ]
      : []),
    ...(contradictsBalance ? [`differs from ${balance.val} on the balance sheet of ${balance.end}`] : []),
    ...(price === undefined ? [] : [formatPriceDoubt(`public float of ${price.float.val} USD`, price)]),
    ...(isFloat ? ["is the same number as the public float in USD"] : []),
    ...(isPlaceholder ? ["is so small that it may be a placeholder"] : []),
    ...listOthers(fact, rivals),
  ]
}

/**
 * Returns the reasons to doubt a public float, as clauses. `floats` contains all public floats of the company except
 * those that an operator has declared unknown.
 */
const listFloatReasons = (fact: CompanyFact, floats: ReadonlyArray<CompanyFact>, { ofFloats }: DoubtedPrices) => {
  const previous = findPrevious(fact, floats)
  // A float that is exactly the same as an earlier one was probably copied from the previous report by mistake.
  const same = floats.find(({ end, val }) => end < fact.end && val === fact.val)
  const price = ofFloats.get(fact)
  return [
    ...(previous === undefined || isSimilar(fact.val, previous.val) ? [] : [formatJump("ten", previous)]),
    ...(price === undefined ? [] : [formatPriceDoubt(`${price.count.val} shares of ${price.count.end}`, price.doubt)]),
    ...listOthers(fact, floats),
    ...(same === undefined ? [] : [`was also reported for ${same.end}`]),
    // The reason is null if an operator has declared the date unknown. The date is then no longer an open doubt.
    ...(fact.date?.reason == null ? [] : [`has the date ${fact.date.stated}, which ${fact.date.reason}`]),
  ]
}

/**
 * Compares the balance sheets that are newer than the last reliable cover page with it. They are from reports without a
 * count on the cover page. Returns:
 *
 * - `undefined` if there are none, or if all are in a smaller unit;
 * - the newest one if it agrees with the cover page, or if those of two reports agree with each other;
 * - `doubtful` if there is only one, because it has no second witness, or if they may be for one of several classes.
 *
 * Marks the balance sheets in a smaller unit and the one without a witness.
 */
const judgeNewerBalances = (
  cover: CompanyFact,
  balances: ReadonlyArray<CompanyFact>,
  { isAlike, isInSmallerUnit }: CountComparison,
  { jumps, unitErrors }: CountDoubts,
): CompanyFact | "doubtful" | undefined => {
  const newer = balances.filter(({ end }) => end > cover.end)
  const [inSmallerUnit, others] = [true, false].map((isSmaller) =>
    newer.filter((balance) => isInSmallerUnit(balance, cover) === isSmaller)
  )
  for (const balance of inSmallerUnit ?? []) unitErrors.set(balance, cover)
  const last = others?.at(-1)
  if (last === undefined || isAlike(last, cover)) return last
  const reports = new Set(others?.filter((balance) => isAlike(balance, last)).map(({ accn }) => accn))
  const mayBeOneClass = cover.instance?.hasClasses === true && last.val < cover.val
  if (reports.size > 1 && !mayBeOneClass) return last
  jumps.set(last, cover)
  return "doubtful"
}

/**
 * Determines the company's current count. A reliable count can be current unless it is outdated, left out, or older
 * than a filing whose count cannot be read. The count on the newest cover page takes precedence over the one on the
 * newest balance sheet, unless the latter has a later date and is similar or confirmed (see `judgeNewerBalances`).
 *
 * - `counts`: all counts from cover pages, sorted by date, except those that an operator has declared unknown
 * - `balances`: all credible counts from balance sheets, sorted by date, except those declared unknown
 * - `leftOut`: the counts that are not published, because there are too many reasons to doubt them
 * - `onCover`, `onBalanceSheet`: the results of comparing the counts with each other
 * - `unknown`: the counts from cover pages that an operator has declared unknown
 */
const findCurrent = (
  { facts, filings }: CountEvidence,
  { balances, comparison, counts, leftOut, onBalanceSheet, onCover, unknown }: {
    readonly balances: ReadonlyArray<CompanyFact>
    readonly comparison: CountComparison
    readonly counts: ReadonlyArray<CompanyFact>
    readonly unknown: ReadonlyArray<CompanyFact>
    readonly leftOut: ReadonlySet<CompanyFact>
    readonly onBalanceSheet: CountDoubts
    readonly onCover: CountDoubts
  },
): CountAssessment["current"] => {
  const isOutdated = ({ filed }: CompanyFact) =>
    filings.some(({ filingDate, form }) => isPeriodicReport(form) && countDays(filed, filingDate) > maxAgeInDays)
  const hasCount = (accession: string) => counts.some(({ accn }) => accn === accession)
  /**
   * Filing date of the newest filing whose cover page count cannot be read or was declared unknown by an operator.
   * Undefined if there is none.
   */
  const lastUnread = [...facts.unreadable, ...unknown]
    .filter((count) => !isAmendment(count) && !hasCount(count.accn))
    .map(({ filed }) => filed).toSorted().at(-1)
  const isUsable = (count: CompanyFact | undefined) =>
    count !== undefined && !isOutdated(count) && !leftOut.has(count) &&
    (lastUnread === undefined || count.filed >= lastUnread) && !onBalanceSheet.unitErrors.has(count)
  const cover = isUsable(onCover.reliable) ? onCover.reliable : undefined
  const newest = counts.at(-1)
  const isNewestCurrent = newest !== undefined && !isOutdated(newest)
  if (isNewestCurrent && onCover.isDoubtful) return "doubtful"
  const ofNewerReports = onCover.reliable === undefined
    ? undefined
    : judgeNewerBalances(onCover.reliable, balances.filter(isUsable), comparison, onBalanceSheet)
  const current = ofNewerReports ?? cover ?? (isUsable(onBalanceSheet.reliable) ? onBalanceSheet.reliable : undefined)
  // Without a usable count, `none` keeps the count that an earlier run has stored. That would be wrong if a newer count
  // exists but cannot be read or is not credible.
  return current ??
    (lastUnread !== undefined || (isNewestCurrent && leftOut.has(newest)) ? "doubtful" : "none")
}

/**
 * Assesses all of a company's share counts and public floats: finds the reasons to doubt each of them, and determines
 * the current count. The steps build on each other:
 *
 * 1. `settleFacts` applies operators' decisions. A value that an operator has decided on is not doubted any more, and a
 *    value that an operator has declared unknown (not in `knownCounts` and `knownFloats`) is not compared with others.
 * 2. The counts are compared with each other without regard to prices.
 * 3. The counts are combined with the public floats. The result of the second step shows which of two numbers with an
 *    impossible price is wrong.
 * 4. The counts are compared with each other again, now taking into account these prices, and what the undoubted counts
 *    show about the splits around them.
 * 5. The reasons from all steps are collected. Facts with two or more reasons are left out.
 */
export const assessCounts = (evidence: CountEvidence): CountAssessment => {
  const { facts: { isFloatZero }, splits = [] } = evidence
  const { balances, counts, decided, floats } = settleFacts(evidence)
  const comparison = makeComparison(evidence)
  const isDecided = (fact: CompanyFact) => decided.has(fact)
  /** False only if an operator has declared the value unknown. */
  const isKnown = (fact: CompanyFact) => decided.get(fact)?.decision.value !== null
  const [knownCounts, knownFloats] = [counts.filter(isKnown), floats.filter(isKnown)]
  // If the float is zero, the company may be a subsidiary or a shell company, which can have very few shares.
  const isPlaceholder = (fact: CompanyFact) => fact.val < minCount && !isFloatZero && !isDecided(fact)
  /** Returns whether the filing states the same number as its count and as its public float. */
  const isFloat = ({ accn, val }: CompanyFact) => floats.some((float) => float.accn === accn && float.val === val)

  const balanceSheetCounts = balances.filter((count) =>
    isDecided(count) || (count.val >= minCount && findPriceDoubt(count, knownFloats, evidence) === undefined)
  ).toSorted(byFactDate)
  /**
   * Returns whether the balance sheet contradicts its own cover, and only the close speaks against it. The cover may be
   * the wrong one then.
   */
  const isOpposed = (balance: CompanyFact) =>
    balance.val >= minCount && findPriceDoubt(balance, knownFloats, { splits }) === undefined &&
    knownCounts.some((cover) => cover.accn === balance.accn && !comparison.agreesWithBalance(cover, balance))
  const balanceByFiling = new Map(
    balances.filter((count) => balanceSheetCounts.includes(count) || isOpposed(count))
      .map((count) => [count.accn, count]),
  )

  const replaced = [...counts, ...balances].flatMap((fact) => {
    const settled = decided.get(fact)
    return settled === undefined || settled.decision.isConfirmed
      ? []
      : [{ error: Number(settled.read), right: settled.decision.value === null ? undefined : fact.val }]
  })
  const isKnownError = (fact: CompanyFact) =>
    !isDecided(fact) && replaced.some(({ error, right }) =>
      fact.val === error ||
      (right !== undefined && isSimilar(fact.val, error, maxRatioOfErrors) &&
        !isSimilar(fact.val, right, maxRatioOfSum))
    )
  const baseEvidence = { balances: balanceByFiling, isDecided, isKnownError, isPlaceholder }
  const unpriced = compareSeries(knownCounts, {
    ...baseEvidence,
    comparison,
    countOwnReasons: (fact) => (isPlaceholder(fact) ? 1 : 0) + (isFloat(fact) ? 1 : 0),
  })
  /** Returns how many other statements confirm the count minus how many contradict it. */
  const getSupport = (count: CompanyFact) => {
    const witnesses = [balanceByFiling.get(count.accn), findPrevious(count, knownCounts)]
    const known = witnesses.flatMap((witness) => witness === undefined ? [] : [comparison.isAlike(count, witness)])
    return known.reduce((sum, agrees) => sum + (agrees ? 1 : -1), 0) -
      [isPlaceholder(count), isFloat(count), unpriced.jumps.has(count), unpriced.unitErrors.has(count)].filter(Boolean)
        .length
  }
  const prices = findDoubtedPrices(knownCounts, knownFloats, { evidence, getSupport, isDecided })
  /** Counts the reasons to doubt a count regardless of other counts: an impossible price, a placeholder, or a float. */
  const countOwnReasons = (fact: CompanyFact) => {
    const doubt = prices.ofCounts.get(fact)
    // A price above `greatestPrice` counts as two reasons, which is enough to leave out the count.
    return (isPlaceholder(fact) ? 1 : 0) + (isFloat(fact) ? 1 : 0) +
      (doubt === undefined ? 0 : doubt.price > greatestPrice ? 2 : 1)
  }
  const undoubted = knownCounts.filter((fact) => !unpriced.jumps.has(fact) && !unpriced.unitErrors.has(fact))
  const finalComparison = makeComparison(
    evidence,
    new Map(undoubted.map((fact) => {
      const balance = balanceByFiling.get(fact.accn)
      return [fact, findDecidedSplits(fact, { balance, certain: undoubted, splits })]
    })),
  )
  const onCover = compareSeries(knownCounts, { ...baseEvidence, comparison: finalComparison, countOwnReasons })
  const onBalanceSheet = compareSeries(balanceSheetCounts.filter(isKnown), {
    ...baseEvidence,
    comparison,
    balances: new Map(),
    countOwnReasons: () => 0,
    isPlaceholder: () => false,
  })

  /** Returns the reasons to doubt a count. `all` are the counts of the same kind (cover page or balance sheet). */
  const findReasons = (fact: CompanyFact, doubts: CountDoubts, all: ReadonlyArray<CompanyFact>) =>
    isDecided(fact) ? [] : listCountReasons(fact, {
      comparison: finalComparison,
      doubts,
      // Only a cover page count is compared with the balance sheet in its filing.
      balance: all === knownCounts ? balanceByFiling.get(fact.accn) : undefined,
      price: prices.ofCounts.get(fact),
      isPlaceholder: isPlaceholder(fact),
      isFloat: isFloat(fact),
      // A count is not contradicted by a count that has more reasons against it.
      rivals: all.filter((other) =>
        !doubts.unitErrors.has(other) && (isDecided(other) || countOwnReasons(other) <= countOwnReasons(fact))
      ),
    })
  /** Builds the result for a fact. `isImpossible` leaves it out even if there is only one reason. */
  const assess = (fact: CompanyFact, reasons: ReadonlyArray<string>, isImpossible = false): AssessedFact => ({
    fact,
    reasons,
    isLeftOut: !isKnown(fact) || reasons.length >= 2 || isImpossible,
    decided: decided.get(fact),
  })
  const assessedCounts = counts.map((fact) =>
    assess(fact, findReasons(fact, onCover, knownCounts), countOwnReasons(fact) >= 2)
  )
  const leftOut = new Set(assessedCounts.flatMap(({ fact, isLeftOut }) => isLeftOut ? [fact] : []))
  // `findCurrent` marks balance sheets that contradict the cover pages, so they are assessed after it.
  const current = findCurrent(
    evidence,
    {
      balances: balanceSheetCounts.filter(isKnown),
      comparison,
      counts: knownCounts,
      unknown: counts.filter((fact) => !isKnown(fact)),
      leftOut,
      onBalanceSheet,
      onCover,
    },
  )
  const assessedBalances = balanceSheetCounts.map((fact) =>
    assess(fact, findReasons(fact, onBalanceSheet, balances.filter(isKnown)))
  )
  const certain = [...assessedCounts, ...assessedBalances].filter(({ reasons }) => reasons.length === 0)
    .map(({ fact }) => fact).filter(isKnown).toSorted(byFactDate)
  return {
    counts: assessedCounts,
    balanceSheetCounts: assessedBalances,
    floats: floats.map((fact) => assess(fact, isDecided(fact) ? [] : listFloatReasons(fact, knownFloats, prices))),
    current,
    countedSplits: typeof current === "string" ? [] : findCountedSplits(current, {
      balance: balanceByFiling.get(current.accn),
      certain,
      splits,
    }),
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
