/**
 * Schedules 13D and 13G and their amendments: what owners of more than five percent report
 * (docs/decisions/0100-ownership-from-filings.md). Addresses, telephone numbers and signatures are never read.
 */
import { Result } from "effect"
import {
  findDoubts,
  getValues,
  makeReading,
  type OwnershipHolders,
  readRequired,
  readStated,
  readStatedDate,
  unknownHolding,
} from "./OwnershipHolders.ts"
import * as Xml from "./XmlValues.ts"
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement } from "./XmlDocument.ts"

/** XML element names that differ between Schedules 13D and 13G. */
interface ElementNames {
  readonly issuerCik: string
  readonly eventDate: string
  readonly person: string
  readonly amount: string
  readonly percentage: string
}

const namesByNamespace: ReadonlyMap<string, ElementNames> = new Map([
  ["http://www.sec.gov/edgar/schedule13D", {
    issuerCik: "issuerCIK",
    eventDate: "dateOfEvent",
    person: "reportingPersonInfo",
    amount: "aggregateAmountOwned",
    percentage: "percentOfClass",
  }],
  ["http://www.sec.gov/edgar/schedule13g", {
    issuerCik: "issuerCik",
    eventDate: "eventDateRequiresFilingThisStatement",
    person: "coverPageHeaderReportingPersonDetails",
    amount: "reportingPersonBeneficiallyOwnedAggregateNumberOfShares",
    percentage: "classPercent",
  }],
])

const readWholeShares = (parent: XmlElement, name: string) =>
  readStated(
    findOnlyChildElement(parent, name),
    (element) => Result.flatMap(Xml.readDecimalElement(element), Xml.formatWholeShares),
  )

/** Reads a reporting person. Several persons usually report the same shares, so their amounts must not be added. */
const readPerson =
  (names: ElementNames, sharesKind: ReturnType<typeof classifySharesByTitle>) => (element: XmlElement) => {
    const hasNoCik = readElementText(findOnlyChildElement(element, "reportingPersonNoCIK")) === "Y"
    // A 13G has the votes one level deeper than a 13D.
    const votes = findOnlyChildElement(element, "reportingPersonBeneficiallyOwnedNumberOfShares") ?? element
    const percentage = readStated(findOnlyChildElement(element, names.percentage), Xml.readPercentageElement)
    const shares = readWholeShares(element, names.amount)
    const text = {
      owner_name: readRequired(findOnlyChildElement(element, "reportingPersonName"), Xml.readNameElement),
      owner_cik: hasNoCik
        ? makeReading<string>(null)
        : readStated(findOnlyChildElement(element, "reportingPersonCIK"), Xml.readCikElement),
      common_shares_amount: sharesKind === "common" ? shares : makeReading<string>(null),
      preferred_shares_amount: sharesKind === "preferred" ? shares : makeReading<string>(null),
      sole_voting_shares: readWholeShares(votes, "soleVotingPower"),
      shared_voting_shares: readWholeShares(votes, "sharedVotingPower"),
    }
    return {
      readings: { ...text, percent_of_class: percentage },
      cells: {
        ...unknownHolding,
        ...getValues(text),
        owner_type: Xml.isPercentageAbove(percentage.value, 10n)
          ? "ten_percent_owner"
          : Xml.isPercentageAbove(percentage.value, 5n)
          ? "five_percent_owner"
          : null,
        percent_of_class: Xml.formatPercentageAsFraction(percentage.value),
      },
    }
  }

/** Reads a document whose root element is `edgarSubmission`. */
export const decodeSchedule13 = (root: XmlElement, filingDate: string): Result.Result<OwnershipHolders, string> =>
  Result.gen(function* () {
    const names = namesByNamespace.get(root.namespace)
    if (names === undefined) return yield* Result.fail("is not a Schedule 13D or 13G")
    const formData = findOnlyChildElement(root, "formData")
    const cover = findOnlyChildElement(formData, "coverPageHeader")
    // A 13G lists the persons directly in `formData`, without `reportingPersons`.
    const persons = findOnlyChildElement(formData, "reportingPersons") ?? formData
    const title = readElementText(findOnlyChildElement(cover, "securitiesClassTitle")) ?? ""
    const found = persons === undefined ? [] : findChildElements(persons, names.person)
    const read = found.map(readPerson(names, classifySharesByTitle(title)))
    const event = { event_date: readStatedDate(findOnlyChildElement(cover, names.eventDate), filingDate) }
    return {
      form: readElementText(findOnlyChildElement(findOnlyChildElement(root, "headerData"), "submissionType")),
      issuerCik: yield* Xml.readCikElement(
        findOnlyChildElement(findOnlyChildElement(cover, "issuerInfo"), names.issuerCik),
      ),
      // Unknown: schedules state only the date of the event, and a 13D reports the holdings of a later day.
      reportedDate: null,
      element: names.person,
      rows: read.map(({ cells }) => ({ ...cells, ...getValues(event) })),
      isPartial: false,
      doubts: findDoubts(read.map(({ readings }) => readings), event),
    }
  })
