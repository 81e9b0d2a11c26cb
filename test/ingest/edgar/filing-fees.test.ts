/** Tests registration amounts that are read from fee exhibits (decisions 0103 and 0128). */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it as unit, layer } from "@effect/vitest"
import { Effect, FileSystem, Result } from "effect"
import { SqlClient } from "effect/sql"
import { decodeFilingFees, findFeeInstance } from "../../../src/ingest/edgar/read/FilingFees.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { DatabaseUrl, withOwnDatabase } from "../../support/OwnDatabases.ts"

// @module-tag slow

const { snowflake, zivo } = Stub.stubCompanies

interface OfferingLine {
  readonly type?: string
  readonly title?: string
  readonly shares?: string
  readonly sharesUnit?: string
  readonly price?: string
  readonly priceUnit?: string
  readonly pricePerShare?: string
  readonly rate?: string
  readonly fee?: string
}

interface Exhibit {
  readonly lines?: ReadonlyArray<OfferingLine>
  readonly total?: string
  readonly fee?: string
  readonly fileNumber?: string
  /** Additional facts, as XML. */
  readonly facts?: string
}

const writeContext = (id: string, segment = "") =>
  `<context id="${id}"><entity><identifier scheme="http://www.sec.gov/CIK">0001640147</identifier>${segment}</entity>` +
  `<period><startDate>2026-06-01</startDate><endDate>2026-06-01</endDate></period></context>`

const writeLineContext = (id: string, line: string, axis = "ffd:OfferingAxis") =>
  writeContext(
    id,
    `<segment><xbrldi:typedMember dimension="${axis}"><dei:lineNo>${line}</dei:lineNo></xbrldi:typedMember></segment>`,
  )

const writeFact = (name: string, context: string, value: string | undefined, unit?: string) =>
  value === undefined
    ? ""
    : `<ffd:${name} contextRef="${context}"${
      unit === undefined ? "" : ` unitRef="${unit}" decimals="2"`
    }>${value}</ffd:${name}>`

const writeLine = (line: OfferingLine, index: number) => {
  const { price, priceUnit = "USD", shares, sharesUnit = "Shares", title = "Common Stock", type = "Equity" } = line
  const context = `offrl_${index + 1}`
  return writeFact("OfferingSctyTp", context, type) + writeFact("OfferingSctyTitl", context, title) +
    writeFact("AmtSctiesRegd", context, shares, sharesUnit) +
    writeFact("MaxAggtOfferingPric", context, price, priceUnit) +
    writeFact("MaxOfferingPricPerScty", context, line.pricePerShare, "USD") +
    writeFact("FeeRate", context, line.rate) + writeFact("FeeAmt", context, line.fee, "USD")
}

/** Builds an instance according to public descriptions of the format. No real instance was recorded. */
const writeExhibit = ({ facts = "", fee = "1.00", fileNumber, lines = [], total }: Exhibit) =>
  `<?xml version="1.0" encoding="utf-8"?>
<xbrl xmlns="http://www.xbrl.org/2003/instance" xmlns:dei="http://xbrl.sec.gov/dei/2025"
  xmlns:ffd="http://xbrl.sec.gov/ffd/2025" xmlns:iso4217="http://www.xbrl.org/2003/iso4217"
  xmlns:xbrldi="http://xbrl.org/2006/xbrldi">${writeContext("rc")}
${lines.map((_, index) => writeLineContext(`offrl_${index + 1}`, String(index + 1))).join("\n")}
${writeLineContext("offset_1", "1", "ffd:OffsetAxis")}
<unit id="USD"><measure>iso4217:USD</measure></unit><unit id="Shares"><measure>shares</measure></unit>
<unit id="EUR"><measure>iso4217:EUR</measure></unit><unit id="Ratio"><divide/></unit>
<ffd:SubmissnTp contextRef="rc">S-1</ffd:SubmissnTp>${writeFact("RegnFileNb", "rc", fileNumber)}
${lines.map(writeLine).join("\n")}
${writeFact("TtlOfferingAmt", "rc", total, "USD")}<ffd:TtlFeeAmt contextRef="rc" unitRef="USD">${fee}</ffd:TtlFeeAmt>
${facts}</xbrl>
`

