/** The lineage explorer: the symbol stands in the address (`#META`), so it can be shared, and back leads back. */
import { figure } from "./chain.js"
import { byId, copyButton, make, picture, rawJson } from "./dom.js"
import { ask, hasKey, keyForm, withoutKey } from "./key.js"
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
  if (!hasKey()) {
    keyChanged()
    return
  }
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

/** A new key sends nothing by itself: an answer costs what its bytes cost, so the visitor asks for it. */
const keyChanged = () => {
  asking.abort()
  const ticker = asked()
  result.replaceChildren()
  result.removeAttribute("aria-busy")
  state.classList.remove("hidden")
  state.textContent = ""
  if (ticker === "") {
    if (hasKey()) field.focus({ preventScroll: true })
    return
  }
  if (!hasKey()) {
    state.textContent = `No lineage of ${ticker}.`
    result.replaceChildren(problem(withoutKey, show))
    return
  }
  const button = make("button", { type: "button", class: "main" }, `Show the lineage of ${ticker}`)
  button.addEventListener("click", () => void show())
  result.replaceChildren(make("p", {}, button))
  button.focus({ preventScroll: true })
}

form.hidden = false
form.addEventListener("submit", (event) => {
  event.preventDefault()
  const wanted = `#${encodeURIComponent(field.value.trim())}`
  if (location.hash === wanted) void show()
  else location.hash = wanted
})
addEventListener("hashchange", () => void show())
samples.hidden = false
keyForm(keyChanged)
void show()
if (hasKey() && asked() === "") field.focus({ preventScroll: true })
