/** Compares all share counts of a company with each other over time, to find errors and the newest reliable count. */
import type { CompanyFact } from "./CompanyFacts.ts"
import { type CountComparison, hasNamedClasses, maxClassSumRatio, maxRatioInFiling } from "./CountComparison.ts"

/**
 * Largest factor between a count and the previous reliable count that the balance sheet in the same filing can confirm
 * on its own. A larger factor may be a unit error (thousands instead of shares), which often affects the cover page and
 * the balance sheet of a filing alike.
 */
const maxSplitRatio = 100

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

/** The result of comparing a company's counts with each other over time (`compareCountSeries`). */
export class CountDoubts {
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

/** What `compareCountSeries` takes into account in addition to the counts themselves. */
interface SeriesEvidence {
  /** The count on the balance sheet of each filing, by accession number. */
  readonly balances: ReadonlyMap<string, CompanyFact>
  /**
   * Returns how many reasons there are to doubt a count regardless of other counts, such as an impossible share price.
   */
  readonly countOwnReasons: (fact: CompanyFact) => number
  readonly isPlaceholder: (fact: CompanyFact) => boolean
  readonly isDecided: (fact: CompanyFact) => boolean
  /**
   * Returns whether the count is like one that an operator has replaced in another document of the company (`similar`),
   * or even the same number (`copy`). Undefined if it is not.
   */
  readonly findKnownError: (fact: CompanyFact) => "copy" | "similar" | undefined
  readonly comparison: CountComparison
}

/**
 * How many consecutive reports, without a balance sheet that contradicts them, show that the number of shares has
 * become like an error that an operator once corrected.
 */
const minReportsLikeError = 3

const countFilings = (facts: ReadonlyArray<CompanyFact>) => new Set(facts.map(({ accn }) => accn)).size

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
 *   it, or if another filing (the next report or an amendment) repeats it. If the balance sheet of one of the two
 *   contradicts it, that of the other one must agree with it, or a third filing must repeat it.
 * - If a count lacks a class of the last reliable one, its filing's balance sheet can confirm it, or three reports
 *   whose balance sheets do not contradict its classes, but neither if the company still has the symbol of the class.
 * - If the factor is about 1,000 or 1,000,000, one of the counts may be in a wrong unit. Repetition then confirms the
 *   new count only if more reports state it than stated the old one, and never if an operator decided on the old one.
 *   If the new count is the smaller one, no balance sheet confirms it: at least three reports must state it, and their
 *   balance sheets must not contradict its classes.
 * - A count like one that an operator has corrected repeats the error. The next report that states it again makes the
 *   current count unknown, and three reports confirm it if no balance sheet of theirs contradicts it. A copy of the
 *   corrected number is never confirmed.
 * - A filing whose balance sheet contradicts its own count confirms nothing. If the two differ by a factor of about
 *   1,000 or 1,000,000, the count is considered to be in a wrong unit if it is the smaller of the two, or if only the
 *   balance sheet agrees with the last reliable count. A later count that repeats it is in the same unit.
 */
export const compareCountSeries = (
  counts: ReadonlyArray<CompanyFact>,
  { balances, comparison, countOwnReasons, findKnownError, isDecided, isPlaceholder }: SeriesEvidence,
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
    /** The counts that the newest one repeats, without those that may repeat a corrected error. */
    const similar = candidates.flatMap(({ facts }) =>
      facts.filter((fact) => isAlike(fact, newest) && !doubts.knownErrors.has(fact))
    )
    /** Those that the newest one repeats so closely that they have no lost or doubled digit. */
    const repeated = similar.filter((fact) => isAlike(fact, newest, maxRatioInFiling))
    const uncontradicted = similar.filter((fact) => !isContradicted(fact))
    const isConfirmedByOther = countFilings(uncontradicted) >= 2 ||
      uncontradicted.some(({ accn }) => balances.has(accn))
    const unopposed = candidates.filter((candidate) =>
      !hasNamedClasses(candidate.newest) ||
      agreesWithBalance(candidate.newest, balances.get(candidate.newest.accn) ?? candidate.newest)
    )
    const hasThreeReports = unopposed.length >= 3
    // A unit error usually makes a count too small, often throughout the report, so a smaller count needs more
    // evidence.
    const mayBeInThousands = suggestUnitError && newest.val < former.val
    const missing = findMissingClass(newest, former)
    // The number of the last report, although a split lies between, was copied, however many reports copy it. A class
    // that was forgotten once may be forgotten again.
    const isRepeated = newest.val === former.val || missing?.isListed === true
      ? false
      : missing !== undefined
      ? hasThreeReports
      : suggestUnitError
      ? !isDecided(former) && candidates.length > reliableDates.length && (!mayBeInThousands || hasThreeReports)
      : countFilings(similar) >= 2 && isConfirmedByOther
    const isOnBalanceSheet = balance !== undefined && !mayBeInThousands && isAlike(newest, balance) &&
      (missing === undefined || (!missing.isListed && balance.val - newest.val < missing.shares / 2))
    // If two counts contradict each other and only the former has reasons of its own to doubt it, the former is wrong.
    const isBetter = reliableDates.length === 1 && countOwnReasons(former) > 0 && countOwnReasons(newest) === 0
    if (!isRepeated && !isOnBalanceSheet && !isBetter) return
    if (isRepeated || (isOnBalanceSheet && (missing !== undefined || isAlike(newest, former, maxSplitRatio)))) {
      repeated.forEach((fact) => jumps.delete(fact))
    }
    if (isRepeated && isConfirmedByOther) repeated.forEach((fact) => doubts.repeated.add(fact))
    if (isBetter || (isRepeated && newest.val > former.val)) markUnitErrors(reliableDates, newest)
    if (isBetter) reliableDates.forEach((formerDate) => markJumps(formerDate, newest))
    rely(newest, candidates)
  }

