/**
 * Detects contradictory values that the reporting persons of a Schedule 13D or 13G state, and marks them as doubtful
 * (docs/decisions/0100-ownership-from-filings.md). Marking a value makes it unknown, so that the row does not contain
 * it.
 */
import { type HolderProblem, makeUnknownReading, type Reading } from "./OwnershipHolders.ts"
import { formatDecimal, formatPercentageAsFraction, unitsPerPercent } from "./XmlValues.ts"

/** The statements on a reporting person's cover page about shares of the class. Numbers of shares are whole. */
export interface ReportingPerson {
  /** All shares that the person beneficially owns. */
  readonly amount: Reading<string>
  readonly soleVotes: Reading<string>
  readonly sharedVotes: Reading<string>
  /**
   * Numbers of shares that the person has sole and shared power to sell. Null if the document does not state a number.
   */
  readonly dispositive: ReadonlyArray<string | null>
  /** Percentage of the class, in units of 10⁻⁸ percent. */
  readonly percentage: Reading<bigint>
  /** Whether the person has checked the box that the amount excludes some shares that the person can vote or sell. */
  readonly isAmountPartial: boolean
}

/**
 * Marks a stated value as doubtful. `describe` returns two texts: the value as the document states it, and
 * the value that an operator can confirm. If the value is already unknown, the original reason remains.
 */
const doubt = <A>(
  reading: Reading<A>,
  describe: (value: A) => Required<Omit<HolderProblem, "reason">>,
  reason: string,
) => reading.value === null ? reading : makeUnknownReading({ ...describe(reading.value), reason })

/** Marks a stated number of shares as doubtful, which makes it unknown. */
export const doubtShares = (reading: Reading<string>, reason: string) =>
  doubt(reading, (shares) => ({ read: shares, confirmable: shares }), reason)

/** Marks a stated number of shares as doubtful, unless it is zero. */
export const doubtSharesUnlessZero = (reading: Reading<string>, reason: string) =>
  reading.value === "0" ? reading : doubtShares(reading, reason)

const describePercentage = (percentage: bigint) => ({
  read: formatDecimal(percentage),
  confirmable: formatPercentageAsFraction(percentage),
})

/** Marks a person's percentage as doubtful. */
const doubtPercentage = (person: ReportingPerson, reason: string): ReportingPerson => ({
  ...person,
  percentage: doubt(person.percentage, describePercentage, reason),
})

/**
 * Returns whether the sum of the numbers exceeds the amount. A difference of one share is allowed, because fractions of
 * shares may have been dropped.
 */
const exceed = (numbers: ReadonlyArray<string | null>, amount: string) =>
  numbers.reduce((sum, number) => sum + BigInt(number ?? "0"), 0n) > BigInt(amount) + 1n

/**
 * Marks a person's amount as doubtful if it is less than the number of shares that the person can vote or sell, because
 * the amount includes all of these. If it is less than the voting power, also marks the numbers of votes, because it is
 * unclear which of the three numbers is wrong.
 */
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

/** Returns the greater of a person's voting and dispositive power, or null if a number is unknown. */
const findPower = ({ dispositive, sharedVotes, soleVotes }: ReportingPerson) => {
  const [sole, shared, soleDispositive, sharedDispositive] = [soleVotes.value, sharedVotes.value, ...dispositive]
    .flatMap((shares) => shares === null ? [] : BigInt(shares))
  if (sole === undefined || shared === undefined || soleDispositive === undefined || sharedDispositive === undefined) {
    return null
  }
  const [votes, sales] = [sole + shared, soleDispositive + sharedDispositive]
  return votes > sales ? votes : sales
}

/**
 * Maximum factor between an amount and the powers of all persons of the schedule. Only shares with voting or
 * dispositive power are beneficially owned (Rule 13d-3), but the powers may be over different shares, and some filers
 * leave out the shares that they could acquire. Members of a group may state the amount of the whole group.
 */
const maxAmountOfPower = 2n

/**
 * Marks a person's amount as doubtful if it is far more than all persons of the schedule can vote or sell, unless they
 * state no power at all. Also marks the numbers of votes, because they may be the wrong ones.
 */
const compareWithPowers = (persons: ReadonlyArray<ReportingPerson>): ReadonlyArray<ReportingPerson> => {
  const power = persons.map(findPower).reduce((sum, one) => sum === null || one === null ? null : sum + one, 0n)
  if (power === null || power === 0n) return persons
  return persons.map((person) => {
    if (person.amount.value === null || BigInt(person.amount.value) <= power * maxAmountOfPower + 1n) return person
    const reason = "is far less than the amount of shares that the same person has"
    return {
      ...person,
      amount: doubtShares(person.amount, "is far more than the shares that all persons can vote or sell"),
      soleVotes: doubtSharesUnlessZero(person.soleVotes, reason),
      sharedVotes: doubtSharesUnlessZero(person.sharedVotes, reason),
    }
  })
}

/** Tolerance for percentages, because they may be rounded or truncated to tenths. */
const rounding = unitsPerPercent / 10n

