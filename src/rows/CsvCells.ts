/**
 * CSV cells (RFC 4180), made from JSON text so that numbers have the same digits in both formats.
 * The `load` command reads the same format (D31): null is an empty cell, a list is JSON.
 */

/** Ends a record. */
export const csvNewline = "\r\n"

/** Tells Excel that a file is UTF-8. */
export const byteOrderMark = "\uFEFF"

/** Text that a spreadsheet may run as a formula. Some spreadsheets skip white space or accept full-width signs. */
const formula = /^[\s\0]*[=+\-@＝＋－＠]|^[\t\r\n]/

const needsQuotes = /[",\r\n]/

const quote = (text: string) => `"${text.replaceAll(`"`, `""`)}"`

/** A fast check for most texts: a text that begins with an ASCII letter or digit is no formula. */
const isAsciiAlphanumeric = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57)

/** Prefixes a formula with an apostrophe, so that a spreadsheet shows it as text. */
const encodeTextCell = (value: string) => {
  const harmless = !isAsciiAlphanumeric(value.charCodeAt(0)) && formula.test(value) ? `'${value}` : value
  return needsQuotes.test(harmless) ? quote(harmless) : harmless
}

/** Encodes a JSON value as a cell. Numbers, `true` and `false` stay unchanged. */
export const encodeCsvCell = (json: string): string => {
  switch (json.charCodeAt(0)) {
    case 34: {
      // Without a backslash, the text between the quotes needs no parsing.
      if (!json.includes("\\")) return encodeTextCell(json.slice(1, -1))
      return encodeTextCell(String(JSON.parse(json)))
    }
    case 91:
    case 123:
      return quote(json)
    default:
      return json === "null" ? "" : json
  }
}
