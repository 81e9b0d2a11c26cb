/** The sums of `/v1/usage/daily`, drawn by day and added up by endpoint. */
import { breakable, picture, table } from "./dom.js"
import { at, listAt, numberAt, textAt } from "./json.js"
import { ask } from "./key.js"
import { compact, dollars, figure, grouped } from "./plot.js"

/** More pages of sums than these are not read: some 40 endpoints of 90 days fit. */
const mostPages = 40

/**
 * All sums since a day, or the answer that was none.
 * @param {string} from
 */
export const sums = async (from) => {
  /** @type {Array<unknown>} */
  const rows = []
  for (let page = 1; page <= mostPages; page += 1) {
    const answer = await ask(`/v1/usage/daily?usage_date_from=${from}&limit=100&page=${page}`)
    if (answer.status !== 200) return { rows, failed: answer }
    rows.push(...listAt(answer.body, "results"))
    if (at(answer.body, "has_more") !== true) break
  }
  return { rows, failed: undefined }
}

/** @param {ReadonlyArray<unknown>} rows @param {string} by @param {string} name */
const added = (rows, by, name) => {
  /** @type {Map<string, number>} */
  const sums = new Map()
  for (const row of rows) {
    const key = textAt(row, by) ?? ""
    sums.set(key, (sums.get(key) ?? 0) + (numberAt(row, name) ?? 0))
  }
  return sums
}

/** @param {ReadonlyArray<unknown>} rows @param {ReadonlyArray<string>} days */
export const plots = (rows, days) => {
  /** @param {string} name */
  const ofDays = (name) => {
    const sums = added(rows, "usage_date", name)
    return days.map((day) => sums.get(day) ?? 0)
  }
  return [
    figure({
      id: "requests",
      title: "Requests a day; of them, below, those that were answered with an error",
      name: "requests",
      days,
      values: ofDays("requests"),
      within: { name: "errors", values: ofDays("errors") },
      format: grouped,
      axis: compact,
    }),
    figure({
      id: "cost",
      title: "Cost a day, USD",
      name: "USD",
      days,
      values: ofDays("cost_microdollars"),
      within: undefined,
      format: dollars,
      axis: dollars,
    }),
  ].map(picture)
}

/** @param {ReadonlyArray<unknown>} rows */
export const byEndpoint = (rows) => {
  const names = ["requests", "errors", "bytes", "cost_microdollars"]
  const sums = names.map((name) => added(rows, "endpoint", name))
  const paths = Array.from(sums[0]?.keys() ?? []).toSorted((left, right) =>
    (sums[3]?.get(right) ?? 0) - (sums[3]?.get(left) ?? 0) || (sums[0]?.get(right) ?? 0) - (sums[0]?.get(left) ?? 0)
  )
  return table(
    "Usage by endpoint",
    ["Endpoint", "#Requests", "#Errors", "#Bytes", "#Cost"],
    paths.map((path) => [
      breakable(path),
      ...sums.map((of, at) => at === 3 ? dollars(of.get(path) ?? 0) : grouped(of.get(path) ?? 0)),
    ]),
  )
}
