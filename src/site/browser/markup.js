/**
 * Builds all HTML and SVG, and escapes every value. Pure, because the server uses it too
 * (docs/decisions/0061-one-markup-module-for-server-and-browser.md).
 */

/** @type {Readonly<Record<string, string>>} */
const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

/**
 * Escapes text for element content and quoted attributes. Characters that XML forbids become U+FFFD.
 * @param {string} text
 */
const escapeText = (text) =>
  text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replace(/[&<>"']/g, (character) => entities[character] ?? character)

/**
 * Markup, which templates insert as it is. Only `markup` creates it, except where the output of another library or
 * existing `Html` is wrapped; `test/house.test.ts` lists the files that do so.
 */
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
const toMarkup = (value) => {
  if (value === false || value === null || value === undefined) return ""
  if (isList(value)) return value.map(toMarkup).join("")
  return value instanceof Html ? value.toString() : escapeText(String(value))
}

/**
 * The tag of templates in which every value is escaped unless it is `Html`: markup`<p>${text}</p>`. Attributes must be
 * in double quotes.
 * @param {TemplateStringsArray} parts
 * @param {ReadonlyArray<HtmlValue>} values
 */
export const markup = (parts, ...values) =>
  new Html(parts.map((part, index) => part + toMarkup(values[index])).join(""))

/**
 * Joins values with a separator between them.
 * @param {ReadonlyArray<HtmlValue>} values
 * @param {HtmlValue} separator
 */
export const joinMarkup = (values, separator) =>
  markup`${values.map((value, index) => index === 0 ? value : [separator, value])}`

/** Returns the content without its elements. @param {Html} html */
export const stripTags = (html) => new Html(html.toString().replace(/<[^>]+>/g, ""))

/**
 * Rounds a coordinate to a tenth; NaN and infinities become 0.
 * @param {number} value
 */
export const roundCoordinate = (value) => Number.isFinite(value) ? Math.round(value * 10) / 10 : 0

/** @typedef {Readonly<Record<string, string | number>>} Attributes */

/** @param {Attributes} attributes */
const renderAttributes = (attributes) =>
  Object.entries(attributes)
    .map(([name, value]) => markup` ${name}="${typeof value === "number" ? roundCoordinate(value) : value}"`)

/**
 * Renders an element with child elements.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {ReadonlyArray<HtmlValue>} children
 */
export const renderElement = (name, attributes, children = []) =>
  children.length === 0
    ? markup`<${name}${renderAttributes(attributes)}/>`
    : markup`<${name}${renderAttributes(attributes)}>${children}</${name}>`

/**
 * Renders an element with text content.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {string} content
 */
export const renderTextElement = (name, attributes, content) => renderElement(name, attributes, [content])

/** Renders text as code. @param {string} text */
export const renderInlineCode = (text) => markup`<code>${text}</code>`

/**
 * Renders a sentence in which `backticks` mark code.
 * @param {string} text
 */
export const renderProse = (text) =>
  markup`${text.split(/`([^`]+)`/).map((part, index) => index % 2 === 1 ? renderInlineCode(part) : part)}`

/**
 * Renders a labeled code block that scrolls on its own if it is too wide.
 * @param {string} label
 * @param {HtmlValue} code
 */
export const renderCodeBlock = (label, code) => {
  const block = markup`<pre tabindex="0" role="group" aria-label="${label}"><code>${code}</code></pre>`
  return markup`<div class="code"><p class="language">${label}</p>${block}</div>`
}

/** A column title. Values in a numeric column are right-aligned. */
/** @typedef {HtmlValue | { readonly title: HtmlValue, readonly isNumeric: true }} Column */

/**
 * Returns a column whose values are right-aligned numbers.
 * @param {HtmlValue} title
 * @returns {Column}
 */
export const makeNumericColumn = (title) => ({ title, isNumeric: true })

/**
 * Allows line breaks after the separators in long names. Only code is changed, and only separators outside of tags that
 * are followed by at least one more character.
 * @param {HtmlValue} cell
 */
const addBreakOpportunities = (cell) =>
  new Html(
    toMarkup(cell)
      .replace(/<code>[^<]*<\/code>/g, (code) => code.replace(/[/_,=?](?=[^<>]*[^<>/]<)/g, "$&<wbr>")),
  )

/** On phones, a table with more columns shows each row as a card. */
const maxColumnsOnPhone = 2

/** Returns the text of a title for an attribute. @param {HtmlValue} title */
const attributeText = (title) => new Html(stripTags(markup`${title}`).toString().replaceAll('"', "&quot;"))

/**
 * Renders a table that scrolls if it is too wide. ARIA roles are explicit, because the card layout turns cells into
 * blocks, which removes their implicit roles.
 * @param {ReadonlyArray<Column>} columns
 * @param {ReadonlyArray<ReadonlyArray<HtmlValue>>} rows the first cell is the header of its row
 * @param {{ readonly label?: string, readonly attributes?: (row: number, column: number) => HtmlValue }} [options]
 *   `attributes` returns additional attributes for a cell
 */
export const renderTable = (columns, rows, { attributes, label = "Table" } = {}) => {
  /** @type {(column: Column) => column is { readonly title: HtmlValue, readonly isNumeric: true }} */
  const isNumeric = (column) => typeof column === "object" && column !== null && "isNumeric" in column
  const titles = columns.map((column) => isNumeric(column) ? column.title : column)
  const alignments = columns.map((column) => isNumeric(column) && markup` class="number"`)
  const head = titles.map((title, index) =>
    markup`<th scope="col" role="columnheader"${alignments[index]}>${title}</th>`
  )
  const body = rows.map((cells, row) => {
    const rendered = cells.map((cell, column) => {
      const tag = column === 0 ? "th" : "td"
      const role = column === 0 ? markup`scope="row" role="rowheader"` : markup`role="cell"`
      const dataLabel = markup`data-label="${attributeText(titles[column])}"`
      return markup`<${tag} ${role} ${dataLabel}${alignments[column]}${attributes?.(row, column)}>${
        addBreakOpportunities(cell)
      }</${tag}>`
    })
    return markup`<tr role="row">${rendered}</tr>`
  })
  const layout = columns.length > maxColumnsOnPhone && markup` class="cards-on-phone"`
  const parts = markup`<thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">${body}</tbody>`
  const table = markup`<table${layout} role="table">${parts}</table>`
  return markup`<div class="scroll" tabindex="0" role="group" aria-label="${label}">${table}</div>\n`
}

/**
 * Renders an SVG image with a title and a description for screen readers.
 * @param {{ readonly id: string, readonly className: string, readonly width: number, readonly height: number,
 *   readonly title: string, readonly description: string }} image `id` is unique on the page
 * @param {ReadonlyArray<HtmlValue>} children
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

/**
 * The widths at which every image is drawn. The style sheet shows one of the two drawings: scaled text would be
 * unreadable on phones.
 */
export const figureLayouts = /** @type {const} */ ([["wide", 720], ["narrow", 340]])
