/**
 * Decides which share counts and public floats of a company can be believed, and which count is the current one, by
 * comparing all that its filings say of themselves (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Schema } from "effect"
import { countDays } from "../../../contract/rules/Dates.ts"
import { byFactDate, type CompanyFact, type CompanyFacts, isPeriodicReport, listSources } from "./CompanyFacts.ts"
import { type Decision, type Decisions, type DoubtKey, formatDoubtKey } from "./Doubt.ts"
import type { EdgarFiling } from "./Submissions.ts"

const maxRatio = 10

/** Whether the values differ by a factor of at most ten. A greater difference suggests an unknown split or an error. */
const isSimilar = (a: number, b: number, ratio = maxRatio) => a / b <= ratio && b / a <= ratio

/**
 * Up to this factor, the balance sheet of the filing is enough to confirm a count. A greater change may be an error of
 * unit, which is often in the whole filing.
 */
const maxSplitRatio = 100

const roundingUnits = [1_000, 1_000_000]

/** Whether `small` is about a thousand or a million times smaller, as if it were in thousands or millions. */
const isInThousandsOf = (small: number, large: number) =>
  roundingUnits.some((unit) => large / small >= unit / 2 && large / small <= unit * 2)

/** Whether the values are equal after one of them was rounded to thousands or millions. */
const isRounded = (a: number, b: number) =>
  roundingUnits.some((unit) => Math.abs(a - b) < unit && [a, b].some((one) => one % unit === 0 && one >= unit * 1_000))

/** Smaller counts are probably placeholders, such as 1, 100 or 1,000. */
const minCount = 10_000

/**
 * Prices per share in USD. Of all listed shares, only Berkshire Hathaway's (about 700,000) have cost more than
 * `maxUsualPrice`. No share price has ever been outside the range that the tables accept.
 */
const [leastPrice, maxUsualPrice, greatestPrice] = [0.0001, 10_000, 9_999_999]

/**
 * The float divided by a count is below the close, because the float excludes the shares of affiliates. If a count is a
 * thousand times too large, the result is below this fraction of the close, even if there are no affiliates.
 */
const minShareOfClose = 0.002

/** Days for which a public float says something about counts. It is stated once a year, months after its date. */
const maxFloatAge = 600

/** Days by which a cover's date may be before the end of the period, such as the end of a fiscal year of 52 weeks. */
const maxDaysBeforePeriod = 7

/**
 * A cover's date is normally shortly before the filing date. If the period is not known, a date that is more days
 * before the filing date than this is not believed.
 */
const maxCoverAge = 300

/** Ten years in days. No XBRL fact is about a day that is longer before its filing. */
const maxFactAge = 3_650

/** The fields of a listed filing that are compared with the facts. */
export type ListedReport = Pick<EdgarFiling, "accession" | "filingDate" | "form" | "reportDate">

/** A split of the security whose shares the filings count and whose closes are compared. */
export interface KnownSplit {
  readonly day: string
  /** How many shares one share became; null if that is unknown or contradicted. */
  readonly ratio: number | null
}

export interface CountEvidence {
  readonly facts: CompanyFacts
  readonly filings: ReadonlyArray<ListedReport>
  /** Closing prices in USD, by the day of a public float. */
  readonly closes?: ReadonlyMap<string, number> | undefined
  readonly splits?: ReadonlyArray<KnownSplit> | undefined
  readonly decisions?: Decisions | undefined
}

/** A fact with the reasons to doubt its value. With one reason, it is marked as doubtful; with two, it is left out. */
export interface AssessedFact {
  readonly fact: CompanyFact
  /** Clauses: "differs from 25123000 on 2025-02-15". */
  readonly reasons: ReadonlyArray<string>
  readonly isLeftOut: boolean
  /** What the filing states, and what an operator decided about it. */
  readonly decided?: { readonly read: string; readonly decision: Decision } | undefined
}

export interface CountAssessment {
  readonly counts: ReadonlyArray<AssessedFact>
  /** Only counts for the date of the report itself, and only if they can be believed. */
  readonly balanceSheetCounts: ReadonlyArray<AssessedFact>
  readonly floats: ReadonlyArray<AssessedFact>
  /** `none` means that the facts are silent, `doubtful` that the count may have changed. */
  readonly current: CompanyFact | "none" | "doubtful"
}

// ----------------------------------------------------------------------------------------------------------------
// Dates
// ----------------------------------------------------------------------------------------------------------------

const isAmendment = ({ form }: Pick<CompanyFact, "form">) => form.endsWith("/A")

