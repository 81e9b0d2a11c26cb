/**
 * Tests that each recorded filing yields the rows that a human reader would expect. The expected values were written by
 * hand.
 */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { DocumentRejected } from "../../../src/ingest/edgar/fetch/DocumentRejected.ts"
import { makeRowValidator } from "../../../src/ingest/load/RowValidation.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import type { RowCells } from "../../../src/contract/Datasets.ts"
import { documentUrl, malformedRecording, ownershipRecordings, readFiling } from "./OwnershipRecordings.ts"

interface ExpectedFiling {
  readonly form: string
  readonly issuerCik: string
  readonly reported_date: string | null
  readonly event_date: string | null
  readonly element: string
  /** The owner columns of each row. Columns that are not listed must be null. */
  readonly owners: ReadonlyArray<RowCells>
}

const form = (
  form: string,
  issuerCik: string,
  dates: Pick<ExpectedFiling, "event_date" | "reported_date">,
  ...owners: ExpectedFiling["owners"]
): ExpectedFiling => ({ form, issuerCik, ...dates, element: "reportingOwner", owners })

type Person = readonly [
  name: string,
  cik: string | null,
  type: "five" | "ten" | null,
  shares: string,
  percent: string,
  sole: string,
  shared: string,
]

const schedule = (
  form: string,
  issuerCik: string,
  event_date: string,
  ...persons: ReadonlyArray<Person>
): ExpectedFiling => ({
  form,
  issuerCik,
  reported_date: null,
  event_date,
  element: form.includes("13D") ? "reportingPersonInfo" : "coverPageHeaderReportingPersonDetails",
  owners: persons.map(([owner_name, owner_cik, type, shares, percent_of_class, sole, shared]) => ({
    owner_name,
    owner_cik,
    owner_type: type === null ? null : `${type}_percent_owner`,
    common_shares_amount: shares,
    percent_of_class,
    sole_voting_shares: sole,
    shared_voting_shares: shared,
  })),
})

const dated = (date: string) => ({ reported_date: date, event_date: date })

const arch = (name: string, cik: string): Person => [name, cik, "ten", "6294951", "0.1190", "0", "6294951"]
const abuDhabi = (name: string, cik: string): Person => [name, cik, "ten", "11615772", "0.6040", "942779", "0"]
const marex = (name: string): Person => [name, null, "five", "10000000", "0.0510", "10000000", "0"]
const citadelAdvisors = (name: string): Person => [name, null, "five", "1624818", "0.0990", "0", "1624818"]
const citadelSecurities = (name: string): Person => [name, null, null, "59", "0.0000", "0", "59"]
const commodore = (name: string): Person => [name, null, "five", "3697435", "0.0990", "0", "3697435"]
const pentwater = (name: string): Person => [name, null, "ten", "7824100", "0.2220", "0", "7824100"]

