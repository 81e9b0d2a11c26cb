/**
 * Groups the lines of an ownership form into a holder's positions, and determines the amount of each position after the
 * last transaction (docs/decisions/0100-ownership-from-filings.md).
 */
import type { Problem } from "./OwnershipHolders.ts"
import type { SecurityIdentity } from "./SecurityTitles.ts"
import { oneShare } from "./XmlValues.ts"

/** A line in a form's table of derivative or non-derivative securities. It reports a holding or a transaction. */
export interface HoldingLine {
  readonly isHolding: boolean
  readonly title: string
  readonly security: SecurityIdentity
  /**
   * Nature of ownership, price, and dates, as JSON. Lines about the same position have the same terms and footnotes.
   */
  readonly terms: string
  /** The nature of ownership as a phrase (`NatureOfOwnership.phrase`). Word order matters. */
  readonly nature: string
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
  readonly problem: Problem | undefined
}

type Lines = ReadonlyArray<HoldingLine>

const isSameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.size === b.size && a.isSubsetOf(b)

const isNested = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.isSubsetOf(b) || b.isSubsetOf(a)

const isSamePosition = (line: HoldingLine, other: HoldingLine) =>
  line.nature === other.nature && isSameSet(line.footnotes, other.footnotes) &&
  isSameSet(line.security.optional, other.security.optional)

/** Returns whether two lines with the same security and terms could report either one position or two. */
const isUnclear = (line: HoldingLine, other: HoldingLine) =>
  isSamePosition(line, other)
    ? line.isHolding || other.isHolding
    : isNested(line.footnotes, other.footnotes) && isNested(line.security.optional, other.security.optional)

/** Groups the lines by position. Returns null if it is unclear which lines report the same position. */
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

/** Returns the number of securities held before the transaction, or null if unknown. */
const getHeldBefore = ({ change, held }: HoldingLine) => change === null || held === null ? null : held - change

const isNear = (amount: bigint, other: bigint, tolerance: bigint) =>
  amount - other <= tolerance && other - amount <= tolerance

/**
 * Returns whether the dates ascend and each amount equals the previous line's amount plus or minus the traded shares,
 * as far as the lines state these values.
 */
const isConsistent = (lines: Lines, tolerance: bigint) =>
  isRising(findDates(lines)) && lines.every((line, index) => {
    const [before, held] = [getHeldBefore(line), lines[index - 1]?.held ?? null]
    return index === 0 || before === null || held === null || isNear(before, held, tolerance)
  })

/** Creates disjoint sets of amounts (union-find). `find` returns the representative of an amount's set. */
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
 * Returns whether the amounts end where they began, so that any line might be the last transaction. Returns false if
 * the order is clear from the dates of the lines or from `start`, the amount at the end of the previous day.
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
 * Returns whether the lines are in chronological order, so that the last one is the last transaction. Amounts may
 * deviate by up to `tolerance`. An exercise on the first line is assumed to come first, because its shares are sold
 * afterwards, unless the amount at the end of the previous day shows another order.
 */
const isListedInOrder = (lines: Lines, start: bigint | undefined, tolerance = 0n) =>
  (!returnsToStart(lines, start, tolerance) ||
    (lines[0]?.isExercise === true && lines.every(({ held }) => held !== start))) && isConsistent(lines, tolerance)

/**
 * Returns the lines that may be the last transaction of a day. `lines` contains all lines for that day, in document
 * order.
 */
const findLastLinesOfDay = (lines: Lines, start: bigint | undefined): Lines => {
  // Some filers mark the exercise of an option as an acquisition, although the transaction code says otherwise.
  const implied = lines.map((line) => ({ ...line, change: line.impliedChange }))
  if (isListedInOrder(lines, start) || isListedInOrder(implied, start)) return lines.slice(-1)
  const end = findEndOfTrail(lines, start)
  if (end !== undefined) return lines.filter(({ held }) => held === end)
  // Filers may round each amount to whole shares even if the transactions include fractions.
  const tolerance = oneShare - 1n
  if (isListedInOrder(lines, start, tolerance)) return lines.slice(-1)
  const reversed = lines.toReversed()
  // The position of an exercise shows no order here, because a sale listed before it may be of other shares.
  return !returnsToStart(reversed, start, tolerance) && isConsistent(reversed, tolerance) ? lines.slice(0, 1) : lines
}

const isNewestFirst = (lines: Lines) => {
  const dates = findDates(lines).toReversed()
  return isRising(dates) && dates[0] !== dates.at(-1)
}

/**
 * Returns whether the lines add more securities than are held afterwards, as if a negative number had been held before.
 * Some filers state on all lines of a day the amount after the last one. Amounts may be rounded to whole shares.
 */
const addTooMuch = (ofDay: Lines) => {
  const isOneAmount = new Set(ofDay.map(({ held }) => held)).size === 1
  return (isOneAmount ? [ofDay] : ofDay.map((line) => [line])).some((lines) =>
    (["change", "impliedChange"] as const).every((change) => {
      const before = lines.reduce<bigint | null>((held, line) => {
        const added = line[change]
        return held === null || added === null ? null : held - added
      }, lines[0]?.held ?? null)
      return before !== null && before <= -oneShare
    })
  )
}

/**
 * Returns the lines that may be the last transaction of a position. This is the line with the latest date or, if
 * several lines have that date, the one whose amounts show that it is last. If the amounts contradict each other,
 * returns all lines for that date. If all lines, as listed, form a chain of amounts that ends elsewhere, a date is
 * probably wrong, so the lines at both ends are returned. Returns none if the lines of a day add more securities than
 * are held afterwards.
 */
export const findLastLines = (lines: Lines): Lines => {
  const ordered = isNewestFirst(lines) ? lines.toReversed() : lines
  const days = ordered.some(({ date }) => date === null)
    ? [ordered]
    : Array.from(Map.groupBy(ordered, ({ date }) => date ?? "")).toSorted(([a], [b]) => a < b ? -1 : 1)
      .map(([, ofDay]) => ofDay)
  if (days.some(addTooMuch)) return []
  const last = days.reduce<Lines>((before, ofDay) => {
    const [start = null, ...others] = new Set(before.map(({ held }) => held))
    return findLastLinesOfDay(ofDay, start === null || others.length > 0 ? undefined : start)
  }, [])
  const undated = lines.map((line) => ({ ...line, date: null }))
  const isOneChain = [undated, undated.toReversed()].some((listed) => isConsistent(listed, 0n))
  const end = days.length > 1 && isOneChain ? findEndOfTrail(lines, undefined) : undefined
  return end === undefined ? last : [...last, ...lines.filter(({ held }) => held === end)]
}
