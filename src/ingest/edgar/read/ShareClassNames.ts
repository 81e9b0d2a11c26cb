/**
 * Reads the names that filers give to the classes on a cover, such as `ClassACommonStockMember`
 * (docs/decisions/0103-unknown-values-of-filings.md).
 *
 * A name is an English noun phrase without spaces. Its parts are, in this order:
 *
 * 1. words that mean nothing here, mostly the name of the company: `OptionCareHealth` in `OptionCareHealthCommonStock`;
 * 2. the core, the last words of the vocabulary in a row, which say what the security is: `CommonStock`;
 * 3. a link, and what it adds: `AndPreferredStockPurchaseRights`, or `ToPurchaseCommonStock` after `Warrants`.
 *
 * The order of the words in the core is free, but for its last noun: `CommonStockPurchaseWarrants` are warrants.
 */

/** What a name says of its class. */
export type ClassKind =
  /** Common or ordinary shares. */
  | "common"
  /** Only a class: `ClassB`, `MultipleVotingShares`. */
  | "class"
  /** A series of shares, which are preferred ones as often as common ones. */
  | "series"
  /** Shares without a description that distinguishes them from others: `RegisteredShares`. */
  | "shares"
  /** Common or subordinated units of a partnership. */
  | "commonUnit"
  /** Units that are known only by a letter: `ClassAUnits`. */
  | "classUnit"
  /** Other units: they may contain shares. */
  | "unit"
  /** Receipts for units. */
  | "depositaryUnit"
  /** All classes together. */
  | "total"
  /** A security that is not a common share, or a receipt, which is a claim on shares that are counted already. */
  | "other"
  /** The name has no word of the vocabulary that shows the kind. */
  | "unknown"
  /** Perhaps common shares, or a part of them. */
  | "unclear"

export interface ClassName {
  readonly kind: ClassKind
  /** Equal if two names may refer to the same class: `CommonClassA`, `ClassACommonStock`. */
  readonly identity: string
}

/** What a word of the vocabulary says. `name` is any other word. */
type Role =
  /** Nouns for shares, which say nothing about the kind of shares. */
  | "share"
  | "common"
  | "preferred"
  /** Nouns for securities that are not shares. */
  | "claim"
  | "receipt"
  | "unit"
  | "treasury"
  /** Shares with one of these words have no part in the value of the company, or are preferred. */
  | "valueless"
  /** Shares with one of these words are a part of a class, or are exchanged for shares of another one. */
  | "part"
  | "special"
  | "voting"
  | "class"
  | "series"
  | "letter"
  /** Words that make a class of shares with more or fewer votes. */
  | "votes"
  | "convertible"
  | "subordinated"
  | "total"
  /** Words that may distinguish two classes, but do not change their kind. */
  | "detail"
  | "number"
  | "empty"
  /** A link that puts a second security beside the core. */
  | "and"
  /** A link that takes something away from the core. */
  | "without"
  | "of"
  | "link"
  | "name"

/** The words of each role. Those in the plural are found without their `s`. */
const vocabulary: ReadonlyArray<readonly [Role, string]> = [
  ["share", "stock share stk sh capital equity"],
  ["common", "common ordinary com cmn ord"],
  ["preferred", "preferred preference preferential pref pfd prfd"],
  ["claim", "warrant wt right cvr note debenture bond debt loan option sar rsu psu certificate scrip"],
  ["receipt", "depositary depository receipt adr ads gdr gds cdi"],
  ["unit", "unit subunit interest"],
  ["treasury", "treasury"],
  ["valueless", "golden deferred phantom mandatory"],
  ["part", "restricted redeemable nonredeemable founder sponsor public private earnout escrow forfeitable"],
  ["part", "vested unvested nonvested exchangeable registry"],
  ["special", "special"],
  ["voting", "voting"],
  ["class", "class classes cl"],
  ["series", "series ser"],
  ["votes", "subordinate multiple super supervoting proportionate"],
  ["convertible", "convertible"],
  ["subordinated", "subordinated"],
  ["total", "total all aggregate combined"],
  ["detail", "nonvoting non limited tracking bearer registered cumulative noncumulative participating perpetual"],
  ["detail", "senior junior first second partner partnership"],
  ["empty", "par value nominal stated no per fully paid issued outstanding purchase the beneficial"],
  ["empty", "usd eur gbp dollar cent euro pence"],
  ["and", "and or with plus including together"],
  ["without", "excluding exclusive net less"],
  ["of", "of"],
  ["link", "to for into upon by in on from as at under without each representing represented evidenced underlying"],
  ["link", "issuable held owned subject reserved due expiring exercisable exercise consisting comprised comprising"],
  ["link", "entitling entitled included that which not"],
]

