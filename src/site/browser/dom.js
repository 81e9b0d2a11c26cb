/** Creates and finds elements. All markup comes from `markup.js` and the pure modules, which escape every value. */
import { renderCodeBlock } from "./markup.js"
import { watchOverflow } from "./scroll-hints.js"

/**
 * Returns the element with the given id. Throws if it is missing or has another type.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {new () => E} type
 * @returns {E}
 */
export const requireElement = (id, type) => {
  const found = document.getElementById(id)
  if (found instanceof type) return found
  throw new Error(`The page has no ${type.name} #${id}`)
}

/**
 * Creates an element.
 * @param {string} name
 * @param {Readonly<Record<string, string>>} attributes
 * @param {ReadonlyArray<string | Node>} children text or elements
 */
export const createElement = (name, attributes, ...children) => {
  const element = document.createElement(name)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/**
 * Creates a button that copies text. Returns an empty list if the browser has no clipboard API.
 * @param {string} label
 * @param {{ readonly className: string, readonly spokenLabel?: string }} options
 * @param {() => string} getText
 */
export const createCopyButton = (label, { className, spokenLabel = label }, getText) => {
  if (navigator.clipboard === undefined) return []
  const button = createElement("button", { type: "button", class: className })
  /** @param {string} text @param {string} spoken */
  const setLabel = (text, spoken) => {
    button.textContent = text
    button.setAttribute("aria-label", spoken)
  }
  setLabel(label, spokenLabel)
  button.addEventListener("click", async () => {
    const outcome = await navigator.clipboard.writeText(getText()).then(() => "Copied", () => "Copy failed")
    setLabel(outcome, outcome)
    setTimeout(() => setLabel(label, spokenLabel), 2000)
  })
  return [button]
}

/**
 * Adds copy buttons to the code blocks inside a root, and scroll hints to its tables and code blocks.
 * @param {ParentNode} root
 */
export const enhanceCodeAndTables = (root) => {
  for (const block of root.querySelectorAll(".code")) {
    const language = block.querySelector(".language")?.textContent ?? ""
    const spokenLabel = `Copy the code (${language})`
    block.append(
      ...createCopyButton(
        "Copy",
        { className: "copy", spokenLabel },
        () => block.querySelector("code")?.textContent ?? "",
      ),
    )
  }
  watchOverflow(root)
}

/**
 * Parses markup from the pure modules. `DOMParser` never runs scripts.
 * @param {import("./markup.js").Html} html
 */
export const parseHtml = (html) => {
  const fragment = document.createDocumentFragment()
  fragment.append(...new DOMParser().parseFromString(html.toString(), "text/html").body.childNodes)
  enhanceCodeAndTables(fragment)
  return fragment
}

/** Creates a code block with a copy button. @param {string} label @param {string} text */
export const createCodeBlock = (label, text) => parseHtml(renderCodeBlock(label, text))

/**
 * Returns a function that aborts the previous request, and creates the abort signal of the next one. Only the latest
 * response can therefore change the page.
 */
export const makeLatestRequestSignal = () => {
  let controller = new AbortController()
  return () => {
    controller.abort()
    controller = new AbortController()
    return controller.signal
  }
}
