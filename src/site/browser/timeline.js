/**
 * A lineage as a picture: a line of time for each symbol, with bars from the day it was taken to the day it was given
 * up, and each change as a joint between two of them; the ones that clash are marked by shape and colour. Pure.
 */
import { colourOf, issuersOf, mostDrawn } from "./issuers.js"
import { badge, dates } from "./labels.js"
import { summary } from "./record.js"
import { element, picture, point, words } from "./svg.js"

/** @typedef {import("./record.js").Answer} Answer */
/** @typedef {import("./record.js").Change} Change */

const day = 86_400_000
const row = 46
const bar = 12
const top = 26
const edge = 12

/** A symbol has 16 characters at most. @param {string} symbol */
const short = (symbol) => symbol.length > 16 ? `${symbol.slice(0, 15)}…` : symbol

/**
 * A bar of a symbol's line: from the change that took it to the one that gave it up, as their places in the list.
 * @typedef {object} Span
 * @property {number | undefined} from
 * @property {number | undefined} to
 * @property {string | undefined} issuer
 */

/**
 * @param {ReadonlyArray<Change>} changes
 * @param {string} symbol
 */
const spansOf = (changes, symbol) => {
  /** @type {Array<Span>} */
  const spans = []
  /** @type {Span | undefined} */
  let open
  changes.forEach(({ cik, from, to }, at) => {
    if (from === symbol) {
      // Given up without being taken before: whoever had it, had it since nobody knows when.
      spans.push({ from: open?.from, to: at, issuer: open?.issuer ?? cik })
      open = undefined
    }
    if (to === symbol) {
      if (open !== undefined) spans.push({ ...open, to: at })
      open = { from: at, to: undefined, issuer: cik }
    }
  })
  if (open !== undefined) spans.push(open)
  return spans
}

/**
 * Where each change stands between two edges: by its date, but never closer to its neighbour than can be told apart.
 * @param {ReadonlyArray<number>} wanted
 * @param {number} from
 * @param {number} to
 */
const apart = (wanted, from, to) => {
  const gap = Math.min(20, (to - from) / Math.max(1, wanted.length))
  const placed = wanted.map((x) => Math.min(Math.max(x, from), to))
  for (let at = 1; at < placed.length; at += 1) {
    placed[at] = Math.max(placed[at] ?? 0, (placed[at - 1] ?? 0) + gap)
  }
  let most = to
  for (let at = placed.length - 1; at >= 0; at -= 1) {
    placed[at] = Math.min(placed[at] ?? 0, most)
    most = (placed[at] ?? 0) - gap
  }
  return placed
}

/**
 * First days of years, as many as there is room for.
 * @param {number} start
 * @param {number} end
 * @param {number} most
 */
const years = (start, end, most) => {
  const [first, last] = [new Date(start).getUTCFullYear() + 1, new Date(end).getUTCFullYear()]
  const step = [1, 2, 5, 10, 20, 50, 100, 1000].find((step) => (last - first) / step < most) ?? 10_000
  /** @type {Array<number>} */
  const found = []
  for (let year = Math.ceil(first / step) * step; year <= last; year += step) found.push(year)
  return found
}

/**
 * The picture of what has at least one change.
 * @param {Answer} answer
 * @param {{ readonly id: string, readonly today: string, readonly kind: string, readonly width: number }} how
 */
