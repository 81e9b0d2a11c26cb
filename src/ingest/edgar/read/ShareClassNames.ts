/**
 * Interprets the names that filers give to share classes on the cover page of a report, such as
 * `ClassACommonStockMember` (docs/decisions/0103-unknown-values-of-filings.md).
 *
 * A name is an English noun phrase without spaces. It consists of the following parts, in this order:
 *
 * 1. words that are irrelevant here, usually the company name: `OptionCareHealth` in `OptionCareHealthCommonStock`;
 * 2. the core, which is the last run of vocabulary words and describes the security: `CommonStock`;
 * 3. a link word and what it adds: `AndPreferredStockPurchaseRights`, or `ToPurchaseCommonStock` after `Warrants`.
 *
 * Within the core, word order does not matter, except that the last noun decides: `CommonStockPurchaseWarrants` are
 * warrants.
 */

/** The kind of security that a class name describes. */
export type ClassKind =
  /** Common or ordinary shares. */
  | "common"
  /** Shares identified only by a class, such as `ClassB` or `MultipleVotingShares`. */
  | "class"
  /** A series of shares. Series of preferred shares are as frequent as series of common shares. */
  | "series"
  /** Shares without a distinguishing description, such as `RegisteredShares`. */
  | "shares"
  /** Common or subordinated units of a partnership. */
  | "commonUnit"
  /** Units identified only by a letter, such as `ClassAUnits`. */
  | "classUnit"
  /** Other units, which may contain shares. */
  | "unit"
  /** Depositary receipts for units. */
  | "depositaryUnit"
  /** All classes together. */
  | "total"
  /**
   * A security other than a common share. Receipts are included, because they represent shares that are already
   * counted.
   */
  | "other"
  /** The name contains no vocabulary word that determines the kind. */
  | "unknown"
  /** Possibly common shares, or part of them. */
  | "unclear"

/** What the name of a share class says about it. */
export interface ClassName {
  readonly kind: ClassKind
  /**
   * Identifying words of the class. They are equal for names that may refer to the same class, such as `CommonClassA`
   * and `ClassACommonStock`.
   */
  readonly identity: string
  /**
   * The identifying words without those that may be only an addition to the name of the class. It is empty for
   * `AcmeCorpCommonStock` and `VotingCommonStock`, and `a` for `AcmeClassA` and `SeriesACommonStock`.
   */
  readonly shortIdentity: string
}

/** The role of a word in a class name. Words that are not in the vocabulary have the role `name`. */
type Role =
  /** Nouns for shares in general, which do not determine the kind of shares. */
  | "share"
  | "common"
  | "preferred"
  /** Nouns for securities that are not shares. */
  | "claim"
  | "receipt"
  | "unit"
  | "treasury"
  /** Words for shares that do not participate in the company's value, or that are preferred. */
  | "valueless"
  /** Words for shares that are part of a class, or that are exchangeable for shares of another class. */
  | "part"
  | "special"
  | "voting"
  | "class"
  | "series"
  | "letter"
  /** Words for a class of shares with more or fewer votes. */
  | "votes"
  | "convertible"
  | "subordinated"
  | "total"
  /** Words that may distinguish two classes but do not change their kind. */
  | "detail"
  | "number"
  /** Words without any meaning for the kind or the class. */
  | "empty"
  /** Link words that add another security to the core. */
  | "and"
  /** Link words that exclude something from the core. */
  | "without"
  | "of"
  /** Other words after which the name adds or restricts something. */
  | "link"
  | "name"

/** The words for each role. Plurals in `s` are also recognized. */
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
  ["part", "vested unvested nonvested exchangeable registry pipe"],
  ["part", "affiliate affiliated nonaffiliate nonaffiliated unaffiliated"],
  ["special", "special"],
  ["voting", "voting"],
  ["class", "class classes cl"],
  ["number", "one two three four five"],
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

/**
 * Words that may precede the word for receipts, as in `AMERICANDEPOSITARYSHARES`. Names of receipts are often in
 * capital letters, and such text can only be split if all its words are known.
 */
