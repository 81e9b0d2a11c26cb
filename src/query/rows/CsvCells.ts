/**
 * CSV cells (RFC 4180). They are converted from JSON, so that numbers have the same digits in both formats. `load`
 * reads the same kind of cells (D31): null is an empty cell, and a list is written as JSON.
 */
import { rowOutputBuffer } from "./OutputBuffer.ts"

/** The end of a CSV record. */
export const csvNewline = "\r\n"

/** Tells Excel that a file is encoded in UTF-8. */
export const byteOrderMark = "\uFEFF"

/**
 * Matches text that a spreadsheet may run as a formula. Also matches such text if it is preceded by apostrophes, so
 * that removing one apostrophe always restores the original text. Some spreadsheets skip leading white space or accept
 * `＝`.
 */
const formula = /^'*[\s\0]*[=+\-@＝＋－＠]|^'*[\t\r\n]/

const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true })

// ASCII codes.
const [newline, carriageReturn, quote, apostrophe, comma, bracket, backslash, letterN, letterU, brace] = [
  10,
  13,
  34,
  39,
  44,
  91,
  92,
  110,
  117,
  123,
]

/**
 * Returns whether a character is an ASCII letter or digit. Text that starts with one is not a formula, so this check is
 * a fast path that avoids the regular expression `formula`.
 */
const isAsciiAlphanumeric = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57)

/** Returns whether a spreadsheet may run the UTF-8 text in this range of the output as a formula. */
const isFormula = (start: number, end: number) =>
  start < end && !isAsciiAlphanumeric(rowOutputBuffer.bytes[start] ?? 0) &&
  formula.test(textDecoder.decode(rowOutputBuffer.bytes.subarray(start, end)))

/**
 * Maps the letter after a backslash in JSON to the control character that it represents. Any other escaped character
 * except `u` represents itself.
 */
const escapedCharacters = new Map(
  [["b", "\b"], ["f", "\f"], ["n", "\n"], ["r", "\r"], ["t", "\t"]].map(([letter = "", character = ""]) => [
    letter.charCodeAt(0),
    character.charCodeAt(0),
  ]),
)

/**
 * The replacement for a lone surrogate, which UTF-8 cannot encode. No other non-ASCII character is escaped as `\u…` in
 * this JSON.
 */
const replacementCharacter = new TextEncoder().encode("\uFFFD")

/**
 * Replaces a JSON string in the output with the text that it represents. The string, including its quotes, is between
 * `start` and `end`. The text is written from `start` on; it is never longer than the JSON, so it cannot overwrite
 * characters that have not been read yet. Returns the position after the text.
 */
const unescape = (start: number, end: number) => {
  const { bytes } = rowOutputBuffer
  let written = start
  // Skips the quotes at both ends.
  for (let index = start + 1; index < end - 1; index += 1) {
    const code = bytes[index] ?? 0
    if (code !== backslash) bytes[written++] = code
    else {
      index += 1
      const escaped = bytes[index] ?? 0
      if (escaped === letterU) {
        // `\u` and four hexadecimal digits. JSON escapes control characters in this way, and lone surrogates, which
        // UTF-8 cannot encode.
        const character = parseInt(textDecoder.decode(bytes.subarray(index + 1, index + 5)), 16)
        if (character < 128) bytes[written++] = character
        else for (const byte of replacementCharacter) bytes[written++] = byte
        index += 4
      } else bytes[written++] = escapedCharacters.get(escaped) ?? escaped
    }
  }
  return written
}

/**
 * Quotes a range of the output in place, and doubles the quotes in it. Works from the end to the start, because the
 * result is longer than the range and would otherwise overwrite characters that have not been read yet. Returns the
 * position after the closing quote.
 */
const quoteInPlace = (start: number, end: number) => {
  /** The number of quotes to add: one around each end, and one for each quote in the text. */
  let addedQuotes = 2
  for (let at = start; at < end; at += 1) if (rowOutputBuffer.bytes[at] === quote) addedQuotes += 1
  rowOutputBuffer.reserve(end, addedQuotes)
  const { bytes } = rowOutputBuffer
  let written = end + addedQuotes
  bytes[--written] = quote
  for (let at = end - 1; at >= start; at -= 1) {
    const code = bytes[at] ?? 0
    bytes[--written] = code
    if (code === quote) bytes[--written] = quote
  }
  bytes[start] = quote
  return end + addedQuotes
}

const needsQuotes = (start: number, end: number) => {
  const { bytes } = rowOutputBuffer
  for (let at = start; at < end; at += 1) {
    const code = bytes[at]
    if (code === quote || code === comma || code === carriageReturn || code === newline) return true
  }
  return false
}

/**
 * Replaces a JSON string in the output with a CSV cell. Adds an apostrophe before a formula, so that spreadsheets
 * display it as text.
 */
const writeTextCell = (start: number, end: number) => {
  let textEnd = unescape(start, end)
  if (isFormula(start, textEnd)) {
    rowOutputBuffer.bytes.copyWithin(start + 1, start, textEnd)
    rowOutputBuffer.bytes[start] = apostrophe
    textEnd += 1
  }
  return needsQuotes(start, textEnd) ? quoteInPlace(start, textEnd) : textEnd
}

/**
 * Replaces the JSON value between `start` and `end` of the output with a CSV cell. Returns the position after the cell.
 * Numbers, `true` and `false` remain unchanged.
 */
export const replaceJsonWithCsvCell = (start: number, end: number): number => {
  switch (rowOutputBuffer.bytes[start]) {
    case quote:
      return writeTextCell(start, end)
    case bracket:
    case brace:
      return quoteInPlace(start, end)
    case letterN:
      return start
    default:
      return end
  }
}

/** Removes the apostrophe that the service adds to CSV cells that a spreadsheet may run as a formula. */
export const removeFormulaApostrophe = (cell: string) =>
  cell.startsWith("'") && formula.test(cell.slice(1)) ? cell.slice(1) : cell

/**
 * Quotes a cell if CSV requires it, or if it starts in the same way as a list or an object, which are always quoted.
 */
export const quoteCsvCell = (text: string) => /^[[{]|[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text

/** Converts a JSON value to the text of a CSV cell. */
export const encodeCsvCell = (json: string): string => {
  const end = replaceJsonWithCsvCell(0, rowOutputBuffer.writeText(json, 0))
  // Writing may replace the buffer, so `bytes` must not be read before the cell is written.
  return textDecoder.decode(rowOutputBuffer.bytes.subarray(0, end))
}
