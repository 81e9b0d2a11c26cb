/** Restates share counts for splits, and determines which splits a count already includes. */
import { countDays } from "../../../contract/rules/Dates.ts"
import type { CompanyFact } from "./CompanyFacts.ts"

/** Maximum number of days by which the recorded date of a split may be wrong. */
const maxSplitDelay = 7

/** A split of the security that the share counts and closing prices refer to. */
export interface KnownSplit {
  readonly day: string
  /** The number of shares that one share became. Null if it is unknown, or if sources disagree. */
  readonly ratio: number | null
}

/** Whether a count is stated in the shares after a split, by the day of the split. Undecided splits are absent. */
export type DecidedSplits = ReadonlyMap<string, boolean>

export const noDecidedSplits: DecidedSplits = new Map()

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

/**
 * Returns the number of shares on the day `to` that correspond to one share on the day `from`, or undefined if the
 * ratio of a split in between is unknown. A split takes effect at the start of its day.
 */
export const findSplitFactor = (splits: ReadonlyArray<KnownSplit>, from: string, to: string) =>
  findFactorBetween(splits, { day: from, decided: noDecidedSplits }, { day: to, decided: noDecidedSplits })

/**
 * Returns what a count may be on one of the `days`, after the splits between its date and that day. There are several
 * candidates, because it is not known whether the filing has already adjusted the count for splits up to the filing
 * date (`filed`), and because the recorded day of a split can be wrong by some days. The first candidate assumes that
 * the count is as of its own date (`end`) and applies to the first day. If a ratio is unknown, the count is not
 * adjusted.
 *
 * For splits in `decided`, it is known whether the count includes them. For those in `decidedThere`, it is known
 * whether a count for the `days` includes them. These splits cause no further candidates.
 */
export const restateCount = (
  { end, filed, val }: CompanyFact,
  days: ReadonlyArray<string>,
  splits: ReadonlyArray<KnownSplit>,
  { decided, decidedThere }: { readonly decided: DecidedSplits; readonly decidedThere: DecidedSplits } = {
    decided: noDecidedSplits,
    decidedThere: noDecidedSplits,
  },
): readonly [number, ...Array<number>] => {
  /** Returns whether the split is so near one of the dates that it may be on either side of it. */
  const isNear = ({ day }: KnownSplit) =>
    [...(decided.has(day) ? [] : [end, filed]), ...(decidedThere.has(day) ? [] : days)]
      .some((other) => Math.abs(countDays(day, other)) <= maxSplitDelay)
  /** Returns the factor for each combination of a date of the count and one of the `days`. */
  const restateWith = (known: ReadonlyArray<KnownSplit>) =>
    [end, filed].flatMap((from) =>
      days.map((to) => {
        const factor = findFactorBetween(known, { day: from, decided }, { day: to, decided: decidedThere })
        return { from, to, factor: factor ?? 1 }
      })
    )
  const others = splits.filter((split) => !isNear(split))
  /** The factor of all near splits together. */
  const inBetween = splits.filter(isNear).reduce((product, { ratio }) => product * (ratio ?? 1), 1)
  const [first = val, ...rest] = [
    // As if all splits took place on their recorded days.
    ...restateWith(splits).map(({ factor }) => factor * val),
    // As if none, or all, of the near splits took place between the two dates.
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
  // The recorded day of a split may be wrong by a week, so a split is near a count if it is recorded between a week
  // before the date of the count and a week after its filing.
  const isAround = ({ day }: KnownSplit, one: CompanyFact) =>
    countDays(one.end, day) >= -maxSplitDelay && countDays(day, one.filed) >= -maxSplitDelay
  const near = splits.filter((split) => isAround(split, count))
  const isKnown = near.every(({ ratio }) => ratio !== null)
  /** The factors by which the first 0, 1, 2 … of these splits change a number of shares. */
  const factors = near.reduce<ReadonlyArray<number>>(
    (products, { ratio }) => products.concat((products.at(-1) ?? 1) * (ratio ?? 1)),
    [1],
  )
  // After a reverse split, companies often issue many shares, so that more growth is plausible.
  const isReverse = factors.some((factor) => factor < 1)
  // The first witness.
  const previous = certain.findLast((other) =>
    other.accn !== accn && other.end < end && near.every(({ day }) => countDays(other.filed, day) > maxSplitDelay)
  )
  const others = splits.filter((split) => !near.includes(split))
  // The factor of all other splits since the previous count, if it is certain which of them that count includes.
  const change = previous === undefined || others.some((split) => isAround(split, previous))
    ? undefined
    : findSplitFactor(others, previous.end, end)
  const byPrevious = isKnown && previous !== undefined && change !== undefined
    ? findOnlyExplanation(factors, previous.val * change, val, isReverse)
    : undefined
  // The second witness. If the count and the balance sheet include different numbers of splits, their ratio is that of
  // the splits which only one of them includes. So all pairs of such numbers are tried. The balance sheet is a witness
  // only if a single ratio explains the difference, and a single pair has this ratio.
  const pairs = factors.flatMap((cover, included) => factors.map((other) => ({ included, ratio: cover / other })))
  const ratios = Array.from(Map.groupBy(pairs, ({ ratio }) => ratio).values())
  const pair = isKnown && balance !== undefined
    ? ratios[findOnlyExplanation(ratios.map(([first]) => first?.ratio ?? 1), balance.val, val, isReverse) ?? -1]
    : undefined
  const byBalance = pair?.length === 1 ? pair[0]?.included : undefined
  return { near, witnessed: new Set([byPrevious, byBalance].filter((included) => included !== undefined)) }
}

/** Returns which splits around a count it includes, if the witnesses tell and do not contradict each other. */
export const findDecidedSplits = (count: CompanyFact, evidence: SplitEvidence): DecidedSplits => {
  const { near, witnessed } = weighSplits(count, evidence)
  const [included] = witnessed
  return included === undefined || witnessed.size > 1
    ? noDecidedSplits
    : new Map(near.map(({ day }, position) => [day, position < included]))
}

/**
 * Decides for each split around a count whether the count is stated in the shares after it. Without a witness, the
 * dates decide for a split before the date of the count or after the filing.
 */
export const findCountedSplits = (count: CompanyFact, evidence: SplitEvidence): ReadonlyArray<CountedSplit> => {
  const { date, end, filed } = count
  const { near, witnessed } = weighSplits(count, evidence)
  const decided = findDecidedSplits(count, evidence)
  return near.map(({ day }) => ({
    day,
    isCounted: decided.get(day) ??
      (witnessed.size > 1 || date !== undefined || (end < day && day <= filed) ? null : day <= end),
  }))
}
