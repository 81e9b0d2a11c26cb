/**
 * The positions of a holder in the lines of a form, and the amount of each after the last transaction
 * (docs/decisions/0100-ownership-from-filings.md).
 */
import type { Problem } from "./OwnershipHolders.ts"
import type { SecurityIdentity } from "./SecurityTitles.ts"
import { oneShare } from "./XmlValues.ts"

/** A line of a form's table of derivative or non-derivative securities: a holding or a transaction. */
export interface HoldingLine {
  readonly isHolding: boolean
  readonly title: string
  readonly security: SecurityIdentity
  /** Nature of ownership, price and dates, as JSON. Lines of one position have the same terms and footnotes. */
  readonly terms: string
  /** The nature of ownership as a phrase, in which the order matters (`NatureOfOwnership.phrase`). */
  readonly nature: string
  readonly footnotes: ReadonlySet<string>
  /** Date of the transaction; null if it is unknown or not believed. */
  readonly date: string | null
  /** Number of securities that the transaction added, negative if it removed them; null if unknown. */
  readonly change: bigint | null
  /** The same, as the code of the transaction implies: a sale never adds securities. */
  readonly impliedChange: bigint | null
  /** Whether the shares come from the exercise of a derivative. They may be sold on the same day. */
  readonly isExercise: boolean
  /** Number of securities that are held after the transaction. */
  readonly held: bigint | null
  /** Number of shares for which the held derivatives can be exchanged; null if unknown. */
  readonly underlying: bigint | null
  /** Why the amounts are unknown, if the form states some. */
  readonly problem: Problem | undefined
}

type Lines = ReadonlyArray<HoldingLine>

const isSameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.size === b.size && a.isSubsetOf(b)

const isNested = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.isSubsetOf(b) || b.isSubsetOf(a)

const isSamePosition = (line: HoldingLine, other: HoldingLine) =>
  line.nature === other.nature && isSameSet(line.footnotes, other.footnotes) &&
  isSameSet(line.security.optional, other.security.optional)

/** Whether it is unclear if two lines with the same security and terms report one position or two. */
const isUnclear = (line: HoldingLine, other: HoldingLine) =>
  isSamePosition(line, other)
    ? line.isHolding || other.isHolding
    : isNested(line.footnotes, other.footnotes) && isNested(line.security.optional, other.security.optional)

/** Returns the lines of each position, or null if it is unclear which lines report the same position. */
export const findPositions = (lines: Lines): ReadonlyArray<Lines> | null => {
  const alike = Map.groupBy(lines, ({ security, terms }) => JSON.stringify([security.name, terms]))
  const positions: Array<Lines> = []
  for (const group of alike.values()) {
    const distinct = Map.groupBy(
      group,
      ({ footnotes, nature, security }) =>
        JSON.stringify([nature, ...[footnotes, security.optional].map((words) => Array.from(words).toSorted())]),
    )
    const [...ofGroup] = distinct.values()
    const firsts = ofGroup.flatMap(([first]) => first ?? [])
    if (
      ofGroup.some((one) => one.length > 1 && one.some(({ isHolding }) => isHolding)) ||
      firsts.some((line, index) => firsts.slice(index + 1).some((other) => isUnclear(line, other)))
    ) return null
    positions.push(...ofGroup)
  }
  return positions
}

const isRising = (dates: ReadonlyArray<string>) => dates.every((date, index) => date >= (dates[index - 1] ?? ""))

const findDates = (lines: Lines) => lines.flatMap(({ date }) => date ?? [])

/** Returns the number of securities that were held before the transaction; null if unknown. */
const getHeldBefore = ({ change, held }: HoldingLine) => change === null || held === null ? null : held - change

const isNear = (amount: bigint, other: bigint, tolerance: bigint) =>
  amount - other <= tolerance && other - amount <= tolerance

/** Whether each amount equals the previous line's amount plus or minus the traded shares, if the lines state these. */
const isConsistent = (lines: Lines, tolerance: bigint) =>
  isRising(findDates(lines)) && lines.every((line, index) => {
    const [before, held] = [getHeldBefore(line), lines[index - 1]?.held ?? null]
    return index === 0 || before === null || held === null || isNear(before, held, tolerance)
  })

