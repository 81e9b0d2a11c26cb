/**
 * Decodes Forms 3, 4, and 5 and their amendments, which report what directors, officers, and owners of more than ten
 * percent hold (docs/decisions/0100-ownership-from-filings.md). Addresses and signatures are never read.
 */
import { Record, Result } from "effect"
import { describeStated } from "./Doubt.ts"
import { contradictsEarlierDays, findLastLines, findPositions, type HoldingLine } from "./HolderPositions.ts"
import { readNatureOfOwnership } from "./NatureOfOwnership.ts"
import {
  findHolderDoubts,
  getReadingValues,
  type HolderProblem,
  makeReading,
  makeUnknownReading,
  type OwnershipHolders,
  type Reading,
  readRequiredElement,
  readStatedDate,
  readStatedElement,
  unknownHolding,
} from "./OwnershipHolders.ts"
import { doubtSharesUnlessZero } from "./ReportingPersons.ts"
import { findYearDoubt } from "./DatePlausibility.ts"
import * as Xml from "./XmlValues.ts"
import {
  classifyDerivativeByTitle,
  classifySharesByTitle,
  makeIssuerNameRemover,
  makeSecurityIdentifier,
} from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement } from "./XmlDocument.ts"

/**
 * A line of a form, together with the transaction date that it states. The date can be implausible, and
 * `HoldingLine.date` is then null.
 */
interface DatedLine extends HoldingLine {
  readonly stated: Reading<string>
}

/** Values that are the same for all lines of a form and are needed to read each of them. */
interface FormContext {
  readonly filingDate: string
  /**
   * The day of the first transaction or other event that the form reports, or null if the form does not state it. No
   * plausible transaction date is much earlier.
   */
  readonly firstDay: string | null
  /** Removes the issuer's name from a title. */
  readonly removeIssuerName: (title: string) => string
  /** Determines which security a title denotes. */
  readonly identify: ReturnType<typeof makeSecurityIdentifier>
}

/**
 * Finds the element that contains a value. In these forms, it is nested in the named element:
 * `<name><value>…</value></name>`.
 */
const findValue = (parent: XmlElement | undefined, name: string) =>
  findOnlyChildElement(findOnlyChildElement(parent, name), "value")

/** Reads a number of securities, in units of 10⁻⁸ (numbers may have fractions). */
const readAmount = (parent: XmlElement | undefined, name: string) =>
  readStatedElement(findValue(parent, name), (element) => Xml.readDecimalElement(element, name))

const readFootnotes = (element: XmlElement | undefined) =>
  element === undefined
    ? []
    : findChildElements(element, "footnoteId").flatMap(({ attributes: { id } }) => id === undefined ? [] : [id.value])

/**
 * Returns a term of a security, such as its exercise price, in a form that can be compared: equal numbers or dates
 * yield equal texts, such as `8.88` and `8.880`. If footnotes state the term in words, returns their ids.
 */
const readTerm = (parent: XmlElement, name: string) => {
  const element = findOnlyChildElement(parent, name)
  const value = findOnlyChildElement(element, "value")
  const text = readElementText(value)
  if (text === null) return readFootnotes(element).join()
  const number = Result.getOrElse(Xml.readDecimalElement(value, name), () => null)
  return number === null ? Result.getOrElse(Xml.readDateElement(value), () => text.toLowerCase()) : String(number)
}

/**
 * Returns the number of shares that the held derivatives can be exchanged for, or null if unknown. A line about a
 * holding states it (`shares`). A line about a transaction states only the number of shares underlying the traded
 * derivatives. The number for the held ones is then known only if each derivative represents one share or if none is
 * held any more.
 */
const computeUnderlying = (isHolding: boolean, held: bigint | null, traded: bigint | null, shares: bigint | null) => {
  if (isHolding) return shares
  return held === 0n || (traded !== null && traded === shares) ? held : null
}

/**
 * Directions implied by transaction codes in which shares can only be acquired (`A`) or only be disposed of (`D`). For
 * example, a sale (`S`) always removes shares.
 */
const directions: { readonly [code: string]: string } = { A: "A", P: "A", S: "D", F: "D", D: "D" }

/** Transaction codes for the exercise of an option or a warrant, which is then no longer held. */
const exerciseCodes = new Set(["C", "M", "O", "X"])

/**
 * Returns how many securities a transaction added (negative if it removed them). `change` follows the direction that
 * the form states, and `impliedChange` follows the direction that the transaction code implies, because some filers
 * state the wrong one. `isExercise` is true if the transaction adds shares by exercising a derivative.
 */
