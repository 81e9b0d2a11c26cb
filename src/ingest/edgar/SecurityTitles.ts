/**
 * What a security is, by the title that the filer typed. Titles that no rule matches are of no kind, so their amounts
 * are in no column (docs/decisions/0100-ownership-from-filings.md).
 */

/** Lower case, without parentheses: `Common Stock (restricted stock units)` is common stock. */
const getMainTitle = (title: string) => title.toLowerCase().replace(/\([^()]*\)/g, " ").replace(/\s+/g, " ")

/** Words that make a title another security than shares, such as `Common Stock Purchase Warrants`. */
const otherSecurity = new RegExp(
  `\\b(${
    "adss?|adrs?|depositary|depository|units?|(?<!beneficial )interests?|warrants?|options?|rights?|notes?|" +
    "debentures?|bonds?|convertible|exchangeable|phantom|equivalents?|swaps?|forwards?|futures?|puts?|calls?|funds?"
  })\\b`,
)

const isPreferredTitle = (title: string) => /\b(preferred|preference)\b/.test(title)

const commonPattern = /\b(common|ordinary shares?|subordinate voting shares?)\b/

/** `common` and `preferred` shares that are held themselves, such as `Class A Common Stock`. */
export const classifyShares = (title: string): "common" | "preferred" | undefined => {
  const main = getMainTitle(title)
  if (isPreferredTitle(main)) return otherSecurity.test(main.replace("convertible", "")) ? undefined : "preferred"
  return commonPattern.test(main) && !otherSecurity.test(main) ? "common" : undefined
}

/** Titles of obligations, and of securities that give no shares. */
const givesNoShares = /\b(puts?|sell|obligation|short|swaps?|forwards?|futures?|phantom|appreciation|units?)\b/

/**
 * The kind of a derivative security. Shares in the table of derivative securities are convertible, or they would be in
 * the other table.
 */
export const classifyDerivative = (title: string): "option" | "warrant" | "convertible" | undefined => {
  const lowerCase = title.toLowerCase()
  if (givesNoShares.test(lowerCase)) return undefined
  const isOption = /\boptions?\b/.test(lowerCase)
  const isWarrant = /\bwarrants?\b/.test(lowerCase)
  if (isOption || isWarrant) return isOption && isWarrant ? undefined : isOption ? "option" : "warrant"
  return /\bconvertible\b/.test(lowerCase) || classifyShares(title) !== undefined ? "convertible" : undefined
}
