/** Finds share counts and public floats that contradict each other, because their quotient is an impossible price. */
import { countDays } from "../../../contract/rules/Dates.ts"
import type { CompanyFact } from "./CompanyFacts.ts"
import { makeCountComparison } from "./CountComparison.ts"
import type { CountEvidence } from "./CountEvidence.ts"
import { areWithinRatio, formatNumber, maxRatio, roundingUnits } from "./CountRatios.ts"
import { findSplitFactor, restateCount } from "./CountSplits.ts"

/** Few companies have more shares than this. A count that is larger is not stated in thousands. */
const maxUsualCount = 10_000_000_000

/**
 * Limits for prices per share, in US dollars. A price outside of `leastPrice` to `maxUsualPrice` suggests an error:
 * among listed shares, only Berkshire Hathaway's (about 700,000) have ever cost more. A price above `greatestPrice`
 * proves an error: no share has ever cost that much.
 */
export const [leastPrice, maxUsualPrice, greatestPrice] = [0.0001, 10_000, 9_999_999]

/**
 * Minimum ratio of the computed price (public float divided by share count) to the closing price. The computed price is
 * normally somewhat below the close, because the float excludes the shares held by affiliates. If the count is a
 * thousand times too large, the ratio is at most 0.001.
 */
const minShareOfClose = 0.002

/**
 * Maximum age of a public float, in days, when it is compared with counts. Companies state it once a year, months after
 * its date.
 */
const maxFloatAge = 600

/** An impossible share price: the result of dividing a public float by a share count. */
export interface PriceDoubt {
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
export const findPriceDoubt = (
  count: CompanyFact,
  floats: ReadonlyArray<CompanyFact>,
  { closes, splits = [] }: Pick<CountEvidence, "closes" | "splits">,
): PriceDoubt | undefined => {
  const float = findFloat(count, floats)
  if (float === undefined) return undefined
  // What the count may be on the date of the float, the most likely number first. There is a doubt only if the price is
  // impossible for all of them. The doubt then states the price for the first.
  const counts = restateCount(count, [float.end], splits)
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
export const formatPriceDoubt = (other: string, { close, float, price }: PriceDoubt) =>
  `gives a price of ${formatNumber(price)} USD per share with the ${other}${
    close === undefined ? "" : `, but the close on ${float.end} was ${formatNumber(close)} USD`
  }`

/**
 * Returns the newest fact of another filing that has an earlier date than this one and was not filed later.
 * `facts` is sorted by date.
 */
export const findPreviousFact = (fact: CompanyFact, facts: ReadonlyArray<CompanyFact>) =>
  facts.findLast(({ accn, end, filed }) => accn !== fact.accn && end < fact.end && filed <= fact.filed)

/** The counts and public floats that are doubted because they give an impossible share price. */
export interface DoubtedPrices {
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
export const findDoubtedPrices = (
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
  const { isAlike } = makeCountComparison(evidence)
  const priced = counts.flatMap((count) => {
    const doubt = findPriceDoubt(count, floats, evidence)
    // Infinite support makes a decided count win against every float, except against a decided one.
    return doubt === undefined ? [] : [{ count, doubt, support: isDecided(count) ? Infinity : getSupport(count) }]
  })
  /** A public float has only one other statement to compare it with: the previous float. */
  const getSupportOfFloat = (float: CompanyFact) => {
    const previous = findPreviousFact(float, floats)
    return previous === undefined ? 0 : areWithinRatio(float.val, previous.val) ? 1 : -1
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