/** Returns why the date of a cover, or of another fact, cannot be right. */
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
 * Replaces an implausible date with the operator's date or, if there is none, with the filing date, so that the order
 * of the filings decides which count is the newest. An amendment gets the end of its period instead of the filing date,
 * which puts its count next to the count of the report that it amends.
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

/** Returns how many shares on the day `to` one share on the day `from` is; undefined if a ratio is unknown. */
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
 * Restates a count for the splits between its date and other days. There may be several values, because the filing may
 * have restated the count for splits until the day of the filing, or the recorded day of a split may not be exact. The
 * first value is restated from the count's own date.
 */
const restate = (
  { end, filed, val }: CompanyFact,
  days: ReadonlyArray<string>,
  splits: ReadonlyArray<KnownSplit>,
): readonly [number, ...Array<number>] => {
  if (splits.length === 0) return [val]
  const values = [end, filed].flatMap((from) =>
    days.flatMap((to) => {
      const factor = findSplitFactor(splits, from, to)
      return factor === undefined ? [] : [val * factor]
    })
  )
  const [first = val, ...others] = values
  return [first, ...others, val]
}

/** Compares counts with each other, after restating them for the splits between their dates. */
const makeComparison = (splits: ReadonlyArray<KnownSplit>) => {
  const isAlike = (a: CompanyFact, b: CompanyFact, ratio = maxRatio) =>
    restate(a, [b.end, b.filed], splits).some((val) => isSimilar(val, b.val, ratio))
  /** Whether the first count is in thousands or millions of shares, and the second one is not. */
  const isInSmallerUnit = (small: CompanyFact, large: CompanyFact) =>
    !isAlike(small, large) &&
    restate(small, [large.end, large.filed], splits).some((val) => isInThousandsOf(val, large.val))
  const differsInUnit = (a: CompanyFact, b: CompanyFact) => isInSmallerUnit(a, b) || isInSmallerUnit(b, a)
  return { isAlike, isInSmallerUnit, differsInUnit }
}

type CountComparison = ReturnType<typeof makeComparison>

// ----------------------------------------------------------------------------------------------------------------
// Series
// ----------------------------------------------------------------------------------------------------------------

/** All counts for one date, sorted by filing date. */
interface DatedCounts {
  /** The count that an operator decided or, otherwise, the newest with the fewest doubts, which may correct others. */
  readonly newest: CompanyFact
  readonly facts: ReadonlyArray<CompanyFact>
}

/** Why counts are not believed. */
class CountDoubts {
  /** Counts that are probably in another unit, such as thousands, each with the count that shows it. */
  readonly unitErrors = new Map<CompanyFact, CompanyFact>()
  /** Counts that differ from the last reliable one, and that nothing has confirmed. */
  readonly jumps = new Map<CompanyFact, CompanyFact>()
  /** Counts that differ from others, but that another filing repeats without contradicting itself. */
  readonly repeated = new Set<CompanyFact>()
  /** The newest reliable count. */
  reliable: CompanyFact | undefined
  /** Whether a count that is newer than `reliable` awaits confirmation, and may be right. */
  isDoubtful = false
}

interface SeriesEvidence {
  /** Counts of balance sheets by accession number. */
  readonly balances: ReadonlyMap<string, CompanyFact>
  /** How many reasons there are to doubt a count, without comparing it with the other counts. */
  readonly countOwnReasons: (fact: CompanyFact) => number
  readonly isPlaceholder: (fact: CompanyFact) => boolean
  readonly isDecided: (fact: CompanyFact) => boolean
  readonly comparison: CountComparison
}

/** Returns the newest of the facts for which `rank` is the lowest. */
const findBest = (facts: ReadonlyArray<CompanyFact>, rank: (fact: CompanyFact) => number) => {
  const lowest = Math.min(...facts.map(rank))
  return facts.findLast((fact) => rank(fact) === lowest)
}

/** Whether a count, not the balance sheet of its filing, is the one in the wrong unit. */
const isInOtherUnit = (
  { isAlike, isInSmallerUnit }: CountComparison,
  count: CompanyFact,
  balance: CompanyFact,
  reliable: CompanyFact | undefined,
) =>
  isInSmallerUnit(count, balance) ||
  (isInSmallerUnit(balance, count) && reliable !== undefined && isAlike(balance, reliable) && !isAlike(count, reliable))

