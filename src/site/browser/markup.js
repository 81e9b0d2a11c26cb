/**
 * Builds HTML and SVG as text with every value escaped. Pure, because the server uses it too
 * (docs/decisions/0061-one-markup-module-for-server-and-browser.md).
 */

/** @type {Readonly<Record<string, string>>} */
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

/**
 * Escapes text for element content and quoted attributes. Characters that XML forbids become U+FFFD.
 * @param {string} text
 */
export const escapeMarkup = (text) =>
  text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replace(/[&<>"']/g, (character) => escapes[character] ?? character)

/** Complete markup. Only `markup`, and functions that escape their values, make it. */
export class Html {
  /** @type {string} */
  #markup
  /** @param {string} markup */
  constructor(markup) {
    this.#markup = markup
  }
  toString() {
    return this.#markup
  }
}

/** A part of a template. `false`, `null` and `undefined` are left out. */
/** @typedef {Html | string | number | false | null | undefined | ReadonlyArray<HtmlValue>} HtmlValue */

/** @type {(value: HtmlValue) => value is ReadonlyArray<HtmlValue>} */
const isList = (value) => Array.isArray(value)

/** @type {(value: HtmlValue) => string} */
export const toMarkup = (value) => {
  if (value === false || value === null || value === undefined) return ""
  if (isList(value)) return value.map(toMarkup).join("")
  return value instanceof Html ? value.toString() : escapeMarkup(String(value))
}

/**
 * The tag of templates in which every value is escaped unless it is `Html`: markup`<p>${text}</p>`. Attributes must be
 * in double quotes.
 * @param {TemplateStringsArray} parts
 * @param {ReadonlyArray<HtmlValue>} values
 */
export const markup = (parts, ...values) =>
  new Html(parts.map((part, index) => part + toMarkup(values[index])).join(""))

/** @param {string} html */
export const stripTags = (html) => html.replace(/<[^>]+>/g, "")

/**
 * Rounds a coordinate to a tenth; NaN and infinities become 0.
 * @param {number} value
 */
export const roundCoordinate = (value) => Number.isFinite(value) ? Math.round(value * 10) / 10 : 0

/** @typedef {Readonly<Record<string, string | number>>} Attributes */

/** @param {Attributes} attributes */
const renderAttributes = (attributes) =>
  Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${typeof value === "number" ? roundCoordinate(value) : escapeMarkup(value)}"`)
    .join("")

/**
 * Renders an element with child elements.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {ReadonlyArray<string>} children markup
 */
export const renderElement = (name, attributes, children = []) =>
  children.length === 0
    ? `<${name}${renderAttributes(attributes)}/>`
    : `<${name}${renderAttributes(attributes)}>${children.join("")}</${name}>`

/**
 * Renders an element with text content.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {string} content plain text
 */
export const renderTextElement = (name, attributes, content) =>
  `<${name}${renderAttributes(attributes)}>${escapeMarkup(content)}</${name}>`

/** @param {string} text */
export const renderInlineCode = (text) => renderTextElement("code", {}, text)

/**
 * Escapes a sentence and turns `backticks` into code elements.
 * @param {string} text
 */
export const renderProse = (text) => escapeMarkup(text).replace(/`([^`]+)`/g, "<code>$1</code>")

/**
 * Renders a labeled code block that scrolls on its own if it is too wide.
 * @param {string} label
 * @param {string} code HTML
 */
export const renderCodeBlock = (label, code) =>
  `<div class="code">${renderTextElement("p", { class: "language" }, label)}` +
  `<pre tabindex="0" role="group" aria-label="${escapeMarkup(label)}"><code>${code}</code></pre></div>`

/** A column title as HTML. Values in a numeric column are right-aligned. */
/** @typedef {string | { readonly title: string, readonly isNumeric: true }} Column */

/**
 * @param {string} title
 * @returns {Column}
 */
export const makeNumericColumn = (title) => ({ title, isNumeric: true })

/** Allows line breaks after the separators in long names. @param {string} cell */
const addBreakOpportunities = (cell) =>
  cell.replace(/<code>[^<]*<\/code>/g, (code) => code.replace(/[/_,=?](?=[^<>]*[^<>/]<)/g, "$&<wbr>"))

/** On phones, a table with more columns shows each row as a card. */
const maxColumnsOnPhone = 2

/** @param {string} html */
const attributeText = (html) => stripTags(html).replaceAll('"', "&quot;")

/**
 * Renders a table that scrolls if it is too wide. ARIA roles are explicit, because the card layout turns cells into
 * blocks, which removes their implicit roles.
 * @param {ReadonlyArray<Column>} columns
 * @param {ReadonlyArray<ReadonlyArray<string>>} rows HTML; the first cell is the header of its row
 * @param {{ readonly label?: string, readonly attributes?: (row: number, column: number) => string }} [options]
 *   `label` is plain text; `attributes` returns additional attributes for a cell, as HTML
 */
export const renderTable = (columns, rows, { attributes = () => "", label = "Table" } = {}) => {
  const titles = columns.map((column) => typeof column === "string" ? column : column.title)
  /** @param {number} index */
  const alignment = (index) => typeof columns[index] === "object" ? ` class="number"` : ""
  const head = titles.map((title, index) => `<th scope="col" role="columnheader"${alignment(index)}>${title}</th>`)
  const body = rows.map((cells, row) => {
    const rendered = cells.map((cell, column) => {
      const [tag, role] = column === 0 ? ["th", `scope="row" role="rowheader"`] : ["td", `role="cell"`]
      const dataLabel = `data-label="${attributeText(titles[column] ?? "")}"`
      return `<${tag} ${role} ${dataLabel}${alignment(column)}${attributes(row, column)}>${
        addBreakOpportunities(cell)
      }</${tag}>`
    })
    return `<tr role="row">${rendered.join("")}</tr>`
  })
  const layout = columns.length > maxColumnsOnPhone ? ` class="cards-on-phone"` : ""
  return `<div class="scroll" tabindex="0" role="group" aria-label="${
    escapeMarkup(label)
  }"><table${layout} role="table">` +
    `<thead role="rowgroup"><tr role="row">${head.join("")}</tr></thead>` +
    `<tbody role="rowgroup">${body.join("")}</tbody></table></div>\n`
}

/**
 * Renders an SVG image with a title and a description for screen readers.
 * @param {{ readonly id: string, readonly className: string, readonly width: number, readonly height: number,
 *   readonly title: string, readonly description: string }} image `id` is unique on the page
 * @param {ReadonlyArray<string>} children SVG
 */
export const renderSvg = ({ className, description, height, id, title, width }, children) =>
  renderElement("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    class: className,
    viewBox: `0 0 ${roundCoordinate(width)} ${roundCoordinate(height)}`,
    role: "img",
    "aria-labelledby": `${id}-title ${id}-description`,
  }, [
    renderTextElement("title", { id: `${id}-title` }, title),
    renderTextElement("desc", { id: `${id}-description` }, description),
    ...children,
  ])

/** Every image is drawn at both widths, because scaled text is unreadable on phones. The style sheet shows one. */
export const figureLayouts = /** @type {const} */ ([["wide", 720], ["narrow", 340]])
