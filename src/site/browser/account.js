/** The account page: what the visitor's own key may know of its account. Each part says by itself what it lacks. */
import { breakable, byId, make, table } from "./dom.js"
import { at, listAt, numberAt, textAt, textsAt } from "./json.js"
import { ask, hasKey, keyForm } from "./key.js"
import { daysBetween, dollars, grouped } from "./plot.js"
import { problem } from "./problem.js"
import { toNewYork } from "./time.js"
import { addTips } from "./tips.js"
import { byEndpoint, plots, sums } from "./usage.js"

/** @typedef {import("./key.js").Answer} Answer */

const result = byId("result", HTMLElement)
const state = byId("state", HTMLElement)
const parts = {
  facts: byId("facts", HTMLElement),
  days: byId("days", HTMLElement),
  endpoints: byId("endpoints", HTMLElement),
  latest: byId("latest", HTMLElement),
  keys: byId("keys", HTMLElement),
}
const period = byId("period", HTMLSelectElement)
const refresh = byId("refresh", HTMLButtonElement)

/** @param {string | undefined} text */
const shown = (text) => text ?? "—"

/** `2026-06-01T08:30:00-05:00` as it is, but easier to read. @param {string | undefined} text */
const time = (text) => text === undefined ? "—" : make("time", { datetime: text }, text.slice(0, 19).replace("T", " "))

/** @param {Answer} account @param {Answer} overview */
const facts = (account, overview) => {
  const [row, now] = [at(account.body, "results", 0), at(overview.body, "results", 0)]
  const balance = numberAt(now, "balance_microdollars")
  const { headers } = overview
  const [limit, left, reset] = ["Limit", "Remaining", "Reset"].map((name) => {
    const value = headers.get(`X-RateLimit-${name}`)
    return value === null || !/^\d+$/.test(value) ? "—" : grouped(Number(value))
  })
  /** @type {ReadonlyArray<readonly [string, string]>} */
  const told = [
    ["Account", shown(textAt(row, "name") ?? textAt(now, "name"))],
    ["Tier", shown(textAt(now, "tier") ?? textAt(row, "tier"))],
    ["Notices go to", textAt(row, "contact_email") ?? "nobody: no address is set"],
    ["Balance", balance === undefined ? "billed later" : dollars(balance)],
    ["Cost today", dollars(numberAt(now, "cost_today_microdollars") ?? 0)],
    ["Requests today", grouped(numberAt(now, "requests_today") ?? 0)],
    [
      "Requests left this minute",
      `${left} of ${limit} (renewed in ${reset} s)`,
    ],
    ["Last charged", shown(textAt(now, "last_charged_at")?.slice(0, 19).replace("T", " "))],
  ]
  return make(
    "dl",
    { class: "facts" },
    ...told.flatMap(([name, value]) => [make("div", {}, make("dt", {}, name), make("dd", {}, value))]),
  )
}

/** The status, and how many requests a row stands for if several. @param {unknown} row */
const status = (row) => {
  const count = numberAt(row, "request_count") ?? 1
  return `${numberAt(row, "status_code") ?? ""}${count > 1 ? ` (${grouped(count)} requests)` : ""}`
}

/** @param {string} text */
const none = (text) => make("p", { class: "quiet" }, text)

/** @param {unknown} row */
const request = (row) => [
  time(textAt(row, "requested_at")),
  breakable(textAt(row, "endpoint") ?? ""),
  status(row),
  grouped(numberAt(row, "bytes") ?? 0),
  dollars(numberAt(row, "cost_microdollars") ?? 0),
  `${grouped(numberAt(row, "duration_ms") ?? 0)}\u00a0ms${at(row, "cached") === true ? ", from memory" : ""}`,
  make("code", {}, textAt(row, "request_id") ?? ""),
]

/** @param {unknown} row */
const apiKey = (row) => [
  make("code", {}, `${textAt(row, "key_hint") ?? ""}…`),
  shown(textAt(row, "name")),
  shown(textAt(row, "status")),
  at(row, "endpoints") === null ? "all" : textsAt(row, "endpoints").join(", "),
  time(textAt(row, "last_used_at")),
  textAt(row, "expires_at") === undefined ? "never" : time(textAt(row, "expires_at")),
]

const requestColumns = ["At (-05:00)", "Endpoint", "Status", "#Bytes", "#Cost", "Time", "Request"]
const keyColumns = ["Key", "Name", "Status", "Opens", "Last used (-05:00)", "Ends (-05:00)"]

let turn = 0

const show = async () => {
  turn += 1
  const own = turn
  if (!hasKey()) {
    result.hidden = true
    state.textContent = ""
    return
  }
  result.setAttribute("aria-busy", "true")
  state.textContent = "Asking…"
  const [account, overview, latest, keys] = await Promise.all(
    ["/v1/account", "/v1/overview", "/v1/usage?limit=20", "/v1/account/api-keys?limit=100"].map((path) => ask(path)),
  )
  // The service's clock counts, in whatever zone the visitor is.
  const now = Date.parse(overview?.headers.get("Date") ?? "")
  const today = toNewYork(Number.isFinite(now) ? now : Date.now()).slice(0, 10)
  const from = new Date(Date.parse(today) - (Number(period.value) - 1) * 86_400_000).toISOString().slice(0, 10)
  const failing = [account, overview, latest, keys].find((answer) => answer?.status !== 200)
  const { failed, rows } = failing?.status === 401 ? { failed: failing, rows: [] } : await sums(from)
  if (own !== turn || account === undefined || overview === undefined || latest === undefined || keys === undefined) {
    return
  }
  /** @param {Answer | undefined} answer @param {() => ReadonlyArray<Node>} good */
  const part = (answer, good) =>
    answer === undefined || answer.status === 200 ? good() : [problem(answer, () => void show())]
  if (failing?.status === 401 || failing?.status === 0) {
    result.hidden = true
    state.replaceChildren(problem(failing, () => void show()))
    return
  }
  parts.facts.replaceChildren(...part(overview, () => [facts(account, overview)]))
  parts.days.replaceChildren(
    ...part(
      failed,
      () => rows.length === 0 ? [none("No requests in these days.")] : plots(rows, daysBetween(from, today)),
    ),
  )
  addTips(parts.days)
  parts.endpoints.replaceChildren(
    ...part(failed, () => [rows.length === 0 ? none("No requests in these days.") : byEndpoint(rows)]),
  )
  const requests = listAt(latest.body, "results").map(request)
  parts.latest.replaceChildren(
    ...part(latest, () => [
      requests.length === 0 ? none("No requests yet.") : table("Latest requests", requestColumns, requests),
    ]),
  )
  parts.keys.replaceChildren(
    ...part(keys, () => [table("API keys", keyColumns, listAt(keys.body, "results").map(apiKey))]),
  )
  result.hidden = false
  result.removeAttribute("aria-busy")
  state.textContent = "As of now. What was just asked is counted within a second."
}

period.addEventListener("change", () => void show())
refresh.addEventListener("click", () => void show())
keyForm(() => void show())
void show()
