/** Renders the daily totals of usage by day and by endpoint. Pure, because the operators' console uses it too. */
import { renderDailyChart } from "./daily-chart.js"
import { getNumberAt, getTextAt } from "./json-values.js"
import { makeNumericColumn, markup, renderInlineCode, renderTable } from "./markup.js"
import { formatCompactNumber, formatDollars, formatInteger } from "./number-format.js"

/** @param {ReadonlyArray<unknown>} rows @param {string} groupField @param {string} sumField */
const sumBy = (rows, groupField, sumField) => {
  /** @type {Map<string, number>} */
  const sums = new Map()
  for (const row of rows) {
    const group = getTextAt(row, groupField) ?? ""
    sums.set(group, (sums.get(group) ?? 0) + (getNumberAt(row, sumField) ?? 0))
  }
  return sums
}

/**
 * Renders charts of the requests and the cost per day.
 * @param {ReadonlyArray<unknown>} rows of `/v1/usage/daily`
 * @param {ReadonlyArray<string>} days
 */
export const renderUsageCharts = (rows, days) => {
  /** @param {string} field */
  const byDay = (field) => {
    const sums = sumBy(rows, "usage_date", field)
    return days.map((day) => sums.get(day) ?? 0)
  }
  const requests = renderDailyChart({
    id: "requests",
    title: "Requests per day; the lower part of each bar counts errors",
    name: "requests",
    days,
    values: byDay("requests"),
    subset: { name: "errors", values: byDay("errors") },
    format: formatInteger,
    formatAxis: formatCompactNumber,
  })
  const cost = renderDailyChart({
    id: "cost",
    title: "Cost per day, USD",
    name: "USD",
    days,
    values: byDay("cost_microdollars"),
    subset: undefined,
    format: formatDollars,
    formatAxis: formatDollars,
  })
  return markup`${requests}${cost}`
}

/** Renders a table with one row per endpoint, most expensive first. @param {ReadonlyArray<unknown>} rows */
export const renderUsageByEndpoint = (rows) => {
  const [requests, errors, bytes, cost] = [
    sumBy(rows, "endpoint", "requests"),
    sumBy(rows, "endpoint", "errors"),
    sumBy(rows, "endpoint", "bytes"),
    sumBy(rows, "endpoint", "cost_microdollars"),
  ]
  /** @param {Map<string, number>} sums @param {string} left @param {string} right */
  const difference = (sums, left, right) => (sums.get(right) ?? 0) - (sums.get(left) ?? 0)
  const paths = Array.from(requests.keys()).toSorted((left, right) =>
    difference(cost, left, right) || difference(requests, left, right)
  )
  return renderTable(
    ["Endpoint", ...["Requests", "Errors", "Bytes", "Cost"].map(makeNumericColumn)],
    paths.map((path) => [
      renderInlineCode(path),
      ...[requests, errors, bytes].map((sums) => formatInteger(sums.get(path) ?? 0)),
      formatDollars(cost.get(path) ?? 0),
    ]),
    { label: "Usage by endpoint" },
  )
}
