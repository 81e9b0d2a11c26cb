/** The time axis that all drawings of a lineage share, so that the same day has the same position in each. Pure. */
import { renderElement, renderTextElement, roundCoordinate } from "./markup.js"

const dayMillis = 86_400_000

/** Height of the row of years, above a drawing. */
export const yearsHeight = 26

/** Space to the left and right of an axis. */
export const axisMargin = 12

/**
 * The range of an axis, and the function that places instants on it.
 * @typedef {object} TimeAxis
 * @property {number} left
 * @property {number} right
 * @property {number} start epoch ms
 * @property {number} end epoch ms
 * @property {(instant: number) => number} xOf the position of an instant in epoch ms
 */

/**
 * Creates the axis. It runs from the earliest date to today or the latest date, whichever is later, with margins.
 * @param {ReadonlyArray<string>} symbols written to the left of the axis
 * @param {ReadonlyArray<string>} dates `YYYY-MM-DD`, at least one
 * @param {{ readonly today: string, readonly width: number }} options
 * @returns {TimeAxis}
 */
export const makeTimeAxis = (symbols, dates, { today, width }) => {
  const instants = dates.map((date) => Date.parse(date))
  const now = Date.parse(today)
  const [first, last] = [Math.min(...instants), Math.max(...instants, ...(Number.isFinite(now) ? [now] : []))]
  const margin = Math.max((last - first) / 12, 90 * dayMillis)
  const [start, end] = [first - margin, last + margin / 3]
  const left = axisMargin + Math.min(144, Math.max(48, Math.max(...symbols.map((symbol) => symbol.length)) * 8 + 14))
  const right = width - axisMargin
  return { left, right, start, end, xOf: (instant) => left + (right - left) * (instant - start) / (end - start) }
}

/**
 * Lists the years for the grid, at round intervals.
 * @param {number} start epoch ms
 * @param {number} end epoch ms
 * @param {number} maxCount
 */
const gridYears = (start, end, maxCount) => {
  const [first, last] = [new Date(start).getUTCFullYear() + 1, new Date(end).getUTCFullYear()]
  const step = [1, 2, 5, 10, 20, 50, 100, 1000].find((step) => (last - first) / step < maxCount) ?? 10_000
  /** @type {Array<number>} */
  const years = []
  for (let year = Math.ceil(first / step) * step; year <= last; year += step) years.push(year)
  return years
}

/**
 * Draws vertical lines with the years above them.
 * @param {TimeAxis} axis
 * @param {number} height of the drawing
 */
export const drawYearGrid = ({ end, left, right, start, xOf }, height) =>
  gridYears(start, end, (right - left) / 52).flatMap((year) => {
    const x = xOf(Date.UTC(year, 0, 1))
    if (x < left + 14 || x > right - 16) return []
    return [
      renderElement("path", {
        class: "grid",
        d: `M${roundCoordinate(x)} ${yearsHeight - 4}V${roundCoordinate(height - axisMargin)}`,
      }),
      renderTextElement("text", { class: "year", x, y: yearsHeight - 11, "text-anchor": "middle" }, String(year)),
    ]
  })
