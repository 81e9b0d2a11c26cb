/**
 * Determines the kind of a security from the title that the filer typed
 * (docs/decisions/0100-ownership-from-filings.md). The test `security-titles` lists titles and their kinds.
 */

import { splitFootnoteMarks } from "./NatureOfOwnership.ts"

/**
 * Returns the title in lowercase, without parenthesized text, attached rights, or how the security was acquired. For
 * example, `Common Stock (restricted stock units)` becomes `common stock`.
 */
const getMainTitle = (title: string) =>
  title.toLowerCase().replace(/\([^()]*\)/g, " ").replace(/\bcl\b\.?(?= [a-z]\b)/g, "class").replace(/\s+/g, " ").trim()
    .replace(/[,;]? (and|with|including)( the| its)? (associated|attached|related|accompanying)\b.*$/, "")
    .replace(/[,;]? (purchased|acquired|received) (under|in|through|from|upon|pursuant to)\b.*$/, "")

/** Matches words in the titles of securities other than shares, such as `Common Stock Purchase Warrants`. */
const otherSecurityPattern = new RegExp(
  `\\b(${
    "adss?|adrs?|gdss?|gdrs?|depositary|depository|units?|rsus?|psus?|(?<!beneficial )interests?|warrants?|options?|" +
    "rights?|notes?|debentures?|bonds?|convertible|exchangeable|phantom|equivalents?|swaps?|forwards?|futures?|puts?|" +
    "calls?|funds?|certificates?|special voting"
  })\\b`,
)

/**
 * Matches words of `otherSecurityPattern` that do not name another security but describe common shares, as in
 * `Convertible Common Stock`.
 */
const describesCommonSharesPattern =
  /\b(convertible(?= (class [a-z] )?(common|ordinary) (stock|shares?))|exchangeable(?= (subordinate|limited) voting))/g

/**
 * Matches the part of a title that says what preferred shares can be converted into. `Preferred Stock convertible into
 * Common Stock` is preferred stock.
 */
const intoCommonPattern = /\b(convertible|exchangeable|exercisable) (into|to|for)\b.*\b(common|ordinary)\b.*$/

/**
 * Returns whether a title of preferred shares also mentions common shares, as in `Common Stock issuable upon conversion
 * of Preferred`.
 */
const namesCommonShares = (title: string) => /\b(common|ordinary|ord|cmn)\b/.test(title.replace(intoCommonPattern, ""))

const isPreferredTitle = (title: string) => /\b(preferred|preference|pref|pfd)\b/.test(title)

const commonPattern = new RegExp(
  [
    "\\b(common|ordinary|ord|cmn|capital stock|beneficial interests?|tracking stock|voting shares?)\\b",
    "\\b(registered|bearer|restricted) (stock|shares?)\\b",
    "\\bclass [a-z] (stock|shares?)\\b",
    "^(class [a-z] )?com\\b",
  ].join("|"),
)

/**
 * Returns whether a title of common shares leaves open what its number counts: shares or receipts for them, or shares
 * together with another security.
 */
const isUnclearTitle = (title: string) =>
  /\b(represented|evidenced) by\b|\bin the form of\b|\bheld in\b/.test(title) ||
  (otherSecurityPattern.test(title) && (
    /\b(stock|shares?) ?(and|&|\/)/.test(title) ||
    /\b(common|ordinary) (stock|shares?) ?(,|\+|including|issuable|underlying)/.test(title)
  ))

/**
 * Returns the kind of shares described by a title such as `Class A Common Stock`, or `other` for another security, such
 * as `Common Units`. Returns undefined if no rule matches the title, or if it mentions both common and preferred
 * shares. Such a title could describe any security.
 */