const readChanges = (line: XmlElement, title: string, traded: bigint | null) => {
  /** `A` (acquired) or `D` (disposed of). */
  const stated = readElementText(
    findValue(findOnlyChildElement(line, "transactionAmounts"), "transactionAcquiredDisposedCode"),
  )
  const code = readElementText(findOnlyChildElement(findOnlyChildElement(line, "transactionCoding"), "transactionCode"))
  const kind = line.name.startsWith("derivative") ? classifyDerivativeByTitle(title) : "shares"
  // A transaction in shares follows its code. Exercising an option or a warrant always removes it.
  const implied = kind === "shares"
    ? directions[code ?? ""]
    : (kind === "option" || kind === "warrant") && exerciseCodes.has(code ?? "")
    ? "D"
    : undefined
  /** Returns the number of shares traded: positive if they were acquired, negative if they were disposed of. */
  const applyDirection = (direction: string | null) =>
    traded === null ? null : direction === "A" ? traded : direction === "D" ? -traded : null
  return {
    change: applyDirection(stated),
    impliedChange: applyDirection(implied ?? stated),
    isExercise: kind === "shares" && exerciseCodes.has(code ?? "") && stated === "A",
  }
}

/**
 * Reads how the owner holds the securities on a line: directly, or indirectly, as in `By Trust`. `words` is part of
 * `HoldingLine.terms`. `phrase` and `footnotes` become the line's `nature` and `footnotes`. For a direct holding,
 * `words` is null and the others are empty: a nature of ownership that the form states nevertheless is ignored.
 */
const readOwnership = (line: XmlElement) => {
  const ownershipNature = findOnlyChildElement(line, "ownershipNature")
  if (readElementText(findValue(ownershipNature, "directOrIndirectOwnership")) === "D") {
    return { words: null, phrase: "", footnotes: new Set<string>() }
  }
  const element = findOnlyChildElement(ownershipNature, "natureOfOwnership")
  const { footnotes, phrase, words } = readNatureOfOwnership(
    readElementText(findOnlyChildElement(element, "value")) ?? "",
  )
  // Filers refer to footnotes with `footnoteId` elements or in the text itself, as in `By Trust (1)`.
  return { words, phrase, footnotes: new Set([...readFootnotes(element), ...footnotes]) }
}

/**
 * Reads a line of a form's table, which reports a holding (`isHolding`) or a transaction. `context` contains the values
 * that apply to all lines of the form. Amounts and dates that the line does not state, or that cannot be read, are
 * null. `problem` says why an amount cannot be read; it is undefined if the line only does not state the amount.
 */
const readLine = (line: XmlElement, isHolding: boolean, context: FormContext): DatedLine => {
  const { filingDate, firstDay, identify, removeIssuerName } = context
  const { footnotes, phrase, words } = readOwnership(line)
  // The number held after the transaction, and the number bought, sold or otherwise traded in it.
  const held = readAmount(findOnlyChildElement(line, "postTransactionAmounts"), "sharesOwnedFollowingTransaction")
  const traded = readAmount(findOnlyChildElement(line, "transactionAmounts"), "transactionShares")
  // Only lines about derivatives have an underlying security.
  const underlyingSecurity = findOnlyChildElement(line, "underlyingSecurity")
  const underlyingShares = readAmount(underlyingSecurity, "underlyingSecurityShares")
  const title = removeIssuerName(readElementText(findValue(line, "securityTitle")) ?? "")
  const stated = readStatedDate(findValue(line, "transactionDate"), filingDate, { firstDay, name: "transactionDate" })
  return {
    isHolding,
    isDerivative: line.name.startsWith("derivative"),
    title,
    security: identify(title),
    // Lines can report the same position only if these values are equal in both: who holds the securities for the
    // owner, and the terms of a derivative.
    terms: JSON.stringify([
      words,
      ...["conversionOrExercisePrice", "exerciseDate", "expirationDate"].map((name) => readTerm(line, name)),
      identify(readElementText(findValue(underlyingSecurity, "underlyingSecurityTitle")) ?? "").name,
    ]),
    isDirect: words === null,
    nature: phrase,
    footnotes,
    date: stated.value,
    stated,
    ...readChanges(line, title, traded.value),
    held: held.value,
    underlying: computeUnderlying(isHolding, held.value, traded.value, underlyingShares.value),
    problem: held.problem ?? underlyingShares.problem ?? traded.problem,
  }
}

/** Maximum number of lines in a table. The SEC accepts no more than 30. */
const maxLines = 1000