const url = "https://www.sec.gov/Archives/edgar/data/1640147/000164014726000011/d98304dexfilingfees_htm.xml"

const decode = (text: string) => decodeFilingFees(text, url, "333-287699")

const feesOf = (exhibit: Exhibit) => {
  const { offeringAmount, sharesRegistered } = Result.getOrThrow(decode(writeExhibit(exhibit)))
  return [offeringAmount, sharesRegistered]
}

const reasonOf = (text: string) => {
  const result = decode(text)
  return Result.isFailure(result) ? result.failure.reason : assert.fail("the exhibit was accepted")
}

describe("A fee exhibit", () => {
  unit("states the total, even if its lines add up to another amount", () => {
    assert.deepStrictEqual(feesOf({ total: "24967390000.00", lines: [{ price: "25000000000" }] }), [
      "24967390000.00",
      null,
    ])
    assert.deepStrictEqual(feesOf({ total: "1200.005", lines: [{ price: "0" }] }), ["1200.01", null])
    const { elements } = Result.getOrThrow(decode(writeExhibit({ total: "5", lines: [{ shares: "1" }] })))
    assert.deepStrictEqual(elements, ["TtlOfferingAmt", "AmtSctiesRegd"])
  })

  unit("without a total has the sum of its lines, but never a part of it", () => {
    assert.deepStrictEqual(feesOf({ lines: [{ price: "10.10" }, { price: "5", type: "Debt" }] }), ["15.10", null])
    assert.deepStrictEqual(feesOf({ lines: [{ price: "10.10" }, {}] }), [null, null])
    assert.deepStrictEqual(feesOf({ lines: [{ price: "10.10" }, { price: "0" }] }), [null, null])
    const { elements } = Result.getOrThrow(decode(writeExhibit({ lines: [{ price: "5" }] })))
    assert.deepStrictEqual(elements, ["MaxAggtOfferingPric"])
  })

  unit("with deferred fees states no amount", () => {
    const lines = [{ title: "Common Stock" }, { type: "Debt", title: "Debt Securities" }]
    assert.deepStrictEqual(feesOf({ total: "0.00", lines }), [null, null])
    assert.deepStrictEqual(feesOf({ lines }), [null, null])
    assert.deepStrictEqual(feesOf({ total: "0", lines: [{ price: "5" }] }), [null, null])
    assert.deepStrictEqual(feesOf({}), [null, null])
  })

  unit("states the shares of all lines for equity, if each has them", () => {
    const total = "100"
    const sharesOf = (...lines: ReadonlyArray<OfferingLine>) => feesOf({ total, lines })[1]
    assert.strictEqual(sharesOf({ shares: "1200000" }, { shares: "34", title: "Series A Preferred Stock" }), "1200034")
    assert.strictEqual(sharesOf({ shares: "7.9" }), "7")
    assert.isNull(sharesOf({ shares: "7" }, {}))
    assert.isNull(sharesOf({ shares: "7" }, { shares: "8", sharesUnit: "USD" }))
    assert.isNull(sharesOf({ shares: "0" }))
    // Debt has no number of shares, whether its amount is a principal in USD or is stated in shares.
    assert.isNull(sharesOf({ shares: "3000000000", sharesUnit: "USD", type: "Debt", title: "Notes" }))
    assert.isNull(sharesOf({ shares: "1200000000", type: "Debt", title: "Deferred Compensation Obligations" }))
    assert.strictEqual(sharesOf({ shares: "7" }, { shares: "5", sharesUnit: "USD", type: "Debt", title: "Notes" }), "7")
  })

  unit("states no number of shares if a line for equity has units, warrants or an unknown security", () => {
    const sharesOf = (title: string) => feesOf({ total: "1", lines: [{ shares: "7" }, { shares: "1", title }] })[1]
    for (
      const title of [
        "Common Stock, par value $0.001 per share, reserved for issuance under the 2024 Stock Option Plan",
        "Common stock issuable upon exercise of warrants",
        "Class A ordinary shares underlying the Warrants",
        "Ordinary Shares (par value US$0.0001)",
      ]
    ) assert.strictEqual(sharesOf(title), "8", title)
    const others = [
      "Units, each consisting of one Class A ordinary share",
      "Warrants to purchase common stock",
      "Rights",
      "",
    ]
    for (const title of others) assert.isNull(sharesOf(title), title)
  })

  unit("may repeat a value, but not contradict it", () => {
    const repeated = (value: string) => writeFact("TtlOfferingAmt", "rc", value, "USD")
    assert.deepStrictEqual(feesOf({ total: "5.00", facts: repeated("5") }), ["5.00", null])
    assert.strictEqual(
      reasonOf(writeExhibit({ total: "5.00", facts: repeated("6") })),
      "has contradictory values of TtlOfferingAmt",
    )
    assert.strictEqual(
      reasonOf(writeExhibit({ total: "0", facts: repeated("6") })),
      "has contradictory values of TtlOfferingAmt",
    )
    const line = { shares: "5", price: "5" }
    assert.strictEqual(
      reasonOf(writeExhibit({ lines: [line], facts: writeFact("AmtSctiesRegd", "offrl_1", "6", "Shares") })),
      "has contradictory values of AmtSctiesRegd",
    )
  })

  unit("is set aside if its amounts contradict each other by a factor (decision 0103)", () => {
    const line = { shares: "1000000", pricePerShare: "10", price: "10000000", rate: "0.00015310", fee: "1531.00" }
    const whole = { total: "10000000", fee: "1531.00", lines: [line] }
    assert.deepStrictEqual(feesOf(whole), ["10000000.00", "1000000"])
    const reasons: ReadonlyArray<readonly [reason: string, exhibit: Exhibit]> = [
      ["has a total that is not the sum of its lines", { ...whole, total: "10000", lines: [{ ...line }] }],
      ["has a total that is not the sum of its lines", { ...whole, lines: [line, line, line] }],
      ["has a line whose amount is not that of its shares", { ...whole, lines: [{ ...line, shares: "1000" }] }],
      ["has a line whose amount is not that of its shares", { ...whole, lines: [{ ...line, pricePerShare: "0.01" }] }],
      ["has a line whose fee is not that of its amount", { ...whole, lines: [{ ...line, fee: "1.53" }] }],
      ["has a line whose fee is not that of its amount", {
        lines: [{ price: "10000", rate: "0.00015310", fee: "1531" }],
      }],
      ["has a fee that is not that of its total", {
        ...whole,
        total: "10000",
        lines: [{ ...line, price: "0", fee: "0" }],
      }],
    ]
    assert.deepStrictEqual(
      reasons.map(([, exhibit]) => reasonOf(writeExhibit(exhibit))),
      reasons.map(([reason]) => reason),
    )
    // Deferred fees and rounded prices contradict nothing.
    const deferred = { ...line, fee: "0" }
    assert.deepStrictEqual(feesOf({ ...whole, fee: "0", lines: [deferred] }), ["10000000.00", "1000000"])
    assert.deepStrictEqual(feesOf({ ...whole, lines: [{ ...line, pricePerShare: "10.004" }] }), [
      "10000000.00",
      "1000000",
    ])
  })

  unit("is set aside if a value is not what the format promises", () => {
    for (const total of ["-5", "NaN", "1e9", "5 million", "1,000", "99999999999999999"]) {
      assert.strictEqual(reasonOf(writeExhibit({ total })), "has no valid number in TtlOfferingAmt", total)
    }
    assert.strictEqual(reasonOf(writeExhibit({ total: "100000000000001" })), "has an impossible amount of dollars")
    const price = "90000000000000"
    assert.strictEqual(reasonOf(writeExhibit({ lines: [{ price }, { price }] })), "has an impossible amount of dollars")
    assert.match(reasonOf(writeExhibit({ lines: [{ shares: "9999999999999999" }] })), /^has more than \d+ shares$/)
    for (const priceUnit of ["EUR", "Shares", "Ratio", "unknown"]) {
      const reason = reasonOf(writeExhibit({ lines: [{ price: "5", priceUnit }] }))
      assert.strictEqual(reason, "has a unit other than USD in MaxAggtOfferingPric")
    }
  })

  unit("is set aside if it is another document", () => {
    const exhibit = writeExhibit({ total: "5", fileNumber: "333-287699" })
    assert.deepStrictEqual(feesOf({ total: "5", fileNumber: "333-287699-01" }), ["5.00", null])
    assert.strictEqual(reasonOf(exhibit.replace("333-287699", "333-287690")), "is about another registration")
    assert.strictEqual(reasonOf(exhibit.replaceAll("xbrl.sec.gov/ffd", "fasb.org/us-gaap")), "has no facts about fees")
    assert.strictEqual(reasonOf("<xbrl/>"), "is not an XBRL instance")
    assert.strictEqual(reasonOf("<ownershipDocument/>"), "is not an XBRL instance")
    assert.strictEqual(reasonOf(exhibit.replace('contextRef="rc"', 'contextRef="no"')), "has a fact without a context")
    assert.match(reasonOf(exhibit.replace("<xbrl", "<!DOCTYPE xbrl><xbrl")), /document type definition/)
    assert.match(reasonOf(exhibit.slice(0, -9)), /^is not well-formed XML/)
  })

  unit("has valid values after each change of a character, or is set aside", () => {
    const exhibit = writeExhibit({ total: "5.25", lines: [{ shares: "100", price: "5.25" }] })
    const reasons = new Set<string>()
    for (const position of Array.from(exhibit).keys()) {
      for (const character of ["", "9", "-", "<"]) {
        const result = decode(exhibit.slice(0, position) + character + exhibit.slice(position + 1))
        if (Result.isFailure(result)) {
          reasons.add(result.failure.reason.replace(/line \d+/, "line"))
          continue
        }
        const { offeringAmount, sharesRegistered } = result.success
        assert.match(offeringAmount ?? "0.00", /^\d{1,4}\.\d\d$/)
        assert.match(sharesRegistered ?? "0", /^\d{1,4}$/)
      }
    }
    assert.isAbove(reasons.size, 5)
  })

  unit("has values of other tables, which are ignored", () => {
    const facts = writeFact("AmtSctiesRegd", "offset_1", "9", "Shares") +
      writeFact("TtlOfferingAmt", "offset_1", "-9", "USD")
    assert.deepStrictEqual(feesOf({ total: "5", lines: [{ shares: "1" }], facts }), ["5.00", "1"])
  })

  unit("is found in the list of the folder by its name", () => {
    const list = (...names: ReadonlyArray<string>) =>
      findFeeInstance(JSON.stringify({ directory: { item: names.map((name) => ({ name })) } }), url)
    for (
      const name of [
        "d98304dexfilingfees_htm.xml",
        "ex107_htm.xml",
        "tm1-1_exfiling_fees_htm.xml",
        "ea0288752ex-fee_acme_htm.xml",
        "a2025s-8exhibit107_htm.xml",
        "EX-107_htm.xml",
      ]
    ) {
      assert.deepStrictEqual(
        list("0001.txt", name, "d98304ds8_htm.xml", name.replace("_htm.xml", ".htm")),
        Result.succeed(name),
      )
    }
    const recorded = Stub.readRecording("archives/0001213900-24-004875.index.json")
    assert.deepStrictEqual(findFeeInstance(recorded, url), Result.succeed(null))
    assert.deepStrictEqual(
      list("coffee-s1_htm.xml", "../ex107_htm.xml", "ex107.htm", "ex10-7_htm.xml"),
      Result.succeed(null),
    )
    assert.isTrue(Result.isFailure(list("ex107_htm.xml", "exfilingfees_htm.xml")))
    assert.isTrue(Result.isFailure(findFeeInstance("{}", url)))
    assert.isTrue(Result.isFailure(findFeeInstance("<html></html>", url)))
  })
})