export const classifySharesByTitle = (title: string): "common" | "preferred" | "other" | undefined => {
  const main = getMainTitle(title)
  if (isPreferredTitle(main)) {
    if (namesCommonShares(main)) return undefined
    return otherSecurityPattern.test(main.replace("convertible", "")) ? "other" : "preferred"
  }
  const isCommon = commonPattern.test(main)
  if (isCommon && isUnclearTitle(main)) return undefined
  if (otherSecurityPattern.test(main.replace(describesCommonSharesPattern, ""))) return "other"
  return isCommon ? "common" : undefined
}

/** Titles and names longer than this are compared verbatim, because matching the patterns would take too long. */
const maxTitleLength = 250

/** Words at the end of a company's name that the title of its securities may omit or abbreviate. */
const companySuffix = "inc|incorporated|corp|corporation|co|company|ltd|limited|plc|llc|lp|nv|sa|ag|se|holdings?|group"

/**
 * Returns a function that removes the issuer's name from a title, because its words may look like those for a security:
 * `Unit Corporation Common Stock` becomes `Common Stock`. A name of one word is removed only with a word such as
 * `Corporation`, since `Unit` alone may be the security.
 */
export const makeIssuerNameRemover = (issuerName: string) => {
  const words = issuerName.length > maxTitleLength
    ? []
    : issuerName.toLowerCase().replace(/\/.*$/, "").replace(/^the /, "").match(/[\p{L}\p{N}]+/gu) ?? []
  const isSuffix = (word: string) => new RegExp(`^(${companySuffix})$`).test(word)
  // The name without words such as `Corporation` at its end.
  const distinctive = words.slice(0, words.findLastIndex((word) => !isSuffix(word)) + 1)
  if (distinctive.length === 0) return (title: string) => title
  const gap = "[^\\p{L}\\p{N}]+"
  // Matches the distinctive words, with any punctuation between them, followed by any number of suffixes: at least one
  // if there is only one distinctive word. The look-arounds exclude a match within a longer word.
  const name = new RegExp(
    `(?<![\\p{L}\\p{N}])${distinctive.join(gap)}(?:${gap}(?:${companySuffix}))${
      distinctive.length === 1 ? "+" : "*"
    }(?![\\p{L}\\p{N}])[.,]*`,
    "giu",
  )
  return (title: string) => {
    const rest = title.replace(name, " ").trim()
    // A title that consists of the name only is kept, because an empty title would identify nothing.
    return rest === "" ? title : rest
  }
}

/** Matches words in the titles of derivatives that are obligations, or that do not give their holder shares. */
const givesNoSharesPattern =
  /\b(puts?|sell|sold|written|obligation|short|swaps?|forwards?|futures?|phantom|appreciation|units?)\b/

/**
 * Returns the kind of a derivative security in an ownership form, or undefined if it is of no kind with a column.
 * Shares that are listed among the derivative securities are considered convertible; otherwise, they would be listed
 * among the non-derivative ones.
 */
export const classifyDerivativeByTitle = (title: string): "option" | "warrant" | "convertible" | undefined => {
  const lowerCase = title.toLowerCase()
  if (givesNoSharesPattern.test(lowerCase)) return undefined
  const isOption = /\boptions?\b/.test(lowerCase)
  const isWarrant = /\bwarrants?\b/.test(lowerCase)
  if (isOption || isWarrant) return isOption && isWarrant ? undefined : isOption ? "option" : "warrant"
  const shares = classifySharesByTitle(title)
  return /\bconvertible\b/.test(lowerCase) || shares === "common" || shares === "preferred" ? "convertible" : undefined
}

const currency = "(?:(?:us|u[.]s[.]|hk|usd|cad|cdn|hkd|eur|gbp|chf|nis|ils|rmb|sek|nok|dkk|jpy|aud|sgd|inr|brl) ?)"
const number = "(?:\\d+(?:[.,]\\d+)*|[.]\\d+)"
const fraction = "(?: ?(?:¢|cents?|p|pence)\\b)"
const amount = `(?:\\b${currency})?(?:[$€£¥] ?)?${number}${fraction}?(?: usd\\b| eur\\b)?|one cent`

