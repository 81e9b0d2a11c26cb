/**
 * Tests the rows of news, registrations and screener that are built from recorded submissions. The expected values were
 * written by hand. The tests cover these pitfalls of the data: unclear time zones (1), delisted companies (4), several
 * symbols (5), and withdrawals (12).
 */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import {
  buildFilingXmlUrl,
  buildSubmissionsPageUrl,
  buildSubmissionsUrl,
} from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { makeCurrentCount } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { findNewsDoubts, makeNewsRows } from "../../../src/ingest/edgar/read/NewsRows.ts"
import { makeRegistrationRows } from "../../../src/ingest/edgar/read/RegistrationRows.ts"
import { makeScreenerRows } from "../../../src/ingest/edgar/read/ScreenerRows.ts"
import { assessCounts } from "../../../src/ingest/edgar/read/ShareCounts.ts"
import {
  decodeSubmissions,
  decodeSubmissionsPage,
  type EdgarFiling,
} from "../../../src/ingest/edgar/read/Submissions.ts"
import {
  ciks,
  factsOf,
  filingsOf,
  imunonPage,
  issuerOf,
  readRecording,
  submissionsOf,
  submissionsText,
  today,
} from "./Recordings.ts"

const newsOf = (cik: string, accession: string) =>
  makeNewsRows(issuerOf(cik), filingsOf(cik)).find((row) => row["accession_number"] === accession)

const registrationsOf = (cik: string, filings = filingsOf(cik)) => makeRegistrationRows(issuerOf(cik), filings, today)

const registrationOf = (cik: string, fileNumber: string) =>
  registrationsOf(cik).find((row) => row["file_no"] === fileNumber)

