/**
 * URLs of the SEC's documents. They are the same in tests: `EDGAR_BASE_URL` only changes where `EdgarClient` sends the
 * requests.
 */

/** Address of filings, indexes and ticker lists. */
const www = "https://www.sec.gov"

/** Address of submissions and company facts. */
const data = "https://data.sec.gov"

/** Returns the URL of a company's list of filings. The CIK has ten digits. */
export const buildSubmissionsUrl = (cik: string) => `${data}/submissions/CIK${cik}.json`

/**
 * Returns the URL of an older page of filings. The company's list of filings contains the page's name, such as
 * `CIK0000320193-submissions-001.json`.
 */
export const buildSubmissionsPageUrl = (name: string) => `${data}/submissions/${name}`

/**
 * Returns the URL of a company's XBRL facts, which omit facts with dimensions, such as counts per class. The CIK has
 * ten digits.
 */
export const buildCompanyFactsUrl = (cik: string) => `${data}/api/xbrl/companyfacts/CIK${cik}.json`

/** URLs of the nightly archives of all lists of filings and of all company facts, by file name. */
export const bulkArchiveUrls = {
  "submissions.zip": `${www}/Archives/edgar/daily-index/bulkdata/submissions.zip`,
  "companyfacts.zip": `${www}/Archives/edgar/daily-index/xbrl/companyfacts.zip`,
} as const

/** The URL of the list of all symbols, with names and exchanges. */
export const tickerListUrl = `${www}/files/company_tickers_exchange.json`

/** Returns the URL of the list of one day's filings (`master` format). The day is `YYYY-MM-DD`. */
export const buildDailyIndexUrl = (day: string) => {
  const quarter = Math.ceil(Number(day.slice(5, 7)) / 3)
  const folder = `${www}/Archives/edgar/daily-index/${day.slice(0, 4)}/QTR${quarter}`
  return `${folder}/master.${day.replaceAll("-", "")}.idx`
}

/**
 * Returns the URL of a filing's folder, with a slash at the end. The CIK may belong to any company or person that the
 * filing names: all these URLs lead to the same folder.
 */
export const buildFilingFolderUrl = (cik: string, accession: string) =>
  `${www}/Archives/edgar/data/${cik.replace(/^0+(?=\d)/, "")}/${accession.replaceAll("-", "")}/`

/** Returns the URL of the page that lists the documents of one filing. */
export const buildFilingIndexUrl = (cik: string, accession: string) =>
  `${buildFilingFolderUrl(cik, accession)}${accession}-index.htm`

/**
 * Returns the URL of a filing's main document in the form for readers, or of its index page if the SEC names no main
 * document.
 */
export const buildFilingDocumentUrl = (cik: string, accession: string, primaryDocument: string) =>
  primaryDocument === ""
    ? buildFilingIndexUrl(cik, accession)
    : `${buildFilingFolderUrl(cik, accession)}${encodeURI(primaryDocument)}`

/**
 * Returns the URL of a form's XML. The SEC may name an HTML rendering of it as the main document, such as
 * `xslF345X05/form4.xml` for `form4.xml`.
 */
export const buildFilingXmlUrl = (cik: string, accession: string, primaryDocument: string) =>
  buildFilingDocumentUrl(cik, accession, primaryDocument.replace(/^xsl[^/]*\//, ""))

/** Returns the URL of the XBRL instance that the SEC extracts from a filing's main document, `a.htm`: `a_htm.xml`. */
export const buildInstanceUrl = (cik: string, accession: string, primaryDocument: string) =>
  buildFilingDocumentUrl(cik, accession, primaryDocument.replace(/\.htm$/, "_htm.xml"))

/** Whether the URL points to such an instance, or to an element in it. */
export const isInstanceUrl = (url: string) => /_htm\.xml(#|$)/.test(url)

/** Returns the CIK in the URL of a company's document; null for the ticker list and the daily indexes. */
export const findCik = (url: string) => {
  const [, cik] = /CIK(\d{10})/.exec(url) ?? /\/edgar\/data\/(\d{1,10})\//.exec(url) ?? []
  return cik?.padStart(10, "0") ?? null
}