const roles: ReadonlyMap<string, Role> = new Map(
  vocabulary.flatMap(([role, words]) => words.split(" ").map((word) => [word, role] as const)),
)

/** Names of receipts are often in capital letters, whose words are found only if all are known. */
const namesBeforeReceipts = new Set(["american", "global"])

const singular = (word: string) => roles.has(word) || !word.endsWith("s") ? word : word.slice(0, -1)

interface Word {
  /** In lower case and in the singular. */
  readonly text: string
  readonly role: Role
  readonly isPlural: boolean
}

const makeWord = (text: string, role?: Role): Word => {
  const lowerCase = text.toLowerCase()
  const found = singular(lowerCase)
  const known = roles.get(found)
  return {
    text: known === undefined ? lowerCase : found,
    role: role ?? known ?? (/^\d+$/.test(text) ? "number" : "name"),
    isPlural: known !== undefined && found !== lowerCase,
  }
}

/** Splits `COMMONSTOCK` into words of the vocabulary. Undefined if it has others. Short words may be by chance. */
const splitUnspaced = (text: string): ReadonlyArray<string> | undefined => {
  if (text === "") return []
  for (let length = text.length; length >= 4; length--) {
    const word = text.slice(0, length)
    const rest = roles.has(singular(word)) || namesBeforeReceipts.has(word)
      ? splitUnspaced(text.slice(length))
      : undefined
    if (rest !== undefined) return [word, ...rest]
  }
  return undefined
}

