/** Elements that the pages' scripts make. Text stays text; markup comes only from the pure modules, which escape it. */
import { addCopyButton } from "./copy.js"
import { watch } from "./scrolling.js"

/**
 * The element of this page with that id. Page and script are made together, so that it is missing is a mistake in them.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {new () => E} kind
 * @returns {E}
 */
export const byId = (id, kind) => {
  const found = document.getElementById(id)
  if (found instanceof kind) return found
  throw new Error(`The page has no ${kind.name} #${id}`)
}

/** @typedef {string | Node} Child */

/**
 * @param {string} name
 * @param {Readonly<Record<string, string>>} attributes
 * @param {ReadonlyArray<Child>} children text, or elements
 */
export const make = (name, attributes, ...children) => {
  const element = document.createElement(name)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/**
 * What a pure module wrote. A document that is parsed so runs no script, whatever is in it.
 * @param {string} html
 */
export const picture = (html) => {
  const fragment = document.createDocumentFragment()
  fragment.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes)
  watch(fragment)
  return fragment
}

/**
 * A sentence in which `code` stands between backticks.
 * @param {string} text
 * @returns {ReadonlyArray<Child>}
 */
export const prose = (text) => text.split(/`([^`]+)`/).map((part, at) => at % 2 === 1 ? make("code", {}, part) : part)

/**
 * A name as code, which may break after its separators.
 * @param {string} name
 */
export const breakable = (name) =>
  make("code", {}, ...name.split(/(?<=[/_])/).flatMap((part, at) => at === 0 ? [part] : [make("wbr", {}), part]))

/**
 * A block of code with a button that copies it.
 * @param {string} label
 * @param {string} text
 */
export const codeBlock = (label, text) => {
  const block = make(
    "div",
    { class: "code" },
    make("p", { class: "language" }, label),
    make("pre", { tabindex: "0", role: "group", "aria-label": label }, make("code", {}, text)),
  )
  addCopyButton(block)
  watch(block)
  return block
}

/** A phone shows each row of a wider table as a card. */
const mostColumns = 2

/**
 * A table that becomes cards on a phone, and otherwise scrolls if it is too wide.
 * @param {string} label
 * @param {ReadonlyArray<string>} head names of columns; a leading `#` marks numbers
 * @param {ReadonlyArray<ReadonlyArray<Child>>} rows
 */
export const table = (label, head, rows) => {
  const names = head.map((name) => name.replace(/^#/, ""))
  /** @param {number} at */
  const kind = (at) => head[at]?.startsWith("#") === true ? { class: "number" } : {}
  const body = rows.map((row) =>
    make(
      "tr",
      { role: "row" },
      ...row.map((cell, at) =>
        at === 0
          ? make("th", { scope: "row", role: "rowheader", "data-label": names[0] ?? "" }, cell)
          : make("td", { role: "cell", "data-label": names[at] ?? "", ...kind(at) }, cell)
      ),
    )
  )
  const columns = names.map((name, at) => make("th", { scope: "col", role: "columnheader", ...kind(at) }, name))
  const scroll = make(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    make(
      "table",
      { role: "table", ...(head.length > mostColumns ? { class: "cards-on-phone" } : {}) },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...columns)),
      make("tbody", { role: "rowgroup" }, ...body),
    ),
  )
  const parent = document.createDocumentFragment()
  parent.append(scroll)
  watch(parent)
  return scroll
}

/**
 * A button that puts a text into the clipboard; none where there is no clipboard.
 * @param {string} text
 * @param {string} label
 */
export const copyButton = (text, label) => {
  if (navigator.clipboard === undefined) return []
  const button = make("button", { type: "button", class: "quiet" }, label)
  button.addEventListener("click", async () => {
    const done = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not allowed")
    button.textContent = done
    setTimeout(() => {
      button.textContent = label
    }, 2000)
  })
  return [button]
}

/** @param {unknown} body */
export const rawJson = (body) =>
  make("details", { class: "raw" }, make("summary", {}, "Raw JSON"), codeBlock("JSON", JSON.stringify(body, null, 2)))
