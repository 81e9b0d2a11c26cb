/**
 * Chooses which share classes on a cover are common shares, so that their counts are added up
 * (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { type ClassKind, readClassName } from "./ShareClassNames.ts"

export interface ChosenMembers {
  /** The members whose counts are added up. */
  readonly added: ReadonlyArray<string>
  /** A member that states the sum of these counts. */
  readonly totals: ReadonlyArray<string>
  /** Members of securities that are not common shares. */
  readonly others: ReadonlyArray<string>
}

interface Member {
  readonly name: string
  readonly kind: ClassKind
  readonly identity: string
}

/** Kinds of names about which the title of the security may say more. */
const describedByTitle: ReadonlySet<ClassKind> = new Set(["class", "series", "shares", "unknown"])

/** Ordinary shares are often listed under the title of the receipts for them. */
const receiptPattern = /\bdeposit[ao]ry\b|\b[ag]d[rs]s?\b/i

/** Returns the kind of a member by its name or, if that says too little, by the titles under which it is listed. */
const readMember = (name: string, titles: ReadonlyArray<string>): Member => {
  const { identity, kind } = readClassName(name.replace(/^.*:/, ""))
  if (!describedByTitle.has(kind)) return { name, kind, identity }
  const ofTitles = new Set(titles.flatMap((title) => classifySharesByTitle(title) ?? []))
  if (ofTitles.size > 1 || titles.some((title) => receiptPattern.test(title))) {
    return { name, kind: "unclear", identity }
  }
  if (ofTitles.has("other") || ofTitles.has("preferred")) return { name, kind: "other", identity }
  return { name, kind: ofTitles.has("common") && kind !== "class" ? "common" : kind, identity }
}

const getNames = (members: ReadonlyArray<Member>) => members.map(({ name }) => name)

/** Returns what a company without shares has instead, or why its units may not be added up. */
const chooseUnits = (units: ReadonlyArray<Member>, receipts: ReadonlyArray<Member>): ReadonlyArray<string> | string => {
  const [first] = units
  // Beside units, receipts for them count nothing new. Without units, they are the only equity of a partnership.
  if (first === undefined) return receipts.length === 1 ? getNames(receipts) : []
  const other = units.find(({ kind }) => kind === "unit" || kind !== first.kind)
  return other === undefined || units.length === 1
    ? getNames(units)
    : `is stated for ${other.name}, which may not be common units`
}

/**
 * Returns a member that may be a part of the other members, or a different security. If a cover states only shares
 * without a description, or only series, they are all shares of the company, so nothing is unclear.
 */
const findUnclear = (shares: ReadonlyArray<Member>, bare: ReadonlyArray<Member>) => {
  const isClear = shares.length === 0 && (bare.length === 1 || bare.every(({ kind }) => kind === "series"))
  return isClear ? undefined : bare[0]
}

/** Returns two members whose names may refer to the same class. */
const findRepeated = (members: ReadonlyArray<Member>) =>
  Array.from(Map.groupBy(members, ({ identity }) => identity).values()).find(({ length }) => length > 1)

/**
 * Chooses the members of common shares. Receipts are claims on shares that are counted already, and units contain them;
 * the units of a company without shares are its shares. Returns the reason, as a clause, if a name does not say enough.
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
