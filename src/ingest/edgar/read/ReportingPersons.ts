/**
 * Doubts what the reporting persons of a Schedule 13D or 13G state if it contradicts itself
 * (docs/decisions/0100-ownership-from-filings.md).
 */
import { makeUnknown, type Problem, type Reading } from "./OwnershipHolders.ts"
import { formatDecimal, formatPercentageAsFraction, onePercent } from "./XmlValues.ts"

/** What the cover page of a person states about shares of the class. Numbers of shares are whole. */
export interface ReportingPerson {
  /** All shares that the person owns beneficially. */
  readonly amount: Reading<string>
  readonly soleVotes: Reading<string>
  readonly sharedVotes: Reading<string>
  /** Sole and shared power to sell; null if the document does not state it. */
  readonly dispositive: ReadonlyArray<string | null>
  /** In hundred-millionths of a percent. */
  readonly percentage: Reading<bigint>
  /** Whether the amount leaves out some shares that the person can vote or sell. */
  readonly isAmountPartial: boolean
}

/** Makes a stated value unknown. A value that is unknown already keeps its own reason. */
const doubt = <A>(reading: Reading<A>, describe: (value: A) => Required<Omit<Problem, "reason">>, reason: string) =>
  reading.value === null ? reading : makeUnknown({ ...describe(reading.value), reason })

/** Makes a stated number of shares unknown. */
export const doubtShares = (reading: Reading<string>, reason: string) =>
  doubt(reading, (shares) => ({ read: shares, confirmable: shares }), reason)

const describePercentage = (percentage: bigint) => ({
  read: formatDecimal(percentage),
  confirmable: formatPercentageAsFraction(percentage),
})

const doubtPercentage = (person: ReportingPerson, reason: string): ReportingPerson => ({
  ...person,
  percentage: doubt(person.percentage, describePercentage, reason),
})

/** Whether the numbers together are greater than the amount. Each may have lost a fraction of a share. */
const exceed = (numbers: ReadonlyArray<string | null>, amount: string) =>
  numbers.reduce((sum, number) => sum + BigInt(number ?? "0"), 0n) > BigInt(amount) + 1n

/** Doubts an amount that is less than the shares that the person can vote or sell, and the votes if they exceed it. */
const compareWithPower = (person: ReportingPerson): ReportingPerson => {
  const { amount, dispositive, isAmountPartial, sharedVotes, soleVotes } = person
  if (amount.value === null || isAmountPartial) return person
  const hasMoreVotes = exceed([soleVotes.value, sharedVotes.value], amount.value)
  if (!hasMoreVotes && !exceed(dispositive, amount.value)) return person
  const doubted = {
    ...person,
    amount: doubtShares(amount, "is less than the shares that the same person can vote or sell"),
  }
  if (!hasMoreVotes) return doubted
  const reason = "gives, with the other voting power, more votes than the same person has shares"
  return { ...doubted, soleVotes: doubtShares(soleVotes, reason), sharedVotes: doubtShares(sharedVotes, reason) }
}

/** Percentages may be rounded to tenths, and some filers truncate them. */
const rounding = onePercent / 10n

/** How many shares the class has, according to the amount and the percentage of a person. */
interface ClassSize {
  readonly least: bigint
  /** Undefined if there is no upper bound, because the percentage may be rounded down to zero. */
  readonly most: bigint | undefined
}

const findClassSize = ({ amount, percentage }: ReportingPerson): ClassSize | undefined => {
  if (amount.value === null || percentage.value === null) return undefined
  const shares = BigInt(amount.value) * 100n * onePercent
  const least = shares / (percentage.value + rounding)
  return percentage.value <= rounding
    ? { least, most: undefined }
    : { least, most: shares / (percentage.value - rounding) }
}

/**
 * Persons compute their percentages with different numbers of shares, because each adds the shares that it could
 * acquire. A decimal point in the wrong place makes a greater difference.
 */
const maxDifference = 5n

const isAtMost = (size: ClassSize, other: ClassSize) =>
  other.most === undefined || size.least <= other.most * maxDifference

const agree = (size: ClassSize, other: ClassSize) => isAtMost(size, other) && isAtMost(other, size)

/**
 * Doubts percentages that contradict each other. A person's amount and percentage imply how many shares the class has:
 * percentages that imply another number than most of the others do are doubted, or all of them if no majority agrees.
 * The person's amount is doubted, too, unless a person of the majority states the same one, as groups often do.
 */
const compareWithOthers = (persons: ReadonlyArray<ReportingPerson>): ReadonlyArray<ReportingPerson> => {
  const sizes = persons.map(findClassSize)
  const known = sizes.flatMap((size) => size ?? [])
  const isBelieved = (size: ClassSize | undefined) =>
    size === undefined || known.filter((other) => agree(size, other)).length * 2 > known.length
  if (sizes.every(isBelieved)) return persons
  const amountsOf = (select: (index: number) => boolean) =>
    new Set(persons.flatMap(({ amount }, index) => select(index) ? amount.value ?? [] : []))
  const believed = amountsOf((index) => isBelieved(sizes[index]))
  const isShared = amountsOf(() => true).size === 1
  return persons.map((person, index) => {
    if (isBelieved(sizes[index])) return person
    const reason = "gives, with the amount, another size of the class than other persons give"
    const doubted = doubtPercentage(person, reason)
    return isShared || (person.amount.value !== null && believed.has(person.amount.value))
      ? doubted
      : { ...doubted, amount: doubtShares(person.amount, "gives, with the percentage, another size of the class") }
  })
}

/** Owners of five percent or less file no schedule until they have had more. The percentage may be rounded. */
const leastOriginal = 5n * onePercent - rounding

/** Doubts percentages of a first schedule that are less than five together: `0.075` may mean 7.5 percent. */
const compareWithForm = (persons: ReadonlyArray<ReportingPerson>): ReadonlyArray<ReportingPerson> => {
  const sum = persons.reduce<bigint | null>(
    (sum, { percentage }) => sum === null || percentage.value === null ? null : sum + percentage.value,
    0n,
  )
  return sum === null || sum >= leastOriginal
    ? persons
    : persons.map((person) =>
      doubtPercentage(person, "is part of less than five percent in a schedule that is no amendment")
    )
}

/** Doubts a percentage of no shares. */
const compareWithAmount = (person: ReportingPerson): ReportingPerson =>
  person.amount.value === "0" && person.percentage.value !== null && person.percentage.value > rounding
    ? {
      ...doubtPercentage(person, "is one of no shares"),
      amount: doubtShares(person.amount, "is 0, but the percentage is not"),
    }
    : person

/** Returns the persons with doubts instead of the values that contradict each other. */
export const doubtContradictions = (
  persons: ReadonlyArray<ReportingPerson>,
  isAmendment: boolean,
): ReadonlyArray<ReportingPerson> => {
  const compared = compareWithOthers(persons.map(compareWithPower).map(compareWithAmount))
  return isAmendment ? compared : compareWithForm(compared)
}
