/**
 * Determines which share classes on a cover page are common shares, so that their counts can be added up
 * (docs/decisions/0103-unknown-values-of-filings.md). XBRL represents each class as a member of a dimension.
 */
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { type ClassKind, type ClassName, readClassName } from "./ShareClassNames.ts"

export interface ChosenMembers {
  /** Members whose counts are added up. */
  readonly added: ReadonlyArray<string>
  /** Members that state the sum of these counts. */
  readonly totals: ReadonlyArray<string>
  /** Members for securities other than common shares. */
  readonly others: ReadonlyArray<string>
}

interface Member extends ClassName {
  readonly name: string
}

/** Kinds that leave room for more information from the security's title. */
const describedByTitle: ReadonlySet<ClassKind> = new Set(["class", "series", "shares", "unknown"])

/** Matches titles of depositary receipts. Ordinary shares are often listed under such a title. */
const receiptPattern = /\bdeposit[ao]ry\b|\b[ag]d[rs]s?\b/i

/**
 * Determines the kind of a member from its name. If the name is not specific enough, also uses the titles that list the
 * member.
 */
const readMember = (name: string, titles: ReadonlyArray<string>): Member => {
  const read = readClassName(name.replace(/^.*:/, ""))
  const { kind } = read
  const make = (kind: ClassKind): Member => ({ ...read, name, kind })
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
 * Returns the units or receipts that represent the equity of a company without shares, or the reason why its units may
 * not be added up.
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
 * Returns a member that may be part of the other members or a different security. Returns undefined if the only shares
 * on the cover page are a single member without a description or several series, because these are then all of the
 * company's shares.
 */
const findUnclear = (shares: ReadonlyArray<Member>, bare: ReadonlyArray<Member>) => {
  const isClear = shares.length === 0 && (bare.length === 1 || bare.every(({ kind }) => kind === "series"))
  return isClear ? undefined : bare[0]
}

/** Returns members whose names may refer to the same class, or undefined if there are none. */
const findRepeated = (members: ReadonlyArray<Member>) => {
  const isBare = members.some(({ identity, kind }) => kind === "common" && identity === "")
  const groups = Map.groupBy(members, ({ identity, mayBeOnlyClass }) => isBare && mayBeOnlyClass ? "" : identity)
  return Array.from(groups.values()).find(({ length }) => length > 1)
}

/**
 * Selects the members that represent common shares. Receipts and units are not counted, because receipts represent
 * shares that are already counted, and units contain such shares. If a company has no shares, its units count instead.
 * If the names are not clear enough, returns the reason as a clause.
 */
export const chooseMembers = (
  members: ReadonlyArray<string>,
  findTitles: (member: string) => ReadonlyArray<string>,
): ChosenMembers | string => {
  const read = members.map((member) => readMember(member, findTitles(member)))
  const select = (...kinds: ReadonlyArray<ClassKind>) => read.filter(({ kind }) => kinds.includes(kind))
  const [common, shares, bare] = [select("common"), select("common", "class"), select("series", "shares")]
  const units = select("commonUnit", "classUnit", "unit")
  const receipts = select("depositaryUnit")
  const [totals, others] = [getNames(select("total")), getNames(select("other"))]
  const [unclear = findUnclear(shares, bare)] = select("unclear", "unknown")
  if (unclear !== undefined) return `is stated for ${unclear.name}, which may not be common shares`
  const added = [...shares, ...bare]
  const repeated = findRepeated(added)
  if (repeated !== undefined) return `is stated for ${getNames(repeated).join(" and ")}, which may be one class`
  const [unit] = units
  if (added.length > 0) {
    return unit !== undefined && common.length === 0
      ? `is stated for ${unit.name}, which may contain other shares`
      : { added: getNames(added), totals, others: [...others, ...getNames([...units, ...receipts])] }
  }
  const chosen = chooseUnits(units, receipts)
  if (typeof chosen === "string") return chosen
  const left = getNames(receipts).filter((name) => !chosen.includes(name))
  if (chosen.length > 0) return { added: chosen, totals, others: [...others, ...left] }
  return totals.length === 1 && others.length === 0 && receipts.length === 0
    ? { added: totals, totals: [], others }
    : "is stated only for other securities than common shares"
}
