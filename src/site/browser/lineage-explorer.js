/**
 * The lineage explorer. The URL fragment is the symbol, with the CIK of a chosen candidate (`#META`,
 * `#META:0001326801`), so that links and the back button work.
 */
import { activateKeyForm, hasApiKey, missingKeyResponse, requestWithKey } from "./api-key.js"
import {
  createCodeBlock,
  createCopyButton,
  createElement,
  makeLatestRequestSignal,
  parseHtml,
  requireElement,
} from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { parseTimelineEvents, renderEventLanes } from "./event-lanes.js"
import { getValueAt } from "./json-values.js"
import { renderLineageFigure } from "./lineage-figure.js"
import { parseLineage } from "./lineage-response.js"
import { makeRequestHref } from "./request-links.js"

const form = requireElement("lineage-form", HTMLFormElement)
const field = requireElement("symbol", HTMLInputElement)
const result = requireElement("result", HTMLElement)
const state = requireElement("state", HTMLElement)
const company = requireElement("company", HTMLElement)
const events = requireElement("events", HTMLElement)
const eventsState = requireElement("events-state", HTMLElement)

const pageTitle = document.title

const decodedFragment = () => {
  try {
    return decodeURIComponent(location.hash.slice(1)).trim()
  } catch {
    return location.hash.slice(1)
  }
}

const readAddress = () => {
  const text = decodedFragment()
  // This is the skip link, opened in a new tab. No symbol is as long as its fragment.
  if (text === document.querySelector("main")?.id) return { symbol: "", cik: undefined }
  const [, symbol = text, cik] = /^(.*):(\d{1,10})$/.exec(text) ?? []
  return { symbol, cik }
}

/** @param {string} symbol @param {string} cik */
const candidateHref = (symbol, cik) => `#${encodeURIComponent(symbol)}:${cik}`

/**
 * The response that the page shows.
 * @type {{ readonly symbol: string, readonly body: unknown } | undefined}
 */
let shown

/**
 * Returns the path of the request. Single quotes are encoded, so that the shell command can put the path in single
 * quotes.
 * @param {string} symbol
 */
const pathFor = (symbol) => `/v1/ticker-changes?ticker=${encodeURIComponent(symbol).replaceAll("'", "%27")}`

/** @param {string} symbol */
const curlCommand = (symbol) => `curl -H "Authorization: Bearer $TICKERLINE_KEY" '${location.origin}${pathFor(symbol)}'`

/** Returns the current date in UTC as `YYYY-MM-DD`. */
const today = () => new Date().toISOString().slice(0, 10)

const latestSignal = makeLatestRequestSignal()

/** Cancels the current request and empties the result. */
const reset = () => {
  const signal = latestSignal()
  result.replaceChildren()
  result.removeAttribute("aria-busy")
  company.hidden = true
  shown = undefined
  state.textContent = ""
  state.classList.remove("hidden")
  return signal
}

/** @param {{ readonly symbol: string, readonly body: unknown }} response @param {ReadonlyArray<string>} [dates] */
const renderFigure = ({ body, symbol }, dates = []) =>
  renderLineageFigure(body, {
    id: "lineage",
    today: today(),
    dates,
    candidateHref: (cik) => candidateHref(symbol, cik),
  })

/**
 * Redraws the chain, with the dates of the events on its axis. Leaves the text unchanged, because a link in it may have
 * the focus.
 * @param {ReadonlyArray<string>} dates
 */
const redrawChain = (dates) => {
  const figure = shown === undefined ? undefined : renderFigure(shown, dates)
  if (figure === undefined) return
  const drawings = Array.from(parseHtml(figure).querySelectorAll("svg[role=img]"))
  result.querySelectorAll("svg[role=img]").forEach((svg, index) => svg.replaceWith(drawings[index] ?? svg))
}

/** @param {number} count @param {import("./api-key.js").ApiResponse} response */
const describeEvents = (count, { body, headers }) => {
  const omitted = headers.get("X-Omitted-Types")?.replaceAll(",", ", ").replaceAll("_", " ")
  const size = getValueAt(body, "has_more") === true
    ? `These are the newest ${count} events; there are more.`
    : count === 0
    ? "There are no events."
    : count === 1
    ? "There is one event."
    : `There are ${count} events.`
  return omitted === undefined ? size : `${size} This key does not give access to events of these types: ${omitted}.`
}

/**
 * Says why there is nothing to show: the service cannot be reached, or has refused the request.
 * @param {string} subject
 * @param {import("./api-key.js").ApiResponse} response
 */