const accessionOf = (number: number) => `0001640147-26-0000${number}`

const listFiling = (number: number, form: string, filingDate: string, fileNumber: string): Stub.ListedFiling => ({
  accession: accessionOf(number),
  form,
  filingDate,
  fileNumber,
  primaryDocument: `form${number}.htm`,
})

/**
 * One registration with two amendments, an older registration with a prospectus, a registration from before fee
 * exhibits existed, and an ownership form.
 */
const filings: ReadonlyArray<Stub.ListedFiling> = [
  listFiling(17, "S-1/A", "2026-06-05", "333-100001"),
  { accession: accessionOf(16), form: "4", filingDate: "2026-06-03", primaryDocument: "xslF345X05/form4.xml" },
  listFiling(15, "S-1/A", "2026-06-02", "333-100001"),
  listFiling(14, "424B3", "2026-05-03", "333-100002"),
  listFiling(13, "S-1", "2026-05-01", "333-100001"),
  listFiling(12, "S-8", "2024-03-01", "333-100002"),
  listFiling(11, "S-8", "2023-03-01", "333-100003"),
]

const pathOf = (number: number, document: string) =>
  Stub.getFilingDocumentPath(snowflake, accessionOf(number), document)

const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  const setFilings = (filings: ReadonlyArray<Stub.ListedFiling>) =>
    stub.responses.set(`/submissions/CIK${snowflake.cik}.json`, Stub.makeSubmissions(snowflake, filings))
  const addExhibit = (number: number, exhibit: Exhibit) => {
    const item = ["a.htm", "ex107.htm", "ex107_htm.xml"].map((name) => ({ name }))
    const body = JSON.stringify({ directory: { item } })
    stub.responses.set(pathOf(number, "index.json"), { status: 200, type: "application/json", body })
    stub.responses.set(pathOf(number, "ex107_htm.xml"), Stub.makeXmlResponse(writeExhibit(exhibit)))
  }
  stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([snowflake, zivo]))
  stub.responses.set(`/submissions/CIK${zivo.cik}.json`, Stub.makeSubmissions(zivo, []))
  setFilings(filings)
  stub.responses.set(
    pathOf(16, "form4.xml"),
    Stub.makeXmlResponse(Stub.readRecording("ownership/form4-derivative-and-holdings-snow.xml")),
  )
  addExhibit(13, { total: "1000000", lines: [{ shares: "100" }] })
  addExhibit(15, { total: "2000000.50", fileNumber: "333-100001", lines: [{ shares: "200" }] })
  addExhibit(12, { total: "300", lines: [{}] })
  const environment = {
    DATABASE_URL: yield* DatabaseUrl,
    EDGAR_BASE_URL: stub.url,
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
  }
  const ingest = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const before = stub.requests.length
    const only = args.includes("--only") ? [] : ["--only", "registrations,ownership"]
    const options = ["--since", "2026-01-01", ...only]
    const ended = yield* runCommandInProcess(["ingest", "edgar", ...options, ...args], environment)
    const paths = stub.requests.slice(before).map(({ path }) => path)
    return { ...ended, paths, documents: paths.filter((path) => path.startsWith("/Archives/edgar/data/")) }
  })
  return { stub, ingest, addExhibit, setFilings }
})

