/** Measures, shortens, and escapes text for terminal output. */
import { Duration } from "effect"
import stringWidth from "string-width"

/** Formats an elapsed time, such as `1m 5s` or `less than a second`. */
export const formatElapsedTime = (seconds: number) =>
  seconds < 0.5 ? "less than a second" : Duration.format(Duration.seconds(Math.round(seconds)))

/** Returns the display width of the text in terminal columns. East Asian characters and emoji are two columns wide. */
export const getDisplayWidth = (text: string) => stringWidth(text)

const escapeCharacter = (character: string) => {
  const code = (character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")
  return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character] ?? `\\u${code}`
}

/**
 * Matches control characters, line separators, and bidirectional control characters. The latter can change the order of
 * the text that follows.
 */
const unsafeCharacters = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu

/** Escapes control characters, including line breaks. */
export const escapeTerminalLine = (text: string) => text.replace(unsafeCharacters, escapeCharacter)

/** Formats rows for scripts: one line per row, with tabs between the cells. */
export const formatTabSeparated = (rows: ReadonlyArray<ReadonlyArray<unknown>>) =>
  rows.map((cells) => cells.map((cell) => escapeTerminalLine(String(cell ?? ""))).join("\t")).join("\n")

/** Escapes control characters, but keeps line breaks. */
export const escapeTerminalLines = (text: string) => text.split("\n").map(escapeTerminalLine).join("\n")

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** Shortens text to a number of columns, and appends the ellipsis if anything was cut off. Never splits a grapheme. */
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

/** Pads text with spaces on the right to a width in columns. */
export const padEndToWidth = (text: string, columns: number) => `${text}${makePadding(text, columns)}`

/** Pads text with spaces on the left to a width in columns. */
export const padStartToWidth = (text: string, columns: number) => `${makePadding(text, columns)}${text}`
