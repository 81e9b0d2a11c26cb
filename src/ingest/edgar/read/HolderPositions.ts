/**
 * Groups the lines of an ownership form into positions, and determines the amount of each position after its last
 * transaction (docs/decisions/0100-ownership-from-filings.md). A position is what a holder owns of one security in one
 * way, such as common stock held by a trust.
 */
import type { HolderProblem } from "./OwnershipHolders.ts"
import type { SecurityIdentity } from "./SecurityTitles.ts"
import { unitsPerShare } from "./XmlValues.ts"

/** A line in a form's table of derivative or non-derivative securities. It reports a holding or a transaction. */
export interface HoldingLine {
  readonly isHolding: boolean
  readonly isDerivative: boolean
  readonly title: string
  readonly security: SecurityIdentity
  /**
   * The terms that lines about the same position have in common: nature of ownership (such as `By Trust`), exercise
   * price, and dates, as JSON.
   */
  readonly terms: string
  /** Whether the owner holds the securities directly, and not through a trust, for example. */
  readonly isDirect: boolean
  /** The nature of ownership as a phrase (`NatureOfOwnership.phrase`). Unlike in `terms`, word order matters. */
  readonly nature: string
  /** Ids of the footnotes to the nature of ownership. */
  readonly footnotes: ReadonlySet<string>
  /** Transaction date; null if it is unknown or implausible. */
  readonly date: string | null
  /** Number of securities that the transaction added (negative if it removed them); null if unknown. */
  readonly change: bigint | null
  /** Like `change`, but with the sign that the transaction code implies: a sale never adds securities. */
  readonly impliedChange: bigint | null
  /** Whether the shares come from the exercise of a derivative. They may be sold on the same day. */
  readonly isExercise: boolean
  /** Number of securities held after the transaction. */
  readonly held: bigint | null
  /** Number of shares that the held derivatives can be exchanged for; null if unknown. */
  readonly underlying: bigint | null
  /** The reason why the amounts are unknown although the form states some. */
  readonly problem: HolderProblem | undefined
}

type Lines = ReadonlyArray<HoldingLine>

/** Returns whether one of the sets contains the other. */
const isNested = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.isSubsetOf(b) || b.isSubsetOf(a)

/**
 * Returns whether two lines that have the same security and terms, but differ in details, may report the same position
 * nevertheless. This is so if one line merely leaves out footnotes or optional words of the title that the other line
 * has. Example: `Common Stock` and `Common Stock` with a footnote may be the same shares. If each line has a footnote
 * that the other one lacks, they are different shares.
 */
const mayBeSamePosition = (line: HoldingLine, other: HoldingLine) =>
  isNested(line.footnotes, other.footnotes) && isNested(line.security.optional, other.security.optional)

/** Returns the number of securities held before the transaction, or null if unknown. */
const getHeldBefore = ({ change, held }: HoldingLine) => change === null || held === null ? null : held - change

/** Returns whether the words contain this one or a variant of it, such as `trustee` for `trust`. */
const hasWord = (words: ReadonlyArray<string>, word: string) =>
  words.some((other) => {
    const [short, long] = [word, other].toSorted((a, b) => a.length - b.length)
    return word === other || (short !== undefined && short.length > 4 && long?.startsWith(short) === true)
  })

/**
 * Returns whether two texts may denote the same thing because one only has additional words, as `By Trust` and `By
 * Family Trust` do. Words for a class or series are not such words.
 */
const mayDenoteSame = (a: string, b: string) => {
  const [words, others] = [a.split(" ").filter(Boolean), b.split(" ").filter(Boolean)]
  const added = [words.filter((word) => !hasWord(others, word)), others.filter((word) => !hasWord(words, word))]
  return added.some(({ length }) => length === 0) && !/\b(class|series|voting|nonvoting)\b/.test(added.flat().join(" "))
}

/**
 * Returns whether a transaction in shares appears to continue another one, although its title or nature of ownership
 * has additional words: it begins with the amount with which the other one ended, and is not earlier. If the two
 * transactions are a transfer between two positions, the amounts may be equal by chance.
 */
