/** The account page: limits, balance, usage, recent requests and keys. Each section reports its own error. */
import { activateKeyForm, hasApiKey, requestWithKey } from "./api-key.js"
import { addChartTooltips } from "./chart-tooltips.js"
import { listDaysBetween } from "./daily-chart.js"
import { createElement, makeLatestRequestSignal, parseHtml, requireElement } from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { getListAt, getNumberAt, getTextAt, getTextsAt, getValueAt } from "./json-values.js"
import { joinMarkup, makeNumericColumn, markup, renderInlineCode, renderTable, renderTextElement } from "./markup.js"
import { loadEveryPage } from "./list-pages.js"
import { formatDollars, formatInteger } from "./number-format.js"
import { formatNewYorkTime } from "./timestamps.js"
import { renderUsageByEndpoint, renderUsageCharts } from "./usage-figures.js"

/** @typedef {import("./api-key.js").ApiResponse} ApiResponse */
/** @typedef {import("./markup.js").Html} Html */

const result = requireElement("result", HTMLElement)
const state = requireElement("state", HTMLElement)
const sections = {
  facts: requireElement("facts", HTMLElement),
  days: requireElement("days", HTMLElement),
  endpoints: requireElement("endpoints", HTMLElement),
  latest: requireElement("latest", HTMLElement),
  keys: requireElement("keys", HTMLElement),
}
const period = requireElement("period", HTMLSelectElement)

/** Formats a timestamp without its offset, which the column title shows. @param {string} text */
const clockTime = (text) => text.slice(0, 19).replace("T", " ")

/** @param {string | undefined} text */
const timeCell = (text) => text === undefined ? "—" : renderTextElement("time", { datetime: text }, clockTime(text))

/** @param {unknown} account @param {ApiResponse} overview */
const renderFacts = (account, overview) => {
  const today = getValueAt(overview.body, "results", 0)
  const balance = getNumberAt(today, "balance_microdollars")
  const budget = getNumberAt(today, "budget_microdollars")
  const charged = getTextAt(today, "last_charged_at")
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) => {
    const value = overview.headers.get(`X-RateLimit-${name}`)
    return value === null || !/^\d+$/.test(value) ? "—" : formatInteger(Number(value))
  })
  const facts = {
    "Account": getTextAt(account, "name") ?? getTextAt(today, "name") ?? "—",
    "Tier": getTextAt(today, "tier") ?? getTextAt(account, "tier") ?? "—",
    "Contact email": getTextAt(account, "contact_email") ?? "none",
    "Balance": balance === undefined ? "no prepaid balance" : formatDollars(balance),
    ...(budget !== undefined && {
      "Budget this month": `${formatDollars(getNumberAt(today, "budget_spent_microdollars") ?? 0)} of ` +
        `${formatDollars(budget)} spent${getValueAt(today, "budget_stops") === true ? "; then requests stop" : ""}`,
    }),
    "Cost today": formatDollars(getNumberAt(today, "cost_today_microdollars") ?? 0),
    "Requests today": formatInteger(getNumberAt(today, "requests_today") ?? 0),
    "Requests left this minute": `${remaining} of ${limit}, resets in ${reset} s`,
    "Last charged": charged === undefined ? "—" : clockTime(charged),
  }
  const list = createElement("dl", { class: "facts" })
  for (const [name, value] of Object.entries(facts)) {
    list.append(createElement("div", {}, createElement("dt", {}, name), createElement("dd", {}, value)))
  }
  return list
}

/** @param {unknown} row */
const requestCells = (row) => {
  const count = getNumberAt(row, "request_count") ?? 1
  return [
    timeCell(getTextAt(row, "requested_at")),
    markup`${renderInlineCode(getTextAt(row, "endpoint") ?? "")}<br><span class="long">${
      renderInlineCode(getTextAt(row, "request_id") ?? "")
    }</span>`,
    `${getNumberAt(row, "status_code") ?? ""}${count > 1 ? ` (${formatInteger(count)} requests)` : ""}`,
    formatInteger(getNumberAt(row, "bytes") ?? 0),
    formatDollars(getNumberAt(row, "cost_microdollars") ?? 0),
    `${formatInteger(getNumberAt(row, "duration_ms") ?? 0)}\u00a0ms${
      getValueAt(row, "cached") === true ? ", cached" : ""
    }`,
  ]
}