const describeMissing = (subject, { status }) =>
  status === 0
    ? `The ${subject} cannot be loaded, because the service cannot be reached.`
    : `The ${subject} cannot be shown.`

/**
 * Shows the company's events, and links to its rows. An ambiguous symbol has neither until a candidate has been chosen.
 */
const showCompany = async () => {
  const lineage = parseLineage(shown?.body)
  if (lineage === undefined) return
  const signal = latestSignal()
  const { cik, symbol } = readAddress()
  for (const link of result.querySelectorAll("figcaption a")) {
    const isChosen = cik !== undefined && link.getAttribute("href") === candidateHref(symbol, cik)
    link.setAttribute("aria-current", String(isChosen))
  }
  company.hidden = lineage.kind === "refusal" && (cik === undefined || lineage.candidates.length === 0)
  if (company.hidden) return
  const query = `ticker=${encodeURIComponent(symbol)}&follow_lineage=true${cik === undefined ? "" : `&cik=${cik}`}`
  for (const link of company.querySelectorAll("a[data-path]")) {
    link.setAttribute("href", makeRequestHref(link.getAttribute("data-path") ?? "", query))
  }
  events.replaceChildren()
  eventsState.textContent = "Loading the events…"
  const response = await requestWithKey(`/v1/timeline?${query}&limit=100`, signal)
  if (signal.aborted) return
  if (response.status !== 200) {
    eventsState.textContent = describeMissing("events", response)
    events.replaceChildren(createErrorNotice(response, showCompany))
    return
  }
  const found = parseTimelineEvents(response.body)
  redrawChain(found.map(({ date }) => date))
  if (found.length > 0) events.replaceChildren(parseHtml(renderEventLanes(lineage, found, today())))
  eventsState.textContent = describeEvents(found.length, response)
}

/** Requests the lineage of the symbol in the address, and shows it. */
const load = async () => {
  const signal = reset()
  const { symbol } = readAddress()
  field.value = symbol
  document.title = symbol === "" ? pageTitle : `${symbol.toUpperCase()} · ${pageTitle}`
  if (symbol === "") return
  if (!hasApiKey()) {
    onKeyChange()
    return
  }
  result.setAttribute("aria-busy", "true")
  state.textContent = `Loading ${symbol}…`
  const response = await requestWithKey(pathFor(symbol), signal)
  if (signal.aborted) return
  result.removeAttribute("aria-busy")
  const figure = renderFigure({ body: response.body, symbol })
  const tools = createElement(
    "p",
    { class: "tools" },
    ...createCopyButton("Copy as curl", { className: "quiet" }, () => curlCommand(symbol)),
    ...createCopyButton("Copy link", { className: "quiet" }, () => location.href),
  )
  if (figure === undefined) {
    state.textContent = describeMissing(`lineage of ${symbol}`, response)
    result.replaceChildren(createErrorNotice(response, load), tools)
    return
  }
  const json = createCodeBlock("JSON", JSON.stringify(response.body, null, 2))
  const rawJson = createElement("details", { class: "raw" }, createElement("summary", {}, "Raw JSON"), json)
  result.replaceChildren(parseHtml(figure), tools, rawJson)
  // For screen readers only, because the same summary is visible below the timeline.
  state.classList.add("hidden")
  state.textContent = result.querySelector(".summary")?.textContent ?? ""
  shown = { symbol, body: response.body }
  await showCompany()
}

/**
 * Called when the key changes. Offers a button instead of sending the request at once, because responses cost money.
 */
const onKeyChange = () => {
  reset()
  const { symbol } = readAddress()
  if (symbol === "") {
    if (hasApiKey()) field.focus({ preventScroll: true })
    return
  }
  if (!hasApiKey()) {
    state.textContent = `Enter an API key to see the lineage of ${symbol}.`
    result.replaceChildren(createErrorNotice(missingKeyResponse, load))
    return
  }
  const button = createElement("button", { type: "button", class: "main" }, `Show the lineage of ${symbol}`)
  button.addEventListener("click", () => void load())
  result.replaceChildren(createElement("p", {}, button))
  button.focus({ preventScroll: true })
}

form.hidden = false
form.addEventListener("submit", (event) => {
  event.preventDefault()
  const hash = `#${encodeURIComponent(field.value.trim())}`
  if (location.hash === hash) void load()
  else location.hash = hash
})
addEventListener("hashchange", () => void (shown?.symbol === readAddress().symbol ? showCompany() : load()))
requireElement("samples", HTMLElement).hidden = false
activateKeyForm(onKeyChange)
void load()
if (hasApiKey() && readAddress().symbol === "") field.focus({ preventScroll: true })
