/** Compares two share counts of a company, with the splits between them and the classes that they consist of. */
import { countDays } from "../../../contract/rules/Dates.ts"
import { byFactDate, type ClassShares, type CompanyFact } from "./CompanyFacts.ts"
import type { CountEvidence } from "./CountEvidence.ts"
import { areWithinRatio, differByDigit, isInThousandsOf, maxCountRatio, maxRatioOfSameNumber } from "./CountRatios.ts"
import { findOwnSymbol } from "./Issuer.ts"
import { type DecidedSplits, findSplitFactor, noDecidedSplits, restateCount } from "./CountSplits.ts"

/**
 * The largest factor between a cover page and the balance sheet in the same filing, whose dates are at most
 * `maxDaysInFiling` apart.
 */
export const maxRatioInFiling = 3

/**
 * The largest factor between the sum of the classes on a cover page and another count, such as that of the balance
 * sheet in the same filing. It is less than `maxRatioInFiling`, because a wrong or forgotten class changes the sum only
 * a little.
 */
export const maxClassSumRatio = 1.25

/** The largest number of days between the dates of a cover page and of a balance sheet that are compared closely. */
const maxDaysInFiling = 100

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
export const hasClassError = (a: CompanyFact, b: CompanyFact) =>
  areWithinRatio(a.val, b.val, maxCountRatio) &&
  Array.from(a.instance?.shares ?? []).some(([name, { shares }]) => {
    const other = b.instance?.shares?.get(name)?.shares ?? shares
    const difference = shares - other
    return !areWithinRatio(shares, other, maxCountRatio) &&
      (a.val - b.val) * Math.sign(difference) >= Math.abs(difference) / 2
  })

/** Returns whether the count is that of a class with a name, or the sum of several. */
export const hasNamedClasses = ({ instance }: CompanyFact) =>
  Array.from(instance?.shares?.keys() ?? []).some((name) => name !== "")

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

/** The part of a class that must be missing in the sum: if its symbol is not listed, and if it is. */
const minMissingShare = { unlisted: 0.5, listed: 0.25 }

/**
 * Returns a class that the earlier of two cover pages states and that the later one seems to have forgotten, or
 * undefined if there is none. `restateFor` returns what the first count may be in the shares of the second one.
 *
 * - a class whose symbol the company still has. It is not forgotten if the later page states its symbol for another
 *   class, or if it had a tenth of the shares or more and most of these are in the sum: then it was converted, and the
 *   SEC's list lags behind;
 * - another class with a tenth of the shares or more, if most of its shares are missing in the sum, too. Otherwise,
 *   they may have been converted into those of another class.
 *
 * If the later page has only a total, or all its classes have other names, a class with a symbol is forgotten if the
 * others alone explain the sum. Otherwise, the classes may have been merged.
 *
 * Any class that the later page does not state is forgotten if the balance sheet of the same filing (in `balances`, by
 * accession number) states the sum of that page and the class.
 *
 * If several classes are missing, returns the one with the most shares. `tickers` are the company's current symbols.
 */
const findMissingClass = (
  a: CompanyFact,
  b: CompanyFact,
  { balances = new Map(), restateFor, tickers = [] }: {
    readonly balances: ReadonlyMap<string, CompanyFact> | undefined
    readonly restateFor: (a: CompanyFact, b: CompanyFact) => ReadonlyArray<number>
    readonly tickers: ReadonlyArray<string> | undefined
  },
): MissingClass | undefined => {
  const [earlier, later] = byFactDate(a, b) <= 0 ? [a, b] : [b, a]
  const [before, after] = [earlier.instance?.shares, later.instance?.shares]
  if (before === undefined || before.size < 2 || !later.path.startsWith("dei/")) return undefined
  const hasCommonName = Array.from(before.keys()).some((name) => after?.has(name))
  const findOwn = (symbol: string | null) => symbol === null ? undefined : findOwnSymbol(tickers, symbol)
  const stated = new Set(Array.from(after?.values() ?? [], ({ symbol }) => findOwn(symbol)))
  /** What the sum of the earlier page may be on the date of the later one. There are several if a split is near. */
  const sums = restateFor(earlier, later)
  const balance = balances.get(later.accn)
  /** What the balance sheet of the later filing states, in the shares of its cover page. */
  const total = balance === undefined ? [] : restateFor(balance, later)
  const isTotal = (sum: number) => total.some((val) => areWithinRatio(val, sum, maxRatioOfSameNumber))
  return Array.from(before).flatMap(([name, one]): ReadonlyArray<MissingClass> => {
    const symbol = findOwn(one.symbol)
    const isListed = symbol !== undefined && !stated.has(symbol)
    /** The part of all shares that the class had. */
    const part = one.shares / earlier.val
    /** Whether at least this part of the class's shares is missing in the later sum, however the splits are counted. */
    const isMissing = (least: number) =>
      part >= minMissingPart && sums.every((sum) => sum - later.val >= sum * part * least)
    const isMissingInSum = isMissing(minMissingShare.unlisted)
    const isOnBalanceSheet = after?.has(name) !== true && part >= minMissingPart / (isListed ? 2 : 1) &&
      !isTotal(later.val) && sums.some((sum) => isTotal(later.val + sum * part))
    const isForgotten = isOnBalanceSheet || (hasCommonName
      ? after?.has(name) === false &&
        (isListed ? part < minMissingPart || isMissing(minMissingShare.listed) : isMissingInSum)
      : isListed && isMissingInSum && sums.some((sum) => areWithinRatio(later.val, sum * (1 - part), maxClassSumRatio)))
    return isForgotten ? [{ ...one, shares: (sums[0] ?? earlier.val) * part, isListed }] : []
  }).toSorted((one, other) => other.shares - one.shares)[0]
}