/**
 * Matches a part of a title that states the par value, such as `par value $0.001 per share`, `$.01 par value`, or
 * `without par value`.
 */
const parValuePattern = new RegExp(
  [
    "(?:(?<!\\w)(?:with|without|having|of|no)[ -](?:an? )?)?" +
    `(?:(?:\\b${currency}?(?:${number}${fraction}|\\d*[.]\\d+)|(?:\\b${currency})?[$€£¥] ?${number}) )?` +
    "\\b(?:par|nominal|stated)\\b(?: value)?:?(?: of)?" +
    `(?: ?(?:${amount}))?(?:(?: ?\\/ ?| )(?:per |an? |each\\b ?)?(?:(?:common|ordinary|preferred) )?(?:shares?\\b)?)?`,
    `\\bof (?:${amount}) each\\b`,
    "[$€£¥] ?\\d*[.]?\\d[\\d.,]*",
  ].join("|"),
  "g",
)

/**
 * Matches a part of a title that names a class or series, such as `Class A`, `Cl. B`, `Series A-1`, or `Series B-1-A`,
 * and the letter in `Common A` or `A Ordinary`.
 */
const designatorPattern = new RegExp(
  [
    "\\b(class|cl|series|ser)\\b[. -]*(?!(?:of|and|the|for)\\b)([a-z]{1,2}|\\d+)((?:-(?:\\d+[a-z]?|[a-z])\\b)*)(?!\\w)",
    "(?<=\\b(?:common|ordinary|preferred)\\b.*)\\b([b-z]|a(?=\\W*$| (?:stock|stk|shares?|shs?)\\b))\\b",
    "^([a-z])(?= (?:common|ordinary|preferred)\\b)",
  ].join("|"),
  "g",
)

const titleSynonyms: ReadonlyMap<string, string> = new Map([
  ["com", "common"],
  ["cmn", "common"],
  ["ord", "ordinary"],
  ["pref", "preferred"],
  ["pfd", "preferred"],
  ["preference", "preferred"],
  ["nonqualified", "nonstatutory"],
  ["rsus", "rsu"],
])

const splitIntoSet = (words: string): ReadonlySet<string> => new Set(words.split(" "))

/** Words that do not help identify a security. */
const emptyTitleWords = splitIntoSet("the of an a s issuer company stock stk share shs sh security see footnote per")

/** Words that denote a kind of security, keyed by kind. They cannot tell two securities of the same kind apart. */
const wordsOfKinds: { readonly [kind: string]: ReadonlySet<string> } = {
  common: splitIntoSet("common ordinary capital beneficial interest registered"),
  preferred: splitIntoSet("preferred"),
  option: splitIntoSet("option right to buy purchase acquire common ordinary"),
  warrant: splitIntoSet("warrant right to buy purchase acquire common ordinary"),
}

/** Words that a filer may include in or omit from a security's title. */
const optionalTitleWords = splitIntoSet(
  "voting convertible cumulative redeemable perpetual participating employee director incentive nonstatutory qualified",
)

/**
 * Returns whether a word in the title of preferred shares distinguishes two series with the same letter. An interest
 * rate does not, because titles may omit it.
 */
const distinguishesSeries = (word: string) =>
  /^(junior|senior|prime|first|second|third|new|\p{L})$/u.test(word) || /^[^%]*\d[^%]*$/.test(word)

/** Identifies a security within one document. */
export interface SecurityIdentity {
  /** Identifying words, equal for all titles that denote or may denote the same security. */
  readonly name: string
  /**
   * Words that another title of the same security may omit. However, the titles of two different securities may also
   * differ only in these words.
   */
  readonly optional: ReadonlySet<string>
}

/**
 * Matches a letter with a prime, because `Series A'` differs from `Series A`. Does not match a letter in quotation
 * marks, such as `'A'`.
 */
