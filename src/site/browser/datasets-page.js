/** The datasets page: adds the time of the last change to its table, and draws the ages as a chart. */
import { activateKeyForm, hasKey, request } from "./api-key.js"
import { addTooltips } from "./chart-tooltips.js"
import { renderDatasetAges } from "./dataset-age-chart.js"
import { byId, createElement, makeLatestSignal, parseHtml } from "./dom.js"
import { errorNotice } from "./error-notice.js"
import { listAt, textAt } from "./json.js"
import { formatAge, parseTimestamp } from "./timestamps.js"

const state = byId("state", HTMLElement)
const chart = byId("freshness", HTMLElement)
const table = byId("datasets", HTMLElement)
const cells = new Map(
  Array.from(document.querySelectorAll("td[data-dataset]"), (cell) => [cell.getAttribute("data-dataset") ?? "", cell]),
)

const latestSignal = makeLatestSignal()

const load = async () => {
  const signal = latestSignal()
  chart.replaceChildren()
  // Hides the column with the times until they are loaded.
  table.classList.add("without-times")
  state.textContent = ""
  if (!hasKey()) return
  state.textContent = "Loading…"
  const response = await request("/v1/datasets?limit=100", signal)
  if (signal.aborted) return
  if (response.status !== 200) {
    state.replaceChildren(errorNotice(response, () => void load()))
    return
  }
  const serviceTime = Date.parse(response.headers.get("Date") ?? "")
  const now = Number.isFinite(serviceTime) ? serviceTime : Date.now()
  const datasets = listAt(response.body, "results").map((row) => {
    const text = textAt(row, "changed_at")
    const changedAt = text === undefined ? undefined : parseTimestamp(text)
    return { name: textAt(row, "dataset") ?? "", text, changedAt }
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
  addTooltips(chart)
  state.textContent = "Up to date."
}

activateKeyForm(() => void load())
void load()
