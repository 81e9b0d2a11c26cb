/** Ranks search index entries and extracts excerpts. Pure. */
import { getListAt, getTextAt } from "./json-values.js"

/**
 * A page, or a section of a page. `heading` is empty for a page.
 * @typedef {{ readonly path: string, readonly page: string, readonly heading: string, readonly text: string }} Entry
 */

/**
 * Parses the index that the service sends. Skips malformed entries.
 * @param {unknown} index
 * @returns {ReadonlyArray<Entry>}
 */
export const parseSearchIndex = (index) =>
  getListAt(index, "entries").flatMap((entry) => {
    const [path, page] = [getTextAt(entry, "path"), getTextAt(entry, "page")]
    if (path === undefined || page === undefined || !path.startsWith("/")) return []
    return [{ path, page, heading: getTextAt(entry, "heading") ?? "", text: getTextAt(entry, "text") ?? "" }]
  })

/** @param {string} query */
export const splitWords = (query) => query.toLowerCase().split(/[\s,;"'()]+/).filter((word) => word !== "")

/**
 * Scores the best match of a word: 4 for a complete word, 3 for the start of a word, 1 for any other part, 0 for none.
 * @param {string} text in lower case
 * @param {string} word
 */
const scoreWord = (text, word) => {
  let best = 0
  for (let index = text.indexOf(word); index >= 0 && best < 4; index = text.indexOf(word, index + 1)) {
    const isStart = index === 0 || !/[\p{L}\p{N}]/u.test(text.charAt(index - 1))
    const isEnd = !/[\p{L}\p{N}_-]/u.test(text.charAt(index + word.length))
    best = Math.max(best, isStart ? (isEnd ? 4 : 3) : 1)
  }
  return best
}

/**
 * Returns the entries that contain every word of the query, best match first.
 * @param {ReadonlyArray<Entry>} entries
 * @param {string} query
 */
export const searchEntries = (entries, query) => {
  const words = splitWords(query)
  if (words.length === 0) return []
  return entries.flatMap((entry, index) => {
    const isPage = entry.heading === ""
    const title = (isPage ? entry.page : entry.heading).toLowerCase()
    const parent = isPage ? "" : entry.page.toLowerCase()
    const [path, text] = [entry.path.toLowerCase(), entry.text.toLowerCase()]
    const scores = words.map((word) =>
      scoreWord(title, word) * 8 + scoreWord(parent, word) * 2 + scoreWord(path, word) * 4 + scoreWord(text, word)
    )
    if (scores.includes(0)) return []
    // Adds 8 for a page, so that it ranks above sections with similar matches.
    return [{ entry, score: scores.reduce((sum, score) => sum + score, isPage ? 8 : 0), index }]
  }).toSorted((left, right) => right.score - left.score || left.index - right.index).map(({ entry }) => entry)
}

/**
 * Returns the text around the first match, split so that every second piece is a query word.
 * @param {string} text
 * @param {string} query
 */
export const cutExcerpt = (text, query) => {
  const words = splitWords(query)
  const lower = text.toLowerCase()
  const matches = words.map((word) => lower.indexOf(word)).filter((index) => index >= 0)
  const first = Math.min(...matches, text.length)
  const start = first < 60 || matches.length === 0 ? 0 : text.indexOf(" ", first - 50) + 1
  const part = `${start === 0 ? "" : "…"}${text.slice(start, start + 140)}${start + 140 < text.length ? "…" : ""}`
  const pattern = words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "\\$&")).join("|")
  return pattern === "" ? [part] : part.split(new RegExp(`(${pattern})`, "i"))
}
