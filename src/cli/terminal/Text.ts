/** Text on a terminal: as wide as it is shown, and without what a terminal would obey. */
import stringWidth from "string-width"

/** `1 row`, `2 rows`. */
export const formatCount = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`

/** Columns, of which an East Asian letter and an emoji take two. */
export const displayWidth = (text: string) => stringWidth(text)

const escaped = (sign: string) => {
  const code = (sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")
  return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[sign] ?? `\\u${code}`
}

/** Control characters move the cursor or set the title, and marks of direction turn what follows around. */
const orders = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu

/** In one line, and harmless. */
export const escapeLine = (text: string) => text.replace(orders, escaped)

/** The same, of text that may have lines. */
export const escapeLines = (text: string) => text.split("\n").map(escapeLine).join("\n")

const segments = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** At most so many columns; what is cut ends in the mark. No letter is taken apart. */
export const truncate = (text: string, columns: number, mark = "…") => {
  let shown = ""
  let whole = ""
  let width = 0
  for (const { segment } of segments.segment(text)) {
    const wide = displayWidth(segment)
    if (width + wide > columns) return columns < displayWidth(mark) ? "" : `${shown}${mark}`
    if (width + wide <= columns - displayWidth(mark)) shown += segment
    whole += segment
    width += wide
  }
  return whole
}

const gap = (text: string, columns: number) => " ".repeat(Math.max(0, columns - displayWidth(text)))

export const padEnd = (text: string, columns: number) => `${text}${gap(text, columns)}`

export const padStart = (text: string, columns: number) => `${gap(text, columns)}${text}`
