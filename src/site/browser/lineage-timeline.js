/**
 * Draws a lineage as a timeline: one row per symbol, a bar for each period in which the symbol was used, and a numbered
 * joint for each change from one row to another. Pure.
 */
import { summarizeLineage } from "./lineage-response.js"
import { renderElement, renderSvg, renderTextElement, roundCoordinate } from "./markup.js"
import { axisMargin, drawYearGrid, makeTimeAxis, yearsHeight } from "./time-axis.js"

/** @typedef {import("./lineage-response.js").Change} Change */
/** @typedef {import("./lineage-response.js").Lineage} Lineage */

/** Changes after the twentieth appear only in the list below the timeline. */
const maxDrawnChanges = 20

const rowHeight = 46
const barHeight = 12

/** @param {ReadonlyArray<Change>} changes */
const issuersOf = (changes) => [...new Set(changes.flatMap(({ cik }) => cik ?? []))]

/**
 * Returns the CSS class for the bars of an issuer.
 * @param {string | undefined} cik
 * @param {ReadonlyArray<string>} issuers
 */
const colourOf = (cik, issuers) =>
  `issuer-${issuers.length === 0 ? 0 : cik === undefined ? "none" : issuers.indexOf(cik) % 4}`

/**
 * Returns one entry per issuer, with its color and one of its changes. Empty if no change names an issuer.
 * @param {Lineage} lineage
 */
export const makeTimelineLegend = ({ changes }) => {
  const drawn = changes.slice(0, maxDrawnChanges)
  const issuers = issuersOf(drawn)
  if (issuers.length === 0) return []
  const known = issuers.map((cik) => ({
    colour: colourOf(cik, issuers),
    change: drawn.find((change) => change.cik === cik),
  }))
  const hasUnknown = drawn.some(({ cik }) => cik === undefined)
  return hasUnknown ? [...known, { colour: colourOf(undefined, issuers), change: undefined }] : known
}

/** Shortens text that is longer than any valid symbol. @param {string} symbol */
const shorten = (symbol) => symbol.length > 16 ? `${symbol.slice(0, 15)}…` : symbol

/**
 * A period during which a symbol was in use. `from` and `to` are indexes of changes; undefined means open-ended.
 * @typedef {object} Period
 * @property {number | undefined} from
 * @property {number | undefined} to
 * @property {string | undefined} cik
 */

/**
 * @param {ReadonlyArray<Change>} changes
 * @param {string} symbol
 */
const periodsOf = (changes, symbol) => {
  /** @type {Array<Period>} */
  const periods = []
  /** @type {Period | undefined} */
  let open
  changes.forEach(({ cik, from, to }, index) => {
    if (from === symbol) {
      // If no change introduced the symbol, the period has no known start.
      periods.push({ from: open?.from, to: index, cik: open?.cik ?? cik })
      open = undefined
    }
    if (to === symbol) {
      if (open !== undefined) periods.push({ ...open, to: index })
      open = { from: index, to: undefined, cik }
    }
  })
  if (open !== undefined) periods.push(open)
  return periods
}

/**
 * Moves positions apart if they are too close together, and keeps all of them between two limits.
 * @param {ReadonlyArray<number>} positions ascending
 * @param {number} from
 * @param {number} to
 */
const spread = (positions, from, to) => {
  const gap = Math.min(20, (to - from) / Math.max(1, positions.length))
  const placed = positions.map((x) => Math.min(Math.max(x, from), to))
  for (let index = 1; index < placed.length; index += 1) {
    placed[index] = Math.max(placed[index] ?? 0, (placed[index - 1] ?? 0) + gap)
  }
  let limit = to
  for (let index = placed.length - 1; index >= 0; index -= 1) {
    placed[index] = Math.min(placed[index] ?? 0, limit)
    limit = (placed[index] ?? 0) - gap
  }
  return placed
}

/** @typedef {{ readonly x: number, readonly y: number, readonly width: number, readonly height: number }} Box */

/** @param {Box} one @param {Box} other */
const overlap = (one, other) =>
  one.x < other.x + other.width && other.x < one.x + one.width &&
  one.y < other.y + other.height && other.y < one.y + one.height

/** @typedef {{ readonly x: number, readonly y: number, readonly date: string, readonly hasConflict: boolean }} Joint */

const dateSize = { width: 82, height: 13 }

/**
 * Labels joints with their dates if there is room. Dates that do not fit appear only in the list below.
 * @param {ReadonlyArray<Joint>} joints
 * @param {ReadonlyArray<Box>} obstacles
 * @param {Box} frame
 */
const drawDates = (joints, obstacles, frame) => {
  const taken = [...obstacles]
  return joints.map(({ date, hasConflict, x, y }) => {
    const positions = [y - 15, y - 28, y + 23].flatMap((baseline) =>
      [x + 8, x - 8 - dateSize.width].map((start) => ({ start, baseline }))
    )
    for (const { baseline, start } of positions) {
      const box = { x: start, y: baseline - 11, ...dateSize }
      const isInside = box.x >= frame.x && box.x + box.width <= frame.x + frame.width && box.y >= frame.y &&
        box.y + box.height <= frame.y + frame.height
      if (!isInside || taken.some((other) => overlap(box, other))) continue
      taken.push(box)
      return renderTextElement("text", { x: start + 2, y: baseline, class: hasConflict ? "date clash" : "date" }, date)
    }
    return undefined
  })
}

/**
 * Draws a circle, or a diamond for a conflict, with the number of the change.
 * @param {Joint} joint
 * @param {number} number
 */
