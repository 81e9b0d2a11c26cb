/**
 * Recognizes the kind of a security by the title that the filer typed
 * (docs/decisions/0100-ownership-from-filings.md). The test `security-titles` lists titles with their kinds.
 */

/**
 * Returns the title in lower case, without text in parentheses and without attached rights: `Common Stock (restricted
 * stock units)` is common stock.
 */
const getMainTitle = (title: string) =>
  title.toLowerCase().replace(/\([^()]*\)/g, " ").replace(/\s+/g, " ").trim()
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
 * such as `Common Units`. Undefined if no rule matches the title, so it may be that of any security.
 */
export const classifySharesByTitle = (title: string): "common" | "preferred" | "other" | undefined => {
  const main = getMainTitle(title)
  if (isPreferredTitle(main)) {
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
