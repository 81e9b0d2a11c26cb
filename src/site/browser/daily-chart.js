/** Renders a bar chart of daily amounts, and a table of the same numbers. Pure. */
import {
  figureLayouts,
  makeNumericColumn,
  markup,
  renderElement,
  renderSvg,
  renderTable,
  renderTextElement,
  roundCoordinate,
} from "./markup.js"

/**
 * One amount per day. `subset` is a part of each amount, such as errors among requests, drawn as part of the bar.
 * @typedef {object} Chart
 * @property {string} id unique on the page
 * @property {string} title
 * @property {ReadonlyArray<string>} days consecutive, `YYYY-MM-DD`
 * @property {ReadonlyArray<number>} values
 * @property {{ readonly name: string, readonly values: ReadonlyArray<number> } | undefined} subset
 * @property {string} name unit of the values and title of their column
 * @property {(value: number) => string} format
 * @property {(value: number) => string} formatAxis shorter format for axis labels
 */

const dayMillis = 86_400_000

/**
 * Lists every day in a range, including both ends, but at most 1,000 days.
 * @param {string} from
 * @param {string} to
 */
export const listDaysBetween = (from, to) => {
  const [start, end] = [Date.parse(from), Date.parse(to)]
  const count = Math.min(1000, Math.floor((end - start) / dayMillis) + 1)
  return Array.from(
    { length: Number.isFinite(count) ? Math.max(0, count) : 0 },
    (_, index) => new Date(start + index * dayMillis).toISOString().slice(0, 10),
  )
}

/**
 * Computes axis labels: at most seven round integers, from 0 to at least the given maximum.
 * @param {number} maximum
 */
export const computeAxisTicks = (maximum) => {
  const top = Number.isFinite(maximum) ? Math.max(1, maximum) : 1
  const minStep = Math.max(1, top / 5)
  const power = 10 ** Math.floor(Math.log10(minStep))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= minStep) ?? minStep
  return Array.from({ length: Math.ceil(top / step) + 1 }, (_, index) => index * step)
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** @param {string} day */
const shortDate = (day) => `${Number(day.slice(8, 10))} ${months[Number(day.slice(5, 7)) - 1] ?? ""}`

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

/** @param {string} day */
const longDate = (day) => `${weekdays[new Date(day).getUTCDay()] ?? ""}, ${shortDate(day)} ${day.slice(0, 4)}`

const [height, top, bottom, right] = [240, 14, 30, 10]

/** Negative, missing and infinite values are drawn as 0. @param {number | undefined} value */
const toAmount = (value) => value !== undefined && Number.isFinite(value) ? Math.max(0, value) : 0

/**
 * @param {Chart} chart
 * @param {string} layout
 * @param {number} width
 */
const drawChart = ({ days, format, formatAxis, id, name, subset, title, values }, layout, width) => {
  const amounts = days.map((_, index) => toAmount(values[index]))
  const maximum = Math.max(0, ...amounts)
  const ticks = computeAxisTicks(maximum)
  const axisMaximum = ticks.at(-1) ?? 1
  const labels = ticks.map((tick) => tick > 0 && maximum === 0 ? "" : formatAxis(tick))
  const left = 8 + Math.max(...labels.map((label) => label.length)) * 8
  const base = height - bottom
  /** @param {number} value */
  const yOf = (value) => base - (base - top) * Math.min(1, value / axisMaximum)
  const step = (width - left - right) / Math.max(1, days.length)
  const barWidth = Math.max(Math.min(step * 0.72, 28), Math.min(step, 1))
  const labelInterval = Math.max(1, Math.ceil(52 / step))
  const grid = ticks.flatMap((value, index) => [
    renderElement("path", {
      class: "grid",
      d: `M${roundCoordinate(left)} ${roundCoordinate(yOf(value))}H${width - right}`,
    }),
    renderTextElement("text", { x: left - 6, y: yOf(value) + 4, "text-anchor": "end" }, labels[index] ?? ""),
  ])
  const bars = days.map((day, index) => {
    const x = left + index * step + (step - barWidth) / 2
    const value = amounts[index] ?? 0
    const part = Math.min(toAmount(subset?.values[index]), value)
    const partLine = subset === undefined || part === 0 ? "" : `\n${format(part)} ${subset.name}`
    /** @param {string} className @param {number} amount */
    const bar = (className, amount) =>
      renderElement("rect", { class: className, x, y: yOf(amount), width: barWidth, height: base - yOf(amount) })
    return renderElement("g", {}, [
      renderTextElement("title", {}, `${longDate(day)}\n${format(value)} ${name}${partLine}`),
      renderElement("rect", { class: "hover-area", x: left + index * step, y: top, width: step, height: base - top }),
      bar("amount", value),
      ...(part > 0 ? [bar("subset", part)] : []),
    ])
  })
  // Counts backward from the end, so that the last day always has a label.
  const dates = days.flatMap((day, index) => {
    const x = left + (index + 0.5) * step
    if ((days.length - 1 - index) % labelInterval !== 0 || x <= 26) return []
    return [
      renderTextElement(
        "text",
        { x: Math.min(x, width - 26), y: height - 10, "text-anchor": "middle" },
        shortDate(day),
      ),
    ]
  })
  const total = amounts.reduce((sum, value) => sum + value, 0)
  return renderSvg({
    id: `${id}-${layout}`,
    className: `plot ${layout}`,
    width,
    height,
    title,
    description:
      `${days.length} days from ${days[0] ?? ""} to ${days.at(-1) ?? ""}. Total: ${format(total)} ${name}. ` +
      `Highest day: ${format(maximum)}. The table below lists every day.`,
  }, [
    ...grid,
    ...bars,
    renderElement("path", { class: "axis", d: `M${roundCoordinate(left)} ${base}H${width - right}` }),
    ...dates,
  ])
}

/** @param {Chart} chart */
const chartTable = ({ days, format, name, subset, values }) => {
  const series = [{ name, values }, ...(subset === undefined ? [] : [subset])]
  const rows = days.map((day, index) => [
    day,
    ...series.map(({ values }) => format(toAmount(values[index]))),
  ]).toReversed()
  const columns = ["Day in New York", ...series.map(({ name }) => makeNumericColumn(name))]
  return markup`<details class="table"><summary>Show as a table</summary>${
    renderTable(columns, rows, { label: `${name} by day` })
  }</details>`
}

/**
 * Renders the chart in both layouts, with its table.
 * @param {Chart} chart
 */
export const renderDailyChart = (chart) =>
  markup`<figure class="plotted">${
    figureLayouts.map(([layout, width]) => drawChart(chart, layout, width))
  }<figcaption>${chart.title}</figcaption>${chartTable(chart)}</figure>`