const continues = (line: HoldingLine, former: HoldingLine) =>
  [line, former].every(({ isDerivative, isHolding }) => !isHolding && !isDerivative) &&
  former.held !== null && former.held !== 0n && getHeldBefore(line) === former.held &&
  (line.date === null || former.date === null || line.date >= former.date) &&
  (line.date !== former.date || line.change === null || former.change === null || line.change + former.change !== 0n) &&
  line.isDirect === former.isDirect && mayDenoteSame(line.security.name, former.security.name) &&
  mayDenoteSame(line.nature, former.nature)

/**
 * Groups the lines by position: first by security and terms, and then by the details in which two positions can differ
 * (nature of ownership, footnotes, optional words of the title). Returns null if it is unclear which lines report the
 * same position, because
 *
 * - lines with different details may report the same position (`mayBeSamePosition`),
 * - a transaction of one position continues the amounts of another one (`continues`), or
 * - a line that reports a holding has the same details as another line. A position without transactions has only one
 *   line, so the two may report two positions.
 */
export const findPositions = (lines: Lines): ReadonlyArray<Lines> | null => {
  const groups = Map.groupBy(lines, ({ security, terms }) => JSON.stringify([security.name, terms]))
  const positions: Array<Lines> = []
  for (const group of groups.values()) {
    const positionsOfGroup = Array.from(
      Map.groupBy(
        group,
        ({ footnotes, nature, security }) =>
          JSON.stringify([nature, ...[footnotes, security.optional].map((words) => Array.from(words).toSorted())]),
      ).values(),
    )
    const hasRepeatedHolding = positionsOfGroup.some((position) =>
      position.length > 1 && position.some(({ isHolding }) => isHolding)
    )
    // The lines of a position have equal details, so it is sufficient to compare the first lines.
    const firstLines = positionsOfGroup.flatMap(([first]) => first ?? [])
    const mayAnyBeSame = firstLines.some((line, index) =>
      firstLines.slice(index + 1).some((other) => mayBeSamePosition(line, other))
    )
    if (hasRepeatedHolding || mayAnyBeSame) return null
    positions.push(...positionsOfGroup)
  }
  const isContinued = positions.some((position) => {
    // A line that continues its own position shows nothing about others. Two trusts may hold and sell the same amounts.
    const first = position.filter((line) => position.every(({ held }) => held === null || held !== getHeldBefore(line)))
    return positions.some((other) =>
      other !== position && other.some((former) => first.some((line) => continues(line, former)))
    )
  })
  return isContinued ? null : positions
}

const isRising = (dates: ReadonlyArray<string>) => dates.every((date, index) => date >= (dates[index - 1] ?? ""))

const findDates = (lines: Lines) => lines.flatMap(({ date }) => date ?? [])

/** Returns the amount held after each of the lines if it is the same for all of them. */
const findOnlyAmount = (lines: Lines): bigint | undefined => {
  const [amount = null, ...others] = new Set(lines.map(({ held }) => held))
  return amount === null || others.length > 0 ? undefined : amount
}

const isNear = (amount: bigint, other: bigint, tolerance: bigint) =>
  amount - other <= tolerance && other - amount <= tolerance

/**
 * Returns whether the lines are in a possible order: the dates ascend, and each line begins with the amount that the
 * previous line ended with. Values that the lines do not state are assumed to fit. Amounts may deviate by up to
 * `tolerance`.
 */
const isConsistent = (lines: Lines, tolerance: bigint) =>
  isRising(findDates(lines)) && lines.every((line, index) => {
    const [before, previous] = [getHeldBefore(line), lines[index - 1]?.held ?? null]
    return before === null || previous === null || isNear(before, previous, tolerance)
  })

/**
 * Creates disjoint sets of amounts (union-find). `connect` merges the sets of two amounts, and `find` returns the
 * representative of an amount's set, so two amounts are connected if it is the same for both.
 */
const makeGroups = () => {
  /** For each amount that is not a representative, another amount of its set, closer to the representative. */
  const parents = new Map<bigint, bigint>()
  const find = (amount: bigint): bigint => {
    let root = amount
    for (let parent = parents.get(root); parent !== undefined; parent = parents.get(root)) root = parent
    // Shortens the path for later calls.
    if (root !== amount) parents.set(amount, root)
    return root
  }
  return {
    find,
    connect: (a: bigint, b: bigint) => {
      const [first, second] = [find(a), find(b)]
      if (first !== second) parents.set(first, second)
    },
  }
}