/** Joins amounts to groups. `find` returns an amount that stands for the group (union-find). */
const makeGroups = () => {
  const parents = new Map<bigint, bigint>()
  const find = (amount: bigint): bigint => {
    let root = amount
    for (let parent = parents.get(root); parent !== undefined; parent = parents.get(root)) root = parent
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
 * Finds the amount after the last line, if the lines can be ordered so that each one begins with the amount with which
 * the previous one ended. Undefined if they cannot, or if different orders end with different amounts.
 *
 * If amounts are the nodes of a graph and lines are its edges, such an order is an Eulerian trail, which uses each edge
 * once. All such trails end at the same node: the one with more incoming than outgoing edges. Only a trail that ends
 * where it begins may begin at any node. Then `start`, the amount at the end of the previous day, decides.
 */
const findEndOfTrail = (lines: Lines, start: bigint | undefined): bigint | undefined => {
  const surplus = new Map<bigint, number>()
  const groups = makeGroups()
  for (const line of lines) {
    const [from, to] = [getHeldBefore(line), line.held]
    if (from === null || to === null || from < 0n) return undefined
    surplus.set(from, (surplus.get(from) ?? 0) - 1)
    surplus.set(to, (surplus.get(to) ?? 0) + 1)
    groups.connect(from, to)
  }
  if (new Set(Array.from(surplus.keys(), groups.find)).size !== 1) return undefined
  const uneven = Array.from(surplus).filter(([, count]) => count !== 0)
  if (uneven.length === 0) return start !== undefined && surplus.has(start) ? start : undefined
  const [end, ...others] = uneven.flatMap(([amount, count]) => count === 1 ? [amount] : [])
  return uneven.length === 2 && others.length === 0 ? end : undefined
}

/**
 * Whether the amounts return to the first one, so that any line may be the last. False if `start`, the amount at the
 * end of the previous day, or the dates of the lines show the order.
 */
const isCircle = (lines: Lines, start: bigint | undefined, tolerance: bigint) => {
  const [first, last] = [lines[0], lines.at(-1)]
  if (first === undefined || last === undefined) return false
  const before = getHeldBefore(first)
  if (before === null || last.held === null || !isNear(before, last.held, tolerance)) return false
  const hasDates = first.date !== null && last.date !== null && first.date !== last.date
  return !hasDates && (start === undefined || !isNear(start, last.held, tolerance))
}

/**
 * Whether the last line is the last transaction. `tolerance` is by how much amounts may differ. An exercise that the
 * form lists first comes first, because its shares are sold after it.
 */
const isListedInOrder = (lines: Lines, start: bigint | undefined, tolerance = 0n) =>
  (lines[0]?.isExercise === true || !isCircle(lines, start, tolerance)) && isConsistent(lines, tolerance)

/** Returns the candidates for the last line of a day. `lines` has all lines for the day, in the document's order. */
const findLastLinesOfDay = (lines: Lines, start: bigint | undefined): Lines => {
  // Some filers mark the exercise of an option as an acquisition, which its code contradicts.
  const implied = lines.map((line) => ({ ...line, change: line.impliedChange }))
  if (isListedInOrder(lines, start) || isListedInOrder(implied, start)) return lines.slice(-1)
  const end = findEndOfTrail(lines, start)
  if (end !== undefined) return lines.filter(({ held }) => held === end)
  // Filers may round each amount to whole shares, although the transactions have fractions.
  const tolerance = oneShare - 1n
  if (isListedInOrder(lines, start, tolerance)) return lines.slice(-1)
  const reversed = lines.toReversed()
  // A sale that is listed before an exercise may be a sale of other shares, so the exercise shows no order here.
  return !isCircle(reversed, start, tolerance) && isConsistent(reversed, tolerance) ? lines.slice(0, 1) : lines
}

const isNewestFirst = (lines: Lines) => {
  const dates = findDates(lines).toReversed()
  return isRising(dates) && dates[0] !== dates.at(-1)
}

/**
 * Returns the candidates for the last line of a position. That is the line with the latest date or, if several lines
 * have this date, the one that their amounts show to be last. If the amounts contradict each other, returns all lines
 * for that date, because any of them may be the last.
 */
export const findLastLines = (lines: Lines): Lines => {
  const ordered = isNewestFirst(lines) ? lines.toReversed() : lines
  const days = ordered.some(({ date }) => date === null)
    ? [ordered]
    : Array.from(Map.groupBy(ordered, ({ date }) => date ?? "")).toSorted(([a], [b]) => a < b ? -1 : 1)
      .map(([, ofDay]) => ofDay)
  return days.reduce<Lines>((before, ofDay) => {
    const [start = null, ...others] = new Set(before.map(({ held }) => held))
    return findLastLinesOfDay(ofDay, start === null || others.length > 0 ? undefined : start)
  }, [])
}