/**
 * Reads the lines of one of a form's two tables. `kind` is `nonDerivative` (shares) or `derivative` (options and the
 * like), the start of its element names.
 */
const readTable = (
  root: XmlElement,
  kind: string,
  context: FormContext,
): Reading<ReadonlyArray<DatedLine>> => {
  const table = findOnlyChildElement(root, `${kind}Table`)
  const lines = table?.children.filter(({ name }) => name === `${kind}Transaction` || name === `${kind}Holding`) ?? []
  return lines.length > maxLines
    ? makeUnknownReading({ read: `${lines.length} lines`, reason: `has more than ${maxLines} lines in a table` })
    : makeReading(lines.map((line) => readLine(line, line.name === `${kind}Holding`, context)))
}

/** Selects the amount to add up from a line: the securities held, or the shares underlying them. */
type GetAmount = (line: HoldingLine) => bigint | null

/**
 * Returns the amount of a position after its last transaction. It is unknown if the lines do not show which transaction
 * was the last, or if the amount cannot be right.
 */
const findAmount = (position: ReadonlyArray<HoldingLine>, getAmount: GetAmount): Reading<bigint> => {
  const last = findLastLines(position)
  if (last.length === 0) return makeUnknownReading({ read: "", reason: "is less than a transaction added" })
  const [amount = null, ...others] = new Set(last.map(getAmount))
  if (others.length > 0) return makeUnknownReading({ read: "", reason: "has transactions whose order is unclear" })
  if (contradictsEarlierDays(position)) {
    return makeUnknownReading({ read: "", reason: "does not fit the amounts of the days before" })
  }
  const problem = amount === null ? last.find(({ problem }) => problem !== undefined)?.problem : undefined
  return { value: amount, problem }
}

/** Describes the amounts that the lines state, for a doubt about their sum. */
const describeAmounts = (lines: ReadonlyArray<HoldingLine>, getAmount: GetAmount) =>
  describeStated(lines.flatMap((line) => {
    const amount = getAmount(line)
    return line.problem?.read ?? (amount === null ? [] : Xml.formatDecimal(amount))
  }))

/**
 * Sums the amounts of all positions on these lines, which are those of one column, such as all lines about options. A
 * position is what the owner holds of one security in one way; several transactions in it are several lines. Only the
 * amount after the last transaction of each position counts. `getAmount` selects the amount of a line. Returns the sum
 * in whole shares.
 *
 * Without lines, the sum is null and there is no problem. The sum is null with a problem, which an operator must
 * resolve, if it is unclear which lines belong to the same position, if a form states an amount that is unclear or
 * cannot be read, or if the sum is not a number of shares that can be stored. The sum is also null, but without a
 * problem, if a form does not state the amount of a position at all.
 */
const sumPositions = (lines: ReadonlyArray<HoldingLine>, getAmount: GetAmount): Reading<string> => {
  const doubt = (reason: string) => makeUnknownReading({ read: describeAmounts(lines, getAmount), reason })
  const positions = findPositions(lines)
  if (positions === null) return doubt("has lines that may be of one position or of several")
  const amounts = positions.map((position) => findAmount(position, getAmount))
  // The doubt is about the sum, so it has the first reason only.
  const reason = amounts.find(({ problem }) => problem !== undefined)?.problem?.reason
  if (reason !== undefined) return doubt(reason)
  const sum = amounts.length === 0
    ? null
    // Once an amount is unknown, the sum remains null.
    : amounts.reduce<bigint | null>((total, { value }) => total === null || value === null ? null : total + value, 0n)
  return Result.match(Xml.formatWholeShares(sum), {
    onSuccess: makeReading,
    onFailure: doubt,
  })
}

const getHeld = ({ held }: HoldingLine) => held
const getUnderlying = ({ underlying }: HoldingLine) => underlying

/**
 * Returns whether the owner may still hold any of the securities on these lines. If it is unclear which lines belong to
 * the same position, the answer is true.
 */
const holdsAny = (lines: ReadonlyArray<HoldingLine>) =>
  findPositions(lines)?.some((position) => findAmount(position, getHeld).value !== 0n) ?? true

/**
 * Returns the amounts that a form reports, by column of `ownership`. `shares` and `derivatives` are the lines of the
 * two tables.
 */
