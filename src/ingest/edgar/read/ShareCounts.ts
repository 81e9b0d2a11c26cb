/**
 * Determines which of a company's share counts and public floats are credible and which count is current, by
 * cross-checking everything that the company's filings state (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Schema } from "effect"
import { countDays } from "../../../contract/rules/Dates.ts"
import {
  byFactDate,
  type CompanyFact,
  isPeriodicReport,
  listFactSources,
  type UnreadableCount,
} from "./CompanyFacts.ts"
import {
  type CountComparison,
  hasClassError,
  makeCountComparison,
  maxClassSumRatio,
  maxRatioInFiling,
} from "./CountComparison.ts"
import { findCountDateDoubt, isAmendment, maxFactAge, settleFactDate } from "./CountDates.ts"
import type { CountEvidence } from "./CountEvidence.ts"
import {
  type DoubtedPrices,
  findDoubtedPrices,
  findPreviousFact,
  findPriceDoubt,
  formatPriceDoubt,
  greatestPrice,
  type PriceDoubt,
} from "./CountPrices.ts"
import {
  areWithinRatio,
  differByDigit,
  differOnlyByRounding,
  formatNumber,
  maxCountRatio,
  maxRatioOfSameNumber,
} from "./CountRatios.ts"
import { compareCountSeries, type CountDoubts } from "./CountSeries.ts"
import { type CountedSplit, findCountedSplits, findDecidedSplits } from "./CountSplits.ts"
import { type DoubtKey, formatDoubtKey, type OperatorDecision } from "./Doubt.ts"

/**
 * The largest factor between two numbers that are taken for the same one in two reports, such as an error that an
 * operator has corrected, and its repetition.
 */
const maxRatioOfRepetitions = 1.1

/** As `maxRatioOfRepetitions`, for sums of classes in which one class repeats an error. */
const maxRatioOfRepeatedSums = 1.2

/**
 * Counts below this are probably placeholders that a filer entered in place of the real number, such as 1, 100, or
 * 1,000.
 */
const minCount = 10_000

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
  readonly decided?: { readonly read: string; readonly decision: OperatorDecision } | undefined
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
    if (end === fact.end && !known.some((one) => one === val || differOnlyByRounding(one, val))) known.push(val)
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
  { value }: OperatorDecision,
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
    other.end < end && other.instance?.shares !== undefined && areWithinRatio(other.val, val, maxRatioInFiling)
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
    const decision = findDecision({ url: listFactSources(cik, fact)[0], column, read })
    if (decision === undefined) return fact
    const val = Number(decision.value ?? fact.val)
    // The numbers of shares per class, of which the value is the sum, do not fit a value that the operator has changed.
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
      ) => [count.accn, settleFactDate(count, false, reports.get(count.accn)?.reportDate, findDecision, cik)]),
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
      const certain = stated.filter((fact) => findCountDateDoubt(fact, isCover, period) === undefined)
      // A wrong date matters little if the same filing also states a count with a plausible date.
      return certain.length > 0
        ? stated.filter(({ end, filed }) => end <= filed && countDays(end, filed) <= maxFactAge)
        : stated.map((fact) => settleFactDate(fact, isCover, period, findDecision, cik))
    }).map((fact) => decide(fact, column)).toSorted(byFactDate)
  return {
    counts: [...settle(facts.counts, true, "outstanding_shares"), ...supplied].toSorted(byFactDate),
    floats: settle(facts.floats, false, "details"),
    balances: statedBalances.map((count) => decide(count, "outstanding_shares")),
    decided,
  }
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

/** Describes how a count differs from an earlier or later one (`other`) so much that it is doubted. */
const describeJump = (fact: CompanyFact, other: CompanyFact, comparison: CountComparison) => {
  const missing = comparison.findMissingClass(fact, other)
  if (missing !== undefined) {
    return `lacks ${missing.name}, which has ${formatNumber(missing.shares)} shares on ${other.end}`
  }
  if (hasClassError(fact, other)) {
    return `has a class that is more than eight times up or down from that on ${other.end}`
  }
  const restated = comparison.restateFor(other, fact)
  // A newer balance sheet may count only one of the classes (see `judgeNewerBalances`).
  return fact.val !== other.val && restated.some((val) => areWithinRatio(val, fact.val, maxCountRatio))
    ? `differs from ${other.val} on ${other.end}, perhaps by a class of shares`
    : formatJump("eight", other, restated[0])
}

/**
 * Returns the reason to doubt a count that its comparison with the company's other counts gives, as a clause. A unit
 * error or a known error explains a jump, so only one of them is the reason.
 */
const listComparisonReasons = (
  fact: CompanyFact,
  { comparison, doubts }: Pick<CountContext, "comparison" | "doubts">,
): ReadonlyArray<string> => {
  const [shownBy, jumpFrom] = [doubts.unitErrors.get(fact), doubts.jumps.get(fact)]
  if (shownBy !== undefined) {
    return [`differs from ${shownBy.val} on ${shownBy.end} as if it were in another unit, such as thousands`]
  }
  if (jumpFrom !== undefined) return [describeJump(fact, jumpFrom, comparison)]
  return doubts.knownErrors.has(fact) ? ["is like a number that an operator has corrected"] : []
}

/**
 * Returns the reasons to doubt a count, as clauses: what the comparison with the company's other counts shows
 * (`doubts`), the balance sheet in the same filing (`balance`), an impossible share price (`price`), that it is
 * probably no count at all, or that other counts for the same date differ (`rivals`).
 */
