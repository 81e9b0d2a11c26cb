/** The numbers and dates of the changes in a lineage's picture. Pure. */
import { element, point, words } from "./svg.js"

/**
 * A rectangle that a label must not cover.
 * @typedef {{ readonly x: number, readonly y: number, readonly width: number, readonly height: number }} Box
 */

/** @typedef {{ readonly x: number, readonly y: number, readonly date: string, readonly clashes: boolean }} Joint */

/** @param {Box} one @param {Box} other */
const overlap = (one, other) =>
  one.x < other.x + other.width && other.x < one.x + one.width &&
  one.y < other.y + other.height && other.y < one.y + one.height

const dateSize = { width: 82, height: 13 }

/**
 * Dates beside their joints, where nothing else is; a date without room is left to the list below the picture.
 * @param {ReadonlyArray<Joint>} joints
 * @param {ReadonlyArray<Box>} obstacles
 * @param {Box} frame
 */
export const dates = (joints, obstacles, frame) => {
  const taken = [...obstacles]
  return joints.map(({ clashes, date, x, y }) => {
    const places = [y - 15, y - 28, y + 23].flatMap((line) =>
      [x + 8, x - 8 - dateSize.width].map((start) => ({ start, line }))
    )
    for (const { line, start } of places) {
      const box = { x: start, y: line - 11, ...dateSize }
      const isInside = box.x >= frame.x && box.x + box.width <= frame.x + frame.width && box.y >= frame.y &&
        box.y + box.height <= frame.y + frame.height
      if (!isInside || taken.some((other) => overlap(box, other))) continue
      taken.push(box)
      return words("text", { x: start + 2, y: line, class: clashes ? "date clash" : "date" }, date)
    }
    return ""
  })
}

/**
 * @param {{ readonly x: number, readonly y: number, readonly number: number, readonly clashes: boolean }} joint
 */
export const badge = ({ clashes, number, x, y }) =>
  element("g", { class: clashes ? "joint clash" : "joint" }, [
    clashes
      ? element("path", { d: `M${point(x)} ${point(y - 12)}l12 12l-12 12l-12 -12z` })
      : element("circle", { cx: x, cy: y, r: 9 }),
    words("text", { x, y: y + 4, "text-anchor": "middle" }, String(number)),
  ])
