/** Sends the example request of a reference page, and keeps the examples in sync with the parameter fields. */
import { activateKeyForm, hasApiKey, requestWithKey } from "./api-key.js"
import { createCodeBlock, createElement, makeLatestRequestSignal, requireElement } from "./dom.js"
import { createErrorNotice } from "./error-notice.js"
import { formatDollars, formatInteger } from "./number-format.js"
import {
  formatCurlExample,
  formatPythonExample,
  formatRequestPath,
  formatTypeScriptExample,
} from "./request-examples.js"

const form = requireElement("try", HTMLFormElement)
const section = requireElement("response-section", HTMLElement)
const state = requireElement("state", HTMLElement)
const result = requireElement("response", HTMLElement)
/** The examples in curl, Python and TypeScript; only in curl if the clients do not cover the endpoint. */
const examples = Array.from(requireElement("request", HTMLElement).querySelectorAll("code"))

const path = form.dataset["path"] ?? ""
const clientMethod = form.dataset["clientMethod"] ?? ""
const needsKey = form.dataset["key"] === "yes"

/** Longer responses are cut off, because browsers are slow to render them. */
const maxShownCharacters = 50_000

/** The fields that hold the parameters of the request. */
const fields = Array.from(form.elements).filter((element) =>
  element instanceof HTMLInputElement || element instanceof HTMLSelectElement
)

/**
 * Whether the field contains a query string for any other endpoint, as on the `/estimate` page.
 * @param {HTMLElement} field
 */
const takesAnyParameter = (field) => field.dataset["type"] === "parameters"

/** Replaces the example and its response with the request in the page's address, if there is one. */
const fillFromAddress = () => {
  const query = new URLSearchParams(location.search)
  if (query.size === 0) return
  result.replaceChildren(
    createElement("p", { class: "quiet" }, "The link filled in this request. Select Send to see its response."),
  )
  for (const field of fields) {
    if (takesAnyParameter(field)) continue
    field.value = query.get(field.name) ?? ""
    query.delete(field.name)
  }
  for (const field of fields) if (takesAnyParameter(field)) field.value = query.toString()
}

/** @returns {import("./request-examples.js").ExampleRequest} */
const readRequest = () => {
  const parameters = fields.filter(({ value }) => value !== "")
    .map(({ dataset, name, value }) => ({ name, value, type: dataset["type"] ?? "text" }))
  return { serviceUrl: location.origin, path, parameters, needsKey, clientMethod }
}

/** Updates the examples. Hides those of the clients if the clients cannot send the request. */
const updateExamples = () => {
  const request = readRequest()
  const texts = [formatCurlExample(request), formatPythonExample(request), formatTypeScriptExample(request)]
  for (const [at, code] of examples.entries()) {
    const text = texts[at] ?? ""
    code.textContent = text
    const details = code.closest("details")
    if (details !== null) details.hidden = text === ""
  }
}

/** @param {string} text JSON, or any other format */
const indentJson = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** @param {import("./api-key.js").ApiResponse} response @param {number} millis */
const showResponse = ({ headers, status, text }, millis) => {
  const cost = headers.get("X-Cost-Microdollars")
  const body = indentJson(text)
  const facts = [
    `${formatInteger(millis)} ms`,
    `${formatInteger(new TextEncoder().encode(text).length)} bytes`,
    ...(cost === null ? [] : [formatDollars(Number(cost))]),
  ]
  const badge = createElement("span", { class: `badge ${status < 400 ? "good" : "bad"}` }, String(status))
  const headerLines = Array.from(headers, ([name, value]) => `${name}: ${value}`).join("\n")
  result.replaceChildren(
    createElement("p", {}, badge, ` ${facts.join(", ")}`),
    createCodeBlock("Response", body.slice(0, maxShownCharacters)),
  )
  if (body.length > maxShownCharacters) {
    result.append(
      createElement(
        "p",
        { class: "quiet" },
        `Only the first ${formatInteger(maxShownCharacters)} characters are shown.`,
      ),
    )
  }
  result.append(createElement(
    "details",
    { class: "raw" },
    createElement("summary", {}, "Response headers"),
    createCodeBlock("Response headers", headerLines),
  ))
}

const latestSignal = makeLatestRequestSignal()

/** Sends the request in the fields, and shows the response. */
const send = async () => {
  const signal = latestSignal()
  // The response may be far from the button. The style sheet decides whether scrolling is animated.
  section.focus({ preventScroll: true })
  section.scrollIntoView()
  result.setAttribute("aria-busy", "true")
  state.classList.remove("hidden")
  state.textContent = "Sending…"
  const start = performance.now()
  const response = await requestWithKey(formatRequestPath(readRequest()), signal, "*/*")
  if (signal.aborted) return
  result.removeAttribute("aria-busy")
  if (response.status === 0 || response.status === 401) {
    state.replaceChildren(createErrorNotice(response, () => void send()))
    result.replaceChildren()
    return
  }
  // For screen readers only, because the status is visible above the response.
  state.classList.add("hidden")
  state.textContent = `The service returned status ${response.status}.`
  showResponse(response, Math.round(performance.now() - start))
}

form.hidden = false
const sendBelow = document.getElementById("send-below")
if (sendBelow !== null) sendBelow.hidden = false
form.addEventListener("submit", (event) => {
  event.preventDefault()
  void send()
})
for (const field of fields) field.addEventListener("input", updateExamples)
fillFromAddress()
updateExamples()
requireElement("without-scripts", HTMLElement).hidden = true
if (needsKey) {
  activateKeyForm(() => {
    state.textContent = hasApiKey() ? "The key is set. Select Send to use it." : ""
  })
}