const requestColumns = [
  "Time (-05:00)",
  "Endpoint, request ID",
  "Status",
  makeNumericColumn("Bytes"),
  makeNumericColumn("Cost"),
  "Duration",
]

/** @param {unknown} row */
const keyCells = (row) => [
  renderInlineCode(`${getTextAt(row, "key_hint") ?? ""}…`),
  renderTextElement("span", { class: "long" }, getTextAt(row, "name") ?? "—"),
  getTextAt(row, "status") ?? "—",
  getValueAt(row, "endpoints") === null ? "all" : joinMarkup(getTextsAt(row, "endpoints").map(renderInlineCode), ", "),
  timeCell(getTextAt(row, "last_used_at")),
  getTextAt(row, "expires_at") === undefined ? "never" : timeCell(getTextAt(row, "expires_at")),
]

const keyColumns = ["Key", "Name", "Status", "Endpoints", "Last used (-05:00)", "Expires (-05:00)"]

const latestSignal = makeLatestRequestSignal()

/** Loads and shows everything. If the key is refused or nothing arrives, shows only that error. */
const load = async () => {
  const signal = latestSignal()
  if (!hasApiKey()) {
    result.hidden = true
    result.removeAttribute("aria-busy")
    state.textContent = ""
    return
  }
  result.setAttribute("aria-busy", "true")
  state.textContent = "Loading…"
  const [account, overview, latest, keys] = await Promise.all([
    requestWithKey("/v1/account", signal),
    requestWithKey("/v1/overview", signal),
    requestWithKey("/v1/usage?limit=20", signal),
    requestWithKey("/v1/account/api-keys?limit=100", signal),
  ])
  const rejected = [account, overview, latest, keys].find(({ status }) => status === 401 || status === 0)
  // The service's clock decides which day it is, because the visitor's may be wrong.
  const serviceTime = Date.parse(overview.headers.get("Date") ?? "")
  const today = formatNewYorkTime(Number.isFinite(serviceTime) ? serviceTime : Date.now()).slice(0, 10)
  const from = new Date(Date.parse(today) - (Number(period.value) - 1) * 86_400_000).toISOString().slice(0, 10)
  const { failure, rows } = rejected === undefined
    ? await loadEveryPage(`/v1/usage/daily?usage_date_from=${from}`, signal)
    : { failure: rejected, rows: [] }
  if (signal.aborted) return
  result.removeAttribute("aria-busy")
  if (rejected !== undefined) {
    result.hidden = true
    state.replaceChildren(createErrorNotice(rejected, () => void load()))
    return
  }
  /**
   * Fills a section with its content, or with the error in its response.
   * @param {HTMLElement} section @param {ApiResponse | undefined} response @param {() => Node | Html} render
   */
  const fill = (section, response, render) => {
    const failed = response !== undefined && response.status !== 200
    const content = failed ? createErrorNotice(response, () => void load()) : render()
    section.replaceChildren(content instanceof Node ? content : parseHtml(content))
  }
  /** @param {string} text */
  const emptyNote = (text) => createElement("p", { class: "quiet" }, text)
  const noRequests = () => emptyNote("No requests in this period.")
  const failedFacts = [account, overview].find(({ status }) => status !== 200)
  fill(sections.facts, failedFacts, () => renderFacts(getValueAt(account.body, "results", 0), overview))
  fill(
    sections.days,
    failure,
    () => rows.length === 0 ? noRequests() : renderUsageCharts(rows, listDaysBetween(from, today)),
  )
  addChartTooltips(sections.days)
  fill(sections.endpoints, failure, () => rows.length === 0 ? noRequests() : renderUsageByEndpoint(rows))
  fill(sections.latest, latest, () => {
    const requests = getListAt(latest.body, "results").map(requestCells)
    return requests.length === 0
      ? emptyNote("No requests yet.")
      : renderTable(requestColumns, requests, { label: "Latest requests" })
  })
  fill(
    sections.keys,
    keys,
    () => renderTable(keyColumns, getListAt(keys.body, "results").map(keyCells), { label: "API keys" }),
  )
  result.hidden = false
  state.textContent = "Up to date. New requests appear within a second."
}

period.addEventListener("change", () => void load())
requireElement("refresh", HTMLButtonElement).addEventListener("click", () => void load())
activateKeyForm(() => void load())
void load()
