/** The account page: limits, balance, usage, recent requests and keys. Each section reports its own error. */
import { activateKeyForm, hasKey, request } from "./api-key.js"
import { addTooltips } from "./chart-tooltips.js"
import { daysBetween } from "./daily-chart.js"
import { byId, createElement, makeLatestSignal, parseHtml } from "./dom.js"
import { errorNotice } from "./error-notice.js"
import { at, listAt, numberAt, textAt, textsAt } from "./json.js"
import { escape, inlineCode, numericColumn, renderTable, textElement } from "./markup.js"
import { formatDollars, formatInteger } from "./number-format.js"
import { toNewYork } from "./timestamps.js"
import { loadDailyUsage, renderUsageByEndpoint, renderUsageCharts } from "./usage-charts.js"

/** @typedef {import("./api-key.js").ApiResponse} ApiResponse */

const result = byId("result", HTMLElement)
const state = byId("state", HTMLElement)
const sections = {
  facts: byId("facts", HTMLElement),
  days: byId("days", HTMLElement),
  endpoints: byId("endpoints", HTMLElement),
  latest: byId("latest", HTMLElement),
  keys: byId("keys", HTMLElement),
}
const period = byId("period", HTMLSelectElement)

/** Formats a timestamp without its offset, which the column title shows. @param {string} text */
const clockTime = (text) => text.slice(0, 19).replace("T", " ")

/** @param {string | undefined} text */
const timeCell = (text) => text === undefined ? "—" : textElement("time", { datetime: text }, clockTime(text))

/** @param {unknown} account @param {ApiResponse} overview */
const renderFacts = (account, overview) => {
  const today = at(overview.body, "results", 0)
  const balance = numberAt(today, "balance_microdollars")
  const charged = textAt(today, "last_charged_at")
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) => {
    const value = overview.headers.get(`X-RateLimit-${name}`)
    return value === null || !/^\d+$/.test(value) ? "—" : formatInteger(Number(value))
  })
  const facts = {
    "Account": textAt(account, "name") ?? textAt(today, "name") ?? "—",
    "Tier": textAt(today, "tier") ?? textAt(account, "tier") ?? "—",
    "Contact email": textAt(account, "contact_email") ?? "none",
    "Balance": balance === undefined ? "no prepaid balance" : formatDollars(balance),
    "Cost today": formatDollars(numberAt(today, "cost_today_microdollars") ?? 0),
    "Requests today": formatInteger(numberAt(today, "requests_today") ?? 0),
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
  const count = numberAt(row, "request_count") ?? 1
  return [
    timeCell(textAt(row, "requested_at")),
    `${inlineCode(textAt(row, "endpoint") ?? "")}<br>${inlineCode(textAt(row, "request_id") ?? "")}`,
    `${numberAt(row, "status_code") ?? ""}${count > 1 ? ` (${formatInteger(count)} requests)` : ""}`,
    formatInteger(numberAt(row, "bytes") ?? 0),
    formatDollars(numberAt(row, "cost_microdollars") ?? 0),
    `${formatInteger(numberAt(row, "duration_ms") ?? 0)}\u00a0ms${at(row, "cached") === true ? ", cached" : ""}`,
  ]
}

const requestColumns = [
  "Time (-05:00)",
  "Endpoint, request ID",
  "Status",
  numericColumn("Bytes"),
  numericColumn("Cost"),
  "Duration",
]

/** @param {unknown} row */
const keyCells = (row) => [
  inlineCode(`${textAt(row, "key_hint") ?? ""}…`),
  escape(textAt(row, "name") ?? "—"),
  escape(textAt(row, "status") ?? "—"),
  at(row, "endpoints") === null ? "all" : textsAt(row, "endpoints").map(inlineCode).join(", "),
  timeCell(textAt(row, "last_used_at")),
  textAt(row, "expires_at") === undefined ? "never" : timeCell(textAt(row, "expires_at")),
]

const keyColumns = ["Key", "Name", "Status", "Endpoints", "Last used (-05:00)", "Expires (-05:00)"]

const latestSignal = makeLatestSignal()

const load = async () => {
  const signal = latestSignal()
  if (!hasKey()) {
    result.hidden = true
    state.textContent = ""
    return
  }
  result.setAttribute("aria-busy", "true")
  state.textContent = "Loading…"
  const [account, overview, latest, keys] = await Promise.all([
    request("/v1/account", signal),
    request("/v1/overview", signal),
    request("/v1/usage?limit=20", signal),
    request("/v1/account/api-keys?limit=100", signal),
  ])
  const rejected = [account, overview, latest, keys].find(({ status }) => status === 401 || status === 0)
  // Uses the service's clock, because the visitor's may be wrong.
  const serviceTime = Date.parse(overview.headers.get("Date") ?? "")
  const today = toNewYork(Number.isFinite(serviceTime) ? serviceTime : Date.now()).slice(0, 10)
  const from = new Date(Date.parse(today) - (Number(period.value) - 1) * 86_400_000).toISOString().slice(0, 10)
  const { failure, rows } = rejected === undefined
    ? await loadDailyUsage(from, signal)
    : { failure: rejected, rows: [] }
  if (signal.aborted) return
  if (rejected !== undefined) {
    result.hidden = true
    state.replaceChildren(errorNotice(rejected, () => void load()))
    return
  }
  /** @param {HTMLElement} section @param {ApiResponse | undefined} response @param {() => Node | string} render */
  const fill = (section, response, render) => {
    const failed = response !== undefined && response.status !== 200
    const content = failed ? errorNotice(response, () => void load()) : render()
    section.replaceChildren(typeof content === "string" ? parseHtml(content) : content)
  }
  /** @param {string} text */
  const emptyNote = (text) => createElement("p", { class: "quiet" }, text)
  const noRequests = () => emptyNote("No requests in this period.")
  fill(sections.facts, overview, () => renderFacts(at(account.body, "results", 0), overview))
  fill(
    sections.days,
    failure,
    () => rows.length === 0 ? noRequests() : renderUsageCharts(rows, daysBetween(from, today)),
  )
  addTooltips(sections.days)
  fill(sections.endpoints, failure, () => rows.length === 0 ? noRequests() : renderUsageByEndpoint(rows))
  fill(sections.latest, latest, () => {
    const requests = listAt(latest.body, "results").map(requestCells)
    return requests.length === 0
      ? emptyNote("No requests yet.")
      : renderTable(requestColumns, requests, { label: "Latest requests" })
  })
  fill(
    sections.keys,
    keys,
    () => renderTable(keyColumns, listAt(keys.body, "results").map(keyCells), { label: "API keys" }),
  )
  result.hidden = false
  result.removeAttribute("aria-busy")
  state.textContent = "Up to date. New requests appear within a second."
}

period.addEventListener("change", () => void load())
byId("refresh", HTMLButtonElement).addEventListener("click", () => void load())
activateKeyForm(() => void load())
void load()
