/** How long ago datasets changed, on one line of time from now back; each unit is as wide as the next. Pure. */
import { element, escape, picture, point, widths, words } from "./svg.js"
import { ago } from "./time.js"

/** @typedef {{ readonly name: string, readonly changed: number | undefined }} Dataset `changed`: a moment */

/** @type {ReadonlyArray<readonly [number, string]>} */
const marks = [
  [1, "now"],
  [60, "1 min"],
  [3600, "1 h"],
  [86_400, "1 day"],
  [7 * 86_400, "1 week"],
  [30 * 86_400, "1 month"],
  [365 * 86_400, "1 year"],
  [3650 * 86_400, "10 years"],
]

const [row, top, right] = [26, 26, 26]

/** Where an age lies between 0, just now, and 1, ten years or more. @param {number} seconds */
export const placeOf = (seconds) => {
  const last = marks.length - 1
  const next = marks.findIndex(([age]) => age > seconds)
  if (next < 0) return 1
  if (next === 0) return 0
  const [from, to] = [marks[next - 1]?.[0] ?? 1, marks[next]?.[0] ?? 1]
  return (next - 1 + Math.log(seconds / from) / Math.log(to / from)) / last
}

/**
 * @param {ReadonlyArray<Dataset>} datasets
 * @param {{ readonly id: string, readonly kind: string, readonly width: number, readonly now: number }} how
 */
const draw = (datasets, { id, kind, now, width }) => {
  const longest = Math.max(8, ...datasets.map(({ name }) => Math.min(22, name.length)))
  const left = 14 + longest * (kind === "narrow" ? 6.6 : 8)
  const height = top + datasets.length * row + 8
  /** @param {number} place */
  const scale = (place) => left + (width - right - left) * place
  const grid = marks.flatMap(([, label], at) => {
    const x = scale(at / (marks.length - 1))
    const isNamed = kind === "wide" || at % 3 === 0
    return [
      element("path", { class: "grid", d: `M${point(x)} ${top - 4}V${height - 4}` }),
      ...(isNamed ? [words("text", { x, y: 14, "text-anchor": "middle" }, label)] : []),
    ]
  })
  const lines = datasets.flatMap(({ changed, name }, at) => {
    const y = top + at * row + row / 2
    const label = words("text", { class: "name", x: 4, y: y + 4 }, name.slice(0, 22))
    if (changed === undefined) return [label, words("text", { x: left + 6, y: y + 4 }, "no rows yet")]
    const x = scale(placeOf(Math.max(0, now - changed) / 1000))
    return [
      label,
      element("g", {}, [
        words("title", {}, `${name}\nchanged ${ago(changed, now)}`),
        element("path", { class: "age", d: `M${point(left)} ${point(y)}H${point(x)}` }),
        element("circle", { class: "amount", cx: x, cy: y, r: 6 }),
      ]),
    ]
  })
  return picture({
    id: `${id}-${kind}`,
    kind: `plot ${kind}`,
    width,
    height,
    title: "How long ago each dataset changed",
    description: "From just now, at the left, to ten years ago, at the right. The table below tells each.",
  }, [...grid, ...lines])
}

/**
 * @param {ReadonlyArray<Dataset>} datasets
 * @param {{ readonly id: string, readonly now: number }} how
 */
export const figure = (datasets, { id, now }) =>
  `<figure class="plotted">${
    widths.map(([kind, width]) => draw(datasets, { id, kind, width, now })).join("")
  }<figcaption>${escape("When the rows of each dataset changed last")}</figcaption></figure>`
