/**
 * Tests Schedules 13D and 13G filed before December 2024, of which the ingest reads only the header (decision 0100).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it as unit, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { makeOwnershipRows } from "../../../src/ingest/edgar/read/OwnershipRows.ts"
import { xmlLimits } from "../../../src/ingest/edgar/read/XmlDocument.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { DatabaseUrl, withOwnDatabase } from "../../support/OwnDatabases.ts"

// @module-tag waiting

const { snowflake, zivo } = Stub.stubCompanies

interface Party {
  readonly name: string
  readonly cik: string
}

const form4Header = Stub.readRecording("archives/0001062993-24-012217.hdr.sgml")

const [, owner = ""] = /(<REPORTING-OWNER>[\s\S]*<\/REPORTING-OWNER>\n)/.exec(form4Header) ?? []

/** An invented address. The recording contains no addresses. */
const address = "<MAIL-ADDRESS>\n<STREET1>1 FICTION ROAD\n<CITY>NOWHERE\n<PHONE>555-0100\n</MAIL-ADDRESS>\n"

/**
 * Builds a header from the recorded header of a Form 4. The reporting owner becomes a filer, and the issuer becomes the
 * subject company.
 */
const writeHeader = (form: string, subject: Party, filers: ReadonlyArray<Party>) =>
  form4Header
    .replace("<TYPE>4\n", `<TYPE>${form}\n`)
    .replace(
      owner,
      () =>
        filers.map(({ cik, name }) =>
          owner.replaceAll("REPORTING-OWNER", "FILED-BY").replaceAll("OWNER-DATA", "COMPANY-DATA")
            .replace("<CONFORMED-NAME>Hassett Joseph", () => `<CONFORMED-NAME>${name}`)
            .replace("0001641388", cik)
            .replace(
              "</FILED-BY>",
              `${address}<FORMER-COMPANY>\n<FORMER-CONFORMED-NAME>OLD\n</FORMER-COMPANY>\n</FILED-BY>`,
            )
        ).join(""),
    )
    .replaceAll("ISSUER>", "SUBJECT-COMPANY>")
    .replace("UFP TECHNOLOGIES INC", () => subject.name)
    .replace("0000914156", subject.cik)

const subject = { name: "SNOWFLAKE INC.", cik: snowflake.cik }
const fund = { name: "FUND & PARTNERS $1 LP", cik: "0000000077" }
const manager = { name: "Doe Jane", cik: "0000000078" }

const folder = "https://www.sec.gov/Archives/edgar/data/1640147/000090901224001256"
const headerUrl = `${folder}/0000909012-24-001256.hdr.sgml`

const readHeader = (text: string, form = "SC 13G/A", cik: string = snowflake.cik) =>
  Result.map(
    makeOwnershipRows({
      issuer: { cik, ticker: "SNOW", tickers: ["SNOW"], name: "Snowflake Inc.", exchange: null },
      filing: {
        accession: "0000909012-24-001256",
        form,
        filingDate: "2024-09-10",
        acceptedAt: null,
        documentUrl: `${folder}/t305621.txt`,
        headerUrl,
      },
      text,
    }),
    ({ rows }) => rows,
  )

const reasonOf = (text: string, form?: string) => {
  const result = readHeader(text, form)
  return Result.isFailure(result) ? result.failure.reason : assert.fail("the header was accepted")
}

describe("The header of an older Schedule 13", () => {
  const header = writeHeader("SC 13G/A", subject, [fund, manager])

  unit("has a row per filer, without amounts, addresses or telephone numbers", () => {
    const rows = Result.getOrThrow(readHeader(header))
    assert.deepStrictEqual<unknown>(
      rows,
      [fund, manager].map(({ cik, name }, index) => ({
        ticker: "SNOW",
        reported_date: null,
        filed_at: "2024-09-10",
        form_type: "SC 13G/A",
        accession_number: "0000909012-24-001256",
        document_url: `${folder}/t305621.txt`,
        owner_name: name,
        owner_cik: cik,
        owner_type: "five_percent_owner",
        title: null,
        common_shares_amount: null,
        preferred_shares_amount: null,
        options_amount: null,
        warrants_amount: null,
        shares_underlying_convertibles: null,
        percent_of_class: null,
        sole_voting_shares: null,
        shared_voting_shares: null,
        event_date: null,
        last_updated: "2024-09-10 00:00:00",
        source: [`${headerUrl}#FILED-BY[${index + 1}]`],
      })),
    )
    assert.include(header, address)
    assert.deepStrictEqual(readHeader(header.replaceAll("\n", "\r\n")), Result.succeed(rows))
  })

  unit("of another issuer has no rows", () => {
    assert.deepStrictEqual(readHeader(header, "SC 13G/A", zivo.cik), Result.succeed([]))
  })

  unit("is set aside if it is not that of the filing, or is damaged", () => {
    assert.strictEqual(reasonOf(header, "SC 13G"), "is of another form than its filing")
    assert.strictEqual(reasonOf(form4Header, "4"), "has no issuer")
    assert.strictEqual(reasonOf(writeHeader("SC 13G/A", subject, [])), "has no holders")
    const [, second = ""] = /(<SUBJECT-COMPANY>[\s\S]*<\/SUBJECT-COMPANY>\n)/.exec(header) ?? []
    assert.strictEqual(reasonOf(header.replace(second, second + second)), "has no issuer")
    assert.strictEqual(reasonOf(header.slice(0, -20)), "is not a complete header")
    assert.strictEqual(reasonOf(header.replace("</FILED-BY>\n", "")), "is not a well-formed header")
    assert.strictEqual(reasonOf("</A>"), "is not a well-formed header")
    assert.strictEqual(reasonOf("<html>Not found</html>"), "is not a complete header")
    const filer = (name: string, cik: string) => reasonOf(writeHeader("SC 13G/A", subject, [{ name, cik }]))
    assert.strictEqual(filer("", "0000000077"), "has no holder with a name")
    assert.strictEqual(filer("x".repeat(251), "77"), "has no holder with a name")
    const { characters, depth } = xmlLimits
    assert.strictEqual(reasonOf("x".repeat(characters + 1)), `has more than ${characters} characters`)
    const nested = `${"<A>\n".repeat(depth)}${"</A>\n".repeat(depth)}`
    assert.strictEqual(reasonOf(nested), `has more than ${depth} levels of elements`)
  })
})

