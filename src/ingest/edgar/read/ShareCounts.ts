/**
 * Decides which share counts of a company can be relied on, and which of them is the current one
 * (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Schema } from "effect"
import { countDays } from "../../../contract/rules/Dates.ts"
import { type CompanyFact, type CompanyFacts, isPeriodicReport } from "./CompanyFacts.ts"
import type { CompanySubmissions } from "./Submissions.ts"

const maxRatio = 10

/** Whether the values differ by a factor of at most ten. A greater difference suggests a split or an error. */
export const isSimilar = (a: number, b: number) => a / b <= maxRatio && b / a <= maxRatio

/** Whether `small` is about a thousand or a million times smaller, as if it were in thousands or millions. */
const isInThousandsOf = (small: number, large: number) =>
  [1_000, 1_000_000].some((unit) => large / small >= unit / 2 && large / small <= unit * 2)

const differsInUnit = (a: number, b: number) => isInThousandsOf(a, b) || isInThousandsOf(b, a)

/** All counts of one date, sorted by filing date. The newest filing may correct the others. */
interface DatedCounts {
  readonly newest: CompanyFact
  readonly facts: ReadonlyArray<CompanyFact>
}

const groupByDate = (counts: ReadonlyArray<CompanyFact>): ReadonlyArray<DatedCounts> =>
  Array.from(Map.groupBy(counts, ({ end }) => end).values()).flatMap((facts) => {
    const newest = facts.at(-1)
    return newest === undefined ? [] : [{ newest, facts }]
  })

export interface AssessedCounts {
  /** The newest reliable count. */
  readonly reliable: CompanyFact | undefined
  /** Whether a count that is newer than `reliable` awaits confirmation, and may be right. */
  readonly isDoubtful: boolean
  /** Counts that are probably in another unit, such as thousands, each with the count that shows it. */
  readonly unitErrors: ReadonlyMap<CompanyFact, CompanyFact>
}

/**
 * Assesses counts from the oldest to the newest. A count that differs from the last reliable one by a factor of more
 * than ten is reliable if the balance sheet of its filing agrees, or if another filing repeats it: the next report or
 * an amendment. A factor of about a thousand suggests an error of unit; then this takes more reports than before and,
 * if the count became smaller, at least three, whatever their balance sheets say.
 */
export const assessCounts = (
  counts: ReadonlyArray<CompanyFact>,
  balanceSheetCounts: ReadonlyArray<CompanyFact>,
): AssessedCounts => {
  const balances = new Map(balanceSheetCounts.map((count) => [count.accn, count]))
  const unitErrors = new Map<CompanyFact, CompanyFact>()
  const markUnitErrors = (dates: ReadonlyArray<DatedCounts>, shownBy: CompanyFact) => {
    for (const { facts } of dates) {
      for (const fact of facts) if (differsInUnit(fact.val, shownBy.val)) unitErrors.set(fact, shownBy)
    }
  }
  let reliable: CompanyFact | undefined
  /** Number of dates whose counts are similar to `reliable`. */
  let reliableDates = 0
  /** Unconfirmed counts of consecutive dates, which are similar to each other. */
  let candidates: ReadonlyArray<DatedCounts> = []
  let suggestUnitError = false

  for (const date of groupByDate(counts)) {
    const { newest } = date
    const balance = balances.get(newest.accn)
    if (balance !== undefined && isInThousandsOf(newest.val, balance.val)) {
      markUnitErrors([date], balance)
      continue
    }
    if (reliable === undefined || isSimilar(newest.val, reliable.val)) {
      if (reliable !== undefined) markUnitErrors(candidates, reliable)
      reliable = newest
      reliableDates += 1
      candidates = []
      continue
    }
    const previous = candidates.at(-1)?.newest
    if (previous !== undefined && isSimilar(newest.val, previous.val)) candidates = [...candidates, date]
    else {
      suggestUnitError = previous === undefined && differsInUnit(newest.val, reliable.val)
      candidates = [date]
    }
    const filings = new Set(
      candidates.flatMap(({ facts }) => facts.filter(({ val }) => isSimilar(val, newest.val)).map(({ accn }) => accn)),
    )
    // Errors of unit make a count too small, often in the whole report, so a smaller count needs more evidence.
    const mayBeInThousands = suggestUnitError && newest.val < reliable.val
    const isRepeated = suggestUnitError
      ? candidates.length > reliableDates && (!mayBeInThousands || candidates.length >= 3)
      : filings.size >= 2
    if (isRepeated || (balance !== undefined && !mayBeInThousands && isSimilar(newest.val, balance.val))) {
      reliable = newest
      reliableDates = candidates.length
      candidates = []
    }
  }

  const last = candidates.at(-1)?.newest
  if (reliable === undefined || last === undefined) return { reliable, isDoubtful: false, unitErrors }
  if (suggestUnitError) markUnitErrors(candidates, reliable)
  // If the newer count is the larger one, the older one may be in thousands.
  return { reliable, isDoubtful: !suggestUnitError || last.val > reliable.val, unitErrors }
}

/**
 * A count is outdated if the company filed a report more than this many days later. Companies report every year, so
 * the company must have stated newer counts with dimensions, which the SEC's facts omit.
 */
const maxAgeInDays = 400

const isOutdated = ({ filed }: CompanyFact, { filings }: CompanySubmissions) =>
  filings.some(({ filingDate, form }) => isPeriodicReport(form) && countDays(filed, filingDate) > maxAgeInDays)

/**
 * Returns the reliable count with the newest date: that of the cover page or, if a newer report has no count there, a
 * similar one of the balance sheet. `none` means that the facts are silent, `doubtful` that they may have changed.
 */
export const findCurrentCount = (
  { balanceSheetCounts, counts }: CompanyFacts,
  submissions: CompanySubmissions,
): CompanyFact | "none" | "doubtful" => {
  const onCover = assessCounts(counts, balanceSheetCounts)
  const newest = counts.at(-1)
  if (onCover.isDoubtful && newest !== undefined && !isOutdated(newest, submissions)) return "doubtful"
  const [cover, balance] = [onCover.reliable, assessCounts(balanceSheetCounts, []).reliable].map((count) =>
    count === undefined || isOutdated(count, submissions) ? undefined : count
  )
  const isBalanceNewer = cover !== undefined && balance !== undefined && balance.end > cover.end &&
    isSimilar(balance.val, cover.val)
  return (isBalanceNewer ? balance : cover ?? balance) ?? "none"
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
