/** Recognizes natures of indirect ownership that differ only in spelling: `By Trust`, `By trust.` and `Trust`. */

/** Matches a reference to a footnote inside the text: `(1)`, `see footnote 1`, `see fn. (2)`. Filings name it `F1`. */
const footnotePattern = new RegExp(
  [
    "\\b(?:see )?foot ?notes?\\b[.:# ]*(?:[([]?(\\d+)[)\\]]?)?",
    "\\b(?:see )?(?:fn|notes?)\\b[.:# ]*[([]?(\\d+)[)\\]]?",
    "[([](\\d+)[)\\]]",
  ].join("|"),
  "g",
)

/** Words without a meaning for the identity of the holder. */
const emptyWords = new Set([
  "by",
  "held",
  "owned",
  "indirectly",
  "through",
  "via",
  "in",
  "the",
  "of",
  "for",
  "see",
  "s",
])

const synonyms: ReadonlyMap<string, string> = new Map([
  ["wife", "spouse"],
  ["husband", "spouse"],
  ["corp", "corporation"],
  ["co", "company"],
  ["ltd", "limited"],
  ["&", "and"],
])

/** Words that a filer may add to the name of an account or leave out: `401(k)`, `Company 401(k) Plan`. */
const optionalWords = new Set(["plan", "account", "company", "issuer"])

export interface NatureOfOwnership {
  /** Equal for natures that are one: the words without those that mean nothing, in alphabetical order. */
  readonly words: string
  /** Ids of the footnotes to which the text refers. */
  readonly footnotes: ReadonlyArray<string>
}

/** Reads the text of an element `natureOfOwnership`. */
export const readNatureOfOwnership = (text: string): NatureOfOwnership => {
  const footnotes: Array<string> = []
  const words = text.normalize("NFKC").toLowerCase().replaceAll("401(k)", "401k")
    .replace(/['’]s\b/g, "").replace(/[.'’"“”]/g, "")
    .replace(footnotePattern, (_, ...numbers: ReadonlyArray<string | number | undefined>) => {
      const number = numbers.slice(0, 3).find((one) => one !== undefined)
      if (number !== undefined) footnotes.push(`F${Number(number)}`)
      return " "
    })
    .replace(/\b(by|in|through|of|for) an? /g, "$1 ")
    .split(/[^\p{L}\p{N}&]+/u)
    .map((word) => synonyms.get(word) ?? word)
    .filter((word) => word !== "" && !emptyWords.has(word))
  const needed = words.filter((word) => !optionalWords.has(word))
  return { words: Array.from(new Set(needed.length === 0 ? words : needed)).toSorted().join(" "), footnotes }
}