const namesBeforeReceipts = new Set(["american", "global"])

const singular = (word: string) => roles.has(word) || !word.endsWith("s") ? word : word.slice(0, -1)

interface Word {
  /** In lowercase and, for vocabulary words, in the singular. */
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

/**
 * Splits text such as `commonstock` into vocabulary words. Returns undefined if it contains anything else. Words of
 * fewer than four letters are ignored, because they may occur by chance. Prefers long words, and tries shorter ones if
 * the rest cannot be split.
 */
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

/**
 * Splits a name at capital letters and digits into words with their roles. `ClassAADSs` becomes `Class`, `A`, and
 * `ADSs`. The role of a word without a meaning for the kind of security is `name`.
 */
const splitName = (name: string): ReadonlyArray<Word> => {
  // In this order: an acronym in the plural (`ADSs`), other capital letters, a capitalized word, and a number.
  const parts = name.match(/[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []
  const words: Array<Word> = []
  for (const part of parts) {
    const last = words.at(-1)?.role
    /** Whether the part may be the letter or number of a class or series. */
    const mayBeLetter = last === "class" || last === "series"
    // The part without its first letter, as in `AADSs` after `Class`.
    const acronym = makeWord(part.slice(1))
    const word = makeWord(part)
    // A single letter, or after `Class` or `Series` two letters or a Roman numeral, as in `SeriesAA` and `SeriesIV`.
    if (/^[A-Z]$/.test(part) || (mayBeLetter && word.role === "name" && /^(?:[A-Z]{2}|[IVX]+)$/.test(part))) {
      words.push(makeWord(part, "letter"))
    } else if (word.role !== "name") {
      words.push(word)
    } else if (mayBeLetter && acronym.role !== "name" && /^[A-Z]{2}/.test(part)) {
      words.push(makeWord(part.charAt(0), "letter"), acronym)
    } else {
      // A name written without capital letters, such as `commonstock`, may consist of several known words.
      words.push(...(splitUnspaced(part.toLowerCase()) ?? [part]).map((found) => makeWord(found)))
    }
  }
  return words
}

/**
 * Returns whether the word belongs to `BeneficialInterest`, which describes shares. Other interests are those of
 * partners.
 */
const isBeneficialInterest = (words: ReadonlyArray<Word>, index: number) =>
  words[index]?.text === "interest" && words[index - 1]?.text === "beneficial"

/**
 * Returns whether the word is part of a class name such as `RestrictedVoting`, `LimitedVoting`, or
 * `ExchangeableSubordinateVoting`.
 */
const isNameOfVotes = (words: ReadonlyArray<Word>, index: number) => {
  const [text, next] = [words[index]?.text, words[index + 1]]
  return text === "exchangeable"
    ? next?.role === "votes" || next?.text === "limited"
    : (text === "restricted" || text === "limited") && next?.role === "voting"
}

/** Splits a name into words, and corrects the roles of words that mean something else in this context. */
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

/** Roles of words that describe the security. */
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

/** The parts of a name. See the beginning of the file. */
interface Phrase {
  /** Words before the core. */
  readonly before: ReadonlyArray<Word>
  readonly core: ReadonlyArray<Word>
  /** Words between the core and the link. */
  readonly after: ReadonlyArray<Word>
  readonly link: Word | undefined
  /** Words after the link. */
  readonly rest: ReadonlyArray<Word>
}

/**
 * Returns the index of the first word that links the core to something else, or -1 if there is none. `Of` and `And` do
 * not count in a company name. In `SharesOfCommonStock`, `Of` does not count either, because the noun before it belongs
 * to what follows.
 */
const findLink = (words: ReadonlyArray<Word>) =>
  words.findIndex(({ role, text }, index) => {
    const before = words.slice(0, index)
    const isInName = (role === "of" || text === "and") &&
      before.every((word) => word.role === "name" || word.role === role)
    const joins = role === "of" && before.every((word) => word.role === "share" || word.role === "empty")
    return linkRoles.has(role) && !isInName && !joins
  })

/** Finds the core: the vocabulary words around the last word that describes the security, without unknown words. */
const parsePhrase = (words: ReadonlyArray<Word>): Phrase => {
  const linkIndex = findLink(words)
  /** The words before the link. */
  const head = (linkIndex < 0 ? words : words.slice(0, linkIndex)).filter(({ role }) => !linkRoles.has(role))
  const [link, ...rest] = linkIndex < 0 ? [] : words.slice(linkIndex)
  const lastKind = head.findLastIndex(({ role }) => kindRoles.has(role))
  // The core contains this word. Without a word that describes the security, it is the last word.
  const anchor = lastKind < 0 ? head.length - 1 : lastKind
  const start = head.findLastIndex(({ role }, index) => index <= anchor && role === "name") + 1
  const next = head.findIndex(({ role }, index) => index > anchor && role === "name")
  const end = next < 0 ? head.length : next
  return { before: head.slice(0, start), core: head.slice(start, end), after: head.slice(end), link, rest }
}

/** Returns a function that returns whether any of the words has one of the given roles. */
const makeTester = (words: ReadonlyArray<Word>) => {
  const found = new Set(words.map(({ role }) => role))
  return (...searched: ReadonlyArray<Role>) => searched.some((role) => found.has(role))
}

/**
 * Returns whether the words describe a security other than common shares. Claims (such as warrants) and treasury shares
 * are not covered, because `classifyCore` handles them.
 */
const isOtherSecurity = (core: ReadonlyArray<Word>) => {
  const has = makeTester(core)
  const isLoyalty = has("special") && has("voting") && !core.some(({ text }) => text === "non")
  const isCompensation = has("unit") && has("part")
  const isConvertibleSeries = has("series") && has("convertible") && !has("common")
  return has("preferred", "receipt", "valueless") || isLoyalty || isCompensation || isConvertibleSeries
}

/** Determines the kind of units from the words of the core. */
const classifyUnits = ({ before, core, after }: Phrase): ClassKind => {
  const has = makeTester(core)
  if (before.length > 0 || after.length > 0 || has("share")) return "unit"
  if (has("common", "subordinated")) return "commonUnit"
  return has("letter") && !core.some(({ role }) => role === "detail") ? "classUnit" : "unit"
}

/** Determines the kind of shares that the core describes, given that it does not describe another security. */
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

/**
 * Determines the kind of security that a name describes, ignoring the link and what follows it (`applyLink` takes them
 * into account). The checks go from the most specific to the least specific kind, and each relies on those before it:
 *
 * 1. Words after the core make the kind uncertain, unless a plural noun ends the core: `OptionCareHealth` is a company
 *    name, but `WarrantsTranche2` are warrants.
 * 2. A name that describes common shares and another security may mean either: `unclear`.
 * 3. Claims (the last noun of the core is `Warrants`, `Notes`, …), treasury shares, and other securities (`other`).
 * 4. Units and shares, which have kinds of their own.
 */
const classifyCore = (phrase: Phrase): ClassKind => {
  const { after, before, core } = phrase
  const has = makeTester(core)
  const noun = core.findLast(({ role }) => nounRoles.has(role))
  const isClaim = noun?.role === "claim"
  if (after.length > 0 && noun?.isPlural !== true) return has("common", "part") ? "unclear" : "unknown"
  const isOther = isClaim || has("treasury") || isOtherSecurity(core)
  if (isOther && makeTester(before)("common")) return "unclear"
  // `CommonStockPurchaseWarrants` only names the shares that the warrants are for.
  if (isClaim) return has("common") && (has("preferred") || after.length > 0) ? "unclear" : "other"
  if (has("treasury")) return "other"
  // A word for a claim that is not the last noun, as in `WarrantShares`: these may be shares.
  if (has("claim")) return "unclear"
  if (isOther) {
    if (has("common")) return "unclear"
    return has("receipt") && noun?.text === "unit" && !has("preferred") ? "depositaryUnit" : "other"
  }
  return has("unit") ? classifyUnits(phrase) : classifyShares(phrase)
}

/** Words that precede `rights` if these are attached to shares. */
const attached = /^(?:purchase|preferred|associated|attached|related|accompanying)$/

/**
 * Returns whether the words describe rights under a shareholder rights plan, as in `AndPreferredStockPurchaseRights`.
 * Each share includes such rights until they are exercised.
 */
const isRightsPlan = (link: Word, rest: ReadonlyArray<Word>) =>
  link.role === "and" && rest.at(-1)?.text === "right" && rest.some(({ text }) => attached.test(text)) &&
  rest.every(({ role, text }) =>
    text === "right" ||
    ["preferred", "common", "share", "empty", "series", "class", "letter", "name", "detail", "and"].includes(role)
  )

/**
 * Returns whether the words exclude treasury shares, as in `ExcludingTreasuryShares` and `NetOfSharesHeldInTreasury`.
 * Shares outstanding never include treasury shares.
 */
const excludesTreasury = (link: Word, rest: ReadonlyArray<Word>) =>
  link.role === "without" && rest.some(({ role }) => role === "treasury") &&
  rest.every(({ role, text }) =>
    ["treasury", "share", "common", "empty", "of"].includes(role) || ["held", "in", "as"].includes(text)
  )

/**
 * Returns whether the words describe shares that trade both separately and as part of units, as in
 * `IncludedAsPartOfTheUnits`.
 */
const isPartOfUnits = (rest: ReadonlyArray<Word>) =>
  /(?:^| )part of (?:the )?unit$/.test(rest.map(({ text }) => text).join(" "))

/**
 * Returns whether the words say nothing about the kind, as in `CommonStockOfTheCompany` and
 * `OrdinarySharesOfEur0.01Each`.
 */
const isEmpty = (rest: ReadonlyArray<Word>) =>
  rest.every(({ role, text }) => ["empty", "share", "number", "of"].includes(role) || text === "each")

/**
 * Adjusts the kind of the core of a security's name to reflect what follows (`rest`) a link word such as `Of` or
 * `Excluding`. For shares, that must be something that does not make them another security or a part of the class;
 * otherwise, the kind is unclear.
 */
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
      // A name can contain two securities, such as `PreferredStockAndCommonStock`.
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

/**
 * Returns whether the name stands for all classes together, such as `TotalShares`, `AllClassesOfCommonStock`,
 * `us-gaap:ClassOfStockDomain`, or `ifrs-full:ClassesOfShareCapitalMember`.
 */
const isTotal = (words: ReadonlyArray<Word>) => {
  const [first, second] = words
  return words.every(({ role }) => totalRoles.has(role)) &&
    (first?.role === "total" || words.at(-1)?.role === "total" || (first?.role === "class" && second?.role === "of"))
}

const identityRoles: ReadonlySet<Role> = new Set(["name", "letter", "number", "series", "votes", "voting", "detail"])

/** Roles of words that may be left out of the name of a class, as the company's name may be. */
const additions: ReadonlySet<Role> = new Set(["name", "series", "voting"])

/** Interprets the local name of an XBRL member, such as `CommonClassA`. */
export const readClassName = (member: string): ClassName => {
  const words = readWords(member.replace(/(?:Member|Domain)$/, ""))
  const phrase = parsePhrase(words)
  const distinct = [...phrase.before, ...phrase.core, ...phrase.after]
    .filter(({ role }) => identityRoles.has(role) || role === "convertible" || role === "special")
  const join = (words: ReadonlyArray<Word>) => Array.from(new Set(words.map(({ text }) => text))).toSorted().join(" ")
  return {
    kind: isTotal(words) ? "total" : applyLink(classifyCore(phrase), phrase),
    identity: join(distinct),
    shortIdentity: join(distinct.filter(({ role }) => !additions.has(role))),
  }
}