  /** A count may have become like a corrected error over the years. It is then similar to the last reliable one. */
  const isErrorAgain = (fact: CompanyFact, previous: CompanyFact) =>
    findKnownError(fact) !== undefined && !differsInUnit(fact, previous) && !isAlike(fact, previous, maxClassSumRatio)

  /**
   * Handles a count that seems to repeat a corrected error: marks it and, unless it is a copy of the corrected number,
   * adds it to the candidates, which are accepted once there are enough of them.
   */
  const judgeErrorAgain = (date: DatedCounts, former: CompanyFact) => {
    const { newest } = date
    markJumps(date, former)
    doubts.knownErrors.add(newest)
    if (findKnownError(newest) === "copy") return
    const lastCandidate = candidates.at(-1)?.newest
    const isNext = lastCandidate !== undefined && isAlike(newest, lastCandidate, maxRatioInFiling)
    candidates = isNext ? [...candidates, date] : [date]
    suggestUnitError = false
    const isUncontradicted = (fact: CompanyFact) => {
      const balance = balances.get(fact.accn)
      return balance === undefined || isAlike(fact, balance, maxClassSumRatio)
    }
    if (candidates.filter((candidate) => isUncontradicted(candidate.newest)).length < minReportsLikeError) return
    for (const fact of candidates.flatMap(({ facts }) => facts)) {
      doubts.knownErrors.delete(fact)
      if (isAlike(fact, newest)) jumps.delete(fact)
    }
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
      countOwnReasons(newest) >= 2 || (reliable !== undefined && isPlaceholder(newest))
    ) {
      // Such a count is marked but never becomes reliable, however often it is repeated. A placeholder is accepted only
      // as the first count.
      if (reliable !== undefined) markJumps(date, reliable)
    } else if (reliable !== undefined && isErrorAgain(newest, reliable)) {
      judgeErrorAgain(date, reliable)
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
  // If the newer count is larger, the older one may be the one in thousands. A corrected error that is repeated once is
  // probably an error again.
  const isErrorOnce = candidates.length === 1 && doubts.knownErrors.has(last)
  doubts.isDoubtful = !isErrorOnce && (!suggestUnitError || last.val > reliable.val)
  return doubts
}
