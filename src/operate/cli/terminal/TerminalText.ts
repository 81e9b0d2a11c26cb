/** Measures, shortens and escapes text for a terminal. */
import { Duration } from "effect"
import stringWidth from "string-width"

/** Formats how long something took: `1m 5s`, or `less than a second`. */
export const formatElapsedTime = (seconds: number) =>
  seconds < 0.5 ? "less than a second" : Duration.format(Duration.seconds(Math.round(seconds)))

/** Returns the width in terminal columns. East Asian characters and emoji take two. */
export const getDisplayWidth = (text: string) => stringWidth(text)

const escapeCharacter = (character: string) => {
  const code = (character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")
  return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character] ?? `\\u${code}`
}

/** Control characters and line separators, and bidirectional controls, which can reorder the text after them. */
const unsafeCharacters = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu

/** Escapes control characters and line breaks. */
export const escapeTerminalLine = (text: string) => text.replace(unsafeCharacters, escapeCharacter)

/** Formats rows for scripts: a line per row, with a tab between cells. */
export const formatTabSeparated = (rows: ReadonlyArray<ReadonlyArray<unknown>>) =>
  rows.map((cells) => cells.map((cell) => escapeTerminalLine(String(cell ?? ""))).join("\t")).join("\n")

/** Escapes control characters and keeps line breaks. */
export const escapeTerminalLines = (text: string) => text.split("\n").map(escapeTerminalLine).join("\n")

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** Shortens text to a number of columns, and marks the cut with the ellipsis. Never splits a grapheme. */
export const truncateToWidth = (text: string, columns: number, ellipsis: string) => {
  let shortened = ""
  let width = 0
  for (const { segment } of segmenter.segment(text)) {
    const segmentWidth = getDisplayWidth(segment)
    if (width + segmentWidth > columns) return columns < getDisplayWidth(ellipsis) ? "" : `${shortened}${ellipsis}`
    if (width + segmentWidth <= columns - getDisplayWidth(ellipsis)) shortened += segment
    width += segmentWidth
  }
  return text
}

const makePadding = (text: string, columns: number) => " ".repeat(Math.max(0, columns - getDisplayWidth(text)))

/** Pads text on the right to a width in columns. */
export const padEndToWidth = (text: string, columns: number) => `${text}${makePadding(text, columns)}`

/** Pads text on the left to a width in columns. */
export const padStartToWidth = (text: string, columns: number) => `${makePadding(text, columns)}${text}`
