/**
 * Recognizes the kind of a security by the title that the filer typed
 * (docs/decisions/0100-ownership-from-filings.md). The test `security-titles` lists titles with their kinds.
 */

import { splitFootnoteMarks } from "./NatureOfOwnership.ts"

/**
 * Returns the title in lower case, without text in parentheses and without attached rights: `Common Stock (restricted
 * stock units)` is common stock.
 */
const getMainTitle = (title: string) =>
  title.toLowerCase().replace(/\([^()]*\)/g, " ").replace(/\bcl\b\.?(?= [a-z]\b)/g, "class").replace(/\s+/g, " ").trim()
    .replace(/[,;]? (and|with|including)( the| its)? (associated|attached|related|accompanying)\b.*$/, "")
    .replace(/[,;]? (purchased|acquired|received) (under|in|through|from|upon|pursuant to)\b.*$/, "")

/** Words in the titles of securities other than shares, such as `Common Stock Purchase Warrants`. */
const otherSecurityPattern = new RegExp(
  `\\b(${
    "adss?|adrs?|gdss?|gdrs?|depositary|depository|units?|rsus?|psus?|(?<!beneficial )interests?|warrants?|options?|" +
    "rights?|notes?|debentures?|bonds?|convertible|exchangeable|phantom|equivalents?|swaps?|forwards?|futures?|puts?|" +
    "calls?|funds?|certificates?|special voting"
  })\\b`,
)

/** The words of `otherSecurityPattern` that describe common shares here, such as `Convertible Common Stock`. */
const describesCommonSharesPattern =
  /\b(convertible(?= (class [a-z] )?(common|ordinary) (stock|shares?))|exchangeable(?= (subordinate|limited) voting))/g

/** `Preferred Stock convertible into Common Stock` is preferred stock. */
const intoCommonPattern = /\b(convertible|exchangeable|exercisable) (into|to|for)\b.*\b(common|ordinary)\b.*$/

/** Whether a title of preferred shares names common ones, too: `Common Stock issuable upon conversion of Preferred`. */
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

/** Whether the number may be one of shares or of the receipts for them, or of shares and another security together. */
const isUnclearTitle = (title: string) =>
  /\b(represented|evidenced) by\b|\bin the form of\b|\bheld in\b/.test(title) ||
  (otherSecurityPattern.test(title) && /\b(stock|shares?) ?(and|&|\/)/.test(title))

/**
 * Returns the kind of shares that a title such as `Class A Common Stock` names; `other` if it names another security,
 * such as `Common Units`. Undefined if no rule matches the title, so it may name any security, or if it names
 * both common and preferred shares.
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

/** Words in the titles of obligations, and of securities that give their holder no shares. */
const givesNoSharesPattern = /\b(puts?|sell|obligation|short|swaps?|forwards?|futures?|phantom|appreciation|units?)\b/

/**
 * Returns the kind of a derivative security. Shares that a form lists as a derivative are convertible; otherwise they
 * would be in its table of non-derivative securities.
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

/** What a title says about the par value: `par value $0.001 per share`, `$.01 par value`, `without par value`. */
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

/** A class or series: `Class A`, `Cl. B`, `Series A-1`, `Series B-1-A`; the letter of `Common A` and `A Ordinary`. */
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

/** Words that mean nothing for the identity of a security. */
const emptyTitleWords = splitIntoSet("the of an a s issuer company stock stk share shs sh security see footnote per")

/** Words that say what kind of security a title names, by the kind. */
const wordsOfKinds: { readonly [kind: string]: ReadonlySet<string> } = {
  common: splitIntoSet("common ordinary capital beneficial interest registered"),
  preferred: splitIntoSet("preferred"),
  option: splitIntoSet("option right to buy purchase acquire common ordinary"),
  warrant: splitIntoSet("warrant right to buy purchase acquire common ordinary"),
}

/** Words that a filer may add to the title of a security or leave out. */
const optionalTitleWords = splitIntoSet(
  "voting convertible cumulative redeemable perpetual participating employee director incentive nonstatutory qualified",
)