const sourceOf = (number: number, element: string) =>
  `https://www.sec.gov${pathOf(number, "ex107_htm.xml")}#ffd:${element}`

/** Reads the amounts of the registrations, oldest first, with the source URLs that point into fee exhibits. */
const readAmounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{
    readonly offering_amount: string | null
    readonly shares_registered: string | null
    readonly source: ReadonlyArray<string>
  }>`
    select offering_amount::text, shares_registered::text, source from registrations where ticker = 'SNOW'
    order by filed_at
  `
  return rows.map(({ offering_amount, shares_registered, source }) => [
    offering_amount,
    shares_registered,
    source.filter((url) => url.includes("ffd:")),
  ])
})

const readWaiting = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<{ readonly accession: string }>`select filing ->> 'accession' as accession from edgar_work where kind = 'form'`,
)

const readWork = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<{ readonly url: string; readonly reason: string }>`select url, reason from edgar_work where kind <> 'form'`,
)

const amounts = [
  [null, null, []],
  ["300.00", null, [sourceOf(12, "TtlOfferingAmt")]],
  ["2000000.50", "200", [sourceOf(15, "TtlOfferingAmt"), sourceOf(15, "AmtSctiesRegd")]],
]

layer(NodeServices.layer, { excludeTestServices: true })("The ingest of fee exhibits", (it) => {
  it.effect("reads them after all lists, newest first, if all companies are ingested (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const { documents, err } = yield* ingest("--all")
      assert.strictEqual(err, "")
      const submissions = stub.requests.findLastIndex(({ path }) => path.startsWith("/submissions/"))
      const first = stub.requests.findIndex(({ path }) => path.startsWith("/Archives/edgar/data/"))
      assert.isAbove(first, submissions)
      // Documents are requested concurrently, so their order may vary.
      assert.sameMembers(documents, [
        pathOf(17, "index.json"),
        pathOf(16, "form4.xml"),
        ...[15, 13, 12].flatMap((number) => [pathOf(number, "index.json"), pathOf(number, "ex107_htm.xml")]),
      ])
      assert.deepStrictEqual(yield* readAmounts, amounts)
      assert.deepStrictEqual(yield* readWaiting, [])
      assert.deepStrictEqual(yield* readWork, [])
      assert.deepStrictEqual((yield* ingest("--tickers", "SNOW")).documents, [])
      assert.deepStrictEqual(yield* readAmounts, amounts)
    })))

  it.effect("reads them at once for chosen companies, and keeps the amounts if an amendment states none (decision 0103)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { addExhibit, ingest, setFilings } = yield* startMarket
      const first = yield* ingest("--tickers", "SNOW")
      assert.strictEqual(first.code, 0, first.err)
      assert.deepStrictEqual(yield* readAmounts, amounts)
      assert.match(first.out, /1 company, 9 documents, 0 set aside/)

      // An amount from another source is kept, even when the row changes.
      yield* sql`update registrations set offering_amount = 77, shares_registered = 7 where file_no = '333-100003'`
      yield* sql`update registrations set shares_registered = 9 where file_no = '333-100002'`
      addExhibit(18, { total: "0", lines: [{}] })
      const amended = [
        listFiling(19, "S-1/A", "2026-06-07", "333-100001"),
        listFiling(18, "S-1/A", "2026-06-06", "333-100001"),
        ...filings,
      ]
      setFilings(amended)
      const second = yield* ingest("--tickers", "SNOW")
      assert.sameMembers(second.documents, [
        pathOf(19, "index.json"),
        pathOf(18, "index.json"),
        pathOf(18, "ex107_htm.xml"),
      ])
      assert.deepStrictEqual(yield* readAmounts, [
        ["77.00", "7", []],
        ["300.00", "9", ...amounts[1]?.slice(2) ?? []],
        amounts[2],
      ])

      addExhibit(20, { total: "5", lines: [{ shares: "1" }, {}] })
      setFilings([listFiling(20, "S-1/A", "2026-06-08", "333-100001"), ...amended])
      yield* ingest("--tickers", "SNOW")
      assert.deepStrictEqual((yield* readAmounts)[1]?.slice(0, 2), ["300.00", "9"])
      assert.deepStrictEqual((yield* readAmounts).at(-1), ["5.00", null, [sourceOf(20, "TtlOfferingAmt")]])
      const [row] = yield* sql`select details from registrations where file_no = '333-100001'`
      assert.match(String(row?.["details"]), /^5 amendments\. The type follows from the form/)
    })))

  it.effect("requests an exhibit again that is missing or damaged, even if a newer one was read meanwhile (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { addExhibit, ingest, stub } = yield* startMarket
      addExhibit(13, { total: "NaN" })
      stub.responses.set(pathOf(15, "ex107_htm.xml"), Stub.missingDocumentResponse)
      stub.responses.set(pathOf(12, "index.json"), Stub.missingDocumentResponse)
      yield* ingest("--all")
      const urlOf = (number: number, document: string) => `https://www.sec.gov${pathOf(number, document)}`
      assert.sameDeepMembers((yield* readWork).map((row) => ({ ...row })), [
        { url: urlOf(13, "ex107_htm.xml"), reason: "has no valid number in TtlOfferingAmt" },
        { url: urlOf(15, "ex107_htm.xml"), reason: "is not there" },
        { url: urlOf(12, "index.json"), reason: "is not there" },
      ])
      assert.deepStrictEqual(yield* readAmounts, [[null, null, []], [null, null, []], [null, null, []]])
      assert.deepStrictEqual(yield* readWaiting, [])

      addExhibit(12, { total: "300", lines: [{}] })
      addExhibit(13, { total: "1000000", lines: [{ shares: "100" }] })
      yield* sql`update edgar_work set next_try_at = now() - interval '1 hour'`
      yield* ingest("--all")
      assert.deepStrictEqual((yield* readAmounts).at(-1), [
        "1000000.00",
        "100",
        [sourceOf(13, "TtlOfferingAmt"), sourceOf(13, "AmtSctiesRegd")],
      ])
      addExhibit(15, { total: "2000000.50", lines: [{ shares: "200" }] })
      yield* sql`update edgar_work set next_try_at = now() - interval '1 hour'`
      const { documents } = yield* ingest("--all")
      assert.sameMembers(documents, [pathOf(15, "index.json"), pathOf(15, "ex107_htm.xml")])
      assert.deepStrictEqual(yield* readAmounts, amounts)
      assert.deepStrictEqual(yield* readWork, [])
    })))

  it.effect("leaves the statements to a run that ingests registrations, and writes no amounts to files (operations/ingest-edgar)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { ingest } = yield* startMarket
      const folder = yield* fs.makeTempDirectoryScoped()
      const written = yield* ingest("--tickers", "SNOW", "--out", folder)
      assert.deepStrictEqual(written.documents, [pathOf(16, "form4.xml")])
      assert.deepStrictEqual((yield* ingest("--all", "--only", "ownership")).documents, [pathOf(16, "form4.xml")])
      assert.deepStrictEqual(yield* readAmounts, [])
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into edgar_work (cik, url, kind, filing, next_try_at, parser_version)
        values (${snowflake.cik}, ${`https://www.sec.gov${pathOf(13, "index.json")}`}, 'form', ${
        JSON.stringify({
          accession: accessionOf(13),
          form: "S-1",
          fileNumber: "333-100001",
          filingDate: "2026-05-01",
          acceptedAt: null,
          primaryDocument: "form13.htm",
        })
      }::text::jsonb, now(), 1)
      `
      assert.deepStrictEqual((yield* ingest("--all", "--only", "ownership")).documents, [])
      assert.strictEqual((yield* readWaiting).length, 1)
      yield* ingest("--all", "--only", "registrations")
      assert.deepStrictEqual(yield* readAmounts, amounts)
      assert.deepStrictEqual(yield* readWaiting, [])
    })))
})