/**
 * Finds the amount after the last transaction by ordering the lines so that each one starts with the amount that the
 * previous one ended with. Returns undefined if there is no such order, or if different orders end with different
 * amounts.
 *
 * Treat the amounts as nodes of a graph and the lines as directed edges. A valid order is then an Eulerian trail: it
 * uses each edge exactly once. All Eulerian trails end at the same node, which has more incoming than outgoing edges.
 * The exception is a closed trail, which can start and end at any node. In that case, it ends at `start`, the amount at
 * the end of the previous day, if that is known.
 */
const findEndOfTrail = (lines: Lines, start: bigint | undefined): bigint | undefined => {
  /** For each amount, the number of lines that end with it minus the number of lines that begin with it. */
  const surplus = new Map<bigint, number>()
  const groups = makeGroups()
  for (const line of lines) {
    const [from, to] = [getHeldBefore(line), line.held]
    if (from === null || to === null || from < 0n) return undefined
    surplus.set(from, (surplus.get(from) ?? 0) - 1)
    surplus.set(to, (surplus.get(to) ?? 0) + 1)
    groups.connect(from, to)
  }
  // If the graph is not connected, no trail can use all edges.
  if (new Set(Array.from(surplus.keys(), groups.find)).size !== 1) return undefined
  const uneven = Array.from(surplus).filter(([, count]) => count !== 0)
  // Without a surplus anywhere, the trail is closed.
  if (uneven.length === 0) return start !== undefined && surplus.has(start) ? start : undefined
  // An open trail has exactly two uneven nodes: its end, with a surplus of 1, and its start, with -1.
  const [end, ...others] = uneven.flatMap(([amount, count]) => count === 1 ? [amount] : [])
  return uneven.length === 2 && others.length === 0 ? end : undefined
}

/**
 * Returns whether the lines, in this order, end with the amount that they began with, so that any of them might be the
 * last transaction. Returns false if the order is clear nevertheless, from the dates of the lines or from `start`, the
 * amount at the end of the previous day.
 */
const returnsToStart = (lines: Lines, start: bigint | undefined, tolerance: bigint) => {
  const [first, last] = [lines[0], lines.at(-1)]
  if (first === undefined || last === undefined) return false
  const before = getHeldBefore(first)
  if (before === null || last.held === null || !isNear(before, last.held, tolerance)) return false
  const hasDates = first.date !== null && last.date !== null && first.date !== last.date
  return !hasDates && (start === undefined || !isNear(start, last.held, tolerance))
}

/**
 * Returns whether the form lists the lines in chronological order, so that the last line is the last transaction.
 * Amounts may deviate by up to `tolerance`. If the first line is the exercise of a derivative, it is assumed to come
 * first even if the amounts allow any order, because the shares from an exercise are sold afterwards. The exception is
 * an amount at the end of the previous day that shows another order.
 */
const isListedInOrder = (lines: Lines, start: bigint | undefined, tolerance = 0n) =>
  (!returnsToStart(lines, start, tolerance) ||
    (lines[0]?.isExercise === true && lines.every(({ held }) => held !== start))) && isConsistent(lines, tolerance)

/**
 * Returns the lines that may be the last transaction of a day: one line (or several with the same resulting amount) if
 * the amounts show which one is last, and otherwise all lines. `lines` contains all lines for that day, in document
 * order. `start` is the amount at the end of the previous day, if known. Tries, in this order: document order, any
 * order whose amounts fit exactly, document order with rounded amounts, reverse document order.
 */
const findLastLinesOfDay = (lines: Lines, start: bigint | undefined): Lines => {
  // Some filers mark the exercise of an option as an acquisition, although the transaction code says otherwise.
  const implied = lines.map((line) => ({ ...line, change: line.impliedChange }))
  if (isListedInOrder(lines, start) || isListedInOrder(implied, start)) return lines.slice(-1)
  const end = findEndOfTrail(lines, start)
  if (end !== undefined) return lines.filter(({ held }) => held === end)
  // Filers may round each amount to whole shares even if the transactions include fractions.
  const tolerance = unitsPerShare - 1n
  if (isListedInOrder(lines, start, tolerance)) return lines.slice(-1)
  const reversed = lines.toReversed()
  // The position of an exercise shows no order here, because a sale listed before it may be of other shares.
  return !returnsToStart(reversed, start, tolerance) && isConsistent(reversed, tolerance) ? lines.slice(0, 1) : lines
}

