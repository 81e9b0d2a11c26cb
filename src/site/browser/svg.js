/** What pictures are made of, as SVG text: safe in HTML and in XML, and with coordinates that are numbers. Pure. */

/** @type {Readonly<Record<string, string>>} */
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

/**
 * Text between tags and in quoted attributes; what XML cannot hold becomes U+FFFD.
 * @param {string} text
 */
export const escape = (text) =>
  text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replace(/[&<>"']/g, (found) => escapes[found] ?? found)

/**
 * A coordinate, to a tenth; what is no number is 0.
 * @param {number} value
 */
export const point = (value) => Number.isFinite(value) ? Math.round(value * 10) / 10 : 0

/** @typedef {Readonly<Record<string, string | number>>} Attributes */

/** @param {Attributes} attributes */
const written = (attributes) =>
  Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${typeof value === "number" ? point(value) : escape(value)}"`).join("")

/**
 * An element of elements.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {ReadonlyArray<string>} children SVG text
 */
export const element = (name, attributes, children = []) =>
  children.length === 0
    ? `<${name}${written(attributes)}/>`
    : `<${name}${written(attributes)}>${children.join("")}</${name}>`

/**
 * An element of text.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {string} content
 */
export const words = (name, attributes, content) => `<${name}${written(attributes)}>${escape(content)}</${name}>`

/**
 * A picture with a name and a description for those who do not see it.
 * @param {{ readonly id: string, readonly kind: string, readonly width: number, readonly height: number,
 *   readonly title: string, readonly description: string }} picture `id` is its own on the page
 * @param {ReadonlyArray<string>} children SVG text
 */
export const picture = ({ description, height, id, kind, title, width }, children) =>
  element("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    class: kind,
    viewBox: `0 0 ${point(width)} ${point(height)}`,
    role: "img",
    "aria-labelledby": `${id}-title ${id}-description`,
  }, [
    words("title", { id: `${id}-title` }, title),
    words("desc", { id: `${id}-description` }, description),
    ...children,
  ])

/** A picture is made for two widths, of which the style shows one: on a phone text would else be too small to read. */
export const widths = /** @type {const} */ ([["wide", 720], ["narrow", 340]])