/**
 * Compares counts from the oldest to the newest, each with the last reliable one.
 *
 * - If they differ by a factor of more than ten, the new count becomes reliable if the balance sheet of its filing
 *   agrees, or if another filing repeats it: the next report or an amendment.
 * - If the factor is about a thousand, the unit may be wrong. The new count then becomes reliable only if more reports
 *   have it than had the old one and, if it is the smaller one, at least three, whatever their balance sheets say.
 * - A filing whose balance sheet contradicts its own count confirms nothing. If these two differ by a factor of about a
 *   thousand, the count is in another unit if it is the smaller one, or if only the balance sheet agrees with the last
 *   reliable count.
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
  /** The dates whose counts are similar to `reliable`. */
  let reliableDates: ReadonlyArray<DatedCounts> = []
  /** Unconfirmed counts of consecutive dates, which are similar to each other. */
  let candidates: ReadonlyArray<DatedCounts> = []
  let suggestUnitError = false
  const isContradicted = (fact: CompanyFact) => !isAlike(fact, balances.get(fact.accn) ?? fact)
  /** A count may differ from the balance sheet because of a later event. Then the next report confirms the count. */
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
    if (isDecided(newest)) {
      rely(newest, [date])
    } else if (countOwnReasons(newest) >= 2 || (isPlaceholder(newest) && reliable !== undefined)) {
      if (reliable !== undefined) markJumps(date, reliable)
    } else if (balance !== undefined && isInOtherUnit(comparison, newest, balance, reliable)) {
      markUnitErrors([date], balance)
    } else if (reliable === undefined || isAlike(newest, reliable)) {
      // Counts that only a doubtful count contradicted are confirmed now.
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
      // A wrong unit makes a count too small, often in the whole report, so a smaller count needs more evidence.
      const mayBeInThousands = suggestUnitError && newest.val < reliable.val
      const isRepeated = suggestUnitError
        ? candidates.length > reliableDates.length && (!mayBeInThousands || candidates.length >= 3)
        : new Set(similar.map(({ accn }) => accn)).size >= 2 && similar.some((fact) => !isContradicted(fact))
      const isOnBalanceSheet = balance !== undefined && !mayBeInThousands && isAlike(newest, balance)
      // If two counts contradict each other, and only one of them is doubtful on its own, that one is wrong.
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
  // If the newer count is the larger one, the older one may be in thousands.
  doubts.isDoubtful = !suggestUnitError || last.val > reliable.val
  return doubts
}

// ----------------------------------------------------------------------------------------------------------------
// Prices
// ----------------------------------------------------------------------------------------------------------------

interface PriceDoubt {
  readonly float: CompanyFact
  readonly price: number
  /** Whether the price is too low. That suggests an error in the float, such as a placeholder of 1 USD. */
  readonly isLow: boolean
  readonly close: number | undefined
}

const formatNumber = (value: number) => String(Number(value.toPrecision(5)))

/** Returns the public float that a count is compared with: the one in its filing or, without one, the newest before. */
const findFloat = ({ accn, end }: CompanyFact, floats: ReadonlyArray<CompanyFact>) =>
  floats.findLast((float) => float.accn === accn) ??
    floats.findLast((float) => float.date === undefined && float.end <= end && countDays(float.end, end) <= maxFloatAge)

/** Divides the public float by a count, and checks whether the result is a possible price of a share. */
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

/** Returns the newest fact that is older than `fact` and comes from another filing, which was not filed later. */
const findPrevious = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) =>
  facts.findLast(({ accn, end, filed }) => accn !== fact.accn && end < fact.end && filed <= fact.filed)

const formatJump = ({ end, val }: CompanyFact) => `is more than ten times up or down from ${val} on ${end}`

/** Names what other filings state for the same date. A rounded form of the same number is not listed. */
const listOthers = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) => {
  const known = [fact.val]
  for (const { end, val } of facts) {
    if (end === fact.end && !known.some((one) => one === val || isRounded(one, val))) known.push(val)
  }
  return known.slice(1).map((val) => `is ${val} in another filing for the same date`)
}

/**
 * A count is outdated if the company filed a report more than this many days later. Companies report every year, so
 * the company must have stated newer counts that cannot be read.
 */
const maxAgeInDays = 400

/** What operators have decided about facts. */
type DecidedFacts = ReadonlyMap<CompanyFact, NonNullable<AssessedFact["decided"]>>

/** The facts of a company, with dates that can be believed and what operators have decided. */
interface SettledFacts {
  readonly counts: ReadonlyArray<CompanyFact>
  readonly floats: ReadonlyArray<CompanyFact>
  /** The count of each balance sheet. */
  readonly balances: ReadonlyArray<CompanyFact>
  readonly decided: DecidedFacts
}

/**
 * Applies the operators' decisions and replaces dates that are not believed. If an operator has given the count of an
 * unreadable cover, adds that count. The other steps compare only the facts that this returns.
 */
