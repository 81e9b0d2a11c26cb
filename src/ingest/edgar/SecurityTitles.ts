/**
 * Recognizes the kind of a security by the title that the filer typed. A title that no rule matches has no kind, so its
 * amount is in no column (docs/decisions/0100-ownership-from-filings.md).
 */

/**
 * Returns the title in lower case, without text in parentheses: `Common Stock (restricted stock units)` is common
 * stock.
 */
const getMainTitle = (title: string) => title.toLowerCase().replace(/\([^()]*\)/g, " ").replace(/\s+/g, " ")

/** Words in the titles of securities other than shares, such as `Common Stock Purchase Warrants`. */
const otherSecurityPattern = new RegExp(
  `\\b(${
    "adss?|adrs?|depositary|depository|units?|(?<!beneficial )interests?|warrants?|options?|rights?|notes?|" +
    "debentures?|bonds?|convertible|exchangeable|phantom|equivalents?|swaps?|forwards?|futures?|puts?|calls?|funds?"
  })\\b`,
)

const isPreferredTitle = (title: string) => /\b(preferred|preference)\b/.test(title)

const commonPattern = /\b(common|ordinary shares?|subordinate voting shares?)\b/

/** Returns the kind of shares that a title such as `Class A Common Stock` names. Undefined if it names no shares. */
export const classifySharesByTitle = (title: string): "common" | "preferred" | undefined => {
  const main = getMainTitle(title)
  if (isPreferredTitle(main)) {
    return otherSecurityPattern.test(main.replace("convertible", "")) ? undefined : "preferred"
  }
  return commonPattern.test(main) && !otherSecurityPattern.test(main) ? "common" : undefined
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
  return /\bconvertible\b/.test(lowerCase) || classifySharesByTitle(title) !== undefined ? "convertible" : undefined
}
