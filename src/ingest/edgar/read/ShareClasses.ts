/**
 * Determines which share classes on a cover page are common shares, so that their counts can be added up
 * (docs/decisions/0103-unknown-values-of-filings.md). XBRL represents each class as a member of a dimension.
 */
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { type ClassKind, type ClassName, readClassName } from "./ShareClassNames.ts"

/** The XBRL members on a cover page, sorted by how their counts are used. */
export interface ChosenMembers {
  /** Members whose counts are added up. */
  readonly added: ReadonlyArray<string>
  /** The member of `added` whose name says only that it is common stock, such as `us-gaap:CommonStockMember`. */
  readonly plain: string | undefined
  /** Members for all classes together. Their counts must be equal to the sum. */
  readonly totals: ReadonlyArray<string>
  /** Members for securities other than common shares. */
  readonly others: ReadonlyArray<string>
}

/** A member together with what its name and titles say about the class. */
interface Member extends ClassName {
  /** Qualified name, such as `us-gaap:CommonClassAMember`. */
  readonly name: string
  /** Whether the cover page lists the class as a registered security. */
  readonly hasTitle: boolean
}

/**
 * Kinds that do not say whether the shares are common. The title of the security (`Security12bTitle` on the cover page)
 * may say it.
 */
const describedByTitle: ReadonlySet<ClassKind> = new Set(["class", "series", "shares", "unknown"])

/** Matches titles of depositary receipts. Ordinary shares are often listed under such a title. */
const receiptPattern = /\bdeposit[ao]ry\b|\b[ag]d[rs]s?\b/i

/**
 * Determines the kind of a member from its name and, if the name does not say whether the shares are common, from the
 * titles that the cover page states for the member.
 */
const readMember = (name: string, titles: ReadonlyArray<string>): Member => {
  const read = readClassName(name.replace(/^.*:/, ""))
  const { kind } = read
  const make = (kind: ClassKind): Member => ({ ...read, name, kind, hasTitle: titles.length > 0 })
  if (!describedByTitle.has(kind)) return make(kind)
  const ofTitles = new Set(titles.flatMap((title) => classifySharesByTitle(title) ?? []))
  if (ofTitles.size > 1 || titles.some((title) => receiptPattern.test(title))) {
    return make("unclear")
  }
  if (ofTitles.has("other") || ofTitles.has("preferred")) return make("other")
  return make(ofTitles.has("common") && kind !== "class" ? "common" : kind)
}

const getNames = (members: ReadonlyArray<Member>) => members.map(({ name }) => name)

/**
 * For a company without shares, such as a partnership, returns the members whose units represent its equity. Returns a
 * string with the reason if the units may not be added up.
 */
const chooseUnits = (units: ReadonlyArray<Member>, receipts: ReadonlyArray<Member>): ReadonlyArray<string> | string => {
  const [first] = units
  // If there are units, adding the receipts for them would count the units twice. Without units, the receipts are the
  // partnership's only equity.
  if (first === undefined) return receipts.length === 1 ? getNames(receipts) : []
  const other = units.find(({ kind }) => kind === "unit" || kind !== first.kind)
  return other === undefined || units.length === 1
    ? getNames(units)
    : `is stated for ${other.name}, which may not be common units`
}

/**
 * Returns a member of `undescribed` (shares without a class or kind) that may be part of the other members or be a
 * different security. Returns undefined if the only shares on the cover page are a single such member or several
 * series, because these are then all of the company's shares.
 */
const findUnclear = (shares: ReadonlyArray<Member>, undescribed: ReadonlyArray<Member>) => {
  const areOnlyShares = shares.length === 0 &&
    (undescribed.length === 1 || undescribed.every(({ kind }) => kind === "series"))
  return areOnlyShares ? undefined : undescribed[0]
}

/**
 * Returns members whose names may refer to the same class, or undefined if there are none. `CommonClassA` may be the
 * same as `AcmeClassA`, but `AcmeClassA` and `OtherClassA` are the classes of two tracking stocks.
 */
