/** Amounts of days as bars, with a table that tells the same. Pure. */
import { element, escape, picture, point, widths, words } from "./svg.js"

/**
 * Amounts of one kind, a number for a day; those of `within` are a part of them and drawn over them.
 * @typedef {object} Plot
 * @property {string} id its own on the page
 * @property {string} title
 * @property {ReadonlyArray<string>} days `YYYY-MM-DD`, one after the other
 * @property {ReadonlyArray<number>} values
 * @property {{ readonly name: string, readonly values: ReadonlyArray<number> } | undefined} within
 * @property {string} name what is counted, as the head of a column
 * @property {(value: number) => string} format
 */

const dayLength = 86_400_000

/**
 * Every day from one to another, at most a thousand.
 * @param {string} from
 * @param {string} to
 */
export const daysBetween = (from, to) => {
  const [start, end] = [Date.parse(from), Date.parse(to)]
  const count = Math.min(1000, Math.floor((end - start) / dayLength) + 1)
  return Array.from(
    { length: Number.isFinite(count) ? Math.max(0, count) : 0 },
    (_, at) => new Date(start + at * dayLength).toISOString().slice(0, 10),
  )
}

/**
 * Round numbers from 0 to a little more than the greatest value, at most six; whole ones, since all amounts are.
 * @param {number} greatest
 */
export const ticks = (greatest) => {
  const most = Number.isFinite(greatest) ? Math.max(1, greatest) : 1
  const rough = Math.max(1, most / 5)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? rough
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step)
}

/**
 * Microdollars in USD, exactly: 25000 is `$0.025`.
 * @param {number} microdollars
 */
export const dollars = (microdollars) => {
  const amount = BigInt(Math.round(Number.isFinite(microdollars) ? microdollars : 0))
  const [sign, size] = amount < 0n ? ["−", -amount] : ["", amount]
  const fraction = String(size % 1_000_000n).padStart(6, "0").replace(/0{1,4}$/, "")
  return `${sign}$${grouped(size / 1_000_000n)}.${fraction}`
}

/**
 * 1234567 as `1,234,567`.
 * @param {number | bigint} value
 */
export const grouped = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 })

/**
 * For an axis, where there is little room: 25000 as `25K`.
 * @param {number} value
 */
export const compact = (value) => value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 })

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** @param {string} day */
const shortDay = (day) => `${Number(day.slice(8, 10))} ${months[Number(day.slice(5, 7)) - 1] ?? ""}`

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

/** @param {string} day */
const longDay = (day) => `${weekdays[new Date(day).getUTCDay()] ?? ""}, ${shortDay(day)} ${day.slice(0, 4)}`

const [height, top, bottom, right] = [240, 14, 30, 10]

/** @param {number | undefined} value */
const amount = (value) => value !== undefined && Number.isFinite(value) ? Math.max(0, value) : 0

/**
 * @param {Plot} plot
 * @param {{ readonly kind: string, readonly width: number, readonly format: (value: number) => string }} how
 */
const draw = ({ days, format: tell, id, name, title, values, within }, { format, kind, width }) => {
  const amounts = days.map((_, at) => amount(values[at]))
  const marks = ticks(Math.max(0, ...amounts))
  const greatest = marks.at(-1) ?? 1
  const labels = marks.map((mark) => mark > 0 && Math.max(...amounts) === 0 ? "" : format(mark))
  const left = 8 + Math.max(...labels.map((label) => label.length)) * 8
  const base = height - bottom
  /** @param {number} value */
  const scale = (value) => base - (base - top) * Math.min(1, value / greatest)
  const step = (width - left - right) / Math.max(1, days.length)
  const thick = Math.max(Math.min(step * 0.72, 28), Math.min(step, 1))
  const every = Math.max(1, Math.ceil(52 / step))
  const grid = marks.flatMap((value, at) => [
    element("path", { class: "grid", d: `M${point(left)} ${point(scale(value))}H${width - right}` }),
    words("text", { x: left - 6, y: scale(value) + 4, "text-anchor": "end" }, labels[at] ?? ""),
  ])
  const bars = days.map((day, at) => {
    const x = left + at * step + (step - thick) / 2
    const [value, part] = [amounts[at] ?? 0, Math.min(amount(within?.values[at]), amounts[at] ?? 0)]
    const told = within === undefined || part === 0 ? "" : `\n${tell(part)} ${within.name}`
    /** @param {string} kind @param {number} value */
    const of = (kind, value) =>
      element("rect", { class: kind, x, y: scale(value), width: thick, height: base - scale(value) })
    return element("g", {}, [
      words("title", {}, `${longDay(day)}\n${tell(value)} ${name}${told}`),
      element("rect", { class: "reach", x: left + at * step, y: top, width: step, height: base - top }),
      of("amount", value),
      ...(part > 0 ? [of("part", part)] : []),
    ])
  })
  // Counted from the last day, which is the one that is looked for.
  const named = days.flatMap((day, at) => {
    const x = left + (at + 0.5) * step
    const fits = (days.length - 1 - at) % every === 0 && x > 26
    return fits
      ? [words("text", { x: Math.min(x, width - 26), y: height - 10, "text-anchor": "middle" }, shortDay(day))]
      : []
  })
  const total = amounts.reduce((sum, value) => sum + value, 0)
  return picture({
    id: `${id}-${kind}`,
    kind: `plot ${kind}`,
    width,
    height,
    title,
    description: `${days.length} days from ${days[0] ?? ""} to ${days.at(-1) ?? ""}: ${tell(total)} ${name} in all, ${
      tell(Math.max(0, ...amounts))
    } on the busiest. The table below tells each day.`,
  }, [...grid, ...bars, element("path", { class: "axis", d: `M${point(left)} ${base}H${width - right}` }), ...named])
}

/** @param {Plot} plot */
const table = ({ days, format, name, values, within }) => {
  const head = ["Day in New York", name, ...(within === undefined ? [] : [within.name])]
  const rows = days.map((day, at) => {
    const cells = [amount(values[at]), ...(within === undefined ? [] : [amount(within.values[at])])]
    return `<tr><th scope="row">${escape(day)}</th>${
      cells.map((cell) => `<td class="number">${escape(format(cell))}</td>`).join("")
    }</tr>`
  }).toReversed()
  return `<details class="table"><summary>As a table</summary><div class="scroll" tabindex="0" role="group" ` +
    `aria-label="${escape(name)} by day"><table><thead><tr>${
      head.map((cell, at) => `<th scope="col"${at === 0 ? "" : ` class="number"`}>${escape(cell)}</th>`).join("")
    }</tr></thead><tbody>${rows.join("")}</tbody></table></div></details>`
}

/**
 * The plot and its table, as HTML.
 * @param {Plot & { readonly axis: (value: number) => string }} plot `axis`: how values are written beside it
 */
export const figure = ({ axis, ...plot }) => {
  const pictures = widths.map(([kind, width]) => draw(plot, { kind, width, format: axis }))
  return `<figure class="plotted">${pictures.join("")}<figcaption>${escape(plot.title)}</figcaption>${
    table(plot)
  }</figure>`
}
