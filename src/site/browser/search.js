/** Search: a dialog, opened by its button, by `/` or by Ctrl+K. The index is loaded when it first opens. */
import { make } from "./dom.js"
import { entriesOf, excerpt, find } from "./find.js"

const mostResults = 12

/** @type {Promise<ReadonlyArray<import("./find.js").Entry>> | undefined} */
let loading

const index = () => {
  loading ??= fetch(new URL("search.json", import.meta.url), { credentials: "omit" })
    .then((response) => response.json()).then(entriesOf)
  return loading
}

/** @param {string} text @param {string} query */
const marked = (text, query) => excerpt(text, query).map((part, at) => at % 2 === 1 ? make("mark", {}, part) : part)

/** @param {import("./find.js").Entry} entry @param {string} query */
const result = ({ heading, page, path, text }, query) =>
  make(
    "li",
    {},
    make(
      "a",
      { href: path },
      make("strong", {}, heading === "" ? page : heading),
      ...(heading === "" ? [] : [make("small", {}, ` ${page}`)]),
      make("span", {}, ...marked(text, query)),
    ),
  )

const makeDialog = () => {
  const field = document.createElement("input")
  field.type = "search"
  field.id = "search-field"
  field.autocomplete = "off"
  field.spellcheck = false
  field.placeholder = "A word, a field, an endpoint"
  field.setAttribute("aria-label", "Search the documentation")
  const status = make("p", { role: "status" }, "")
  const list = make("ol", { "aria-label": "Results" })
  const close = make("button", { type: "button", class: "quiet" }, "Close")
  const form = make("form", { role: "search" }, field, close)
  const dialog = document.createElement("dialog")
  dialog.className = "search"
  dialog.setAttribute("aria-label", "Search")
  dialog.append(form, status, list)

  const update = async () => {
    const query = field.value
    try {
      const found = find(await index(), query)
      // Somebody typed on meanwhile.
      if (query !== field.value) return
      list.replaceChildren(...found.slice(0, mostResults).map((entry) => result(entry, query)))
      status.textContent = query.trim() === ""
        ? "Guides, operations, tools and endpoints are searched."
        : found.length === 0
        ? `Nothing has ${query.trim().includes(" ") ? "all of these words" : "this word"}.`
        : `${found.length} ${found.length === 1 ? "result" : "results"}`
    } catch {
      loading = undefined
      status.textContent = "The search index could not be loaded. Check the connection, and type again."
    }
  }

  const links = () => Array.from(list.querySelectorAll("a"))

  /** @param {KeyboardEvent} event */
  const move = (event) => {
    // A search field would take the first Escape to empty itself.
    if (event.key === "Escape") {
      event.preventDefault()
      dialog.close()
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    const all = [field, ...links()]
    const place = all.findIndex((element) => element === document.activeElement)
    all[Math.min(all.length - 1, Math.max(0, place + step))]?.focus()
  }

  field.addEventListener("input", () => void update())
  dialog.addEventListener("keydown", move)
  dialog.addEventListener("click", ({ target }) => {
    // A click beside the box is one on the dialog; one on a link to this page leaves no page.
    if (target === dialog || (target instanceof Element && target.closest("a") !== null)) dialog.close()
  })
  close.addEventListener("click", () => dialog.close())
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    await update()
    links()[0]?.click()
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
let opener

const open = () => {
  opener ??= makeDialog()
  opener()
}

/** @param {EventTarget | null} target */
const isField = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))

for (const button of document.querySelectorAll(".search-open")) {
  button.removeAttribute("hidden")
  button.addEventListener("click", open)
}
addEventListener("keydown", (event) => {
  const { altKey, ctrlKey, key, metaKey, target } = event
  const isShortcut = key.toLowerCase() === "k" ? ctrlKey !== metaKey && !altKey : key === "/" && !ctrlKey && !metaKey
  if (!isShortcut || (key === "/" && isField(target))) return
  event.preventDefault()
  open()
})
