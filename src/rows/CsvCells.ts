/**
 * How a value becomes a cell of CSV (RFC 4180): from its JSON text, so that both formats say the same digit by digit.
 * `load` reads it back (D31): null is an empty cell, a list is JSON.
 */

/** The end of a record. */
export const csvNewline = "\r\n"

/** By it Excel knows that a file is UTF-8, which it else takes for the code page of its machine. */
export const byteOrderMark = "\uFEFF"

/**
 * What a spreadsheet runs, or may run once it has dropped the white space before: a formula. Some take the full-width
 * signs for the same.
 */
const formula = /^[\s\0]*[=+\-@＝＋－＠]|^[\t\r\n]/

const special = /[",\r\n]/

const quoted = (text: string) => `"${text.replaceAll(`"`, `""`)}"`

/** Letters and digits of ASCII, with which most texts begin, begin no formula. */
const isPlain = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57)

/** Text stays text: one apostrophe before it, as people type it, makes a formula harmless. */
const text = (value: string) => {
  const harmless = !isPlain(value.charCodeAt(0)) && formula.test(value) ? `'${value}` : value
  return special.test(harmless) ? quoted(harmless) : harmless
}

/** Numbers, also negative ones, and true and false stand as they are. */
export const encodeCsvCell = (json: string): string => {
  switch (json.charCodeAt(0)) {
    case 34: {
      // Without an escape the text is what stands between the quotes.
      if (!json.includes("\\")) return text(json.slice(1, -1))
      return text(String(JSON.parse(json)))
    }
    case 91:
    case 123:
      return quoted(json)
    default:
      return json === "null" ? "" : json
  }
}
