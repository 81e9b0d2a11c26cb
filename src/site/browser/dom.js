/** What the pages do to themselves. Text becomes text; markup comes from the pure modules alone, which escape it. */

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
  return fragment
}

/**
 * A table that scrolls by itself.
 * @param {string} label
 * @param {ReadonlyArray<string>} head names of columns; with `#` in front those of numbers
 * @param {ReadonlyArray<ReadonlyArray<Child>>} rows
 */
export const table = (label, head, rows) => {
  const isNumber = head.map((name) => name.startsWith("#"))
  /** @param {number} at */
  const kind = (at) => isNumber[at] === true ? { class: "number" } : {}
  const names = head.map((name, at) => make("th", { scope: "col", ...kind(at) }, name.replace(/^#/, "")))
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((cell, at) => at === 0 ? make("th", { scope: "row" }, cell) : make("td", kind(at), cell)))
  )
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    make("table", {}, make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...body)),
  )
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
  make(
    "details",
    { class: "raw" },
    make("summary", {}, "Raw JSON"),
    make("pre", { tabindex: "0" }, make("code", {}, JSON.stringify(body, null, 2))),
  )