describe("News of a filing", () => {
  it("has the form, items, link and both times", () => {
    assert.deepStrictEqual(newsOf(ciks.imunon, "0001493152-26-005203"), {
      id: "0000749647-0001493152-26-005203",
      ticker: "IMNN",
      tickers: ["IMNN"],
      form_type: "8-K",
      title: "8-K: items 5.02, 9.01",
      tags: ["5.02", "9.01"],
      accession_number: "0001493152-26-005203",
      document_url: "https://www.sec.gov/Archives/edgar/data/749647/000149315226005203/form8-k.htm",
      filed_at: "2026-02-05",
      filed_at_time: "2026-02-05 08:05:45",
      created_at: "2026-02-05 08:05:45",
      last_updated: "2026-02-05 08:05:45",
      source: ["https://data.sec.gov/submissions/CIK0000749647.json#0001493152-26-005203"],
    })
  })

  it("has different times in New York and at the fixed offset in summer (D15)", () => {
    const row = newsOf(ciks.apple, "0000320193-22-000061")
    assert.strictEqual(row?.["filed_at_time"], "2022-05-06 18:30:57")
    assert.strictEqual(row?.["created_at"], "2022-05-06 17:30:57")
  })

  it("has the official date, which is the next business day for a filing in the evening", () => {
    const row = newsOf(ciks.imunon, "0001437749-18-010282")
    assert.strictEqual(row?.["filed_at"], "2018-05-18")
    assert.strictEqual(row?.["filed_at_time"], "2018-05-17 19:17:19")
  })

  it("links to the index page if the SEC names no document, and has no time if the SEC has only a date (pitfall 1)", () => {
    const row = newsOf(ciks.imunon, "0000749647-96-000001")
    const folder = "https://www.sec.gov/Archives/edgar/data/749647/000074964796000001"
    assert.strictEqual(row?.["document_url"], `${folder}/0000749647-96-000001-index.htm`)
    assert.isNull(row?.["filed_at_time"])
    assert.strictEqual(row?.["created_at"], "1996-08-07 00:00:00")
    assert.deepStrictEqual(row?.["source"], [
      `https://data.sec.gov/submissions/${imunonPage}#0000749647-96-000001`,
    ])
  })

  it("has no time if the SEC's is more than a year from the filing, which is said (decision 0103)", () => {
    const accession = "0001493152-26-005203"
    assert.deepStrictEqual(findNewsDoubts(filingsOf(ciks.imunon)), [])
    for (const stamp of ["2036-02-05T13:05:45.000Z", "2024-02-05T13:05:45.000Z", "1926-02-05T13:05:45.000Z"]) {
      const text = submissionsText(ciks.imunon).replace("2026-02-05T13:05:45.000Z", stamp)
      const { filings } = Result.getOrThrow(decodeSubmissions(text, buildSubmissionsUrl(ciks.imunon)))
      const row = makeNewsRows(issuerOf(ciks.imunon), filings).find((row) => row["accession_number"] === accession)
      const midnight = "2026-02-05 00:00:00"
      assert.deepInclude(row, { filed_at_time: null, created_at: midnight, last_updated: midnight })
      assert.deepStrictEqual(findNewsDoubts(filings), [{
        table: "news",
        url: `https://data.sec.gov/submissions/CIK0000749647.json#${accession}`,
        column: "filed_at_time",
        read: stamp.replace("T", " ").replace(".000Z", ""),
        confirmable: stamp.replace("T", " ").replace(".000Z", ""),
        published: null,
        reason: "is more than a year from the date of the filing",
      }])
    }
  })

  it("has the filer's description, unless it only repeats the form", () => {
    const titles = (cik: string) => new Set(makeNewsRows(issuerOf(cik), filingsOf(cik)).map(({ title }) => title))
    const imunon = titles(ciks.imunon)
    for (const title of ["424B5: PROSPECTUS SUPPLEMENT", "424B5", "8-K: item 1", "EFFECT", "CT ORDER"]) {
      assert.isTrue(imunon.has(title), title)
    }
    const descriptions = new Set(filingsOf(ciks.imunon).map(({ description }) => description))
    for (const [form, repetition] of [["8-K", "FORM 8 K"], ["8-K", "FORM 8K"], ["4", "FORM 4 -"], ["8-K", "8-K"]]) {
      assert.isTrue(descriptions.has(String(repetition)))
      assert.isFalse(imunon.has(`${form}: ${repetition}`), repetition)
    }
    assert.isFalse(imunon.has("8-K: PRIMARY DOCUMENT"))
    assert.isTrue(titles(ciks.unicycive).has("8-K: CURRENT REPORT, items 8.01, 9.01"))
  })

  it("has no tags for EFFECT and CT ORDER, whose items are forms and dates", () => {
    const rows = makeNewsRows(issuerOf(ciks.imunon), filingsOf(ciks.imunon))
    const tags = new Set(rows.flatMap((row) => row["tags"] ?? []))
    assert.deepStrictEqual(Array.from(tags).filter((tag) => !/^(\d\d?(\.\d\d)?|06b?)$/.test(tag)), [])
    assert.isTrue(tags.has("5.02") && tags.has("06b"))
  })

  it("names all symbols of the company (pitfall 5)", () => {
    const issuer = issuerOf(ciks.twoHarbors)
    assert.deepStrictEqual(issuer.tickers, ["TWO", "TWO-PC", "TWO-PB", "TWO-PA", "TWOD"])
    const rows = makeNewsRows(issuer, filingsOf(ciks.twoHarbors))
    assert.deepStrictEqual(Array.from(new Set(rows.map(({ ticker }) => ticker))), ["TWO"])
    assert.deepStrictEqual(rows[0]?.["tickers"], issuer.tickers)
    assert.strictEqual(issuerOf(ciks.fannieMae).tickers.length, 16)
  })

  it("has one row for each company that the filing names", () => {
    const accession = "0000320193-22-000061"
    assert.strictEqual(newsOf(ciks.apple, accession)?.["id"], `0000320193-${accession}`)
    assert.strictEqual(newsOf(ciks.appleOfficer, accession)?.["id"], `0001462356-${accession}`)
  })
})

