/** A reference page: keeps the curl command in step with the fields, sends the request, and shows the answer. */
import { byId, codeBlock, make } from "./dom.js"
import { ask, hasKey, keyForm } from "./key.js"
import { dollars, grouped } from "./plot.js"
import { problem } from "./problem.js"

const form = byId("try", HTMLFormElement)
const state = byId("state", HTMLElement)
const answer = byId("answer", HTMLElement)
const command = byId("request", HTMLElement).querySelector("code")

const path = form.dataset["path"] ?? ""
const needsKey = form.dataset["key"] === "yes"

/** Longer answers are cut, since no one reads them and a browser takes long to draw them. */
const mostShown = 50_000

const target = () => {
  const query = new URLSearchParams()
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement) || field.value === "") continue
    if (field.dataset["parameters"] === undefined) query.append(field.name, field.value)
    // The parameters of another endpoint, written as they stand in an address.
    else for (const [name, value] of new URLSearchParams(field.value)) query.append(name, value)
  }
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/")
  return text === "" ? path : `${path}?${text}`
}

/** Within double quotes of a shell nothing of an encoded address is special but `$` and a backquote. */
const tell = () => {
  if (command === null) return
  const header = needsKey ? `-H "Authorization: Bearer $TICKERLINE_KEY" \\\n  ` : ""
  command.textContent = `curl ${header}"${location.origin}${target().replaceAll("$", "%24").replaceAll("`", "%60")}"`
}

/** @param {string} text */
const shown = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** @param {import("./key.js").Answer} told @param {number} took in milliseconds */
const show = ({ headers, status, text }, took) => {
  const cost = headers.get("X-Cost-Microdollars")
  const whole = shown(text)
  const cut = whole.length > mostShown
  const facts = [
    `${grouped(took)} ms`,
    `${grouped(new TextEncoder().encode(text).length)} bytes`,
    ...(cost === null ? [] : [dollars(Number(cost))]),
  ]
  answer.replaceChildren(
    make(
      "p",
      {},
      make("span", { class: `badge ${status < 400 ? "good" : "bad"}` }, String(status)),
      ` ${facts.join(", ")}`,
    ),
    codeBlock("Answer", whole.slice(0, mostShown)),
    ...(cut ? [make("p", { class: "quiet" }, `The first ${grouped(mostShown)} characters are shown.`)] : []),
    make(
      "details",
      { class: "raw" },
      make("summary", {}, "Response headers"),
      codeBlock("Response headers", Array.from(headers, ([name, value]) => `${name}: ${value}`).join("\n")),
    ),
  )
}

let turn = 0

const send = async () => {
  turn += 1
  const own = turn
  answer.setAttribute("aria-busy", "true")
  state.classList.remove("hidden")
  state.textContent = "Sending…"
  const began = performance.now()
  const told = await ask(target(), undefined, "*/*")
  if (own !== turn) return
  answer.removeAttribute("aria-busy")
  if (told.status === 0 || told.status === 401) {
    state.replaceChildren(problem(told, () => void send()))
    answer.replaceChildren()
    return
  }
  // Spoken only: the status is written above the answer.
  state.classList.add("hidden")
  state.textContent = `The service answered ${told.status}.`
  show(told, Math.round(performance.now() - began))
}

form.hidden = false
form.addEventListener("submit", (event) => {
  event.preventDefault()
  void send()
})
for (const field of form.elements) field.addEventListener("input", tell)
tell()
byId("without-scripts", HTMLElement).hidden = true
if (needsKey) {
  keyForm(() => {
    state.textContent = hasKey() ? "The key is set. Send asks with it." : ""
  })
}