const sumAmounts = (shares: ReadonlyArray<HoldingLine>, derivatives: ReadonlyArray<HoldingLine>) => {
  // A security whose title no rule recognizes might be shares, and the sum would then be too low.
  const unrecognized = shares.filter(({ title }) => classifySharesByTitle(title) === undefined)
  const mayLackShares = holdsAny(unrecognized)
  const sumShares = (lines: ReadonlyArray<HoldingLine>, kind: "common" | "preferred") => {
    const ofKind = lines.filter(({ title }) => classifySharesByTitle(title) === kind)
    // If no line is about preferred shares, the column remains empty instead of doubtful.
    if (!mayLackShares || (kind === "preferred" && ofKind.length === 0)) return sumPositions(ofKind, getHeld)
    return makeUnknownReading({
      read: describeAmounts([...ofKind, ...unrecognized], getHeld),
      reason: "may lack shares of a security whose title is not recognized",
    })
  }
  const sumDerivatives = (kind: ReturnType<typeof classifyDerivativeByTitle>) =>
    sumPositions(derivatives.filter(({ title }) => classifyDerivativeByTitle(title) === kind), getUnderlying)
  return {
    common_shares_amount: sumShares(shares, "common"),
    // Convertible preferred shares may be in either table.
    preferred_shares_amount: sumShares([...shares, ...derivatives], "preferred"),
    options_amount: sumDerivatives("option"),
    warrants_amount: sumDerivatives("warrant"),
    shares_underlying_convertibles: sumDerivatives("convertible"),
  }
}

