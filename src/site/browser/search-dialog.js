/**
 * The search dialog, which opens with its button, with `/` and with Ctrl+K. The search is loaded when it first opens.
 */
import { createElement } from "./dom.js"

const maxResults = 12

const loadSearch = async () => {
  const [{ cutExcerpt, makeSearch, parseSearchIndex }, response] = await Promise.all([
    import("./search-matching.js"),
    fetch(new URL("search.json", import.meta.url), { credentials: "omit" }),
  ])
  if (!response.ok) throw new Error(`The search index has status ${response.status}`)
  return { cutExcerpt, search: makeSearch(parseSearchIndex(await response.json())) }
}

/** @type {ReturnType<typeof loadSearch> | undefined} */
let loading

/** @typedef {import("./search-matching.js").Match} Match */

/** @param {Match} match @param {typeof import("./search-matching.js").cutExcerpt} cutExcerpt */
const resultItem = ({ entry: { fields, heading, page, path, text }, terms }, cutExcerpt) => {
  const pieces = cutExcerpt(fields === "" ? text : `${text} ${fields}`, terms).map((piece, index) =>
    index % 2 === 1 ? createElement("mark", {}, piece) : piece
  )
  const title = createElement("strong", {}, heading === "" ? page : heading)
  const parent = heading === "" ? [] : [createElement("small", {}, ` ${page}`)]
  return createElement(
    "li",
    {},
    createElement("a", { href: path }, title, ...parent, createElement("span", {}, ...pieces)),
  )
}

/** Creates the dialog, and returns the function that opens it. */
const createDialog = () => {
  const field = document.createElement("input")
  field.type = "search"
  field.id = "search-field"
  field.autocomplete = "off"
  field.spellcheck = false
  field.placeholder = "A word, a field or an endpoint"
  field.setAttribute("aria-label", "Search the documentation")
  const status = createElement("p", { role: "status" }, "")
  const retryButton = createElement("button", { type: "button", class: "quiet" }, "Try again")
  retryButton.hidden = true
  const list = createElement("ol", { "aria-label": "Results" })
  const closeButton = createElement("button", { type: "button", class: "quiet" }, "Close")
  const form = createElement("form", { role: "search" }, field, closeButton)
  const dialog = document.createElement("dialog")
  dialog.className = "search"
  dialog.setAttribute("aria-label", "Search")
  dialog.append(form, status, retryButton, list)

  /** @param {number} count @param {string} query */
  const describeResults = (count, query) => {
    if (query === "") return "Search guides, tools, operations and endpoints."
    if (count === 0) return `No results for “${query}”.`
    if (count > maxResults) return `The first ${maxResults} of ${count} results`
    return `${count} ${count === 1 ? "result" : "results"}`
  }

  /** Shows the results of the query in the field. */
  const update = async () => {
    const query = field.value
    try {
      const { cutExcerpt, search } = await (loading ??= loadSearch())
      // Drops the results if the query changed while the search was loading.
      if (query !== field.value) return
      const results = search(query)
      list.replaceChildren(...results.slice(0, maxResults).map((match) => resultItem(match, cutExcerpt)))
      status.textContent = describeResults(results.length, query.trim())
      retryButton.hidden = true
    } catch {
      loading = undefined
      list.replaceChildren()
      status.textContent = "The search cannot be loaded. Check your connection and try again, or reload the page."
      retryButton.hidden = false
    }
  }

  const resultLinks = () => Array.from(list.querySelectorAll("a"))

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    // Closes the dialog at once. By default, the first Escape would only clear the search field.
    if (event.key === "Escape") {
      event.preventDefault()
      dialog.close()
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    const stops = [field, ...resultLinks()]
    const index = stops.findIndex((element) => element === document.activeElement)
    stops[Math.min(stops.length - 1, Math.max(0, index + step))]?.focus()
  }

  field.addEventListener("input", () => void update())
  dialog.addEventListener("keydown", onKey)
  dialog.addEventListener("click", ({ target }) => {
    // Closes the dialog after a click on the backdrop, whose target is the dialog itself, and after a click on a link,
    // which may point to a section of the current page.
    if (target === dialog || (target instanceof Element && target.closest("a") !== null)) dialog.close()
  })
  closeButton.addEventListener("click", () => dialog.close())
  retryButton.addEventListener("click", () => {
    field.focus()
    void update()
  })
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    await update()
    resultLinks()[0]?.click()
  })
  document.body.append(dialog)
  return () => {
    if (dialog.open) return
    dialog.showModal()
    field.focus()
    field.select()
    void update()
  }
}

/** @type {(() => void) | undefined} */
let openDialog

const open = () => {
  openDialog ??= createDialog()
  openDialog()
}

/** @param {EventTarget | null} target */
const isInputField = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))

for (const button of document.querySelectorAll(".search-open")) {
  button.removeAttribute("hidden")
  button.addEventListener("click", open)
}
addEventListener("keydown", (event) => {
  const { altKey, ctrlKey, key, metaKey, target } = event
  const isShortcut = key.toLowerCase() === "k" ? ctrlKey !== metaKey && !altKey : key === "/" && !ctrlKey && !metaKey
  if (!isShortcut || (key === "/" && isInputField(target))) return
  event.preventDefault()
  open()
})