/** Words that distinguish two series with the same letter. A rate is not such a word, because titles may omit it. */
const distinguishesSeries = (word: string) =>
  /^(junior|senior|prime|first|second|third|new|\p{L})$/u.test(word) || /^[^%]*\d[^%]*$/.test(word)

export interface SecurityIdentity {
  /** Equal for titles that name one security, or may do so. */
  readonly name: string
  /** Words that another title of the same security may lack. Titles of two securities may differ only in them. */
  readonly optional: ReadonlySet<string>
}

/** Longer titles are compared as they are, because the patterns would take too long. */
const maxTitleLength = 250

/** `Series A'` is not `Series A`, but the `'A'` of a quoted letter is. */
const primePattern = /(?<!["'“‘\p{L}])([a-z])['’′](?![\p{L}\p{N}])/gu

const simplifyTitle = (title: string) =>
  title.normalize("NFKC").toLowerCase().replace(/\(s\)|['’]s\b/g, "").replace(primePattern, "$1 prime")
    .replace(/["'“”‘’*]/g, "").replace(/\p{Pd}/gu, "-").replace(/ +%/g, "%").replace(/\s+/g, " ").trim()

/** Returns the words of a title: in the singular, without the empty ones. */
const findTitleWords = (text: string) =>
  text.split(/[^\p{L}\p{N}_%.-]+/u).flatMap((part) => {
    const trimmed = part.replace(/^[.-]+|[.-]+$/g, "")
    const singular = trimmed.length > 3 ? trimmed.replace(/(?<=[^s])s$/, "") : trimmed
    const word = titleSynonyms.get(singular) ?? singular
    return word === "" || emptyTitleWords.has(word) ? [] : [word]
  })

const identify = (title: string, wordsOfIssuer: ReadonlyArray<string>): SecurityIdentity => {
  if (title.length > maxTitleLength) return { name: title, optional: new Set() }
  const derivative = classifyDerivativeByTitle(title)
  const isOption = derivative === "option" || derivative === "warrant"
  const kind = isOption ? derivative : classifySharesByTitle(title) ?? "unknown"
  const designators: Array<string> = []
  const rest = splitFootnoteMarks(simplifyTitle(title)).rest
    .replace(parValuePattern, " ")
    .replace(/\bnon[- ](?=[a-z])/g, "non")
    .replace(designatorPattern, (_, kind?: string, letter = "", suffix = "", last = "", first = "") => {
      designators.push(`${kind?.startsWith("s") === true ? "series" : "class"} ${letter}${suffix}${last}${first}`)
      return " "
    })
  const implied = new Set([...wordsOfKinds[kind] ?? [], ...wordsOfIssuer])
  const words = findTitleWords(rest).filter((word) => !implied.has(word))
  // A series is known by its letter, whatever most words say: Series A (Convertible) Preferred Stock.
  const hasDesignator = designators.length > 0 && !isOption
  const needed = hasDesignator && kind === "preferred"
    ? words.filter(distinguishesSeries)
    : words.filter((word) => !optionalTitleWords.has(word))
  return {
    name: Array.from(new Set([kind, ...designators, ...needed])).toSorted().join(" "),
    optional: new Set(hasDesignator ? [] : words.filter((word) => optionalTitleWords.has(word))),
  }
}

/**
 * Returns a function that finds out which titles of a document name the same security: `Common Stock` and `Common
 * Stock, par value $0.001`. It drops such additions. The remaining words, above all classes and series, distinguish
 * securities. The name of the issuer may be part of a title.
 */
export const makeSecurityIdentifier = (issuerName: string) => {
  const wordsOfIssuer = findTitleWords(simplifyTitle(issuerName))
  // A form repeats few titles in many lines.
  const known = new Map<string, SecurityIdentity>()
  return (title: string) => {
    const identity = known.get(title) ?? identify(title, wordsOfIssuer)
    known.set(title, identity)
    return identity
  }
}