const listCountReasons = (fact: CompanyFact, context: CountContext): ReadonlyArray<string> => {
  const { balance, comparison, doubts, isFloat, isPlaceholder, price, rivals } = context
  // If the balance sheet has shown an error of unit, that is the reason. If another filing repeats the count, the
  // balance sheet is probably wrong.
  const contradictsBalance = balance !== undefined && balance !== doubts.unitErrors.get(fact) &&
    !doubts.repeated.has(fact) && !comparison.agreesWithBalance(fact, balance)
  return [
    ...listComparisonReasons(fact, context),
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
  const previous = findPreviousFact(fact, floats)
  // A float that is exactly the same as an earlier one was probably copied from the previous report by mistake.
  const same = floats.find(({ end, val }) => end < fact.end && val === fact.val)
  const price = ofFloats.get(fact)
  return [
    ...(previous === undefined || areWithinRatio(fact.val, previous.val) ? [] : [formatJump("ten", previous)]),
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
  const inSmallerUnit = newer.filter((balance) => isInSmallerUnit(balance, cover))
  const others = newer.filter((balance) => !inSmallerUnit.includes(balance))
  for (const balance of inSmallerUnit) unitErrors.set(balance, cover)
  const last = others.at(-1)
  if (last === undefined) return undefined
  // The balance sheet states nearly the number of one of the classes on the cover page, and not their sum.
  const isOfOneClass = !areWithinRatio(last.val, cover.val, maxRatioOfRepetitions) &&
    Array.from(cover.instance?.shares?.values() ?? []).some(({ shares }) =>
      areWithinRatio(last.val, shares, maxRatioOfRepetitions)
    )
  if (isAlike(last, cover) && !isOfOneClass) return last
  // The last balance sheet differs from the cover page, so another report must confirm it.
  const reports = new Set(others.filter((balance) => isAlike(balance, last)).map(({ accn }) => accn))
  const mayBeOneClass = cover.instance?.hasClasses === true && last.val < cover.val
  if (reports.size > 1 && !mayBeOneClass && !isOfOneClass) return last
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
  const statedBalances = new Map(balances.map((count) => [count.accn, count]))
  const comparison = makeCountComparison(evidence, { balances: statedBalances })
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

  /** Returns whether the balance sheet in the filing of a count states the number `val`. */
  const isOnBalanceSheet = ({ accn }: CompanyFact, val: number) =>
    areWithinRatio(statedBalances.get(accn)?.val ?? 0, val, maxRatioOfSameNumber)
  const replaced = [...counts, ...balances].flatMap((fact) => {
    const settled = decided.get(fact)
    return settled === undefined || settled.decision.isConfirmed
      ? []
      : [{ fact, error: Number(settled.read), hasRight: settled.decision.value !== null }]
  })
  /**
   * Returns whether a count is like the number that an operator has replaced with that of `right`, both restated for
   * splits, or has a digit too many or too few, as that number had. If a sum of classes was wrong, only one of them is,
   * and the others change, so a sum may differ more. A balance sheet that states the sum shows that it is right, unless
   * the one beside the error stated that error, too.
   */
  const isLikeError = (fact: CompanyFact, right: CompanyFact, error: number) => {
    const isSum = [fact, right].every(({ instance }) => instance?.hasClasses === true)
    const expected = comparison.restateFor(right, fact)
    const ratio = isSum ? maxRatioOfRepeatedSums : maxRatioOfRepetitions
    const isMistyped = differByDigit(error, right.val)
    return expected.every((val) => !areWithinRatio(fact.val, val, maxClassSumRatio)) &&
      expected.some((val) =>
        areWithinRatio(fact.val, error * val / right.val, ratio) || (isMistyped && differByDigit(fact.val, val))
      ) &&
      (!isSum || isOnBalanceSheet(right, error) || !isOnBalanceSheet(fact, fact.val))
  }
  const findKnownError = (fact: CompanyFact) => {
    if (isDecided(fact)) return undefined
    if (replaced.some(({ error }) => fact.val === error)) return "copy"
    return replaced.some(({ error, fact: right, hasRight }) => hasRight && isLikeError(fact, right, error))
      ? "similar"
      : undefined
  }
  const baseEvidence = { balances: balanceByFiling, findKnownError, isDecided, isPlaceholder }
  const unpriced = compareCountSeries(knownCounts, {
    ...baseEvidence,
    comparison,
    countOwnReasons: (fact) => (isPlaceholder(fact) ? 1 : 0) + (isFloat(fact) ? 1 : 0),
  })
  /** Returns how many other statements confirm the count minus how many contradict it. */
  const getSupport = (count: CompanyFact) => {
    const witnesses = [balanceByFiling.get(count.accn), findPreviousFact(count, knownCounts)]
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
  const decidedSplits = new Map(undoubted.map((fact) => {
    const balance = balanceByFiling.get(fact.accn)
    return [fact, findDecidedSplits(fact, { balance, certain: undoubted, splits })]
  }))
  const finalComparison = makeCountComparison(evidence, { balances: statedBalances, decidedSplits })
  const onCover = compareCountSeries(knownCounts, { ...baseEvidence, comparison: finalComparison, countOwnReasons })
  const onBalanceSheet = compareCountSeries(balanceSheetCounts.filter(isKnown), {
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
