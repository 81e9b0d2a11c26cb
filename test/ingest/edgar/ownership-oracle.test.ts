/**
 * Compares every value of every ownership row with its document. This test reads documents with regular expressions and
 * floating-point numbers, independently of the code under test.
 */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import {
  documentUrl,
  findForm,
  findIssuerCik,
  findXmlText,
  malformedRecording,
  ownershipRecordings,
  readFiling,
} from "./OwnershipRecordings.ts"

const findAll = (xml: string, element: string) =>
  Array.from(xml.matchAll(new RegExp(`<${element}>([\\s\\S]*?)</${element}>`, "g")), ([, content = ""]) => content)

const decodeEntities = (text: string) =>
  text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&apos;", "'")
    .replaceAll("&amp;", "&")

const textOrNull = (text: string) => text === "" ? null : decodeEntities(text)

/** Returns the content of `<value>` inside an element. */
const findValue = (xml: string, element: string) => findXmlText(findAll(xml, element)[0] ?? "", "value")

/** The kind of each security in the recordings, determined by hand from its title. */
const kinds: { readonly [title: string]: string } = {
  "Class A Common Stock": "common",
  "Common Stock": "common",
  "Common Stock (restricted stock units)": "common",
  "Stock Option (Right to Buy)": "option",
  "Stock options (right to buy)": "option",
  "Series E Preferred Stock": "convertible preferred",
  "Common Stock, par value $0.00001 per share": "common",
  "Common stock, par value $0.0001 per share": "common",
  "Common Stock, $0.0001 par value": "common",
  "Common Shares of Beneficial Interest, par value $0.001 per share": "common",
  'Common Stock, par value $0.0001 per share (the "Shares")': "common",
  "Common stock, par value $0.01 per share": "common",
  "Subordinate Voting Shares, no par value": "common",
}

const kindOf = (title: string) => {
  const kind = kinds[title]
  if (kind === undefined) throw new Error(`the kind of ${title} is not known`)
  return kind
}

/**
 * Returns the sum of each position's last amount. `element` is the element that contains a line's amount. Returns null
 * if there are no lines, or if the lines of a position are not consecutive: each amount must equal the previous amount
 * plus or minus the traded shares.
 */
const sumLast = (lines: ReadonlyArray<string>, element: string) => {
  const last = new Map<string, number>()
  for (const line of lines) {
    const position = ["securityTitle", "ownershipNature", "exerciseDate"].map((part) => findAll(line, part)[0])
      .join().replace(/\s/g, "")
    const [amount, traded] = [Number(findValue(line, element)), Number(findValue(line, "transactionShares"))]
    const before = findValue(line, "transactionAcquiredDisposedCode") === "A" ? amount - traded : amount + traded
    last.set(position, (last.get(position) ?? before) === before ? amount : NaN)
  }
  const sum = Array.from(last.values()).reduce((sum, amount) => sum + amount, 0)
  return last.size === 0 || Number.isNaN(sum) ? null : String(sum)
}

const findLines = (xml: string, ...elements: ReadonlyArray<string>) =>
  elements.flatMap((element) => findAll(xml, element))

const readAmounts = (xml: string) => {
  const ofKind = (kind: string, ...elements: ReadonlyArray<string>) =>
    findLines(xml, ...elements).filter((line) => kindOf(findValue(line, "securityTitle")).includes(kind))
  if (findXmlText(xml, "noSecuritiesOwned") === "1") return ["0", "0", "0", "0", "0"]
  const [options, convertibles] = ["option", "convertible"].map((kind) =>
    // A holding states the number of underlying shares. In all recorded transactions, one option corresponds to one
    // share.
    sumLast(ofKind(kind, "derivativeTransaction"), "sharesOwnedFollowingTransaction") ??
      sumLast(ofKind(kind, "derivativeHolding"), "underlyingSecurityShares")
  )
  const common = ofKind("common", "nonDerivativeTransaction", "nonDerivativeHolding")
  return [sumLast(common, "sharesOwnedFollowingTransaction"), null, options ?? null, null, convertibles ?? null]
}

const isChecked = (xml: string, flag: string) => ["1", "true"].includes(findXmlText(xml, flag))

