/**
 * Chooses the members of share classes whose counts are those of common shares
 * (docs/decisions/0103-unknown-values-of-filings.md).
 */

/**
 * What a name says of its member. `class` is one without a kind, such as `ClassB`. The number of `unclear` members may
 * be one of common shares, or not.
 */
type MemberKind = "common" | "class" | "unit" | "total" | "receipt" | "other" | "unclear"

/** The words that name a kind. Short ones need capital letters: `Ads` in `ClassAAds`, but not in `Beads`. */
const kindPatterns: ReadonlyArray<readonly [MemberKind, RegExp]> = [
  ["receipt", /deposit[ao]ry|receipt/i],
  ["receipt", /(?:(?<![A-Z])|(?<=Class[A-Z]))(?:AD[SR]|GD[SR]|Ad[sr]|Gd[sr])s?(?![a-z])/],
  ["other", /prefer(?:red|ence)|warrant|treasury/i],
  ["other", /(?:Right|Note|Debenture|Bond|Option)s?(?![a-z])/],
  ["unit", /Units?(?![a-z])/],
  ["common", /common|ordinary/i],
]

/** `TotalMember`, `us-gaap:ClassOfStockDomain`, `ifrs-full:ClassesOfShareCapitalMember` */
const totalPattern = /^(?:Total|All|Aggregate|Combined)(?![a-z])|Total$|^ClassOfStock$|^ClassesOf\w*Share(?:s|Capital)$/

/** `CommonStockPurchaseWarrants` */
const claimPattern = /^(?:Class[A-Z])?(?:Common|Ordinary)(?:Stock|Shares?)?(?:Purchase)?(?:Warrant|Right)s?$/

/** Common shares with rights, in units or of a partnership: `OrdinarySharesIncludedAsPartOfTheUnits`, `CommonUnits` */
const commonWithOtherPattern = /(?:And|With)(?!.*Warrant).*Rights$|PartOf\w*Units?$|Common(?:Limited\w*)?Units?$/

/** Returns the kind that the name has first: `WarrantsToPurchaseCommonStock` are warrants. */
const classifyName = (name: string): MemberKind => {
  if (totalPattern.test(name)) return "total"
  if (claimPattern.test(name)) return "other"
  const [first, ...others] = kindPatterns.map(([kind, pattern]) => ({ kind, at: name.search(pattern) }))
    .filter(({ at }) => at >= 0).toSorted((one, other) => one.at - other.at)
  if (first === undefined) return "class"
  const isAlone = others.every(({ kind }) => kind === first.kind)
  return first.kind !== "common" || isAlone || commonWithOtherPattern.test(name) ? first.kind : "unclear"
}

/** Writes a title as a name: `Class A common stock` is `ClassACommonStock`. */
const makeNameOfTitle = (title: string) =>
  title.split(/[^A-Za-z0-9]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")

/** Returns the kind of a member by its name or, if that has none, by the titles under which it is listed. */
const classifyMember = (member: string, titles: ReadonlyArray<string>): MemberKind => {
  const name = member.replace(/^.*:/, "").replace(/(?:Member|Domain)$/, "")
  const kind = classifyName(name)
  if (kind !== "class") return kind
  const ofTitles = new Set(titles.map((title) => classifyName(makeNameOfTitle(title))))
  if (ofTitles.has("receipt") || ofTitles.size > 1) return "unclear"
  if (ofTitles.has("other")) return "other"
  // A series is one of preferred shares as often as one of common shares.
  return /Series(?![a-z])/.test(name) && !ofTitles.has("common") ? "unclear" : "class"
}

export interface ChosenMembers {
  /** The members whose counts are added up. */
  readonly added: ReadonlyArray<string>
  /** A member that states the sum of these counts. */
  readonly totals: ReadonlyArray<string>
  /** Members of securities that are no common shares. */
  readonly others: ReadonlyArray<string>
}

/**
 * Chooses the members of common shares. Receipts are claims on shares that are counted already, and units contain them;
 * the units of a company without shares are its shares. Returns the reason, as a clause, if a name does not say enough.
 */
export const chooseMembers = (
  members: ReadonlyArray<string>,
  findTitles: (member: string) => ReadonlyArray<string>,
): ChosenMembers | string => {
  const kinds = new Map(members.map((member) => [member, classifyMember(member, findTitles(member))]))
  const select = (...chosen: ReadonlyArray<MemberKind>) =>
    members.filter((member) => chosen.some((kind) => kind === kinds.get(member)))
  const [unclear] = select("unclear")
  if (unclear !== undefined) return `is stated for ${unclear}, which may not be common shares`
  const [units, common, classes] = [select("unit"), select("common"), select("class")]
  const [shares, totals, others] = [select("common", "class"), select("total"), select("receipt", "other")]
  if (common.some((member) => /Units?(?:Member|Domain)?$/.test(member)) || shares.length === 0) {
    const added = [...shares, ...units]
    if (added.length > 0) return { added, totals, others }
    if (totals.length === 1 && others.length === 0) return { added: totals, totals: [], others }
    return "is stated only for other securities than common shares"
  }
  const [unit] = units
  return unit !== undefined && classes.length > 0 && common.length === 0
    ? `is stated for ${unit}, which may contain other shares`
    : { added: shares, totals, others: [...others, ...units] }
}
