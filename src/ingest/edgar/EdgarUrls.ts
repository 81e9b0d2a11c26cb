/** The addresses of the SEC's documents. Rows always link to the SEC itself; a test replaces the bases. */

export interface EdgarBases {
  /** Filings, indexes and ticker lists. */
  readonly www: string
  /** Submissions and company facts. */
  readonly data: string
}

export const edgarBases: EdgarBases = { www: "https://www.sec.gov", data: "https://data.sec.gov" }

/** All filings of one company. The CIK has ten digits. */
export const submissionsUrl = (cik: string, { data }: EdgarBases = edgarBases) => `${data}/submissions/CIK${cik}.json`

/** An older page of `submissionsUrl`, by its name there: `CIK0000320193-submissions-001.json`. */
export const submissionsPageUrl = (name: string, { data }: EdgarBases = edgarBases) => `${data}/submissions/${name}`

/** All XBRL facts of one company that have no dimensions. The CIK has ten digits. */
export const companyFactsUrl = (cik: string, { data }: EdgarBases = edgarBases) =>
  `${data}/api/xbrl/companyfacts/CIK${cik}.json`

/** The list of all symbols, with names and exchanges. */
export const tickerListUrl = ({ www }: EdgarBases = edgarBases) => `${www}/files/company_tickers_exchange.json`

/** The list of one day's filings (`master` format). The day is `YYYY-MM-DD`. */
export const dailyIndexUrl = (day: string, { www }: EdgarBases = edgarBases) => {
  const quarter = Math.ceil(Number(day.slice(5, 7)) / 3)
  const folder = `${www}/Archives/edgar/daily-index/${day.slice(0, 4)}/QTR${quarter}`
  return `${folder}/master.${day.replaceAll("-", "")}.idx`
}

/** The folder of one filing, with a slash at its end. The same folder is found under each CIK that the filing names. */
export const filingFolderUrl = (cik: string, accession: string, { www }: EdgarBases = edgarBases) =>
  `${www}/Archives/edgar/data/${cik.replace(/^0+(?=\d)/, "")}/${accession.replaceAll("-", "")}/`

/** The page that lists the documents of one filing. */
export const filingIndexUrl = (cik: string, accession: string, bases: EdgarBases = edgarBases) =>
  `${filingFolderUrl(cik, accession, bases)}${accession}-index.htm`

/** The main document as a person reads it, or the filing's index page if the SEC names no document. */
export const documentUrl = (cik: string, accession: string, primaryDocument: string, bases: EdgarBases = edgarBases) =>
  primaryDocument === ""
    ? filingIndexUrl(cik, accession, bases)
    : `${filingFolderUrl(cik, accession, bases)}${encodeURI(primaryDocument)}`

/** The XML of a form whose main document is a rendering of it: `xslF345X05/form4.xml` is `form4.xml`. */
export const xmlDocumentUrl = (
  cik: string,
  accession: string,
  primaryDocument: string,
  bases: EdgarBases = edgarBases,
) => documentUrl(cik, accession, primaryDocument.replace(/^xsl[^/]*\//, ""), bases)
