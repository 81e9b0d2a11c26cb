/** The search dialog, opened by its button, by `/` or by Ctrl+K. The index is loaded when the dialog first opens. */
import { createElement } from "./dom.js"
import { cutExcerpt, parseSearchIndex, searchEntries } from "./search-matching.js"

const maxResults = 12

/** @type {Promise<ReadonlyArray<import("./search-matching.js").Entry>> | undefined} */
let loading

const loadIndex = () => {
  loading ??= fetch(new URL("search.json", import.meta.url), { credentials: "omit" })
    .then((response) => response.json()).then(parseSearchIndex)
  return loading
}

/** @param {import("./search-matching.js").Entry} entry @param {string} query */
const resultItem = ({ heading, page, path, text }, query) => {
  const pieces = cutExcerpt(text, query).map((piece, index) =>
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

const createDialog = () => {
  const field = document.createElement("input")
  field.type = "search"
  field.id = "search-field"
  field.autocomplete = "off"
  field.spellcheck = false
  field.placeholder = "A word, a field or an endpoint"
  field.setAttribute("aria-label", "Search the documentation")
  const status = createElement("p", { role: "status" }, "")
  const list = createElement("ol", { "aria-label": "Results" })
  const closeButton = createElement("button", { type: "button", class: "quiet" }, "Close")
  const form = createElement("form", { role: "search" }, field, closeButton)
  const dialog = document.createElement("dialog")
  dialog.className = "search"
  dialog.setAttribute("aria-label", "Search")
  dialog.append(form, status, list)

  const update = async () => {
    const query = field.value
    try {
      const results = searchEntries(await loadIndex(), query)
      // Drops the results if the query changed while the index was loading.
      if (query !== field.value) return
      list.replaceChildren(...results.slice(0, maxResults).map((entry) => resultItem(entry, query)))
      status.textContent = query.trim() === ""
        ? "Search guides, tools, operations and endpoints."
        : results.length === 0
        ? `No results for “${query.trim()}”.`
        : `${results.length} ${results.length === 1 ? "result" : "results"}`
    } catch {
      loading = undefined
      status.textContent =
        "The search index could not be loaded. Check your connection, then change the query to retry."
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