describe("A filer in the header of an older Schedule 13", () => {
  unit("has a null for a name or CIK that is missing or invalid, and the other filers stay (decision 0103)", () => {
    const filers = [fund, { name: "", cik: "0000000078" }, { name: "Doe John", cik: "77a" }]
    const rows = Result.getOrThrow(readHeader(writeHeader("SC 13G/A", subject, filers)))
    assert.deepStrictEqual(rows.map(({ owner_cik, owner_name }) => [owner_name, owner_cik]), [
      [fund.name, fund.cik],
      [null, "0000000078"],
      ["Doe John", null],
    ])
  })
})

/** A plain-text schedule, one without a document name in the list, and one in XML. */
const filings: ReadonlyArray<Stub.ListedFiling> = [
  {
    accession: "0001640147-24-000009",
    form: "SCHEDULE 13G",
    filingDate: "2024-12-20",
    primaryDocument: "xslSCHEDULE_13G_X01/primary_doc.xml",
  },
  { accession: "0001640147-24-000008", form: "SC 13D", filingDate: "2024-11-14" },
  { accession: "0001640147-24-000007", form: "SC 13G/A", filingDate: "2024-09-10", primaryDocument: "t305621.txt" },
]

const getHeaderPath = (accession: string) => Stub.getFilingDocumentPath(snowflake, accession, `${accession}.hdr.sgml`)

const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([snowflake]))
  stub.responses.set(`/submissions/CIK${snowflake.cik}.json`, Stub.makeSubmissions(snowflake, filings))
  const xml = Stub.readRecording("schedule13/schedule13g-spirit.xml").replaceAll("0001498710", snowflake.cik)
  stub.responses.set(
    Stub.getFilingDocumentPath(snowflake, "0001640147-24-000009", "primary_doc.xml"),
    Stub.makeXmlResponse(xml),
  )
  const addHeader = (accession: string, form: string, filers: ReadonlyArray<Party>) =>
    stub.responses.set(getHeaderPath(accession), {
      status: 200,
      type: "text/plain",
      body: writeHeader(form, subject, filers),
    })
  addHeader("0001640147-24-000007", "SC 13G/A", [fund])
  const environment = {
    DATABASE_URL: yield* DatabaseUrl,
    EDGAR_BASE_URL: stub.url,
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
  }
  const ingest = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const before = stub.requests.length
    const options = ["--since", "2024-01-01", "--only", "ownership"]
    const ended = yield* runCommandInProcess(["ingest", "edgar", ...options, ...args], environment)
    return { ...ended, paths: stub.requests.slice(before).map(({ path }) => path) }
  })
  return { addHeader, ingest }
})

const readHolders = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`
      select accession_number, owner_name, document_url from ownership where common_shares_amount is null
      order by filed_at desc, owner_name
    `,
)

layer(NodeServices.layer, { excludeTestServices: true })("The ingest of older schedules", (it) => {
  it.effect.each(["--tickers=SNOW", "--all"])(
    "requests headers newest first, after all lists, and again if one is missing: %s (decision 0128)",
    (companies) =>
      withOwnDatabase(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { addHeader, ingest } = yield* startMarket
        const first = yield* ingest(companies)
        const xmlPath = Stub.getFilingDocumentPath(snowflake, "0001640147-24-000009", "primary_doc.xml")
        const headers = ["0001640147-24-000008", "0001640147-24-000007"].map(getHeaderPath)
        assert.sameMembers(first.paths.slice(2), [xmlPath, ...headers])
        assert.deepStrictEqual((yield* readHolders).map((row) => ({ ...row })), [{
          accession_number: "0001640147-24-000007",
          owner_name: fund.name,
          document_url: "https://www.sec.gov/Archives/edgar/data/1640147/000164014724000007/t305621.txt",
        }])
        const work = yield* sql`select url, reason from edgar_work`
        const url = `https://www.sec.gov${getHeaderPath("0001640147-24-000008")}`
        assert.deepStrictEqual(work.map((row) => ({ ...row })), [{ url, reason: "is not there" }])

        addHeader("0001640147-24-000008", "SC 13D", [fund, manager])
        yield* sql`update edgar_work set next_try_at = now() - interval '1 hour'`
        const second = yield* ingest(companies)
        assert.strictEqual(second.code, 0, second.err)
        assert.deepStrictEqual(second.paths.filter((path) => path.includes("/edgar/data/")), headers.slice(0, 1))
        assert.deepStrictEqual((yield* readHolders).map(({ document_url, owner_name }) => [owner_name, document_url]), [
          [manager.name, `${url.replace(".hdr.sgml", "-index.htm")}`],
          [fund.name, `${url.replace(".hdr.sgml", "-index.htm")}`],
          [fund.name, "https://www.sec.gov/Archives/edgar/data/1640147/000164014724000007/t305621.txt"],
        ])
        assert.deepStrictEqual(yield* sql`select from edgar_work`, [])
      })),
  )
})
