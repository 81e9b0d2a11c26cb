/**
 * Schedules 13D and 13G and their amendments: what owners of more than five percent report
 * (docs/decisions/0100-ownership-from-filings.md). Addresses, telephone numbers and signatures are never read.
 */
import { Result } from "effect"
import { type OwnershipHolders, unknownHolding } from "./OwnershipHolders.ts"
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
  Result.flatMap(Xml.readDecimalElement(findOnlyChildElement(parent, name)), Xml.formatWholeShares)

/** Reads a reporting person. Several persons usually report the same shares, so their amounts must not be added. */
const readPerson =
  (names: ElementNames, sharesKind: ReturnType<typeof classifySharesByTitle>) => (element: XmlElement) =>
    Result.gen(function* () {
      const name = yield* Xml.readNameElement(findOnlyChildElement(element, "reportingPersonName"))
      if (name === null) return yield* Result.fail("has a reporting person without a name")
      const hasNoCik = readElementText(findOnlyChildElement(element, "reportingPersonNoCIK")) === "Y"
      // A 13G has the votes one level deeper than a 13D.
      const votes = findOnlyChildElement(element, "reportingPersonBeneficiallyOwnedNumberOfShares") ?? element
      const percentage = yield* Xml.readPercentageElement(findOnlyChildElement(element, names.percentage))
      const shares = yield* readWholeShares(element, names.amount)
      return {
        ...unknownHolding,
        owner_name: name,
        owner_cik: hasNoCik ? null : yield* Xml.readCikElement(findOnlyChildElement(element, "reportingPersonCIK")),
        owner_type: Xml.isPercentageAbove(percentage, 10n)
          ? "ten_percent_owner"
          : Xml.isPercentageAbove(percentage, 5n)
          ? "five_percent_owner"
          : null,
        common_shares_amount: sharesKind === "common" ? shares : null,
        preferred_shares_amount: sharesKind === "preferred" ? shares : null,
        percent_of_class: Xml.formatPercentageAsFraction(percentage),
        sole_voting_shares: yield* readWholeShares(votes, "soleVotingPower"),
        shared_voting_shares: yield* readWholeShares(votes, "sharedVotingPower"),
      }
    })

/** Reads a document whose root element is `edgarSubmission`. */
export const decodeSchedule13 = (root: XmlElement): Result.Result<OwnershipHolders, string> =>
  Result.gen(function* () {
    const names = namesByNamespace.get(root.namespace)
    if (names === undefined) return yield* Result.fail("is not a Schedule 13D or 13G")
    const formData = findOnlyChildElement(root, "formData")
    const cover = findOnlyChildElement(formData, "coverPageHeader")
    // A 13G lists the persons directly in `formData`, without `reportingPersons`.
    const persons = findOnlyChildElement(formData, "reportingPersons") ?? formData
    const title = readElementText(findOnlyChildElement(cover, "securitiesClassTitle")) ?? ""
    const found = persons === undefined ? [] : findChildElements(persons, names.person)
    const rows = yield* Result.all(found.map(readPerson(names, classifySharesByTitle(title))))
    const event_date = yield* Xml.readDateElement(findOnlyChildElement(cover, names.eventDate))
    return {
      form: readElementText(findOnlyChildElement(findOnlyChildElement(root, "headerData"), "submissionType")),
      issuerCik: yield* Xml.readCikElement(
        findOnlyChildElement(findOnlyChildElement(cover, "issuerInfo"), names.issuerCik),
      ),
      // Unknown: schedules state only the date of the event, and a 13D reports the holdings of a later day.
      reportedDate: null,
      element: names.person,
      rows: rows.map((row) => ({ ...row, event_date })),
    }
  })
