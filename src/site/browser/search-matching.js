/**
 * Searches the pages and endpoints, and extracts excerpts. Pure: the search dialog and the MCP tool `find_endpoint` use
 * the same index and ranking.
 */
import MiniSearch from "minisearch"
import { getListAt, getTextAt, getValueAt } from "./json-values.js"

/**
 * A page, or a section of a page.
 * @typedef {object} Entry
 * @property {string} path
 * @property {string} page title of the page
 * @property {string} heading empty for a page
 * @property {string} text
 * @property {string} fields the parameters and fields of an endpoint; otherwise empty
 * @property {boolean} isChange whether it is an entry of the changelog
 */

/**
 * An entry that matches a query. `terms` are the words of the entry that match, in lower case.
 * @typedef {{ readonly entry: Entry, readonly terms: ReadonlyArray<string> }} Match
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
    return [{
      path,
      page,
      heading: getTextAt(entry, "heading") ?? "",
      text: getTextAt(entry, "text") ?? "",
      fields: getTextAt(entry, "fields") ?? "",
      isChange: getValueAt(entry, "isChange") === true,
    }]
  })

/**
 * Splits text into words without the punctuation around them: `10-K` and `gap_percentage` are one word each.
 * @param {string} text
 */
const splitWords = (text) =>
  text.toLowerCase().split(/[\s,;"'()=[\]]+/).map((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""))
    .filter((word) => word !== "")

/** Returns the parts of a compound such as `gap_percentage`; empty for a simple word. @param {string} word */
const listParts = (word) => {
  const parts = word.split(/[^\p{L}\p{N}]+/u)
  return parts.length === 1 ? [] : parts
}

/** Words that are ignored if the query has others, because most texts contain them. */
const commonWords = new Set("a an and at by for from in is its of on or the through to with".split(" "))

/** A query with more words counts as a sentence, and few texts contain all of its words. */
const maxRequiredWords = 3

/** A name with a different digit is a different name, and a short word is similar to many. @param {string} word */
const canBeMisspelled = (word) => word.length > 4 && !/\p{N}/u.test(word)

/** @param {string} word @param {boolean} isLast whether the word may be incomplete, because it is being typed */
const queryForWord = (word, isLast) => {
  const options = { tokenize: (/** @type {string} */ text) => [text], prefix: isLast || word.length > 2 }
  const whole = { ...options, queries: [word], fuzzy: canBeMisspelled(word) ? 0.2 : false, maxFuzzy: 2 }
  const parts = listParts(word)
  if (parts.length === 0) return whole
  return {
    combineWith: /** @type {const} */ ("OR"),
    queries: [
      whole,
      {
        ...options,
        combineWith: /** @type {const} */ ("AND"),
        queries: parts,
        boostTerm: () => 0.3,
        prefix: (/** @type {string} */ part) => part.length > 2,
      },
    ],
  }
}

/**
 * Returns a function that finds the entries with every word of a query, or its misspelling, best match first. If no
 * entry has them all, or the query is a sentence, it finds those with any of them. Changelog entries come last.
 * @param {ReadonlyArray<Entry>} entries
 */
export const makeSearch = (entries) => {
  const index = new MiniSearch({
    fields: ["title", "parent", "path", "text", "fields"],
    tokenize: (text) => splitWords(text).flatMap((word) => [word, ...listParts(word)]),
    searchOptions: {
      boost: { title: 8, parent: 2, path: 4, text: 2 },
      // Ranks a page above sections that match equally well.
      boostDocument: (id) => entries[id]?.heading === "" ? 1.5 : 1,
    },
  })
  index.addAll(entries.map(({ fields, heading, page, path, text }, id) => ({
    id,
    title: heading === "" ? page : heading,
    parent: heading === "" ? "" : page,
    path,
    text,
    fields,
  })))
  /** @param {string} query @returns {ReadonlyArray<Match>} */
  return (query) => {
    const words = Array.from(new Set(splitWords(query)))
    const rare = words.filter((word) => !commonWords.has(word))
    const queries = (rare.length < 2 ? words : rare).map((word) => queryForWord(word, word === words.at(-1)))
    if (queries.length === 0) return []
    const complete = queries.length > maxRequiredWords ? [] : index.search({ combineWith: "AND", queries })
    const found = complete.length > 0 ? complete : index.search({ combineWith: "OR", queries })
    const matches = found.flatMap(({ id, terms }) => {
      const entry = entries[id]
      // Single letters, such as the second part of `10-K`, would be highlighted all over an excerpt.
      return entry === undefined ? [] : [{ entry, terms: terms.filter((term) => term.length > 1) }]
    })
    return [...matches.filter(({ entry }) => !entry.isChange), ...matches.filter(({ entry }) => entry.isChange)]
  }
}

const excerptLength = 140

/**
 * Returns the part of a text with most of the words, split so that every second piece is one of them.
 * @param {string} text
 * @param {ReadonlyArray<string>} words in lower case
 */
export const cutExcerpt = (text, words) => {
  const alternatives = words.toSorted((left, right) => right.length - left.length)
    .map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|")
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${alternatives})(?![\\p{L}\\p{N}])`, "giu")
  const found = words.length === 0 ? [] : Array.from(text.matchAll(pattern), ({ 0: word, index }) => ({ word, index }))
  /** @param {number} start */
  const countWordsFrom = (start) =>
    new Set(
      found.filter(({ index }) => index >= start && index < start + excerptLength - 50)
        .map(({ word }) => word.toLowerCase()),
    ).size
  const first = found.reduce(
    (best, { index }) => countWordsFrom(index) > countWordsFrom(best) ? index : best,
    found[0]?.index ?? 0,
  )
  const start = first < 60 ? 0 : text.indexOf(" ", first - 50) + 1
  const end = start + excerptLength
  const part = `${start === 0 ? "" : "…"}${text.slice(start, end)}${end < text.length ? "…" : ""}`
  return words.length === 0 ? [part] : part.split(pattern)
}