/**
 * Creates functions that compare counts after adjusting them for the splits between their dates. `balances` contains
 * the count on the balance sheet of each filing, by accession number.
 *
 * - `isAlike`: whether the counts, and those of each class, differ by at most the factor `ratio`, and the later one
 *   lacks no class of the earlier one
 * - `findMissingClass`: the class that the later count lacks
 * - `restateFor`: what the first count may be in the shares of the second one (see `restateCount`)
 * - `agreesWithBalance`: whether a count from a cover page agrees with the balance sheet in the same filing
 * - `isInSmallerUnit`: whether the first count, or one of its classes, appears to be in thousands or millions of shares
 *   while the second one is in shares
 * - `differsInUnit`: whether this is so for either count
 */
export const makeCountComparison = (
  { splits = [], tickers }: Pick<CountEvidence, "splits" | "tickers">,
  { balances, decidedSplits = new Map() }: {
    readonly balances?: ReadonlyMap<string, CompanyFact>
    readonly decidedSplits?: ReadonlyMap<CompanyFact, DecidedSplits>
  } = {},
) => {
  /** What the first count may be in the shares of the second one. */
  const restateFor = (a: CompanyFact, b: CompanyFact) =>
    restateCount(a, [b.end, b.filed], splits, {
      decided: decidedSplits.get(a) ?? noDecidedSplits,
      decidedThere: decidedSplits.get(b) ?? noDecidedSplits,
    })
  const findMissing = (a: CompanyFact, b: CompanyFact) => findMissingClass(a, b, { balances, restateFor, tickers })
  /** The same number before and after a known split is an error, such as a count copied from the previous report. */
  const isAlike = (a: CompanyFact, b: CompanyFact, ratio = maxCountRatio) =>
    findMissing(a, b) === undefined &&
    restateFor(a, b).some((val) => {
      const restated = changeCount(a, val)
      return !hasClassInThousandsOf(restated, b) && !hasClassInThousandsOf(b, restated) &&
        !hasClassError(restated, b) && areWithinRatio(val, b.val, a.val === b.val ? 1 : ratio)
    })
  /** Returns whether the first count appears to be in thousands or millions of shares while the second one is not. */
  const isInSmallerUnit = (small: CompanyFact, large: CompanyFact) =>
    !isAlike(small, large) &&
    restateFor(small, large).some((val) =>
      isInThousandsOf(val, large.val) || hasClassInThousandsOf(changeCount(small, val), large)
    )
  const differsInUnit = (a: CompanyFact, b: CompanyFact) => isInSmallerUnit(a, b) || isInSmallerUnit(b, a)
  const agreesWithBalance = (cover: CompanyFact, balance: CompanyFact) => {
    // Numbers for dates far apart, or with a split of unknown ratio in between, may differ like those of two filings.
    const isClose = Math.abs(countDays(balance.end, cover.end)) <= maxDaysInFiling &&
      findSplitFactor(splits, balance.end, cover.filed) !== undefined
    // A wrong or forgotten class changes the sum only a little, so a sum of named classes must agree more closely.
    const ratio = hasNamedClasses(cover) ? maxClassSumRatio : maxRatioInFiling
    // A leading digit too many or too few changes the number by less than the factor `maxRatioInFiling`.
    const isMistyped = isClose &&
      restateFor(balance, cover).every((val) =>
        !areWithinRatio(cover.val, val, maxClassSumRatio) && differByDigit(cover.val, val)
      )
    return !isMistyped && isAlike(cover, balance, isClose ? ratio : maxCountRatio)
  }
  return {
    restateFor,
    agreesWithBalance,
    isAlike,
    isInSmallerUnit,
    differsInUnit,
    findMissingClass: findMissing,
  }
}

export type CountComparison = ReturnType<typeof makeCountComparison>