/** Returns whether the dates descend, that is, whether the form lists the newest transaction first. */
const isNewestFirst = (lines: Lines) => {
  const dates = findDates(lines).toReversed()
  // Equal dates do not show an order.
  return isRising(dates) && dates[0] !== dates.at(-1)
}

/**
 * Returns whether the lines of a day add more securities than are held afterwards, as if a negative number had been
 * held before. Some filers state the final amount of the day on all of its lines. Amounts may be rounded to whole
 * shares.
 */
const addTooMuch = (linesOfDay: Lines) => {
  const haveOneAmount = new Set(linesOfDay.map(({ held }) => held)).size === 1
  return (haveOneAmount ? [linesOfDay] : linesOfDay.map((line) => [line])).some((lines) =>
    (["change", "impliedChange"] as const).every((change) => {
      const before = lines.reduce<bigint | null>((held, line) => {
        const added = line[change]
        return held === null || added === null ? null : held - added
      }, lines[0]?.held ?? null)
      return before !== null && before <= -unitsPerShare
    })
  )
}

/**
 * Counts the lines that do not begin with the amount that the previous line ended with. Transactions that need not be
 * reported cause some such gaps, but a wrong order causes more.
 */
const countGaps = (lines: Lines) =>
  lines.filter((line, index) => {
    const [before, previous] = [getHeldBefore(line), lines[index - 1]?.held ?? null]
    return before !== null && previous !== null && before !== previous
  }).length

/**
 * Counts the days that do not begin with the amount that the previous day ended with. Returns undefined if the amounts
 * do not show in which order the lines of a day belong.
 */
const countGapsBetweenDays = (days: ReadonlyArray<Lines>): number | undefined => {
  let gaps = 0
  let previous: bigint | undefined
  for (const linesOfDay of days) {
    const end = findEndOfTrail(linesOfDay, previous)
    // A closed trail that does not include the amount of the previous day may begin and end anywhere.
    const isClosed = end === undefined && findEndOfTrail(linesOfDay, linesOfDay[0]?.held ?? undefined) !== undefined
    if (end === undefined && !isClosed) return undefined
    const start = end === undefined ? undefined : linesOfDay.reduce((held, { change }) => held - (change ?? 0n), end)
    if (previous !== undefined && start !== previous) gaps += 1
    previous = end
  }
  return gaps
}

/**
 * Looks for an order of the lines that fits their amounts better than the order of their dates does: the order in the
 * form, its reverse, or any order in which all amounts form a chain. If there is one, a date is probably wrong. Returns
 * the last line in each such order. `days` contains the lines by date, oldest first.
 */
const findLastLinesAgainstDates = (lines: Lines, days: ReadonlyArray<Lines>): Lines => {
  // Lines of one day may be listed oldest or newest first.
  const [oldestFirst, newestFirst] = [days.flat(), days.flatMap((linesOfDay) => linesOfDay.toReversed())]
  const gapsByDate = countGapsBetweenDays(days) ?? Math.min(countGaps(oldestFirst), countGaps(newestFirst))
  const end = gapsByDate === 0 ? undefined : findEndOfTrail(lines, undefined)
  return [
    ...lines.filter(({ held }) => end !== undefined && held === end),
    ...[lines, lines.toReversed()].flatMap((listed) => countGaps(listed) < gapsByDate ? listed.slice(-1) : []),
  ]
}

/** Splits the lines of a position, given in document order, into days, oldest first. */
const splitIntoDays = (lines: Lines): ReadonlyArray<Lines> => {
  const ordered = isNewestFirst(lines) ? lines.toReversed() : lines
  // If any date is unknown, all lines are treated as if they were from the same day.
  return ordered.some(({ date }) => date === null)
    ? [ordered]
    : Array.from(Map.groupBy(ordered, ({ date }) => date ?? "")).toSorted(([a], [b]) => a < b ? -1 : 1)
      .map(([, linesOfDay]) => linesOfDay)
}

/**
 * Returns, for each day, the lines that may be its last transaction (`findLastLinesOfDay`). Each day begins with the
 * amount that the previous day ended with, if that amount is unambiguous.
 */
const findLastLinesOfDays = (days: ReadonlyArray<Lines>) => {
  const ends: Array<Lines> = []
  for (const linesOfDay of days) ends.push(findLastLinesOfDay(linesOfDay, findOnlyAmount(ends.at(-1) ?? [])))
  return ends
}

