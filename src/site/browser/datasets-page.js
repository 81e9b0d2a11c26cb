/** The datasets page: adds the time of the last change to its table, and draws the ages as a chart. */
import { activateKeyForm, hasApiKey, requestWithKey } from "./api-key.js"
import { addChartTooltips } from "./chart-tooltips.js"
import { renderDatasetAges } from "./dataset-age-chart.js"
import { createElement, makeLatestRequestSignal, parseHtml, requireElement } from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { getListAt, getTextAt } from "./json-values.js"
import { formatAge, parseTimestamp } from "./timestamps.js"

const state = requireElement("state", HTMLElement)
const chart = requireElement("freshness", HTMLElement)
const table = requireElement("datasets", HTMLElement)
const cells = new Map(
  Array.from(document.querySelectorAll("td[data-dataset]"), (cell) => [cell.getAttribute("data-dataset") ?? "", cell]),
)

const latestSignal = makeLatestRequestSignal()

/** Loads the times of the last changes, and shows them in the table and in the chart. */
const load = async () => {
  const signal = latestSignal()
  chart.replaceChildren()
  // Hides the time column until the times are loaded.
  table.classList.add("without-times")
  state.textContent = ""
  if (!hasApiKey()) return
  state.textContent = "Loading…"
  const response = await requestWithKey("/v1/datasets?limit=100", signal)
  if (signal.aborted) return
  if (response.status !== 200) {
    state.replaceChildren(createErrorNotice(response, () => void load()))
    return
  }
  const serviceTime = Date.parse(response.headers.get("Date") ?? "")
  const now = Number.isFinite(serviceTime) ? serviceTime : Date.now()
  const datasets = getListAt(response.body, "results").map((row) => {
    const text = getTextAt(row, "changed_at")
    const changedAt = text === undefined ? undefined : parseTimestamp(text)
    return { name: getTextAt(row, "dataset") ?? "", text, changedAt }
  })
  for (const { changedAt, name, text } of datasets) {
    cells.get(name)?.replaceChildren(
      ...(text === undefined || changedAt === undefined ? ["never"] : [
        createElement("time", { datetime: text }, text.slice(0, 19).replace("T", " ")),
        createElement("br", {}),
        formatAge(changedAt, now),
      ]),
    )
  }
  table.classList.remove("without-times")
  chart.replaceChildren(parseHtml(renderDatasetAges(datasets, { id: "ages", now })))
  addChartTooltips(chart)
  state.textContent = "Up to date."
}

activateKeyForm(() => void load())
void load()
