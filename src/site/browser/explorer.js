/** The lineage explorer: the symbol stands in the address (`#META`), so it can be shared, and back leads back. */
import { figure } from "./chain.js"
import { byId, copyButton, make, picture, rawJson } from "./dom.js"
import { numberAt } from "./json.js"
import { ask, hasKey, keyForm } from "./key.js"
import { problem } from "./problem.js"

const form = byId("lineage-form", HTMLFormElement)
const field = byId("symbol", HTMLInputElement)
const result = byId("result", HTMLElement)
const state = byId("state", HTMLElement)
const samples = byId("samples", HTMLElement)

const title = document.title

const asked = () => {
  try {
    return decodeURIComponent(location.hash.slice(1)).trim()
  } catch {
    return location.hash.slice(1)
  }
}

/** As a part of an address, also within quotes of a shell. @param {string} ticker */
const pathOf = (ticker) => `/v1/ticker-changes?ticker=${encodeURIComponent(ticker).replaceAll("'", "%27")}`

/** @param {string} ticker */
const curl = (ticker) => `curl -H "Authorization: Bearer $TICKERLINE_KEY" '${location.origin}${pathOf(ticker)}'`

let asking = new AbortController()

const show = async () => {
  asking.abort()
  const own = new AbortController()
  asking = own
  const ticker = asked()
  field.value = ticker
  document.title = ticker === "" ? title : `${ticker.toUpperCase()} · ${title}`
  result.replaceChildren()
  result.removeAttribute("aria-busy")
  state.textContent = ""
  state.classList.remove("hidden")
  if (ticker === "") return
  result.setAttribute("aria-busy", "true")
  state.textContent = `Asking for ${ticker}…`
  const answer = await ask(pathOf(ticker), own.signal)
  // Somebody asked for something else meanwhile.
  if (own.signal.aborted) return
  result.removeAttribute("aria-busy")
  const drawn = figure(answer.body, { id: "lineage", today: new Date().toISOString().slice(0, 10) })
  const tools = make(
    "p",
    { class: "tools" },
    ...copyButton(curl(ticker), "Copy as curl"),
    ...copyButton(location.href, "Copy link"),
  )
  if (drawn === undefined) {
    state.textContent = answer.status === 200
      ? "The answer is not one that this page can draw."
      : `No lineage of ${ticker}.`
    result.replaceChildren(problem(answer, show), tools)
  } else {
    result.replaceChildren(picture(drawn), tools, rawJson(answer.body))
    // For those who listen; the others read it below the picture.
    state.classList.add("hidden")
    state.textContent = result.querySelector(".summary")?.textContent ?? ""
  }
}

const links = Array.from(samples.querySelectorAll("a"))

/** Estimates are free. @param {string} ticker */
const sizeOf = async (ticker) => {
  const { body } = await ask(`/estimate?endpoint=/v1/ticker-changes&ticker=${encodeURIComponent(ticker)}`)
  return numberAt(body, "results", 0, "estimated_bytes")
}

/** The symbols of the sample data of which changes are known, so that none is offered that leads to nothing. */
const find = async () => {
  // Of as many letters, and nothing is known of it: an answer of another length tells of changes.
  const unknown = await sizeOf("^^^^")
  if (unknown === undefined) return undefined
  const sizes = await Promise.all(links.map(({ hash }) => sizeOf(hash.slice(1))))
  return links.filter((_, at) => sizes[at] !== undefined && sizes[at] !== unknown).map(({ hash }) => hash)
}

/** @type {ReadonlyArray<string> | undefined} */
let found

const suggest = async () => {
  if (hasKey()) found ??= await find()
  samples.hidden = !hasKey() || found === undefined || found.length === 0
  for (const link of links) {
    const item = link.closest("li")
    if (item !== null) item.hidden = found?.includes(link.hash) !== true
  }
}

form.hidden = false
form.addEventListener("submit", (event) => {
  event.preventDefault()
  const wanted = `#${encodeURIComponent(field.value.trim())}`
  if (location.hash === wanted) void show()
  else location.hash = wanted
})
addEventListener("hashchange", () => void show())
keyForm(() => {
  void show()
  void suggest()
})
void show()
void suggest()
if (hasKey() && asked() === "") field.focus({ preventScroll: true })