/**
 * Returns the lines that may be the last transaction of a position. `lines` are the position's lines in document order.
 * Only lines with the latest date are considered. If there are several, their amounts show which one is last; if these
 * contradict each other, all lines for that date are returned. If the amounts fit another order better than that of the
 * dates, a date is probably wrong, so the lines at both ends are returned. Returns none if the lines of a day add more
 * securities than are held afterwards.
 */
export const findLastLines = (lines: Lines): Lines => {
  const days = splitIntoDays(lines)
  if (days.some(addTooMuch)) return []
  const last = findLastLinesOfDays(days).at(-1) ?? []
  return days.length > 1 ? [...last, ...findLastLinesAgainstDates(lines, days)] : last
}

/** Two amounts that differ at least by this factor are not both right, unless a transaction explains it. */
const maxFactor = 90n

/** An amount with fewer digits may contain the digits of another one by chance. */
const minDigits = 3

/** Returns whether leaving out one digit of a number gives the other number, as in 1200 for 120 or 1,234 for 134. */
const lacksOneDigit = (long: bigint, short: bigint) => {
  const digits = String(long)
  return digits.length >= minDigits &&
    Array.from(digits, (_, index) => BigInt(`${digits.slice(0, index)}${digits.slice(index + 1)}`)).includes(short)
}

/**
 * Returns whether a position cannot have had these two amounts one after the other. `change` is the number of
 * securities that the transaction in between added. Transactions that need not be reported may explain a difference,
 * but not that there are more securities after a sale, or fewer after an acquisition. Nor do they explain that the
 * amount looks like the expected one with a typing error: a digit too many or too few, or another unit, such as
 * thousands.
 */
const isImpossible = (before: bigint, change: bigint, after: bigint) => {
  const expected = before + change
  if (isNear(after, expected, unitsPerShare)) return false
  if (change < 0n && after > before || change > 0n && after < before) return true
  const [less, more] = [expected / unitsPerShare, after / unitsPerShare].toSorted((a, b) => a < b ? -1 : 1)
  return less !== undefined && more !== undefined && less > 0n &&
    (more >= less * maxFactor || lacksOneDigit(more, less))
}

/**
 * Returns whether the amount `held` after the last day follows from the amount at the end of any earlier day: whether
 * that amount and all changes since add up to it. `days` are the lines by date, oldest first. `ends` are the amounts at
 * the end of each day except the last one, undefined if ambiguous. `change` names the property to add up.
 */
const followsFromEarlierDay = (
  held: bigint,
  days: ReadonlyArray<Lines>,
  ends: ReadonlyArray<bigint | undefined>,
  change: "change" | "impliedChange",
) => {
  /** The sum of all changes after the day `index`. It grows as the loop goes back. Null once a change is unknown. */
  let changeSince: bigint | null = 0n
  for (const [index, end] of Array.from(ends.entries()).toReversed()) {
    for (const line of days[index + 1] ?? []) {
      changeSince = changeSince === null || line[change] === null ? null : changeSince + line[change]
    }
    if (changeSince !== null && end !== undefined && isNear(end + changeSince, held, unitsPerShare)) return true
  }
  return false
}

/**
 * Returns whether the amount after the last transaction of a position contradicts the amounts of earlier days, so that
 * one of them is wrong (`isImpossible`). `lines` are the position's lines in document order. Other transactions on the
 * last day would confirm or contradict the amount (`findLastLines`), so this only concerns a transaction that is alone
 * on its day. An amount that follows from any earlier day contradicts none of them.
 */
export const contradictsEarlierDays = (lines: Lines): boolean => {
  const days = splitIntoDays(lines)
  const [line, ...others] = days.at(-1) ?? []
  if (days.length < 2 || line === undefined || line.held === null || others.length > 0) return false
  const { held } = line
  const ends = findLastLinesOfDays(days.slice(0, -1)).map(findOnlyAmount)
  const before = ends.at(-1)
  if (before === undefined) return false
  // Some filers state the wrong direction, so the amount is impossible only if it is impossible both with the stated
  // change and with the one that the transaction code implies.
  return (["change", "impliedChange"] as const).every((change) =>
    line[change] !== null && !followsFromEarlierDay(held, days, ends, change) &&
    isImpossible(before, line[change], held)
  )
}