const findRepeated = (members: ReadonlyArray<Member>) => {
  const short = new Set(members.flatMap(({ identity, shortIdentity }) => identity === shortIdentity ? [identity] : []))
  const groups = Map.groupBy(
    members,
    ({ identity, shortIdentity }) => short.has(shortIdentity) ? shortIdentity : identity,
  )
  return Array.from(groups.values()).find(({ length }) => length > 1)
}

/** Returns whether the member's name says only that it is common stock, without a class. */
const isPlain = ({ identity, kind }: Member) => kind === "common" && identity === ""

/**
 * Splits the members for common shares into classes and totals. Plain common stock beside class A and another class
 * with a letter stands for all classes together, unless the cover page has titles for it and for one of them, as for
 * two securities. Otherwise, it is a class itself, as in `CommonStock` and `ClassB`.
 */
const separateTotals = (members: ReadonlyArray<Member>) => {
  const letters = new Set(members.map(({ shortIdentity }) => shortIdentity).filter((text) => /^[a-z]$/.test(text)))
  const titled = members.filter(({ hasTitle }) => hasTitle)
  const areSecurities = titled.some(isPlain) && !titled.every(isPlain)
  const isTotal = (member: Member) => isPlain(member) && letters.has("a") && letters.size > 1 && !areSecurities
  return { classes: members.filter((member) => !isTotal(member)), totals: members.filter(isTotal) }
}

/**
 * Selects the members whose counts add up to the number of common shares:
 *
 * - If the cover page has any shares, these are its classes of shares. Depositary receipts are not added, because they
 *   represent shares that are already counted, and units are not added, because they contain such shares.
 * - Otherwise, these are the company's units, as for a partnership.
 * - If only a total is stated, it is used alone.
 *
 * Returns the members to add (`added`), those that state the total of all classes, and those for other securities.
 * Returns a string if the names and titles do not make clear which members to add. It is the reason as a clause, such
 * as "is stated for a:FooMember, which may not be common shares". `findTitles` returns the titles that the cover page
 * states for a member.
 */
export const chooseMembers = (
  members: ReadonlyArray<string>,
  findTitles: (member: string) => ReadonlyArray<string>,
): ChosenMembers | string => {
  const read = members.map((member) => readMember(member, findTitles(member)))
  const select = (...kinds: ReadonlyArray<ClassKind>) => read.filter(({ kind }) => kinds.includes(kind))
  // The names of `undescribed` members say neither that the shares are common nor which class they are.
  const [common, shares, undescribed] = [select("common"), select("common", "class"), select("series", "shares")]
  const units = select("commonUnit", "classUnit", "unit")
  const receipts = select("depositaryUnit")
  const { classes: added, totals: plainTotals } = separateTotals([...shares, ...undescribed])
  const [totals, others] = [getNames([...select("total"), ...plainTotals]), getNames(select("other"))]
  const [unclear = findUnclear(shares, undescribed)] = select("unclear", "unknown")
  if (unclear !== undefined) return `is stated for ${unclear.name}, which may not be common shares`
  const repeated = findRepeated([...shares, ...undescribed])
  if (repeated !== undefined) return `is stated for ${getNames(repeated).join(" and ")}, which may be one class`
  const [unit] = units
  if (added.length > 0) {
    // If no member is clearly common shares, a unit may contain other shares than those that are counted.
    return unit !== undefined && common.length === 0 ? `is stated for ${unit.name}, which may contain other shares` : {
      added: getNames(added),
      plain: added.find(isPlain)?.name,
      totals,
      others: [...others, ...getNames([...units, ...receipts])],
    }
  }
  const chosen = chooseUnits(units, receipts)
  if (typeof chosen === "string") return chosen
  const otherReceipts = getNames(receipts).filter((name) => !chosen.includes(name))
  if (chosen.length > 0) return { added: chosen, plain: undefined, totals, others: [...others, ...otherReceipts] }
  return totals.length === 1 && others.length === 0 && receipts.length === 0
    ? { added: totals, plain: undefined, totals: [], others }
    : "is stated only for other securities than common shares"
}
