/** Finds pages and sections by words. Pure. */
import { listAt, textAt } from "./json.js"

/**
 * A page, or a section of one.
 * @typedef {{ readonly path: string, readonly page: string, readonly heading: string, readonly text: string }} Entry
 */

/**
 * The entries of the index as it came over the wire.
 * @param {unknown} index
 * @returns {ReadonlyArray<Entry>}
 */
export const entriesOf = (index) =>
  listAt(index, "entries").flatMap((entry) => {
    const [path, page] = [textAt(entry, "path"), textAt(entry, "page")]
    if (path === undefined || page === undefined || !path.startsWith("/")) return []
    return [{ path, page, heading: textAt(entry, "heading") ?? "", text: textAt(entry, "text") ?? "" }]
  })

/** @param {string} query */
export const wordsOf = (query) => query.toLowerCase().split(/[\s,;"'()]+/).filter((word) => word !== "")

/**
 * How well a word fits a text: a whole word is worth more than the start of one, and that more than its middle.
 * @param {string} text in lower case
 * @param {string} word
 */
const fit = (text, word) => {
  let best = 0
  for (let at = text.indexOf(word); at >= 0 && best < 4; at = text.indexOf(word, at + 1)) {
    const starts = at === 0 || !/[\p{L}\p{N}]/u.test(text.charAt(at - 1))
    const ends = !/[\p{L}\p{N}_-]/u.test(text.charAt(at + word.length))
    best = Math.max(best, starts ? (ends ? 4 : 3) : 1)
  }
  return best
}

/**
 * Entries in which every word occurs, the best first.
 * @param {ReadonlyArray<Entry>} entries
 * @param {string} query
 */
export const find = (entries, query) => {
  const words = wordsOf(query)
  if (words.length === 0) return []
  return entries.flatMap((entry, at) => {
    const [page, heading, path, text] = [entry.page, entry.heading, entry.path, entry.text].map((part) =>
      part.toLowerCase()
    )
    let score = 0
    for (const word of words) {
      const own = fit(heading || page || "", word) * 8 + fit(heading === "" ? "" : page || "", word) * 2 +
        fit(path ?? "", word) * 4 + fit(text ?? "", word)
      if (own === 0) return []
      score += own
    }
    // A page comes before sections that are alike.
    return [{ entry, score: score + (entry.heading === "" ? 8 : 0), at }]
  }).toSorted((left, right) => right.score - left.score || left.at - right.at).map(({ entry }) => entry)
}

/**
 * The part of a text around the first of the words, cut into pieces of which every second one is a word that was found.
 * @param {string} text
 * @param {string} query
 */
export const excerpt = (text, query) => {
  const words = wordsOf(query)
  const lower = text.toLowerCase()
  const places = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0)
  const first = Math.min(...places, text.length)
  const start = first < 60 || places.length === 0 ? 0 : text.indexOf(" ", first - 50) + 1
  const part = `${start === 0 ? "" : "…"}${text.slice(start, start + 140)}${start + 140 < text.length ? "…" : ""}`
  const pattern = words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "\\$&")).join("|")
  return pattern === "" ? [part] : part.split(new RegExp(`(${pattern})`, "i"))
}