describe("A registration", () => {
  it("joins S-3, EFFECT and four 424B5 by file number", () => {
    assert.deepStrictEqual(registrationOf(ciks.imunon, "333-279425"), {
      id: "0000749647-333-279425",
      ticker: "IMNN",
      headline: "S-3 of Imunon, Inc.: effective since 2024-05-22",
      type: "shelf",
      form_type: "S-3",
      file_no: "333-279425",
      filed_at: "2024-05-15",
      effective_date: "2024-05-22",
      effective_status: "true",
      expiration_date: "2027-05-22",
      details: "4 prospectuses (424B5), latest 2025-12-31. The type follows from the form. " +
        "Ends three years after it became effective (Rule 415(a)(5)).",
      document_url: "https://www.sec.gov/Archives/edgar/data/749647/000149315224019876/forms-3.htm",
      last_updated: "2025-12-31 08:15:19",
      source: [
        "https://data.sec.gov/submissions/CIK0000749647.json#0001493152-24-019876",
        "https://data.sec.gov/submissions/CIK0000749647.json#9999999995-24-001628",
        "https://data.sec.gov/submissions/CIK0000749647.json#0001493152-25-029712",
      ],
    })
  })

  it("joins S-1, EFFECT and 424B3, and says that its type follows from the form", () => {
    const row = registrationOf(ciks.imunon, "333-287699")
    assert.strictEqual(row?.["type"], "offering")
    assert.strictEqual(row?.["effective_date"], "2025-06-13")
    assert.strictEqual(
      row?.["details"],
      "1 prospectus (424B3), latest 2025-06-13. The type follows from the form; the text may show a resale or an " +
        "equity line.",
    )
    // The notice's timestamp is 00:15 on a later day, so the notice is the last update of the registration.
    assert.strictEqual(row?.["last_updated"], "2025-06-16 00:15:23")
  })

  it("is not effective after RW withdrew it (pitfall 12)", () => {
    const row = registrationOf(ciks.imunon, "333-286403")
    assert.strictEqual(row?.["effective_status"], "false")
    assert.isNull(row?.["effective_date"])
    assert.strictEqual(row?.["headline"], "S-1 of Imunon, Inc.: withdrawn on 2025-05-22")
    assert.match(String(row?.["details"]), /^2 amendments\. /)
  })

  it("on the automatic Forms S-3ASR and S-1MEF is effective upon filing (operations/edgar-fields)", () => {
    const asr = registrationOf(ciks.apple, "333-282937")
    assert.strictEqual(asr?.["filed_at"], "2024-11-01")
    assert.strictEqual(asr?.["effective_date"], "2024-11-01")
    assert.strictEqual(asr?.["type"], "shelf")
    const mef = registrationOf(ciks.vincerx, "333-236929")
    assert.strictEqual(mef?.["effective_date"], "2020-03-05")
    assert.strictEqual(mef?.["type"], "offering")
  })

  it("has been effective since an unknown day if only a prospectus from before the first EFFECT notices shows it", () => {
    const row = registrationOf(ciks.imunon, "333-115890")
    assert.strictEqual(row?.["filed_at"], "2004-05-26")
    assert.strictEqual(row?.["effective_status"], "true")
    assert.isNull(row?.["effective_date"])
    assert.strictEqual(row?.["headline"], "S-3 of Imunon, Inc.: effective")
  })

  it("has no row if nothing shows whether it became effective", () => {
    assert.isTrue(filingsOf(ciks.imunon).some(({ fileNumber, form }) => fileNumber === "333-64710" && form === "S-3"))
    assert.isUndefined(registrationOf(ciks.imunon, "333-64710"))
  })

  it("keeps its first effective date even if a POS AM becomes effective later (operations/edgar-fields)", () => {
    const row = registrationOf(ciks.vincerx, "333-252589")
    assert.strictEqual(row?.["effective_date"], "2021-02-09")
    assert.strictEqual(row?.["last_updated"], "2025-05-05 00:15:04")
  })

  it("includes F-3 and F-4 with their amendments", () => {
    assert.deepStrictEqual(
      registrationsOf(ciks.trFinance).map((row) => [row["file_no"], row["form_type"], row["effective_date"]]),
      [
        ["333-285927", "F-3", "2025-04-03"],
        ["333-284840", "F-4", "2025-03-13"],
        ["333-280007", "F-3", "2024-06-24"],
        ["333-265541", "F-3", "2022-07-05"],
        ["333-239392", "F-3", "2020-07-09"],
      ],
    )
  })

  it("on Form S-8, S-4 or F-4 says what the shares are for, and does not end after three years (operations/edgar-fields)", () => {
    const exchange = registrationOf(ciks.trFinance, "333-284840")
    assert.strictEqual(exchange?.["type"], "offering")
    assert.strictEqual(
      exchange?.["details"],
      "2 amendments. 1 prospectus (424B3), latest 2025-03-13. The form is for shares issued in a merger or an exchange.",
    )
    const plan = registrationOf(ciks.apple, "333-203698")
    assert.deepStrictEqual(
      ["type", "effective_date", "effective_status", "expiration_date"].map((column) => plan?.[column]),
      ["offering", "2015-04-28", "true", null],
    )
    assert.deepStrictEqual(plan?.["source"], [
      "https://data.sec.gov/submissions/CIK0000320193.json#0001193125-15-153187",
    ])
    const amended = registrationOf(ciks.vincerx, "333-257042")
    assert.strictEqual(amended?.["headline"], "S-8 of Vincerx Pharma, Inc.: effective since 2021-06-11")
    assert.strictEqual(
      amended?.["details"],
      "1 amendment. The form is for the company's plans for its staff; an amendment may have ended it.",
    )
  })

  it("on Form S-8 has a status even before the first EFFECT notices, because it needs none (Rule 462)", () => {
    assert.strictEqual(registrationOf(ciks.imunon, "333-67508")?.["effective_date"], "2001-08-14")
  })

  it("is never made from an F-6 or from filings whose statement is not listed", () => {
    const forms = [ciks.apple, ciks.imunon, ciks.vincerx, ciks.siemensEnergy].flatMap((cik) =>
      registrationsOf(cik).map((row) => row["form_type"])
    )
    assert.sameMembers(Array.from(new Set(forms)), ["S-1", "S-1MEF", "S-3", "S-3ASR", "S-3MEF", "S-8"])
    assert.isTrue(filingsOf(ciks.apple).some(({ fileNumber }) => fileNumber === "333-188191"))
    assert.isUndefined(registrationOf(ciks.apple, "333-188191"))
    assert.isTrue(filingsOf(ciks.apple).some(({ fileNumber }) => fileNumber === "333-165214"))
    assert.isUndefined(registrationOf(ciks.apple, "333-165214"))
  })

  it("has no columns for amounts and banks, which the list of filings does not state", () => {
    const columns = new Set(registrationsOf(ciks.imunon).flatMap((row) => Object.keys(row)))
    for (const column of ["offering_amount", "shares_registered", "bank", "is_atm"]) {
      assert.isFalse(columns.has(column), column)
    }
  })

  const base: EdgarFiling = {
    accession: "0000000001-26-000001",
    form: "S-1",
    filingDate: "2026-01-05",
    stamp: "",
    acceptedAt: null,
    fileNumber: "333-1",
    items: [],
    primaryDocument: "a.htm",
    description: null,
    isXbrl: false,
    source: "https://data.sec.gov/submissions/CIK0000749647.json#0000000001-26-000001",
  }
  const later = (form: string, day: string): EdgarFiling => ({
    ...base,
    form,
    filingDate: day,
    accession: `0000000001-26-0000${day.slice(8)}`,
  })
  const makeRow = (...filings: ReadonlyArray<EdgarFiling>) => registrationsOf(ciks.imunon, filings)[0]

  const statement = (form: string, filingDate: string, fileNumber = "333-1"): EdgarFiling => ({
    ...base,
    form,
    filingDate,
    fileNumber,
    accession: `0000000001-${filingDate.slice(2, 4)}-0${filingDate.slice(5, 7)}0${filingDate.slice(8)}`,
  })
  const on = (day: string, ...filings: ReadonlyArray<EdgarFiling>) => {
    const [row] = makeRegistrationRows(issuerOf(ciks.imunon), filings, day)
    return [row?.["effective_status"], row?.["expiration_date"], String(row?.["headline"]).replace(/^.*: /, "")]
  }

  it("on Form S-3 ends three years after it became effective (Rule 415(a)(5))", () => {
    const shelf = [statement("S-3", "2023-01-05"), statement("EFFECT", "2023-02-10"), statement("424B5", "2024-01-02")]
    assert.deepStrictEqual(on("2026-02-10", ...shelf), ["true", "2026-02-10", "effective since 2023-02-10"])
    assert.deepStrictEqual(on("2026-02-11", ...shelf), ["false", "2026-02-10", "expired on 2026-02-10"])
    const leapDay = [statement("F-3ASR", "2024-02-29")]
    assert.deepStrictEqual(on("2027-03-01", ...leapDay), ["false", "2027-02-28", "expired on 2027-02-28"])
    const withdrawn = [...shelf, statement("RW", "2024-05-01")]
    assert.deepStrictEqual(on("2026-02-11", ...withdrawn), ["false", null, "withdrawn on 2024-05-01"])
    const old = [statement("S-3", "2004-01-05"), statement("424B5", "2004-02-10")]
    assert.deepStrictEqual(on("2008-12-01", ...old), ["true", null, "effective"])
    assert.deepStrictEqual(on("2008-12-02", ...old), ["false", null, "expired before 2008-12-01"])
  })

  it("ends later if a new statement was pending then, but at most 180 days later (Rule 415(a)(5))", () => {
    const shelf = [statement("S-3", "2023-01-05"), statement("EFFECT", "2023-02-10")]
    const renewal = statement("S-3", "2026-02-01", "333-2")
    assert.deepStrictEqual(on("2026-02-11", ...shelf, renewal), ["true", "2026-08-09", "effective since 2023-02-10"])
    const renewed = [...shelf, renewal, statement("EFFECT", "2026-03-01", "333-2")]
    assert.deepStrictEqual(on("2026-03-01", ...renewed), ["true", "2026-03-01", "effective since 2023-02-10"])
    assert.deepStrictEqual(on("2026-03-02", ...renewed), ["false", "2026-03-01", "expired on 2026-03-01"])
    const late = [...shelf, renewal, statement("EFFECT", "2026-12-01", "333-2")]
    assert.deepStrictEqual(on("2026-08-10", ...late), ["false", "2026-08-09", "expired on 2026-08-09"])
    const early = [...shelf, renewal, statement("EFFECT", "2026-02-05", "333-2")]
    assert.deepStrictEqual(on("2026-02-11", ...early), ["false", "2026-02-10", "expired on 2026-02-10"])
    // The prospectus shows that the new statement was already in use, even though there is no notice of effectiveness.
    const used = [...shelf, renewal, statement("424B5", "2026-02-06", "333-2")]
    assert.deepStrictEqual(on("2026-02-11", ...used), ["false", "2026-02-10", "expired on 2026-02-10"])
  })

  it("does not end after three years if it is for resales, or not a shelf (Rule 415(a)(5))", () => {
    const effect = statement("EFFECT", "2020-02-10")
    for (const form of ["424B7", "424B3"]) {
      const resale = [statement("S-3", "2020-01-05"), effect, statement(form, "2020-02-11")]
      assert.deepStrictEqual(on("2026-02-11", ...resale), ["true", null, "effective since 2020-02-10"])
    }
    const offering = [statement("S-1", "2020-01-05"), effect, statement("424B4", "2020-02-11")]
    assert.deepStrictEqual(on("2026-02-11", ...offering), ["true", null, "effective since 2020-02-10"])
  })

  it("is pending without a notice, and pending again after an RW WD withdrew its withdrawal (operations/edgar-fields)", () => {
    assert.strictEqual(makeRow(base)?.["headline"], "S-1 of Imunon, Inc.: pending")
    const row = makeRow(later("RW WD", "2026-01-09"), later("RW", "2026-01-07"), base)
    assert.strictEqual(row?.["headline"], "S-1 of Imunon, Inc.: pending")
  })

  it("is a resale if it has a prospectus under Rule 424(b)(7), and none that shows sales by the company", () => {
    const s3 = { ...base, form: "S-3ASR" }
    assert.strictEqual(makeRow(s3, later("424B7", "2026-01-09"))?.["type"], "resale")
    assert.strictEqual(makeRow(s3, later("424B7", "2026-01-09"), later("424B5", "2026-01-10"))?.["type"], "shelf")
  })

  it("does not mistake the notice of an amendment for the first notice", () => {
    const row = makeRow(
      base,
      later("424B3", "2026-01-09"),
      later("POS AM", "2026-01-12"),
      later("EFFECT", "2026-01-20"),
    )
    assert.strictEqual(row?.["effective_status"], "true")
    assert.isNull(row?.["effective_date"])
  })
})