const readFormRows = (xml: string) => {
  const amounts = readAmounts(xml)
  const period = findXmlText(xml, "periodOfReport")
  const dates = findAll(xml, "transactionDate").map((date) => findXmlText(date, "value"))
  const isAnnual = findForm(xml) === "5"
  return findAll(xml, "reportingOwner").map((owner, index) => {
    const [common, preferred, options, warrants, convertibles] = index === 0 ? amounts : [null, null, null, null, null]
    return {
      ticker: "ACME",
      reported_date: isAnnual ? period : [period, ...dates].toSorted().at(-1),
      filed_at: "2026-09-10",
      form_type: findForm(xml),
      accession_number: "0000000000-26-000001",
      document_url: documentUrl,
      owner_name: textOrNull(findXmlText(owner, "rptOwnerName")),
      owner_cik: findXmlText(owner, "rptOwnerCik"),
      owner_type: isChecked(owner, "isOfficer")
        ? "executive"
        : isChecked(owner, "isDirector")
        ? "director"
        : isChecked(owner, "isTenPercentOwner")
        ? "ten_percent_owner"
        : null,
      title: textOrNull(findXmlText(owner, "officerTitle")),
      common_shares_amount: common,
      preferred_shares_amount: preferred,
      options_amount: options,
      warrants_amount: warrants,
      shares_underlying_convertibles: convertibles,
      percent_of_class: null,
      sole_voting_shares: null,
      shared_voting_shares: null,
      event_date: isAnnual ? null : period,
      last_updated: "2026-09-10 00:00:00",
      source: [`${documentUrl}#reportingOwner[${index + 1}]`],
    }
  })
}

const readScheduleRows = (xml: string) => {
  const is13d = findForm(xml).startsWith("SCHEDULE 13D")
  const element = is13d ? "reportingPersonInfo" : "coverPageHeaderReportingPersonDetails"
  const event = findXmlText(xml, is13d ? "dateOfEvent" : "eventDateRequiresFilingThisStatement")
  assert.strictEqual(kindOf(decodeEntities(findXmlText(xml, "securitiesClassTitle"))), "common")
  return findAll(xml, element).map((person, index) => {
    const whole = (name: string) => String(Math.floor(Number(findXmlText(person, name))))
    const percent = Number(findXmlText(person, is13d ? "percentOfClass" : "classPercent"))
    return {
      ticker: "ACME",
      reported_date: null,
      filed_at: "2026-09-10",
      form_type: findForm(xml),
      accession_number: "0000000000-26-000001",
      document_url: documentUrl,
      owner_name: textOrNull(findXmlText(person, "reportingPersonName")),
      owner_cik: textOrNull(findXmlText(person, "reportingPersonCIK")),
      owner_type: percent > 10 ? "ten_percent_owner" : percent > 5 ? "five_percent_owner" : null,
      title: null,
      common_shares_amount: whole(
        is13d ? "aggregateAmountOwned" : "reportingPersonBeneficiallyOwnedAggregateNumberOfShares",
      ),
      preferred_shares_amount: null,
      options_amount: null,
      warrants_amount: null,
      shares_underlying_convertibles: null,
      percent_of_class: (percent / 100).toFixed(4),
      sole_voting_shares: whole("soleVotingPower"),
      shared_voting_shares: whole("sharedVotingPower"),
      event_date: event.replace(/(..)\/(..)\/(....)/, "$3-$1-$2"),
      last_updated: "2026-09-10 00:00:00",
      source: [`${documentUrl}#${element}[${index + 1}]`],
    }
  })
}

describe("Values of ownership rows", () => {
  const wellFormed = ownershipRecordings.filter(({ path }) => path !== malformedRecording)

  it("come from recordings that all have owners or reporting persons", () => {
    assert.strictEqual(wellFormed.length, 18)
    wellFormed.forEach(({ path, xml }) => assert.match(xml, /rptOwnerName|reportingPersonName/, path))
  })

  for (const { path, xml } of wellFormed) {
    it(`are equal to those in the document: ${path}`, () => {
      const rows = Result.getOrThrow(readFiling(xml, findForm(xml), findIssuerCik(xml)))
      assert.deepStrictEqual<unknown>(rows, findForm(xml).startsWith("S") ? readScheduleRows(xml) : readFormRows(xml))
    })
  }
})
