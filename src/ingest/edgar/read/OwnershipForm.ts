/**
 * Forms 3, 4 and 5 and their amendments: what directors, officers and owners of more than ten percent hold
 * (docs/decisions/0100-ownership-from-filings.md). Addresses and signatures are never read.
 */
import { Record, Result } from "effect"
import { type OwnershipHolders, unknownHolding } from "./OwnershipHolders.ts"
import * as Xml from "./XmlValues.ts"
import { classifyDerivativeByTitle, classifySharesByTitle } from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement } from "./XmlDocument.ts"

/** A line of a form's table of derivative or non-derivative securities: a holding or a transaction. */
interface HoldingLine {
  readonly isHolding: boolean
  readonly title: string
  /** Title, nature of ownership, price and dates, as JSON. Lines of one position have the same terms and footnotes. */
  readonly terms: string
  readonly footnotes: ReadonlySet<string>
  readonly date: string | null
  /** Number of securities that are held after the transaction. */
  readonly held: bigint | null
  /** Number of shares for which the held derivatives can be exchanged; null if unknown. */
  readonly underlying: bigint | null
}

const findValue = (parent: XmlElement | undefined, name: string) =>
  findOnlyChildElement(findOnlyChildElement(parent, name), "value")

const readAmount = (parent: XmlElement | undefined, name: string) =>
  Xml.readDecimalElement(findValue(parent, name), name)

const readFootnotes = (element: XmlElement | undefined) =>
  element === undefined
    ? []
    : findChildElements(element, "footnoteId").flatMap(({ attributes: { id } }) => id === undefined ? [] : [id.value])

/** Returns the value of an element, or the ids of its footnotes if they state the value in words. */
const readTerm = (parent: XmlElement, name: string) => {
  const element = findOnlyChildElement(parent, name)
  return readElementText(findOnlyChildElement(element, "value"))?.toLowerCase() ?? readFootnotes(element).join()
}

/**
 * Returns the number of shares that the held derivatives give; null if unknown.
 * After a transaction, this is known only if each derivative gives one share, or if none is held.
 */
const computeUnderlying = (isHolding: boolean, held: bigint | null, traded: bigint | null, shares: bigint | null) => {
  if (isHolding) return shares
  return held === 0n || (traded !== null && traded === shares) ? held : null
}

const readLine = (line: XmlElement, isHolding: boolean): Result.Result<HoldingLine, string> =>
  Result.gen(function* () {
    const nature = findOnlyChildElement(line, "ownershipNature")
    const isDirect = readElementText(findValue(nature, "directOrIndirectOwnership")) === "D"
    const natureOfOwnership = findOnlyChildElement(nature, "natureOfOwnership")
    const held = yield* readAmount(
      findOnlyChildElement(line, "postTransactionAmounts"),
      "sharesOwnedFollowingTransaction",
    )
    const traded = yield* readAmount(findOnlyChildElement(line, "transactionAmounts"), "transactionShares")
    const shares = yield* readAmount(findOnlyChildElement(line, "underlyingSecurity"), "underlyingSecurityShares")
    const title = readElementText(findValue(line, "securityTitle")) ?? ""
    return {
      isHolding,
      title,
      terms: JSON.stringify([
        title.toLowerCase(),
        isDirect ? null : readElementText(findOnlyChildElement(natureOfOwnership, "value"))?.toLowerCase() ?? "",
        ...["conversionOrExercisePrice", "exerciseDate", "expirationDate"].map((name) => readTerm(line, name)),
      ]),
      footnotes: new Set(isDirect ? [] : readFootnotes(natureOfOwnership)),
      date: yield* Xml.readDateElement(findValue(line, "transactionDate"), "transactionDate"),
      held,
      underlying: computeUnderlying(isHolding, held, traded, shares),
    }
  })

/** Maximum number of lines in a table, far more than the 30 that the SEC accepts. */
const maxLines = 1000

/** Reads the lines of a table: `nonDerivative` or `derivative`. */
const readTable = (root: XmlElement, kind: string): Result.Result<ReadonlyArray<HoldingLine>, string> => {
  const table = findOnlyChildElement(root, `${kind}Table`)
  const lines = table?.children.filter(({ name }) => name === `${kind}Transaction` || name === `${kind}Holding`) ?? []
  if (lines.length > maxLines) return Result.fail(`has more than ${maxLines} lines in a table`)
  return Result.all(lines.map((line) => readLine(line, line.name === `${kind}Holding`)))
}

const isSameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>) => a.size === b.size && a.isSubsetOf(b)

/** Whether it is unclear if two lines report one position or two. */
const isUnclear = (line: HoldingLine, other: HoldingLine) => {
  if (line.terms !== other.terms) return false
  if (isSameSet(line.footnotes, other.footnotes)) return line.isHolding || other.isHolding
  return line.footnotes.isSubsetOf(other.footnotes) || other.footnotes.isSubsetOf(line.footnotes)
}

const isSamePosition = (line: HoldingLine, other: HoldingLine) =>
  line.terms === other.terms && isSameSet(line.footnotes, other.footnotes)

/** Returns the last line of each position, or null if it is unclear which lines report the same position. */
const findPositions = (lines: ReadonlyArray<HoldingLine>): ReadonlyArray<HoldingLine> | null =>
  lines.some((line, index) => lines.slice(index + 1).some((other) => isUnclear(line, other)))
    ? null
    : lines.filter((line, index) => !lines.slice(index + 1).some((other) => isSamePosition(line, other)))

