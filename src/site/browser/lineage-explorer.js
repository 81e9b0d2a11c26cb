/** The lineage explorer. The symbol is the URL fragment (`#META`), so links and the back button work. */
import { activateKeyForm, hasKey, missingKeyResponse, requestWithKey } from "./api-key.js"
import { createCodeBlock, createCopyButton, createElement, makeLatestSignal, parseHtml, requireElement } from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { renderLineage } from "./lineage-figure.js"

const form = requireElement("lineage-form", HTMLFormElement)
const field = requireElement("symbol", HTMLInputElement)
const result = requireElement("result", HTMLElement)
const state = requireElement("state", HTMLElement)

const pageTitle = document.title

const symbolInAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(1)).trim()
  } catch {
    return location.hash.slice(1)
  }
}

/** The path of the request. Encodes single quotes, so that a shell command can quote it. @param {string} symbol */
const pathFor = (symbol) => `/v1/ticker-changes?ticker=${encodeURIComponent(symbol).replaceAll("'", "%27")}`

/** @param {string} symbol */
const curlCommand = (symbol) => `curl -H "Authorization: Bearer $TICKERLINE_KEY" '${location.origin}${pathFor(symbol)}'`

const latestSignal = makeLatestSignal()

/** Cancels the current request and empties the result. */
const reset = () => {
  const signal = latestSignal()
  result.replaceChildren()
  result.removeAttribute("aria-busy")
  state.textContent = ""
  state.classList.remove("hidden")
  return signal
}

const load = async () => {
  const signal = reset()
  const symbol = symbolInAddress()
  field.value = symbol
  document.title = symbol === "" ? pageTitle : `${symbol.toUpperCase()} · ${pageTitle}`
  if (symbol === "") return
  if (!hasKey()) {
    onKeyChange()
    return
  }
  result.setAttribute("aria-busy", "true")
  state.textContent = `Loading ${symbol}…`
  const response = await requestWithKey(pathFor(symbol), signal)
  if (signal.aborted) return
  result.removeAttribute("aria-busy")
  const figure = renderLineage(response.body, { id: "lineage", today: new Date().toISOString().slice(0, 10) })
  const tools = createElement(
    "p",
    { class: "tools" },
    ...createCopyButton("Copy as curl", { className: "quiet" }, () => curlCommand(symbol)),
    ...createCopyButton("Copy link", { className: "quiet" }, () => location.href),
  )
  if (figure === undefined) {
    state.textContent = response.status === 200
      ? "This page cannot show the response."
      : `There is no lineage for ${symbol}.`
    result.replaceChildren(createErrorNotice(response, load), tools)
    return
  }
  const json = createCodeBlock("JSON", JSON.stringify(response.body, null, 2))
  const rawJson = createElement("details", { class: "raw" }, createElement("summary", {}, "Raw JSON"), json)
  result.replaceChildren(parseHtml(figure), tools, rawJson)
  // For screen readers only, because the same summary is visible below the timeline.
  state.classList.add("hidden")
  state.textContent = result.querySelector(".summary")?.textContent ?? ""
}

/** Offers a button instead of sending the request, because responses cost money. */
const onKeyChange = () => {
  reset()
  const symbol = symbolInAddress()
  if (symbol === "") {
    if (hasKey()) field.focus({ preventScroll: true })
    return
  }
  if (!hasKey()) {
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
addEventListener("hashchange", () => void load())
requireElement("samples", HTMLElement).hidden = false
activateKeyForm(onKeyChange)
void load()
if (hasKey() && symbolInAddress() === "") field.focus({ preventScroll: true })