const expected: { readonly [path: string]: ExpectedFiling } = {
  "ownership/form3-derivative-holdings-snow.xml": form("3", "0001640147", dated("2020-09-15"), {
    owner_name: "GARRETT MARK",
    owner_cik: "0001246215",
    owner_type: "director",
    options_amount: "767186", // 383594 and four trusts with 95898 each
    shares_underlying_convertibles: "134018", // Series E Preferred Stock
  }),
  "ownership/form3-no-securities-sunpower.xml": form("3", "0000867773", dated("2021-12-31"), {
    owner_name: "Hegde Vinayak",
    owner_cik: "0001698764",
    owner_type: "director",
    common_shares_amount: "0",
    preferred_shares_amount: "0",
    options_amount: "0",
    warrants_amount: "0",
    shares_underlying_convertibles: "0",
  }),
  "ownership/form3-two-owners-snow.xml": form("3", "0001640147", dated("2020-09-18"), {
    owner_name: "BERKSHIRE HATHAWAY INC",
    owner_cik: "0001067983",
    owner_type: "ten_percent_owner",
    common_shares_amount: "6125376",
  }, { owner_name: "BUFFETT WARREN E", owner_cik: "0000315090", owner_type: "ten_percent_owner" }),
  "ownership/form4-10b5-1-indirect-dutchbros.xml": form(
    "4",
    "0001866581",
    { reported_date: "2025-02-26", event_date: "2025-02-25" },
    {
      owner_name: "Boersma Travis",
      owner_cik: "0001883154",
      owner_type: "executive",
      title: "Executive Chairman of Board",
      common_shares_amount: "5985289", // 3674455 and 2310834, the last lines of two companies
    },
  ),
  "ownership/form4-derivative-and-holdings-snow.xml": form("4", "0001640147", dated("2022-12-13"), {
    owner_name: "Scarpelli Michael",
    owner_cik: "0001402349",
    owner_type: "executive",
    title: "Chief Financial Officer",
    common_shares_amount: "894585", // 101097 directly, and eight trusts
    options_amount: "2219299",
  }),
  "ownership/form4-true-false-flags-374water.xml": form("4", "0000933972", dated("2025-04-30"), {
    owner_name: "Melkote Rajesh Ramaswamy",
    owner_cik: "0002064133",
    owner_type: "executive",
    title: "Chief Technology Officer",
    common_shares_amount: "757756",
    options_amount: "757756", // as filed, although 757576 were granted
  }),
  "ownership/form4a-anterix.excerpt.xml": form("4/A", "0001304492", dated("2026-09-08"), {
    owner_name: "Ashe Gena L",
    owner_cik: "0001669943",
    owner_type: "executive",
    title: "Chief Legal Officer & Corp Sec",
    // The excerpt lacks the lines between the two sales, so the amounts do not show which sale came last.
    common_shares_amount: null,
    options_amount: "35658",
  }),
  "ownership/form5-snow.xml": form("5", "0001640147", { reported_date: "2022-01-31", event_date: null }, {
    owner_name: "McMahon John Dennis",
    owner_cik: "0001397798",
    owner_type: "director",
    common_shares_amount: "331591", // 54666 directly, and two trusts with 151188 and 125737
  }),
  "archives/0000320193-22-000061.txt": form("4", "0000320193", dated("2022-05-04"), {
    owner_name: "Adams Katherine L.",
    owner_cik: "0001462356",
    owner_type: "executive",
    title: "SVP, GC and Secretary",
    common_shares_amount: "452334",
  }),
  "archives/0001127602-25-001055.txt": form("4", "0000001750", dated("2025-01-10"), {
    owner_name: "Garascia Jessica A.",
    owner_cik: "0001806647",
    owner_type: "executive",
    title: "Senior VP, GC, CAO & Secretary",
    common_shares_amount: "37565",
  }),
  "schedule13/schedule13d-aadi.xml": schedule(
    "SCHEDULE 13D",
    "0001422142",
    "2024-12-31",
    ["BML Investment Partners, L.P.", "0001373604", "five", "2100000", "0.0850", "0", "2100000"],
    ["Leonard Braden Michael", "0001373603", "five", "2435000", "0.0990", "335000", "2100000"],
  ),
  "schedule13/schedule13d-qxo.xml": schedule(
    "SCHEDULE 13D",
    "0001236275",
    "2025-04-29",
    ["Affinity Partners Fund I LP", null, null, "164310", "0.0003", "0", "164310"],
    ["Affinity Partners Parallel Fund I LP", null, null, "16247069", "0.0320", "0", "16247069"],
    ["Affinity Partners GP LP", "0002059583", "five", "32671542", "0.0630", "0", "32671542"],
    ["Affinity QXO 1 LLC", null, null, "16260163", "0.0320", "0", "16260163"],
    ["Affinity Partners???Fund I Co-Invest???GP LP", null, null, "16260163", "0.0320", "0", "16260163"],
    ["Jared Kushner", null, "five", "32671542", "0.0630", "0", "32671542"],
  ),
  "schedule13/schedule13d-x0202-seaport.xml": schedule(
    "SCHEDULE 13D",
    "0002042347",
    "2026-05-04",
    arch("ARCH Venture Fund XII, L.P.", "0001906837"),
    arch("ARCH Venture Partners XII, L.P.", "0001979765"),
    arch("ARCH Venture Partners XII, LLC", "0001979548"),
    arch("Robert Nelsen", "0001219042"),
    arch("Keith Crandell", "0001219039"),
    arch("Kristina Burow", "0001569248"),
    arch("Steven Gillis", "0001229592"),
  ),
  "schedule13/schedule13da-overland.xml": schedule(
    "SCHEDULE 13D/A",
    "0001965934",
    "2025-05-02",
    // The filing states 11615772.8 shares and 942779.94 votes. Fractions of a share are dropped.
    abuDhabi("Abu Dhabi Investment Authority", "0001362558"),
    abuDhabi("Platinum International Investment Holdings RSC Limited", "0001790748"),
    abuDhabi("Platinum Falcon B 2018 RSC Limited", "0001790749"),
  ),
  "schedule13/schedule13g-jushi.xml": schedule(
    "SCHEDULE 13G",
    "0001909747",
    "2025-11-19",
    marex("Marex Securities Products Inc."),
    marex("Marex Group plc"),
  ),
  "schedule13/schedule13g-spirit.xml": schedule(
    "SCHEDULE 13G",
    "0001498710",
    "2025-04-29",
    citadelAdvisors("Citadel Advisors LLC"),
    citadelAdvisors("Citadel Advisors Holdings LP"),
    citadelAdvisors("Citadel GP LLC"),
    citadelSecurities("Citadel Securities LLC"),
    citadelSecurities("Citadel Securities Group LP"),
    citadelSecurities("Citadel Securities GP LLC"),
    ["Kenneth Griffin", null, "five", "1624877", "0.0990", "0", "1624877"],
  ),
  "schedule13/schedule13g-x0202-an2.xml": schedule(
    "SCHEDULE 13G",
    "0001880438",
    "2026-03-09",
    commodore("Commodore Capital LP"),
    commodore("Commodore Capital Master LP"),
    commodore("Robert Egen Atkinson"),
    commodore("Michael Kramarz"),
  ),
  "schedule13/schedule13ga-x0202-avis.xml": schedule(
    "SCHEDULE 13G/A",
    "0000723612",
    "2026-03-31",
    pentwater("Pentwater Capital Management LP"),
    pentwater("Matthew Halbower"),
  ),
}