/**
 * Bounds for the size of the class in shares, as implied by a person's amount and percentage. For example, 500 shares
 * that are 5.0 percent imply a class of about 10,000 shares.
 */
interface ClassSize {
  readonly least: bigint
  /** Upper bound. Undefined if there is none, because the percentage may have been rounded down to zero. */
  readonly most: bigint | undefined
}

const findClassSize = ({ amount, percentage }: ReportingPerson): ClassSize | undefined => {
  if (amount.value === null || percentage.value === null) return undefined
  const shares = BigInt(amount.value) * 100n * unitsPerPercent
  const least = shares / (percentage.value + rounding)
  return percentage.value <= rounding
    ? { least, most: undefined }
    : { least, most: shares / (percentage.value - rounding) }
}

/**
 * Maximum factor between two persons' class sizes. The sizes differ because each person adds the shares that it could
 * acquire. A misplaced decimal point causes a larger difference.
 */
const maxDifference = 5n

const isAtMost = (size: ClassSize, other: ClassSize) =>
  other.most === undefined || size.least <= other.most * maxDifference

const agree = (size: ClassSize, other: ClassSize) => isAtMost(size, other) && isAtMost(other, size)

/**
 * Marks percentages that contradict each other as doubtful. A person's amount and percentage imply the size of the
 * class, which must be about the same for all persons. If a person's class size disagrees with the majority, or if
 * there is no majority, that person's percentage is marked. A size without an upper bound supports nobody, because it
 * agrees with too many others: a person without shares agrees with everyone.
 *
 * The amount is marked as well, because it may be the wrong one of the two numbers. The exception is an amount that is
 * confirmed: someone in the majority states it too, or all persons who disagree do, as is common in groups.
 */
const compareWithOthers = (persons: ReadonlyArray<ReportingPerson>): ReadonlyArray<ReportingPerson> => {
  const sizes = persons.map(findClassSize)
  const known = sizes.flatMap((size) => size ?? [])
  const findOpponents = (size: ClassSize | undefined) =>
    size === undefined ? [] : known.filter((other) => !agree(size, other))
  /** Returns whether nobody disagrees with the size, or more bounded sizes agree with it than sizes disagree. */
  const isBelieved = (size: ClassSize | undefined) => {
    const opponents = findOpponents(size).length
    if (size === undefined || opponents === 0) return true
    return known.filter((other) => other.most !== undefined && agree(size, other)).length > opponents
  }
  if (sizes.every(isBelieved)) return persons
  /** Returns the amounts of the selected persons. */
  const amountsOf = (select: (index: number) => boolean) =>
    new Set(persons.flatMap(({ amount }, index) => select(index) ? amount.value ?? [] : []))
  const believedAmounts = amountsOf((index) => isBelieved(sizes[index]))
  const haveSameAmount = amountsOf((index) => findOpponents(sizes[index]).length > 0).size === 1
  return persons.map((person, index) => {
    if (isBelieved(sizes[index])) return person
    const reason = "gives, with the amount, another size of the class than other persons give"
    const doubted = doubtPercentage(person, reason)
    return haveSameAmount || (person.amount.value !== null && believedAmounts.has(person.amount.value))
      ? doubted
      : { ...doubted, amount: doubtShares(person.amount, "gives, with the percentage, another size of the class") }
  })
}

/**
 * Minimum total percentage in a schedule that is not an amendment, allowing for rounding. Owners of five percent or
 * less need not file a schedule. Only those who owned more before do so, and they file an amendment.
 */
const leastOriginal = 5n * unitsPerPercent - rounding

/**
 * Marks all percentages in a schedule that is not an amendment as doubtful if they add up to less than five percent.
 * They are then probably fractions: `0.075` may mean 7.5 percent.
 */
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

/**
 * A class with more shares than this is so rare that a percentage below one percent that implies one is rather a
 * fraction, or a missing number.
 */
const maxClassSize = 1_000_000_000n

/**
 * Marks the percentage as doubtful if it is one of no shares, or less than one percent although the amount is great. If
 * there are no shares, also marks the amount.
 */
const compareWithAmount = (person: ReportingPerson): ReportingPerson => {
  const { amount, percentage } = person
  if (amount.value === "0" && percentage.value !== null && percentage.value > rounding) {
    return {
      ...doubtPercentage(person, "is one of no shares"),
      amount: doubtShares(amount, "is 0, but the percentage is not"),
    }
  }
  const isSmall = percentage.value !== null && percentage.value < unitsPerPercent
  return isSmall && (findClassSize(person)?.least ?? 0n) > maxClassSize
    ? doubtPercentage(person, "gives, with the amount, a class of more than a billion shares")
    : person
}

/**
 * Marks values that contradict each other as doubtful: first the values of each person, then those of different
 * persons, and finally, unless the schedule is an amendment, the percentages that are too small for its form.
 */
export const doubtContradictions = (
  persons: ReadonlyArray<ReportingPerson>,
  isAmendment: boolean,
): ReadonlyArray<ReportingPerson> => {
  const compared = compareWithOthers(compareWithPowers(persons.map(compareWithPower)).map(compareWithAmount))
  return isAmendment ? compared : compareWithForm(compared)
}