describe("The screener row", () => {
  it("has the identity of the company, and nothing about its location", () => {
    assert.deepStrictEqual(makeScreenerRows(issuerOf(ciks.imunon), submissionsOf(ciks.imunon)), [{
      ticker: "IMNN",
      company: "Imunon, Inc.",
      cik: "0000749647",
      exchange: "Nasdaq",
      industry: "Pharmaceutical Preparations",
      is_adr: "false",
      outstanding: null,
      pending_s1: "false",
      last_updated: "2026-02-17 21:50:37",
      source: ["https://data.sec.gov/submissions/CIK0000749647.json"],
    }])
  })

  it("has the current number of shares outstanding, with its document (D38)", () => {
    const facts = factsOf(ciks.apple)
    const count = makeCurrentCount(
      issuerOf(ciks.apple),
      assessCounts({ facts, filings: submissionsOf(ciks.apple).filings }),
    )
    const [row] = makeScreenerRows(issuerOf(ciks.apple), submissionsOf(ciks.apple), count)
    assert.strictEqual(row?.["outstanding"], "14681140000")
    assert.include(
      row?.["source"] ?? [],
      "https://data.sec.gov/api/xbrl/companyfacts/CIK0000320193.json#dei/EntityCommonStockSharesOutstanding/shares/" +
        "0000320193-26-000006/2026-01-16",
    )
  })

  it("has no industry if the SEC names none", () => {
    const [row] = makeScreenerRows(issuerOf(ciks.siemensEnergy), submissionsOf(ciks.siemensEnergy))
    assert.isNull(row?.["industry"])
    assert.strictEqual(row?.["last_updated"], "2026-01-30 00:00:00")
  })

  it("distinguishes depositary receipts from ordinary shares of the same company by F-6 and the symbol", () => {
    const submissions = submissionsOf(ciks.siemensEnergy)
    const issuer = issuerOf(ciks.siemensEnergy)
    assert.strictEqual(issuer.ticker, "SMEGF")
    assert.strictEqual(makeScreenerRows(issuer, submissions)[0]?.["is_adr"], "false")
    const [receipt] = makeScreenerRows({ ...issuer, ticker: "SMNEY" }, submissions)
    assert.strictEqual(receipt?.["is_adr"], "true")
    assert.deepStrictEqual(receipt?.["source"], [
      "https://data.sec.gov/submissions/CIK0001830056.json",
      "https://data.sec.gov/submissions/CIK0001830056.json#0001193805-26-000032",
    ])
    const [listed] = makeScreenerRows({ ...issuer, ticker: "SMNE", exchange: "NYSE" }, submissions)
    assert.strictEqual(listed?.["is_adr"], "true")
  })

  it("shows a pending S-1 with its filing", () => {
    const submissions = submissionsOf(ciks.imunon)
    const before = submissions.filings.filter(({ filingDate }) => filingDate < "2025-05-22")
    const [row] = makeScreenerRows(issuerOf(ciks.imunon), { ...submissions, filings: before })
    assert.strictEqual(row?.["pending_s1"], "true")
    assert.include(row?.["source"] ?? [], "https://data.sec.gov/submissions/CIK0000749647.json#0001641172-25-002783")
  })

  it("does not exist without filings", () => {
    assert.deepStrictEqual(makeScreenerRows(issuerOf(ciks.imunon), { ...submissionsOf(ciks.imunon), filings: [] }), [])
  })
})