/** Splits a name where its capital letters and digits begin: `ClassAADSs` is `Class`, `A` and `ADSs`. */
const splitName = (name: string): ReadonlyArray<Word> => {
  const parts = name.match(/[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []
  const words: Array<Word> = []
  for (const part of parts) {
    const last = words.at(-1)?.role
    const follows = last === "class" || last === "series"
    const acronym = makeWord(part.slice(1))
    const word = makeWord(part)
    if (/^[A-Z]$/.test(part) || (follows && word.role === "name" && /^(?:[A-Z]{2}|[IVX]+)$/.test(part))) {
      words.push(makeWord(part, "letter"))
    } else if (word.role !== "name") {
      words.push(word)
    } else if (follows && acronym.role !== "name" && /^[A-Z]{2}/.test(part)) {
      words.push(makeWord(part.charAt(0), "letter"), acronym)
    } else {
      words.push(...(splitUnspaced(part.toLowerCase()) ?? [part]).map((found) => makeWord(found)))
    }
  }
  return words
}

/** `BeneficialInterest` describes shares; other interests belong to partners. */
const isBeneficialInterest = (words: ReadonlyArray<Word>, index: number) =>
  words[index]?.text === "interest" && words[index - 1]?.text === "beneficial"

/** `RestrictedVoting`, `LimitedVoting` and `ExchangeableSubordinateVoting` are names of classes. */
const isNameOfVotes = (words: ReadonlyArray<Word>, index: number) => {
  const [text, next] = [words[index]?.text, words[index + 1]]
  return text === "exchangeable"
    ? next?.role === "votes" || next?.text === "limited"
    : (text === "restricted" || text === "limited") && next?.role === "voting"
}

const readWords = (name: string): ReadonlyArray<Word> => {
  const words = splitName(name)
  return words.map((word, index): Word =>
    isBeneficialInterest(words, index)
      ? { ...word, role: "empty" }
      : isNameOfVotes(words, index)
      ? { ...word, role: "votes" }
      : word
  )
}

const linkRoles: ReadonlySet<Role> = new Set(["and", "without", "of", "link"])

/** Roles of words that say what a security is. */
const kindRoles: ReadonlySet<Role> = new Set([
  "share",
  "common",
  "preferred",
  "claim",
  "receipt",
  "unit",
  "treasury",
  "valueless",
  "part",
  "special",
])

const nounRoles: ReadonlySet<Role> = new Set(["share", "claim", "unit"])

interface Phrase {
  /** Words before the core. */
  readonly before: ReadonlyArray<Word>
  readonly core: ReadonlyArray<Word>
  /** Words between the core and the link. */
  readonly after: ReadonlyArray<Word>
  readonly link: Word | undefined
  readonly rest: ReadonlyArray<Word>
}

/**
 * Finds the first word that links the core with something else. `Of` and `And` may also be in the name of a company,
 * and the noun in `SharesOfCommonStock` belongs to what follows.
 */
const findLink = (words: ReadonlyArray<Word>) =>
  words.findIndex(({ role, text }, index) => {
    const before = words.slice(0, index)
    const isInName = (role === "of" || text === "and") &&
      before.every((word) => word.role === "name" || word.role === role)
    const joins = role === "of" && before.every((word) => word.role === "share" || word.role === "empty")
    return linkRoles.has(role) && !isInName && !joins
  })

const parsePhrase = (words: ReadonlyArray<Word>): Phrase => {
  const at = findLink(words)
  const head = (at < 0 ? words : words.slice(0, at)).filter(({ role }) => !linkRoles.has(role))
  const [link, ...rest] = at < 0 ? [] : words.slice(at)
  const lastKind = head.findLastIndex(({ role }) => kindRoles.has(role))
  const anchor = lastKind < 0 ? head.length - 1 : lastKind
  const start = head.findLastIndex(({ role }, index) => index <= anchor && role === "name") + 1
  const next = head.findIndex(({ role }, index) => index > anchor && role === "name")
  const end = next < 0 ? head.length : next
  return { before: head.slice(0, start), core: head.slice(start, end), after: head.slice(end), link, rest }
}

const makeTester = (words: ReadonlyArray<Word>) => {
  const found = new Set(words.map(({ role }) => role))
  return (...searched: ReadonlyArray<Role>) => searched.some((role) => found.has(role))
}

/** Whether these words name a security that is no common share, if nothing else does. */
const isOtherSecurity = (core: ReadonlyArray<Word>) => {
  const has = makeTester(core)
  const isLoyalty = has("special") && has("voting") && !core.some(({ text }) => text === "non")
  const isCompensation = has("unit") && has("part")
  const isConvertibleSeries = has("series") && has("convertible") && !has("common")
  return has("preferred", "receipt", "valueless") || isLoyalty || isCompensation || isConvertibleSeries
}

/** Returns the kind of units by the words of their core. */
const classifyUnits = ({ before, core, after }: Phrase): ClassKind => {
  const has = makeTester(core)
  if (before.length > 0 || after.length > 0 || has("share")) return "unit"
  if (has("common", "subordinated")) return "commonUnit"
  return has("letter") && !core.some(({ role }) => role === "detail") ? "classUnit" : "unit"
}

/** Returns the kind of shares that a core without other securities names. */
const classifyShares = ({ after, before, core }: Phrase): ClassKind => {
  const has = makeTester(core)
  if (has("part")) return "unclear"
  if (after.length > 0) return "unknown"
  if (has("common")) return before.some(({ isPlural, role }) => role === "share" || isPlural) ? "unclear" : "common"
  if (before.length > 0 || has("special", "convertible", "subordinated", "total")) return "unknown"
  if (has("series")) return has("share") ? "series" : "unknown"
  if (has("letter", "votes") || (has("class") && has("number"))) return "class"
  return has("share") ? "shares" : "unknown"
}

/** Returns the kind that the name has without its link. */
const classifyCore = (phrase: Phrase): ClassKind => {
  const { after, before, core } = phrase
  const has = makeTester(core)
  const noun = core.findLast(({ role }) => nounRoles.has(role))
  const isClaim = noun?.role === "claim"
  // `OptionCareHealth` is a name, `WarrantsTranche2` is not.
  if (after.length > 0 && noun?.isPlural !== true) return has("common", "part") ? "unclear" : "unknown"
  const isOther = isClaim || has("treasury") || isOtherSecurity(core)
  if (isOther && makeTester(before)("common")) return "unclear"
  if (isClaim) return has("common") && (has("preferred") || after.length > 0) ? "unclear" : "other"
  if (has("treasury")) return "other"
  if (has("claim")) return "unclear"
  if (isOther) {
    if (has("common")) return "unclear"
    return has("receipt") && noun?.text === "unit" && !has("preferred") ? "depositaryUnit" : "other"
  }
  return has("unit") ? classifyUnits(phrase) : classifyShares(phrase)
}

const attached = /^(?:purchase|preferred|associated|attached|related|accompanying)$/

/** `AndPreferredStockPurchaseRights`: rights under a plan belong to each share until they are used. */
const isRightsPlan = (link: Word, rest: ReadonlyArray<Word>) =>
  link.role === "and" && rest.at(-1)?.text === "right" && rest.some(({ text }) => attached.test(text)) &&
  rest.every(({ role, text }) =>
    text === "right" ||
    ["preferred", "common", "share", "empty", "series", "class", "letter", "name", "detail", "and"].includes(role)
  )

/** `ExcludingTreasuryShares`, `NetOfSharesHeldInTreasury`: shares outstanding never include those. */
const excludesTreasury = (link: Word, rest: ReadonlyArray<Word>) =>
  link.role === "without" && rest.some(({ role }) => role === "treasury") &&
  rest.every(({ role, text }) =>
    ["treasury", "share", "common", "empty", "of"].includes(role) || ["held", "in", "as"].includes(text)
  )

/** `IncludedAsPartOfTheUnits`: shares that trade alone and in units. */
const isPartOfUnits = (rest: ReadonlyArray<Word>) =>
  /(?:^| )part of (?:the )?unit$/.test(rest.map(({ text }) => text).join(" "))

/** Whether the words say nothing about the kind: `CommonStockOfTheCompany`, `OrdinarySharesOfEur0.01Each`. */
const isEmpty = (rest: ReadonlyArray<Word>) =>
  rest.every(({ role, text }) => ["empty", "share", "number", "of"].includes(role) || text === "each")

/** Changes the kind of the core by what the link adds to it. */
const applyLink = (kind: ClassKind, { link, rest }: Phrase): ClassKind => {
  if (link === undefined || kind === "unclear") return kind
  const has = makeTester(rest)
  switch (kind) {
    case "class":
    case "common":
    case "series":
    case "shares":
      return isEmpty(rest) || isRightsPlan(link, rest) || excludesTreasury(link, rest) || isPartOfUnits(rest)
        ? kind
        : "unclear"
    case "unknown":
      return isEmpty(rest) ? kind : "unclear"
    default:
      // Two securities in one name: `PreferredStockAndCommonStock`.
      return link.role === "and" && has("common", "letter") ? "unclear" : kind
  }
}

const totalRoles: ReadonlySet<Role> = new Set([
  "total",
  "share",
  "common",
  "class",
  "letter",
  "number",
  "empty",
  "voting",
  "detail",
  "of",
  "and",
])

/** `TotalShares`, `AllClassesOfCommonStock`, `us-gaap:ClassOfStockDomain`, `ifrs-full:ClassesOfShareCapitalMember` */
const isTotal = (words: ReadonlyArray<Word>) => {
  const [first, second] = words
  return words.every(({ role }) => totalRoles.has(role)) &&
    (first?.role === "total" || words.at(-1)?.role === "total" || (first?.role === "class" && second?.role === "of"))
}

const identityRoles: ReadonlySet<Role> = new Set(["name", "letter", "number", "series", "votes", "voting", "detail"])

/** Reads the local name of a member, such as `CommonClassA`. */
export const readClassName = (member: string): ClassName => {
  const words = readWords(member.replace(/(?:Member|Domain)$/, ""))
  const phrase = parsePhrase(words)
  const distinct = [...phrase.before, ...phrase.core, ...phrase.after]
    .filter(({ role }) => identityRoles.has(role) || role === "convertible" || role === "special")
  return {
    kind: isTotal(words) ? "total" : applyLink(classifyCore(phrase), phrase),
    identity: Array.from(new Set(distinct.map(({ text }) => text))).toSorted().join(" "),
  }
}
