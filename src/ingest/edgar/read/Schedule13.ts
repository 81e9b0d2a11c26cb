/**
 * Decodes Schedules 13D and 13G and their amendments (docs/decisions/0100-ownership-from-filings.md). Owners of more
 * than five percent report their holdings on these forms. Addresses, telephone numbers, and signatures are never read.
 */
import { Array, Result } from "effect"
import {
  findHolderDoubts,
  getReadingValues,
  makeReading,
  type OwnershipHolders,
  type Reading,
  readRequiredElement,
  readStatedDate,
  readStatedElement,
  unknownHolding,
} from "./OwnershipHolders.ts"
import { doubtContradictions, doubtShares, type ReportingPerson } from "./ReportingPersons.ts"
import * as Xml from "./XmlValues.ts"
import { classifySharesByTitle, makeIssuerNameRemover } from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement } from "./XmlDocument.ts"

/** XML element names that differ between Schedule 13D and Schedule 13G. */
interface ElementNames {
  readonly issuerCik: string
  readonly eventDate: string
  readonly person: string
  readonly amount: string
  readonly isAmountPartial: string
  readonly percentage: string
}

const namesByNamespace: ReadonlyMap<string, ElementNames> = new Map([
  ["http://www.sec.gov/edgar/schedule13D", {
    issuerCik: "issuerCIK",
    eventDate: "dateOfEvent",
    person: "reportingPersonInfo",
    amount: "aggregateAmountOwned",
    isAmountPartial: "isAggregateExcludeShares",
    percentage: "percentOfClass",
  }],
  ["http://www.sec.gov/edgar/schedule13g", {
    issuerCik: "issuerCik",
    eventDate: "eventDateRequiresFilingThisStatement",
    person: "coverPageHeaderReportingPersonDetails",
    amount: "reportingPersonBeneficiallyOwnedAggregateNumberOfShares",
    isAmountPartial: "aggregateAmountExcludesCertainSharesFlag",
    percentage: "classPercent",
  }],
])

/** Reads a number of shares as a whole number. Fractions are dropped. */
const readWholeShares = (parent: XmlElement, name: string) =>
  readStatedElement(
    findOnlyChildElement(parent, name),
    (element) => Result.flatMap(Xml.readDecimalElement(element), Xml.formatWholeShares),
  )

/** Reads what a reporting person states about shares of the class. */
const readPerson = (names: ElementNames) => (element: XmlElement): ReportingPerson => {
  // Schedule 13G nests voting and dispositive power one level deeper than Schedule 13D.
  const power = findOnlyChildElement(element, "reportingPersonBeneficiallyOwnedNumberOfShares") ?? element
  return {
    amount: readWholeShares(element, names.amount),
    soleVotes: readWholeShares(power, "soleVotingPower"),
    sharedVotes: readWholeShares(power, "sharedVotingPower"),
    dispositive: ["soleDispositivePower", "sharedDispositivePower"].map((name) => readWholeShares(power, name).value),
    percentage: readStatedElement(findOnlyChildElement(element, names.percentage), Xml.readPercentageElement),
    isAmountPartial: readElementText(findOnlyChildElement(element, names.isAmountPartial)) === "Y",
  }
}

/** Returns the owner type for a percentage of the class, in units of 10⁻⁸ percent. */
export const findOwnerType = (percentage: bigint | null) =>
  Xml.isPercentageAbove(percentage, 10n)
    ? "ten_percent_owner"
    : Xml.isPercentageAbove(percentage, 5n)
    ? "five_percent_owner"
    : null

/** The reason for the doubts about an amount in both columns. An operator can choose only one of them. */
export const unknownKindReason = "is of a class whose title does not say whether it is common or preferred shares"

/**
 * Returns the amount for the column of this kind of shares, given the kind that the title of the class states. The
 * amount is null in the column of the other kind. If the title does not state a kind, the amount is doubtful in both
 * columns.
 */