const settleFacts = ({ decisions, facts, filings }: CountEvidence): SettledFacts => {
  const { cik } = facts
  const reports = new Map(filings.map((filing) => [filing.accession, filing]))
  // The keys are the fact objects themselves, so later steps must pass on these objects, not copies.
  const decided = new Map<CompanyFact, NonNullable<AssessedFact["decided"]>>()
  const findDecision = (key: Omit<DoubtKey, "table">) =>
    decisions?.get(formatDoubtKey({ table: "historical_float_pro", ...key }))
  /** Replaces the values about which an operator has decided. */
  const decide = (fact: CompanyFact, column: string) => {
    const read = String(fact.val)
    const decision = findDecision({ url: listSources(cik, fact)[0], column, read })
    if (decision === undefined) return fact
    const changed = { ...fact, val: Number(decision.value ?? fact.val) }
    decided.set(changed, { read, decision })
    return changed
  }
  const corrected = facts.unreadable.flatMap(
    ({ accn, end, filed, form, hasClasses = false, read, url }): ReadonlyArray<CompanyFact> => {
      const decision = findDecision({ url, column: "outstanding_shares", read })
      if (decision === undefined) return []
      // Only covers have unreadable counts, so the path is the same as for a count that was read from a cover.
      const path = "dei/EntityCommonStockSharesOutstanding/shares"
      const instance = { hasClasses, classes: "", source: [url] }
      // If the operator has declared the count unknown, the 1 only fills the field: the assessment leaves the fact out.
      const fact = { accn, filed, form, end: end ?? filed, val: Number(decision.value ?? 1), path, instance }
      decided.set(fact, { read, decision })
      return [fact]
    },
  )

  const statedBalances = Array.from(
    // Facts are sorted by date, so the map keeps each report's newest one. The others are earlier balance sheets that
    // the report shows for comparison.
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
      // If the filing also states a count with a credible date, a wrong date beside it matters little.
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
 * Finds the counts that give an impossible price when a public float is divided by them. The price casts doubt on the
 * count or on the float, whichever has less support. `getSupport` returns how many more statements confirm a count than
 * contradict it.
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
      // Counts that are similar to the one that shows the float to be wrong are as credible as that one.
      const isExcused = isDecided(count) || (isFloatWrong && isAlike(count, best.count))
      if (!isExcused) ofCounts.set(count, doubt)
    }
  }
  return { ofCounts, ofFloats }
}

/** Returns the reasons to doubt a public float. `floats` has no values that an operator has declared unknown. */
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

/** Finds the current count. `counts` has no values that an operator has declared unknown. */
const findCurrent = (
  { facts, filings, splits = [] }: CountEvidence,
  { counts, leftOut, onBalanceSheet, onCover }: {
    readonly counts: ReadonlyArray<CompanyFact>
    readonly leftOut: ReadonlySet<CompanyFact>
    readonly onBalanceSheet: CountDoubts
    readonly onCover: CountDoubts
  },
  hasCount: (accession: string) => boolean,
): CountAssessment["current"] => {
  const isOutdated = ({ filed }: CompanyFact) =>
    filings.some(({ filingDate, form }) => isPeriodicReport(form) && countDays(filed, filingDate) > maxAgeInDays)
  /** The newest filing with a cover that cannot be read. */
  const unread = facts.unreadable.filter(({ accn, form }) => !isAmendment({ form }) && !hasCount(accn))
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

/** Assesses all counts and public floats of a company. */
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
  const balanceByFiling = new Map(balanceSheetCounts.map((count) => [count.accn, count]))

  // First without prices, because the support of a count decides whether a price is a doubt about it.
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
    // No share has ever had a price above `greatestPrice`, so such a price alone is enough.
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
        ? [formatJump(from)]
        : []),
      ...(contradictsBalance ? [`differs from ${balance.val} on the balance sheet of ${balance.end}`] : []),
      ...(price === undefined ? [] : [formatPriceDoubt(`public float of ${price.float.val} USD`, price)]),
      ...(isPlaceholder(fact) ? ["is so small that it may be a placeholder"] : []),
      // A count with more reasons against it than this one does not contradict this one.
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
      { counts: keptCounts, leftOut, onBalanceSheet, onCover },
      (accession) => counts.some((count) => count.accn === accession),
    ),
  }
}

/** The current number of shares outstanding, with the columns that state its source. All are null if it is unknown. */
export const CurrentCount = Schema.Struct({
  outstanding: Schema.NullOr(Schema.String),
  reported_date: Schema.NullOr(Schema.String),
  filed_at: Schema.NullOr(Schema.String),
  document_url: Schema.NullOr(Schema.String),
  /** Documents that state the count. */
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