const nothing: RowCells = {
  owner_name: null,
  owner_cik: null,
  owner_type: null,
  title: null,
  common_shares_amount: null,
  preferred_shares_amount: null,
  options_amount: null,
  warrants_amount: null,
  shares_underlying_convertibles: null,
  percent_of_class: null,
  sole_voting_shares: null,
  shared_voting_shares: null,
}

const makeExpectedRows = ({ element, event_date, form, owners, reported_date }: ExpectedFiling) =>
  owners.map((owner, index) => ({
    ticker: "ACME",
    reported_date,
    filed_at: "2026-09-10",
    form_type: form,
    accession_number: "0000000000-26-000001",
    document_url: documentUrl,
    ...nothing,
    ...owner,
    event_date,
    last_updated: "2026-09-10 00:00:00",
    source: [`${documentUrl}#${element}[${index + 1}]`],
  }))

describe("The ownership rows from recorded filings", () => {
  it("have expected values for each recording but the malformed one", () => {
    const paths = ownershipRecordings.map(({ path }) => path)
    assert.sameMembers([...Object.keys(expected), malformedRecording], paths)
  })

  for (const { path, xml } of ownershipRecordings) {
    const filing = expected[path]
    if (filing === undefined) continue
    const rows = Result.getOrThrow(readFiling(xml, filing.form, filing.issuerCik))

    it(`are those that a person reads in ${path}`, () => {
      assert.deepStrictEqual<unknown>(rows, makeExpectedRows(filing))
    })

    it(`are accepted by load: ${path} (D31)`, () => {
      const dataset = loadableDatasets.find(({ table }) => table === "ownership")
      if (dataset === undefined) return assert.fail("there is no dataset")
      const { validateRow } = makeRowValidator(dataset)
      rows.forEach((cells, index) => assert.isTrue(Result.isSuccess(validateRow({ line: index + 1, cells }))))
    })
  }

  it("do not exist for the malformed recording, whose rejection names the line", () => {
    const xml = ownershipRecordings.find(({ path }) => path === malformedRecording)?.xml ?? ""
    assert.deepStrictEqual(
      readFiling(xml, "SCHEDULE 13D/A", "0001101026"),
      Result.fail(new DocumentRejected({ url: documentUrl, reason: "is not well-formed XML (line 132)" })),
    )
  })
})