const readAmountOfKind = (
  amount: Reading<string>,
  stated: ReturnType<typeof classifySharesByTitle>,
  kind: "common" | "preferred",
) =>
  stated === undefined ? doubtShares(amount, unknownKindReason) : stated === kind ? amount : makeReading<string>(null)

/**
 * Builds the columns for a reporting person. Several persons in a schedule usually report the same shares, so their
 * amounts must not be added up. Returns the row (`cells`), and the `readings` from the document, which contain not only
 * the values but also the reasons why a value is unknown. `sharesKind` is the kind of shares that the schedule is
 * about.
 */
const makeColumns = (
  element: XmlElement,
  { amount, percentage, sharedVotes, soleVotes }: ReportingPerson,
  sharesKind: ReturnType<typeof classifySharesByTitle>,
) => {
  const hasNoCik = readElementText(findOnlyChildElement(element, "reportingPersonNoCIK")) === "Y"
  const text = {
    owner_name: readRequiredElement(findOnlyChildElement(element, "reportingPersonName"), Xml.readNameElement),
    owner_cik: hasNoCik
      ? makeReading<string>(null)
      : readStatedElement(findOnlyChildElement(element, "reportingPersonCIK"), Xml.readCikElement),
    common_shares_amount: readAmountOfKind(amount, sharesKind, "common"),
    preferred_shares_amount: readAmountOfKind(amount, sharesKind, "preferred"),
    sole_voting_shares: soleVotes,
    shared_voting_shares: sharedVotes,
  }
  return {
    readings: { ...text, percent_of_class: percentage },
    cells: {
      ...unknownHolding,
      ...getReadingValues(text),
      owner_type: findOwnerType(percentage.value),
      percent_of_class: Xml.formatPercentageAsFraction(percentage.value),
    },
  }
}

/**
 * Decodes a Schedule 13D or 13G, which is a document with the root element `edgarSubmission`. Returns one row per
 * reporting person. Values that contradict each other, are implausible, or cannot be read are null in the rows and
 * listed in `doubts`. Fails if the root is in another namespace, or if the issuer's CIK is not valid.
 */
export const decodeSchedule13 = (root: XmlElement, filingDate: string): Result.Result<OwnershipHolders, string> =>
  Result.gen(function* () {
    // Schedules 13D and 13G have different names for the same elements.
    const names = namesByNamespace.get(root.namespace)
    if (names === undefined) return yield* Result.fail("is not a Schedule 13D or 13G")
    const formData = findOnlyChildElement(root, "formData")
    const cover = findOnlyChildElement(formData, "coverPageHeader")
    // Schedule 13G lists the persons directly in `formData`, without a `reportingPersons` element.
    const persons = findOnlyChildElement(formData, "reportingPersons") ?? formData
    const issuer = findOnlyChildElement(cover, "issuerInfo")
    const removeIssuerName = makeIssuerNameRemover(readElementText(findOnlyChildElement(issuer, "issuerName")) ?? "")
    const title = removeIssuerName(readElementText(findOnlyChildElement(cover, "securitiesClassTitle")) ?? "")
    const personElements = persons === undefined ? [] : findChildElements(persons, names.person)
    const form = readElementText(findOnlyChildElement(findOnlyChildElement(root, "headerData"), "submissionType"))
    const isAmendment = form?.endsWith("/A") === true
    const stated = doubtContradictions(personElements.map(readPerson(names)), isAmendment)
    const columns = Array.zip(personElements, stated).map(([element, person]) =>
      makeColumns(element, person, classifySharesByTitle(title))
    )
    const event = { event_date: readStatedDate(findOnlyChildElement(cover, names.eventDate), filingDate) }
    return {
      form,
      issuerCik: yield* Xml.readCikElement(findOnlyChildElement(issuer, names.issuerCik)),
      // The date is unknown: schedules state only the date of the event, and Schedule 13D reports holdings as of a
      // later day.
      reportedDate: null,
      element: names.person,
      rows: columns.map(({ cells }) => ({ ...cells, ...getReadingValues(event) })),
      isPartial: false,
      doubts: findHolderDoubts(columns.map(({ readings }) => readings), event),
    }
  })
