/**
 * Schedules 13D and 13G and their amendments: what owners of more than five percent report
 * (docs/decisions/0100-ownership-from-filings.md). Addresses, telephone numbers and signatures are never read.
 */
import { Result } from "effect"
import * as Xml from "./XmlValues.ts"
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement } from "./XmlDocument.ts"

/** One reporting person. Several persons usually report the same shares, so their amounts must not be added. */
interface ReportingPerson {
  readonly name: string
  readonly cik: string | null
  readonly type: "ten_percent_owner" | "five_percent_owner" | null
  readonly shares: string | null
  /** The person's part of the class as a fraction, such as `0.0995`. */
  readonly percentOfClass: string | null
  readonly soleVotes: string | null
  readonly sharedVotes: string | null
}

interface Schedule13 {
  /** Such as `SCHEDULE 13D` or `SCHEDULE 13G/A`. */
  readonly form: string | null
  readonly issuerCik: string | null
  /** The kind of shares that `ReportingPerson.shares` counts. */
  readonly sharesKind: ReturnType<typeof classifySharesByTitle>
  readonly eventDate: string | null
  /** Name of the XML element that describes a person. */
  readonly personElement: string
  readonly persons: ReadonlyArray<ReportingPerson>
}

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

const readPerson = (names: ElementNames) => (element: XmlElement): Result.Result<ReportingPerson, string> =>
  Result.gen(function* () {
    const name = yield* Xml.readNameElement(findOnlyChildElement(element, "reportingPersonName"))
    if (name === null) return yield* Result.fail("has a reporting person without a name")
    const hasNoCik = readElementText(findOnlyChildElement(element, "reportingPersonNoCIK")) === "Y"
    // A 13G has the votes one level deeper than a 13D.
    const votes = findOnlyChildElement(element, "reportingPersonBeneficiallyOwnedNumberOfShares") ?? element
    const percentage = yield* Xml.readPercentageElement(findOnlyChildElement(element, names.percentage))
    return {
      name,
      cik: hasNoCik ? null : yield* Xml.readCikElement(findOnlyChildElement(element, "reportingPersonCIK")),
      type: Xml.isPercentageAbove(percentage, 10n)
        ? "ten_percent_owner"
        : Xml.isPercentageAbove(percentage, 5n)
        ? "five_percent_owner"
        : null,
      shares: yield* readWholeShares(element, names.amount),
      percentOfClass: Xml.formatPercentageAsFraction(percentage),
      soleVotes: yield* readWholeShares(votes, "soleVotingPower"),
      sharedVotes: yield* readWholeShares(votes, "sharedVotingPower"),
    }
  })

/** Reads a document whose root element is `edgarSubmission`. */
export const decodeSchedule13 = (root: XmlElement): Result.Result<Schedule13, string> =>
  Result.gen(function* () {
    const names = namesByNamespace.get(root.namespace)
    if (names === undefined) return yield* Result.fail("is not a Schedule 13D or 13G")
    const formData = findOnlyChildElement(root, "formData")
    const cover = findOnlyChildElement(formData, "coverPageHeader")
    // A 13G lists the persons directly in `formData`, without `reportingPersons`.
    const persons = findOnlyChildElement(formData, "reportingPersons") ?? formData
    return {
      form: readElementText(findOnlyChildElement(findOnlyChildElement(root, "headerData"), "submissionType")),
      issuerCik: yield* Xml.readCikElement(
        findOnlyChildElement(findOnlyChildElement(cover, "issuerInfo"), names.issuerCik),
      ),
      sharesKind: classifySharesByTitle(readElementText(findOnlyChildElement(cover, "securitiesClassTitle")) ?? ""),
      eventDate: yield* Xml.readDateElement(findOnlyChildElement(cover, names.eventDate)),
      personElement: names.person,
      persons: yield* Result.all(
        (persons === undefined ? [] : findChildElements(persons, names.person)).map(readPerson(names)),
      ),
    }
  })
