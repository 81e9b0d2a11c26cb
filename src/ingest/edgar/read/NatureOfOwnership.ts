/** Recognizes natures of indirect ownership that differ only in spelling: `By Trust`, `By trust.` and `Trust`. */

/** Matches a reference to a footnote inside a text: `(1)`, `see footnote 1`, `see fn. (2)`. Filings name it `F1`. */
const footnotePattern = new RegExp(
  [
    "\\b(?:(?:see )?foot ?notes?|see (?:fn|notes?))\\b[.:# ]*(?:[([]?(\\d+)[)\\]]?)?",
    "\\b(?:fn|notes?)\\b[.:# ]*[([]?(\\d+)[)\\]]?",
    "[([](\\d{1,2})[)\\]]",
  ].join("|"),
  "g",
)

/** Removes references to footnotes from a text in lower case, and returns the ids of these footnotes. */
export const splitFootnoteMarks = (text: string) => {
  const footnotes: Array<string> = []
  const rest = text.replace(footnotePattern, (_, ...numbers: ReadonlyArray<string | number | undefined>) => {
    const number = numbers.slice(0, 3).find((one) => one !== undefined)
    if (number !== undefined) footnotes.push(`F${Number(number)}`)
    return " "
  })
  return { rest, footnotes }
}

/** Words that do not help to identify the holder. */
const emptyWords = new Set(
  "by held owned indirect indirectly through via in the of for see".split(" "),
)

const synonyms: ReadonlyMap<string, string> = new Map([
  ["spouses", "spouse"],
  ["corp", "corporation"],
  ["co", "company"],
  ["ltd", "limited"],
  ["&", "and"],
])

const spouses = new Set(["wife", "husband"])

/** Words that a filer may add to the name of an account or leave out: `401(k)`, `Company 401(k) Plan`. */
const optionalWords = new Set(["plan", "account", "company", "issuer"])

export interface NatureOfOwnership {
  /**
   * The meaningful words in alphabetical order. Two lines may report the same position only if these are equal:
   * `By Trust for Spouse` and `Spouse Trust` both give `spouse trust`.
   */
  readonly words: string
  /**
   * The meaningful words in the order of the text, which may keep `wife` and `husband` apart. If two lines have equal
   * `words` but different phrases, they may report one position or two: `trust spouse` and `spouse trust` may be two
   * trusts.
   */
  readonly phrase: string
  /** Ids of the footnotes to which the text refers. */
  readonly footnotes: ReadonlyArray<string>
}

/** Reads the text of an element `natureOfOwnership`. Drops words that do not help to identify the holder. */
export const readNatureOfOwnership = (text: string): NatureOfOwnership => {
  const { footnotes, rest } = splitFootnoteMarks(
    text.normalize("NFKC").toLowerCase().replace(/\b401[ -]*\(?k\b\)?/g, "401k")
      .replace(/\(s\)|['’]s\b/g, "").replace(/[.'’"“”]/g, "")
      .replace(/\bf\/b\/o\b|\bfor the benefit of\b/g, "fbo")
      .replaceAll("limited partnership", "lp").replaceAll("limited liability company", "llc"),
  )
  const words = rest.replace(/\b(by|in|through|of|for) an? /g, "$1 ").split(/[^\p{L}\p{N}&]+/u)
    .map((word) => synonyms.get(word) ?? word)
    .filter((word) => word !== "" && !emptyWords.has(word))
  const needed = words.filter((word) => !optionalWords.has(word))
  const phrase = needed.length === 0 ? words : needed
  const general = phrase.map((word) => spouses.has(word) ? "spouse" : word)
  return {
    words: Array.from(new Set(general)).toSorted().join(" "),
    // A holder has one spouse, but `Wife Trust` and `Husband Trust` may be two trusts.
    phrase: (phrase.length === 1 ? general : phrase).join(" "),
    footnotes,
  }
}
