/**
 * CSV cells (RFC 4180), converted from JSON so that both formats have the same digits. `load` reads the same cells
 * (D31): null is an empty cell, and a list is JSON.
 */
import { rowOutputBuffer } from "./OutputBuffer.ts"

/** The end of each record. */
export const csvNewline = "\r\n"

/** Tells Excel that a file is encoded in UTF-8. */
export const byteOrderMark = "\uFEFF"

/**
 * Matches text that a spreadsheet may run as a formula. Also matches such text after apostrophes, so that removing one
 * apostrophe from any cell restores the original text. Some spreadsheets skip white space, or accept `＝`.
 */
const formula = /^'*[\s\0]*[=+\-@＝＋－＠]|^'*[\t\r\n]/

const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true })

// ASCII codes
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

/** A fast check before `formula`: text that starts with an ASCII letter or digit is not a formula. */
const isAsciiAlphanumeric = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57)

/** Whether a spreadsheet may run this UTF-8 text in the output as a formula. */
const isFormula = (start: number, end: number) =>
  start < end && !isAsciiAlphanumeric(rowOutputBuffer.bytes[start] ?? 0) &&
  formula.test(textDecoder.decode(rowOutputBuffer.bytes.subarray(start, end)))

/** Control characters by the letter after the backslash in JSON. Any other character except `u` stands for itself. */
const escapedCharacters = new Map(
  [["b", "\b"], ["f", "\f"], ["n", "\n"], ["r", "\r"], ["t", "\t"]].map(([letter = "", character = ""]) => [
    letter.charCodeAt(0),
    character.charCodeAt(0),
  ]),
)

/** Replaces a lone surrogate, which UTF-8 cannot encode. JSON here escapes no other non-ASCII character as `\u…`. */
const replacementCharacter = new TextEncoder().encode("\uFFFD")

/** Replaces a JSON string in the output with the text that it stands for. Returns the position after the text. */
const unescape = (start: number, end: number) => {
  const { bytes } = rowOutputBuffer
  let written = start
  for (let at = start + 1; at < end - 1; at += 1) {
    const code = bytes[at] ?? 0
    if (code !== backslash) bytes[written++] = code
    else {
      at += 1
      const escaped = bytes[at] ?? 0
      if (escaped === letterU) {
        const character = parseInt(textDecoder.decode(bytes.subarray(at + 1, at + 5)), 16)
        if (character < 128) bytes[written++] = character
        else for (const byte of replacementCharacter) bytes[written++] = byte
        at += 4
      } else bytes[written++] = escapedCharacters.get(escaped) ?? escaped
    }
  }
  return written
}

/** Quotes text in the output, in place. Returns the position after the closing quote. */
const quoteInPlace = (start: number, end: number) => {
  let quotes = 2
  for (let at = start; at < end; at += 1) if (rowOutputBuffer.bytes[at] === quote) quotes += 1
  rowOutputBuffer.reserve(end, quotes)
  const { bytes } = rowOutputBuffer
  let written = end + quotes
  bytes[--written] = quote
  for (let at = end - 1; at >= start; at -= 1) {
    const code = bytes[at] ?? 0
    bytes[--written] = code
    if (code === quote) bytes[--written] = quote
  }
  bytes[start] = quote
  return end + quotes
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
 * Replaces a JSON string with its cell. A formula gets an apostrophe in front, so that spreadsheets show it as text.
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
 * Replaces the JSON value between `start` and `end` of the output with its CSV cell. Returns the position after the
 * cell. Numbers, `true` and `false` do not change.
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

/** Removes the apostrophe that the service adds in CSV to text that a spreadsheet may run as a formula. */
export const removeFormulaApostrophe = (cell: string) =>
  cell.startsWith("'") && formula.test(cell.slice(1)) ? cell.slice(1) : cell

/** Quotes a cell if CSV requires it, or if it starts like a list or an object, which are always quoted. */
export const quoteCsvCell = (text: string) => /^[[{]|[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text

/** Converts a JSON value to a CSV cell. */
export const encodeCsvCell = (json: string): string => {
  const end = replaceJsonWithCsvCell(0, rowOutputBuffer.writeText(json, 0))
  // Writing may replace the buffer, so `bytes` must be read after it.
  return textDecoder.decode(rowOutputBuffer.bytes.subarray(0, end))
}