const drawJoint = ({ hasConflict, x, y }, number) =>
  renderElement("g", { class: hasConflict ? "joint clash" : "joint" }, [
    hasConflict
      ? renderElement("path", { d: `M${roundCoordinate(x)} ${roundCoordinate(y - 12)}l12 12l-12 12l-12 -12z` })
      : renderElement("circle", { cx: x, cy: y, r: 9 }),
    renderTextElement("text", { x, y: y + 4, "text-anchor": "middle" }, String(number)),
  ])

/**
 * A bar for a period. `isOpen` means that the symbol is still in use.
 * @typedef {Box & { readonly isOpen: boolean, readonly className: string }} Bar
 */

/**
 * Draws a bar, as an arrow if the symbol is still in use.
 * @param {Bar} bar
 */
const drawBar = ({ className, height, isOpen, width, x, y }) => {
  if (!isOpen) return renderElement("rect", { class: className, x, y, width: Math.max(1, width), height })
  const tip = 8
  const length = Math.max(1, width - tip)
  const half = height / 2
  return renderElement("path", {
    class: className,
    d: `M${roundCoordinate(x)} ${roundCoordinate(y)}h${roundCoordinate(length)}l${tip} ${half}l-${tip} ${half}h${
      roundCoordinate(-length)
    }z`,
  })
}

/**
 * A change: the joint in the new symbol's row, and the line to it from the old symbol's row.
 * @typedef {Joint & { readonly fromY: number }} Link
 */

/** @param {Link} link */
const drawLine = ({ fromY, hasConflict, x, y }) =>
  renderElement("path", {
    class: hasConflict ? "change clash" : "change",
    d: `M${roundCoordinate(x)} ${roundCoordinate(fromY)}V${roundCoordinate(y)}`,
  })

/**
 * Returns the space that a line and its joint take, which dates must not cover.
 * @param {Link} link
 * @returns {ReadonlyArray<Box>}
 */
const boxesOf = ({ fromY, x, y }) => {
  const [above, below] = [Math.min(fromY, y), Math.max(fromY, y)]
  return [{ x: x - 2, y: above, width: 4, height: below - above }, { x: x - 12, y: y - 12, width: 24, height: 24 }]
}

/**
 * Places the rows, bars and joints of a drawing.
 * @param {ReadonlyArray<Change>} changes
 * @param {ReadonlyArray<string>} symbols
 * @param {import("./time-axis.js").TimeAxis} axis
 */
const placeParts = (changes, symbols, { left, right, xOf }) => {
  const issuers = issuersOf(changes)
  /** @param {string} symbol */
  const yOf = (symbol) => yearsHeight + symbols.indexOf(symbol) * rowHeight + rowHeight / 2 + 6
  const positions = spread(changes.map(({ date }) => xOf(Date.parse(date))), left + 14, right - 14)
  const links = changes.map(({ date, from, reasons, to }, index) => ({
    x: positions[index] ?? left,
    y: yOf(to),
    fromY: yOf(from),
    date,
    hasConflict: reasons.length > 0,
  }))
  const bars = symbols.flatMap((symbol) =>
    periodsOf(changes, symbol).map(({ cik, from, to }) => {
      const x = from === undefined ? left : positions[from] ?? left
      const end = to === undefined ? right : positions[to] ?? right
      return {
        x,
        y: yOf(symbol) - barHeight / 2,
        width: end - x,
        height: barHeight,
        isOpen: to === undefined,
        className: `bar ${from === undefined ? "open-start " : ""}${colourOf(cik, issuers)}`,
      }
    })
  )
  return { yOf, links, bars }
}

/**
 * Draws a lineage with at least one change.
 * @param {Lineage} lineage
 * @param {{ readonly id: string, readonly today: string, readonly dates: ReadonlyArray<string>,
 *   readonly layout: string, readonly width: number }} options the axis includes the additional `dates`
 */
export const drawLineageTimeline = (lineage, { dates, id, layout, today, width }) => {
  const changes = lineage.changes.slice(0, maxDrawnChanges)
  const symbols = [...new Set(changes.flatMap(({ from, to }) => [from, to]))]
  const axis = makeTimeAxis(symbols, [...changes.map(({ date }) => date), ...dates], { today, width })
  const height = yearsHeight + symbols.length * rowHeight + axisMargin
  const { bars, links, yOf } = placeParts(changes, symbols, axis)
  const names = symbols.map((symbol) =>
    renderTextElement("text", {
      class: symbol === lineage.ticker ? "symbol requested" : "symbol",
      x: axisMargin,
      y: yOf(symbol) + 4,
    }, shorten(symbol))
  )
  const obstacles = [...bars, ...links.flatMap(boxesOf)]
  const frame = { x: axis.left, y: yearsHeight - 4, width: width - 2 - axis.left, height: height - yearsHeight + 4 }
  const omitted = lineage.count > changes.length
    ? ` The timeline shows the first ${changes.length} of ${lineage.count} changes.`
    : ""
  return renderSvg({
    id: `${id}-${layout}`,
    className: `chain ${layout}`,
    width,
    height,
    title: lineage.kind === "chain" ? `The chain of ${lineage.ticker}` : `The ambiguous history of ${lineage.ticker}`,
    description: `${summarizeLineage(lineage)}${omitted} The list below describes every change.`,
  }, [
    ...drawYearGrid(axis, height),
    ...names,
    ...bars.map(drawBar),
    ...links.map(drawLine),
    ...links.map((link, index) => drawJoint(link, index + 1)),
    ...drawDates(links, obstacles, frame),
  ])
}