export const draw = (answer, { id, kind, today, width }) => {
  const changes = answer.changes.slice(0, mostDrawn)
  const symbols = [...new Set(changes.flatMap(({ from, to }) => [from, to]))]
  const issuers = issuersOf(changes)
  const moments = changes.map(({ date }) => Date.parse(date))
  const now = Date.parse(today)
  const [first, last] = [Math.min(...moments), Math.max(...moments, ...(Number.isFinite(now) ? [now] : []))]
  const before = Math.max((last - first) / 12, 90 * day)
  const [start, end] = [first - before, last + before / 3]
  const left = edge + Math.min(144, Math.max(48, Math.max(...symbols.map((symbol) => symbol.length)) * 8 + 14))
  const right = width - edge
  const height = top + symbols.length * row + edge
  /** @param {number} moment */
  const scale = (moment) => left + (right - left) * (moment - start) / (end - start)
  /** @param {string} symbol */
  const middle = (symbol) => top + symbols.indexOf(symbol) * row + row / 2 + 6
  const places = apart(moments.map(scale), left + 14, right - 14)
  /** @param {number | undefined} change @param {number} otherwise */
  const place = (change, otherwise) => change === undefined ? otherwise : places[change] ?? otherwise

  const grid = years(start, end, (right - left) / 52).flatMap((year) => {
    const x = scale(Date.UTC(year, 0, 1))
    if (x < left + 14 || x > right - 16) return []
    return [
      element("path", { class: "grid", d: `M${point(x)} ${top - 4}V${point(height - edge)}` }),
      words("text", { class: "year", x, y: top - 11, "text-anchor": "middle" }, String(year)),
    ]
  })
  const lines = symbols.flatMap((symbol) => {
    const y = middle(symbol)
    return [
      words("text", { class: symbol === answer.ticker ? "symbol asked" : "symbol", x: edge, y: y + 4 }, short(symbol)),
      ...spansOf(changes, symbol).map(({ from, issuer, to }) => {
        const [x, end] = [place(from, left), place(to, right - 8)]
        const open = to === undefined
        const colour = `${from === undefined ? "since-ever " : ""}${colourOf(issuer, issuers)}`
        const length = Math.max(1, end - x)
        return open
          ? element("path", {
            class: `bar ${colour}`,
            d: `M${point(x)} ${point(y - bar / 2)}h${point(length)}l8 ${bar / 2}l-8 ${bar / 2}h${point(-length)}z`,
          })
          : element("rect", { class: `bar ${colour}`, x, y: y - bar / 2, width: length, height: bar })
      }),
    ]
  })
  const obstacles = [
    ...symbols.flatMap((symbol) =>
      spansOf(changes, symbol).map(({ from, to }) => {
        const [x, end] = [place(from, left), place(to, right)]
        return { x, y: middle(symbol) - bar / 2, width: end - x, height: bar }
      })
    ),
    ...changes.flatMap(({ from, to }, at) => {
      const x = places[at] ?? left
      const [above, below] = [Math.min(middle(from), middle(to)), Math.max(middle(from), middle(to))]
      return [
        { x: x - 2, y: above, width: 4, height: below - above },
        { x: x - 12, y: middle(to) - 12, width: 24, height: 24 },
      ]
    }),
  ]
  const labels = dates(
    changes.map(({ date, reasons, to }, at) => ({
      x: places[at] ?? left,
      y: middle(to),
      date,
      clashes: reasons.length > 0,
    })),
    obstacles,
    { x: left, y: top - 4, width: width - 2 - left, height: height - top + 4 },
  )
  const joints = changes.map(({ from, reasons, to }, at) => {
    const [x, clashes] = [places[at] ?? left, reasons.length > 0]
    const [above, below] = [middle(from), middle(to)]
    const line = element("path", {
      class: clashes ? "change clash" : "change",
      d: `M${point(x)} ${point(above)}V${point(below)}`,
    })
    return [line, badge({ x, y: below, number: at + 1, clashes })]
  })
  const title = answer.kind === "chain" ? `The chain of ${answer.ticker}` : `The record of ${answer.ticker}, refused`
  const more = answer.count > changes.length ? ` The first ${changes.length} of ${answer.count} changes are drawn.` : ""
  return picture({
    id: `${id}-${kind}`,
    kind: `chain ${kind}`,
    width,
    height,
    title,
    description: `${summary(answer)}${more} Each change is told in the list below.`,
  }, [...grid, ...lines, ...joints.map(([line = ""]) => line), ...joints.map(([, joint = ""]) => joint), ...labels])
}