/** Adds up the positions. Null if there are none, if they are unclear, or if the amount of one of them is unknown. */
const sumPositions = (
  lines: ReadonlyArray<HoldingLine>,
  getAmount: (line: HoldingLine) => bigint | null,
): Result.Result<string | null, string> => {
  const amounts = findPositions(lines)?.map(getAmount) ?? []
  return Xml.formatWholeShares(
    amounts.length === 0
      ? null
      : amounts.reduce((sum, amount) => sum === null || amount === null ? null : sum + amount),
  )
}

const getHeld = ({ held }: HoldingLine) => held
const getUnderlying = ({ underlying }: HoldingLine) => underlying

/** Whether securities whose title no rule recognizes are held. They may be shares, which a sum would then lack. */
const holdsUnrecognized = (shares: ReadonlyArray<HoldingLine>) => {
  const lines = shares.filter(({ title }) => classifySharesByTitle(title) === undefined)
  return findPositions(lines)?.some(({ held }) => held !== 0n) ?? true
}

const sumAmounts = (shares: ReadonlyArray<HoldingLine>, derivatives: ReadonlyArray<HoldingLine>) => {
  const isIncomplete = holdsUnrecognized(shares)
  const sumShares = (lines: ReadonlyArray<HoldingLine>, kind: "common" | "preferred") =>
    isIncomplete
      ? Result.succeed(null)
      : sumPositions(lines.filter(({ title }) => classifySharesByTitle(title) === kind), getHeld)
  const sumDerivatives = (kind: ReturnType<typeof classifyDerivativeByTitle>) =>
    sumPositions(derivatives.filter(({ title }) => classifyDerivativeByTitle(title) === kind), getUnderlying)
  return Result.all({
    common_shares_amount: sumShares(shares, "common"),
    preferred_shares_amount: sumShares([...shares, ...derivatives], "preferred"),
    options_amount: sumDerivatives("option"),
    warrants_amount: sumDerivatives("warrant"),
    shares_underlying_convertibles: sumDerivatives("convertible"),
  })
}

/** Whether the title refers to another part of the document, such as `See Remarks`. */
const isReference = (title: string) => /^\(?see\b/i.test(title)

/** Reads the columns of an owner. If a document has several owners, they own the same securities together. */
const readOwner = (element: XmlElement) =>
  Result.gen(function* () {
    const identity = findOnlyChildElement(element, "reportingOwnerId")
    const cik = yield* Xml.readCikElement(findOnlyChildElement(identity, "rptOwnerCik"))
    const name = yield* Xml.readNameElement(findOnlyChildElement(identity, "rptOwnerName"))
    if (cik === null || name === null) return yield* Result.fail("has an owner without a name or a CIK")
    const relationship = findOnlyChildElement(element, "reportingOwnerRelationship")
    const isChecked = (flag: string) => Xml.readCheckBoxElement(findOnlyChildElement(relationship, flag))
    const title = yield* Xml.readNameElement(findOnlyChildElement(relationship, "officerTitle"))
    return {
      owner_name: name,
      owner_cik: cik,
      // An owner may be both an officer and a director, but the column holds only one type: the closest relationship.
      owner_type: isChecked("isOfficer")
        ? "executive"
        : isChecked("isDirector")
        ? "director"
        : isChecked("isTenPercentOwner")
        ? "ten_percent_owner"
        : null,
      title: title !== null && isReference(title) ? null : title,
    }
  })

/** Reads a document whose root element is `ownershipDocument`. */
export const decodeOwnershipForm = (root: XmlElement): Result.Result<OwnershipHolders, string> =>
  Result.gen(function* () {
    const form = readElementText(findOnlyChildElement(root, "documentType"))
    const period = yield* Xml.readDateElement(findOnlyChildElement(root, "periodOfReport"))
    const owners = yield* Result.all(findChildElements(root, "reportingOwner").map(readOwner))
    const shares = yield* readTable(root, "nonDerivative")
    const derivatives = yield* readTable(root, "derivative")
    const lines = [...shares, ...derivatives]
    const dates = lines.flatMap(({ date }) => date === null ? [] : [date])
    const ownsNothing = lines.length === 0 && Xml.readCheckBoxElement(findOnlyChildElement(root, "noSecuritiesOwned"))
    const amounts = yield* sumAmounts(shares, derivatives)
    const isAnnual = form?.startsWith("5") === true
    return {
      form,
      issuerCik: yield* Xml.readCikElement(findOnlyChildElement(findOnlyChildElement(root, "issuer"), "issuerCik")),
      // The period of a Form 5 is the end of a fiscal year, and the form reports the holdings of that day.
      // The period of a Form 3 or 4 is the date of an event.
      reportedDate: isAnnual ? period : dates.toSorted().at(-1) ?? period,
      element: "reportingOwner",
      rows: owners.map((owner, index) => ({
        ...unknownHolding,
        ...owner,
        // All owners of a document hold the same shares. Only the first row has the amounts, so a sum counts them once.
        ...(index === 0 && (ownsNothing ? Record.map(amounts, () => "0") : amounts)),
        event_date: isAnnual ? null : period,
      })),
    }
  })
