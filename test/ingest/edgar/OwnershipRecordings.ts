/** Recorded ownership filings, and functions that read them. */
import { Result } from "effect"
import type { Issuer } from "../../../src/ingest/edgar/read/Issuer.ts"
import { makeOwnershipRows } from "../../../src/ingest/edgar/read/OwnershipRows.ts"
import { listRecordings, readRecording } from "./Recordings.ts"

/** Returns the XML document inside a full submission. */
const extractXml = (submission: string) => /<XML>\s*(<\?xml[\s\S]*?)<\/XML>/.exec(submission)?.[1]?.trimEnd() ?? ""

export interface OwnershipRecording {
  readonly path: string
  readonly xml: string
}

/** All recorded ownership filings. Two Forms 4 come from full submissions in `archives/`. */
export const ownershipRecordings: ReadonlyArray<OwnershipRecording> = [
  ...listRecordings("{ownership,schedule13}/*.xml").map((path) => ({ path, xml: readRecording(path) })),
  ...["archives/0000320193-22-000061.txt", "archives/0001127602-25-001055.txt"].map((path) => ({
    path,
    xml: extractXml(readRecording(path)),
  })),
]

/** The only malformed recording. The SEC itself published this document, which is not well-formed XML. */
export const malformedRecording = "schedule13/schedule13da-zivo-not-well-formed.xml"

export const documentUrl = "https://www.sec.gov/Archives/edgar/data/1/000000000026000001/primary_doc.xml"

const makeIssuer = (cik: string): Issuer => ({
  cik,
  ticker: "ACME",
  tickers: ["ACME"],
  name: "Acme Inc",
  exchange: null,
})

/**
 * Reads a document with the code under test. Returns the rows and the doubts. `issuerCik` is the CIK of the company
 * being ingested.
 */
export const readFilingWithDoubts = (text: string, form: string, issuerCik: string) =>
  makeOwnershipRows({
    issuer: makeIssuer(issuerCik),
    filing: { accession: "0000000000-26-000001", form, filingDate: "2026-09-10", acceptedAt: null, documentUrl },
    text,
  })

/** Reads a document with the code under test, and returns its rows. */
export const readFiling = (text: string, form: string, issuerCik: string) =>
  Result.map(readFilingWithDoubts(text, form, issuerCik), ({ rows }) => rows)

/** Returns the text of an element. Uses a regular expression to be independent of the parser under test. */
export const findXmlText = (xml: string, element: string) =>
  new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml)?.[1]?.trim() ?? ""

export const findForm = (xml: string) => findXmlText(xml, "documentType") || findXmlText(xml, "submissionType")

export const findIssuerCik = (xml: string) => findXmlText(xml, "issuerCik") || findXmlText(xml, "issuerCIK")
