/**
 * Recognizes texts about the nature of indirect ownership that differ only in wording, such as `By Trust`, `By trust.`,
 * and `Trust`. A line of an ownership form has such a text if the owner holds the securities through someone else.
 */

/**
 * Matches a footnote reference in text, such as `(1)`, `see footnote 1`, or `see fn. (2)`. The id of footnote 1 in a
 * filing is `F1`.
 */
const footnotePattern = new RegExp(
  [
    "\\b(?:(?:see )?foot ?notes?|see (?:fn|notes?))\\b[.:# ]*(?:[([]?(\\d+)[)\\]]?)?",
    "\\b(?:fn|notes?)\\b[.:# ]*[([]?(\\d+)[)\\]]?",
    "[([](\\d{1,2})[)\\]]",
  ].join("|"),
  "g",
)

/** Removes footnote references from lowercase text, and returns the rest together with the ids of the footnotes. */
export const splitFootnoteMarks = (text: string) => {
  const footnotes: Array<string> = []
  const rest = text.replace(footnotePattern, (_, ...numbers: ReadonlyArray<string | number | undefined>) => {
    const number = numbers.slice(0, 3).find((one) => one !== undefined)
    if (number !== undefined) footnotes.push(`F${Number(number)}`)
    return " "
  })
  return { rest, footnotes }
}

/** Words that do not help identify who holds the securities for the owner. */
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

/**
 * Words that a filer may include in or omit from an account's name, as in `401(k)` and `Company 401(k) Plan`. They
 * count only if there are no other words.
 */
const optionalWords = new Set(["plan", "account", "company", "issuer"])

/** The nature of ownership stated on a line of an ownership form, normalized for comparison. */
export interface NatureOfOwnership {
  /**
   * The significant words in alphabetical order. Two lines can report the same position only if their words are equal:
   * `By Trust for Spouse` and `Spouse Trust` both yield `spouse trust`.
   */
  readonly words: string
  /**
   * The significant words in their original order, with `wife` and `husband` kept distinct in longer phrases. If two
   * lines have equal `words` but different phrases, such as `trust spouse` and `spouse trust`, it is unclear whether
   * they report one position or two.
   */
  readonly phrase: string
  /** Ids of the footnotes that the text refers to. */
  readonly footnotes: ReadonlyArray<string>
}

/** Unifies case, spellings and abbreviations in a text about the nature of ownership. */
const unifySpelling = (text: string) =>
  text.normalize("NFKC").toLowerCase()
    // `401(k)`, `401 (k)` and `401-k`
    .replace(/\b401[ -]*\(?k\b\)?/g, "401k")
    // The endings of `trust(s)` and `child's`
    .replace(/\(s\)|['’]s\b/g, "")
    // Also turns `l.p.` into `lp`.
    .replace(/[.'’"“”]/g, "")
    .replace(/\bf\/b\/o\b|\bfor the benefit of\b/g, "fbo")
    .replaceAll("individual retirement account", "ira")
    .replaceAll("limited partnership", "lp")
    .replaceAll("limited liability company", "llc")

/**
 * Parses the text of a `natureOfOwnership` element: unifies spellings and abbreviations, splits the text into words,
 * and drops words that do not help identify the holder.
 */
export const readNatureOfOwnership = (text: string): NatureOfOwnership => {
  const { footnotes, rest } = splitFootnoteMarks(unifySpelling(text))
  // Only an article after a preposition is dropped: in `Trust A`, the letter distinguishes the trust from others.
  const words = rest.replace(/\b(by|in|through|of|for) an? /g, "$1 ").split(/[^\p{L}\p{N}&]+/u)
    .map((word) => synonyms.get(word) ?? word)
    .filter((word) => word !== "" && !emptyWords.has(word))
  const requiredWords = words.filter((word) => !optionalWords.has(word))
  // A text such as `Company Plan` consists of optional words only, so all of them count.
  const phrase = requiredWords.length === 0 ? words : requiredWords
  const general = phrase.map((word) => spouses.has(word) ? "spouse" : word)
  return {
    words: Array.from(new Set(general)).toSorted().join(" "),
    // A holder has only one spouse, but `Wife Trust` and `Husband Trust` may be two different trusts.
    phrase: (phrase.length === 1 ? general : phrase).join(" "),
    footnotes,
  }
}