/** Returns whether the title refers to another part of the document, such as `See Remarks`. */
const isReference = (title: string) => /^\(?see\b/i.test(title)

/**
 * Reads the columns that describe an owner: name, CIK, relationship to the company, and title. A document can have
 * several owners, who jointly own the same securities.
 */
const readOwner = (element: XmlElement) => {
  const identity = findOnlyChildElement(element, "reportingOwnerId")
  const relationship = findOnlyChildElement(element, "reportingOwnerRelationship")
  const isChecked = (flag: string) => Xml.readCheckBoxElement(findOnlyChildElement(relationship, flag))
  const readings = {
    owner_name: readRequiredElement(findOnlyChildElement(identity, "rptOwnerName"), Xml.readNameElement),
    owner_cik: readRequiredElement(findOnlyChildElement(identity, "rptOwnerCik"), Xml.readCikElement),
    title: readStatedElement(findOnlyChildElement(relationship, "officerTitle"), Xml.readNameElement),
  }
  const { title, ...named } = getReadingValues(readings)
  return {
    readings,
    cells: {
      ...named,
      // An owner may be both an officer and a director, but the column has only one type. The closest relationship to
      // the company is used.
      owner_type: isChecked("isOfficer")
        ? "executive"
        : isChecked("isDirector")
        ? "director"
        : isChecked("isTenPercentOwner")
        ? "ten_percent_owner"
        : null,
      // Some forms state the title elsewhere and have only a reference here, such as "See Remarks".
      title: title !== null && isReference(title) ? null : title,
    },
  }
}

/**
 * Compares a form's period with its transactions, because the period is the date of the first one. If its year is
 * earlier than that of all transactions, it is doubtful.
 */
const comparePeriod = (
  period: Reading<string>,
  lines: ReadonlyArray<DatedLine>,
  filingDate: string,
): Reading<string> => {
  const [firstDay] = lines.flatMap(({ date }) => date ?? []).toSorted()
  if (period.value === null || firstDay === undefined) return period
  const reason = findYearDoubt(period.value, { firstDay, filingDate, event: "the first transaction" })
  return reason === undefined ? period : makeUnknownReading({ read: period.value, confirmable: period.value, reason })
}

/** Combines the problems of several dates. An operator can confirm the stated date only if there is just one. */
const combineProblems = (problems: ReadonlyArray<HolderProblem>): HolderProblem => {
  const reasons = Array.from(new Set(problems.map(({ reason }) => reason)))
  const statedDates = Array.from(new Set(problems.map(({ read }) => read)))
  const [confirmable] = problems.flatMap(({ confirmable }) => confirmable ?? [])
  return {
    read: describeStated(statedDates),
    reason: reasons.join(" and "),
    ...(statedDates.length === 1 && confirmable !== undefined && { confirmable }),
  }
}

/**
 * Returns the date as of which the form reports holdings (`reported_date`), and the problem if a date that it depends
 * on is implausible.
 *
 * - Form 5 (`isAnnual`): the form's period, which is the end of a fiscal year.
 * - Forms 3 and 4: the date of the last transaction. A transaction with an implausible date counts as of the form's
 *   period instead, which is the date of the reported event. Without dated transactions, it is the period itself.
 */
const findReportedDate = (
  isAnnual: boolean,
  period: Reading<string>,
  lines: ReadonlyArray<DatedLine>,
): Reading<string> => {
  if (isAnnual) return period
  const problems = lines.flatMap(({ stated }) => stated.problem ?? [])
  const dates = lines.flatMap(({ stated }) => stated.value ?? (stated.problem === undefined ? [] : period.value ?? []))
  return {
    value: dates.toSorted().at(-1) ?? period.value,
    // A problem with the period matters only if the result is the period.
    problem: problems.length > 0 ? combineProblems(problems) : dates.length === 0 ? period.problem : undefined,
  }
}

/**
 * Adds a doubt to an amount of an amendment with transactions. Most such amendments state the whole form again, so the
 * amount is published. But one that corrects a single position need not repeat the others (Instruction 9 of Form 4).
 */
const markAmendedAmount = (amount: Reading<string>): Reading<string> =>
  amount.value === null || amount.problem !== undefined ? amount : {
    value: amount.value,
    problem: {
      read: amount.value,
      confirmable: amount.value,
      reason: "is in an amendment, which may leave out positions of the original form",
    },
  }

/**
 * Decodes a Form 3, 4, or 5, which is a document with the root element `ownershipDocument`. Returns one row per owner.
 * All owners in a document jointly hold the same securities, so only the first row has the amounts. Values that are
 * implausible or cannot be read are null in the rows and listed in `doubts`. Fails if the issuer's CIK is not valid.
 */
export const decodeOwnershipForm = (
  root: XmlElement,
  filingDate: string,
): Result.Result<OwnershipHolders, string> =>
  Result.gen(function* () {
    const form = readElementText(findOnlyChildElement(root, "documentType"))
    const issuer = findOnlyChildElement(root, "issuer")
    const issuerCik = yield* Xml.readCikElement(findOnlyChildElement(issuer, "issuerCik"))
    const issuerName = readElementText(findOnlyChildElement(issuer, "issuerName")) ?? ""
    const owners = findChildElements(root, "reportingOwner").map(readOwner)
    const isAnnual = form?.startsWith("5") === true
    const period = readStatedDate(findOnlyChildElement(root, "periodOfReport"), filingDate)

    // The period of Form 5 is the end of the fiscal year, after all of its transactions.
    const firstDay = isAnnual ? null : period.value
    const titles = { removeIssuerName: makeIssuerNameRemover(issuerName), identify: makeSecurityIdentifier(issuerName) }
    const context = { filingDate, firstDay, ...titles }
    const shares = readTable(root, "nonDerivative", context)
    const derivatives = readTable(root, "derivative", context)
    const lines = [...shares.value ?? [], ...derivatives.value ?? []]
    const tooLong = shares.problem ?? derivatives.problem
    const saysNothing = Xml.readCheckBoxElement(findOnlyChildElement(root, "noSecuritiesOwned"))
    const ownsNothing = lines.length === 0 && saysNothing
    const isAmendment = form?.endsWith("/A") === true
    // Amendments state only the lines that they add or correct (Instruction 8 of Form 3, 9 of Forms 4 and 5), so one
    // without transactions does not show everything that the owner holds.
    const isPartial = isAmendment && tooLong === undefined && !ownsNothing && lines.every(({ isHolding }) => isHolding)
    const amounts = Record.map(sumAmounts(shares.value ?? [], derivatives.value ?? []), (sum) => {
      if (tooLong !== undefined) return makeUnknownReading(tooLong)
      if (ownsNothing) return makeReading("0")
      if (saysNothing) return doubtSharesUnlessZero(sum, "is in a form that says that nothing is held")
      return isAmendment && !isPartial ? markAmendedAmount(sum) : sum
    })

    const firstDate = isAnnual ? period : comparePeriod(period, lines, filingDate)
    const event = { event_date: isAnnual ? makeReading<string>(null) : firstDate }
    const reported = { reported_date: findReportedDate(isAnnual, firstDate, lines) }
    return {
      form,
      issuerCik,
      reportedDate: reported.reported_date.value,
      element: "reportingOwner",
      // Only the first row has the amounts, so that a sum over the rows does not count them twice.
      rows: owners.map(({ cells }, index) => ({
        ...unknownHolding,
        ...cells,
        ...(index === 0 && getReadingValues(amounts)),
        ...getReadingValues(event),
      })),
      isPartial,
      doubts: findHolderDoubts(
        owners.map(({ readings }, index) => ({ ...readings, ...(index === 0 && amounts) })),
        { ...reported, ...event },
      ),
    }
  })