describe("Submissions", () => {
  it("list their older pages, whose arrays are at the top level", () => {
    assert.deepStrictEqual(submissionsOf(ciks.imunon).pages, [
      { name: imunonPage, filingTo: "2010-07-24" },
    ])
    assert.strictEqual(submissionsOf(ciks.fannieMae).pages.length, 3)
    const url = buildSubmissionsPageUrl(imunonPage)
    const { filings: page } = Result.getOrThrow(
      decodeSubmissionsPage(readRecording(`submissions/${imunonPage}`), url),
    )
    assert.strictEqual(page.length, 395)
    assert.strictEqual(page.filter(({ primaryDocument }) => primaryDocument === "").length, 47)
  })

  it("name a rendering, from which the URL of the XML follows", () => {
    const filing = filingsOf(ciks.imunon).find(({ form }) => form === "3")
    assert.strictEqual(filing?.primaryDocument, "xslF345X02/rdgdoc.xml")
    assert.strictEqual(
      buildFilingXmlUrl(ciks.imunon, filing?.accession ?? "", filing?.primaryDocument ?? ""),
      "https://www.sec.gov/Archives/edgar/data/749647/000143774926001546/rdgdoc.xml",
    )
  })

  const text = submissionsText(ciks.siemensEnergy)
  const url = buildSubmissionsUrl(ciks.siemensEnergy)
  const reject = (changed: string) => {
    assert.notStrictEqual(changed, text)
    const result = decodeSubmissions(changed, url)
    assert.isTrue(Result.isFailure(result))
    return Result.isFailure(result) ? result.failure.reason : ""
  }

  it("are rejected with a reason that repeats no text of the document", () => {
    assert.strictEqual(reject(text.slice(0, 900)), "is not complete JSON")
    assert.strictEqual(
      reject("<!DOCTYPE html><title>SEC.gov | Request Rate"),
      "is an HTML or XML page instead of JSON",
    )
    assert.strictEqual(
      reject(text.replace(`"form":[`, `"form":{},"a":[`)),
      "has an unexpected value at filings.recent.form",
    )
    assert.strictEqual(reject(text.replace(`"F-6",`, "")), "has arrays of filings with different lengths")
    assert.strictEqual(reject(text.replace("0001830056", "0001830057")), "is about the company with the CIK 0001830057")
    assert.strictEqual(reject("[]"), "does not have the expected form")
  })

  it("set only the filings aside that are not readable (decision 0105)", () => {
    const complete = submissionsOf(ciks.siemensEnergy).filings
    const decode = (changed: string) => Result.getOrThrow(decodeSubmissions(changed, url))
    const cases = [
      [text.replace('2026-01-16"', '2026-02-30"'), `${url}#${complete[1]?.accession}`, "filingDate"],
      [text.replace(`"F-6"`, "6"), `${url}#${complete[1]?.accession}`, "form"],
      [text.replace(`"${complete[1]?.accession}"`, `"x"`), `${url}#1`, "accessionNumber"],
    ] as const
    for (const [changed, element, column] of cases) {
      const { filings, rejections } = decode(changed)
      assert.deepStrictEqual(filings, complete.toSpliced(1, 1))
      assert.deepStrictEqual(rejections.map(({ message }) => message), [
        `${element}: has an unexpected value at ${column}`,
      ])
    }
  })

  it("may contain properties that are not known yet", () => {
    const extended = text.replace(`"cik"`, `"newElement":{"a":1},"cik"`).replace(`"form":[`, `"newArray":[],"form":[`)
    assert.deepStrictEqual(decodeSubmissions(extended, url), decodeSubmissions(text, url))
  })
})
