/** Recorded responses of the SEC, decoded by the code under test. */
import { Result, Schema } from "effect"
import { globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { decodeCompanyFacts } from "../../../src/ingest/edgar/read/CompanyFacts.ts"
import {
  buildCompanyFactsUrl,
  buildSubmissionsPageUrl,
  buildSubmissionsUrl,
  tickerListUrl,
} from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import type { Issuer } from "../../../src/ingest/edgar/read/Issuer.ts"
import { decodeSubmissions, decodeSubmissionsPage } from "../../../src/ingest/edgar/read/Submissions.ts"
import { decodeTickerList } from "../../../src/ingest/edgar/read/TickerList.ts"

export const recordingsFolder = fileURLToPath(new URL("recordings", import.meta.url))

export const listRecordings = (pattern: string) =>
  globSync(pattern, { cwd: recordingsFolder }).map((name) => name.replaceAll("\\", "/")).toSorted()

export const readRecording = (name: string) => readFileSync(`${recordingsFolder}/${name}`, "utf8")

/** The date that counts as today when rows are built. It is shortly after most documents were recorded. */
export const today = "2026-03-09"

/** Memoizes a function of the CIK, so that each recording is decoded only once. */
const memoize = <A>(make: (cik: string) => A) => {
  const made = new Map<string, A>()
  return (cik: string) => {
    const value = made.get(cik) ?? make(cik)
    made.set(cik, value)
    return value
  }
}

const findRecording = (folder: string, cik: string) => {
  const [name] = listRecordings(`${folder}/CIK${cik}{,.trimmed}.json`)
  if (name === undefined) throw new Error(`There is no recording of ${cik} in ${folder}.`)
  return name
}

/** The CIKs of the recorded companies and persons. */
export const ciks = {
  apple: "0000320193",
  imunon: "0000749647",
  vincerx: "0001796129",
  trFinance: "0001814722",
  appleOfficer: "0001462356",
  siemensEnergy: "0001830056",
  twoHarbors: "0001465740",
  unicycive: "0001766140",
  fannieMae: "0000310522",
  alphabet: "0001652044",
  nvidia: "0001045810",
  marvell: "0001835632",
  logisticProperties: "0001997711",
} as const

export const companiesWithSubmissions = [
  ciks.apple,
  ciks.imunon,
  ciks.vincerx,
  ciks.trFinance,
  ciks.appleOfficer,
  ciks.siemensEnergy,
  ciks.twoHarbors,
  ciks.unicycive,
  ciks.fannieMae,
]

export const companiesWithFacts = [ciks.apple, ciks.alphabet, ciks.nvidia, ciks.marvell, ciks.logisticProperties]

const decodeListedSymbols = Schema.decodeSync(Schema.fromJsonString(Schema.Struct({
  name: Schema.String,
  tickers: Schema.Array(Schema.String),
  exchanges: Schema.Array(Schema.String),
})))

export const submissionsText = (cik: string) => readRecording(findRecording("submissions", cik))

export const factsText = (cik: string) => readRecording(findRecording("companyfacts", cik))

export const imunonPage = "CIK0000749647-submissions-001.json"

export const submissionsOf = memoize((cik) =>
  Result.getOrThrow(decodeSubmissions(submissionsText(cik), buildSubmissionsUrl(cik)))
)

/** Returns the filings of a company. Includes the company's page of older filings if it was recorded. */
export const filingsOf = memoize((cik) =>
  cik !== ciks.imunon ? submissionsOf(cik).filings : [
    ...submissionsOf(cik).filings,
    ...Result.getOrThrow(
      decodeSubmissionsPage(readRecording(`submissions/${imunonPage}`), buildSubmissionsPageUrl(imunonPage)),
    ).filings,
  ]
)

export const factsOf = memoize((cik) =>
  Result.getOrThrow(decodeCompanyFacts(factsText(cik), buildCompanyFactsUrl(cik)))
)

/**
 * Returns the issuer described in the submissions. Gives companies without a symbol an artificial one, because
 * otherwise their filings would yield no rows.
 */
export const issuerOf = (cik: string): Issuer => {
  const { exchanges, name, tickers } = decodeListedSymbols(submissionsText(cik))
  return {
    cik,
    ticker: tickers[0] ?? "NONE",
    tickers: tickers.length === 0 ? ["NONE"] : tickers,
    name,
    exchange: exchanges[0] ?? null,
  }
}

/** Returns the ticker lists recorded on five mornings, oldest first. */
export const tickerListCopies = () =>
  listRecordings("tickers/daily/*.json").map((name) => ({
    day: /\d{4}-\d\d-\d\d/.exec(name)?.[0] ?? "",
    rows: Result.getOrThrow(decodeTickerList(readRecording(name), tickerListUrl)).rows,
  }))