const primePattern = /(?<!["'“‘\p{L}])([a-z])['’′](?![\p{L}\p{N}])/gu

/** Unifies case, quotation marks, hyphens, and spaces. */
const simplifyTitle = (title: string) =>
  title.normalize("NFKC").toLowerCase().replace(/\(s\)|['’]s\b/g, "").replace(primePattern, "$1 prime")
    .replace(/["'“”‘’*]/g, "").replace(/\p{Pd}/gu, "-").replace(/ +%/g, "%").replace(/\s+/g, " ").trim()

/** Returns the significant words of a title, in the singular. */
const findTitleWords = (text: string) =>
  text.split(/[^\p{L}\p{N}_%.-]+/u).flatMap((part) => {
    const trimmed = part.replace(/^[.-]+|[.-]+$/g, "")
    const singular = trimmed.length > 3 ? trimmed.replace(/(?<=[^s])s$/, "") : trimmed
    const word = titleSynonyms.get(singular) ?? singular
    return word === "" || emptyTitleWords.has(word) ? [] : [word]
  })

/**
 * Identifies the security that a title denotes. Removes what titles of the same security may omit (par value, words for
 * the kind, words of the issuer's name), and collects classes and series (`designators`) separately from other words.
 * For example, `Class A Common Stock, par value $0.01` yields the words `class a` and `common`.
 */
const identify = (title: string, wordsOfIssuer: ReadonlyArray<string>): SecurityIdentity => {
  if (title.length > maxTitleLength) return { name: title, optional: new Set() }
  const derivative = classifyDerivativeByTitle(title)
  const isOption = derivative === "option" || derivative === "warrant"
  const kind = isOption ? derivative : classifySharesByTitle(title) ?? "unknown"
  const designators: Array<string> = []
  const rest = splitFootnoteMarks(simplifyTitle(title)).rest
    .replace(parValuePattern, " ")
    // Writes `non-voting` as one word, so that it is not found as `voting`.
    .replace(/\bnon[- ](?=[a-z])/g, "non")
    // The pattern has three alternatives, so only some groups match: `Class A-1` (noun, letter and suffix), the letter
    // in `Common A` (last), or the letter in `A Ordinary` (first).
    .replace(designatorPattern, (_, noun?: string, letter = "", suffix = "", last = "", first = "") => {
      designators.push(`${noun?.startsWith("s") === true ? "series" : "class"} ${letter}${suffix}${last}${first}`)
      return " "
    })
  const implied = new Set([...wordsOfKinds[kind] ?? [], ...wordsOfIssuer])
  const words = findTitleWords(rest).filter((word) => !implied.has(word))
  // The letter alone identifies a series of preferred shares. Most other words can be omitted, as in Series A
  // (Convertible) Preferred Stock.
  const hasDesignator = designators.length > 0 && !isOption
  const identifyingWords = hasDesignator && kind === "preferred"
    ? words.filter(distinguishesSeries)
    : words.filter((word) => !optionalTitleWords.has(word))
  return {
    name: Array.from(new Set([kind, ...designators, ...identifyingWords])).toSorted().join(" "),
    optional: new Set(hasDesignator ? [] : words.filter((word) => optionalTitleWords.has(word))),
  }
}

/**
 * Returns a function that identifies the security that a title denotes. Titles in a document that differ only in
 * insignificant additions yield equal names, such as `Common Stock` and `Common Stock, par value $0.001`. The remaining
 * words, above all classes and series, distinguish securities. Words of the issuer's name are ignored.
 */
export const makeSecurityIdentifier = (issuerName: string) => {
  const wordsOfIssuer = findTitleWords(simplifyTitle(issuerName))
  // Cache, because a form repeats a few titles on many lines.
  const known = new Map<string, SecurityIdentity>()
  return (title: string) => {
    const identity = known.get(title) ?? identify(title, wordsOfIssuer)
    known.set(title, identity)
    return identity
  }
}
