/** Renders a chart of dataset ages, on a logarithmic axis from now to ten years ago. Pure. */
import { figureLayouts, markup, renderElement, renderSvg, renderTextElement, roundCoordinate } from "./markup.js"
import { formatAge } from "./timestamps.js"

/** @typedef {{ readonly name: string, readonly changedAt: number | undefined }} Dataset `changedAt` is in epoch ms */

/**
 * Ages in seconds and their labels, evenly spaced on the axis.
 * @type {ReadonlyArray<readonly [number, string]>}
 */
const ticks = [
  [1, "now"],
  [60, "1 min"],
  [3600, "1 h"],
  [86_400, "1 day"],
  [7 * 86_400, "1 week"],
  [30 * 86_400, "1 month"],
  [365 * 86_400, "1 year"],
  [3650 * 86_400, "10 years"],
]

const [rowHeight, top, right] = [26, 26, 26]

/** Returns the position of an age on the axis, from 0 (now) to 1 (ten years or more). @param {number} seconds */
const positionOf = (seconds) => {
  const next = ticks.findIndex(([age]) => age > seconds)
  if (next < 0) return 1
  if (next === 0) return 0
  const [from, to] = [ticks[next - 1]?.[0] ?? 1, ticks[next]?.[0] ?? 1]
  return (next - 1 + Math.log(seconds / from) / Math.log(to / from)) / (ticks.length - 1)
}

/**
 * @param {ReadonlyArray<Dataset>} datasets
 * @param {{ readonly id: string, readonly layout: string, readonly width: number, readonly now: number }} options
 */
const drawAges = (datasets, { id, layout, now, width }) => {
  const nameLength = Math.max(8, ...datasets.map(({ name }) => Math.min(22, name.length)))
  const left = 14 + nameLength * (layout === "narrow" ? 6.6 : 8)
  const height = top + datasets.length * rowHeight + 8
  /** @param {number} position */
  const xOf = (position) => left + (width - right - left) * position
  const grid = ticks.flatMap(([, label], index) => {
    const x = xOf(index / (ticks.length - 1))
    const hasLabel = layout === "wide" || index % 3 === 0
    return [
      renderElement("path", { class: "grid", d: `M${roundCoordinate(x)} ${top - 4}V${height - 4}` }),
      ...(hasLabel ? [renderTextElement("text", { x, y: 14, "text-anchor": "middle" }, label)] : []),
    ]
  })
  const rows = datasets.flatMap(({ changedAt, name }, index) => {
    const y = top + index * rowHeight + rowHeight / 2
    const label = renderTextElement("text", { class: "name", x: 4, y: y + 4 }, name.slice(0, 22))
    if (changedAt === undefined) return [label, renderTextElement("text", { x: left + 6, y: y + 4 }, "never")]
    const x = xOf(positionOf(Math.max(0, now - changedAt) / 1000))
    return [
      label,
      renderElement("g", {}, [
        renderTextElement("title", {}, `${name}\nchanged ${formatAge(changedAt, now)}`),
        renderElement("path", {
          class: "age",
          d: `M${roundCoordinate(left)} ${roundCoordinate(y)}H${roundCoordinate(x)}`,
        }),
        renderElement("circle", { class: "amount", cx: x, cy: y, r: 6 }),
      ]),
    ]
  })
  return renderSvg({
    id: `${id}-${layout}`,
    className: `plot ${layout}`,
    width,
    height,
    title: "Time since the last change of each dataset",
    description:
      "The axis runs from now, on the left, to ten years ago, on the right. The table below lists every time.",
  }, [...grid, ...rows])
}

/**
 * @param {ReadonlyArray<Dataset>} datasets
 * @param {{ readonly id: string, readonly now: number }} options
 */
export const renderDatasetAges = (datasets, { id, now }) =>
  markup`<figure class="plotted">${
    figureLayouts.map(([layout, width]) => drawAges(datasets, { id, layout, width, now }))
  }<figcaption>Time since the last change of each dataset</figcaption></figure>`
