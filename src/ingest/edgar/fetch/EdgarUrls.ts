/**
 * Builds the URLs of SEC documents. The URLs always have the SEC's address, even in tests: `EDGAR_BASE_URL` only
 * changes where `EdgarClient` sends the requests.
 */

/** Base URL of filings, indexes, and ticker lists. */
const www = "https://www.sec.gov"

/** Base URL of filing lists ("submissions") and company facts. */
const data = "https://data.sec.gov"

/** Returns the URL of a company's filing list. The CIK has ten digits. */
export const buildSubmissionsUrl = (cik: string) => `${data}/submissions/CIK${cik}.json`

/**
 * Returns the URL of a page of older filings. The company's filing list gives the page's name, such as
 * `CIK0000320193-submissions-001.json`.
 */
export const buildSubmissionsPageUrl = (name: string) => `${data}/submissions/${name}`

/**
 * Returns the URL of a company's XBRL facts. They omit facts with dimensions, such as share counts per class. The CIK
 * has ten digits.
 */
export const buildCompanyFactsUrl = (cik: string) => `${data}/api/xbrl/companyfacts/CIK${cik}.json`

/** URLs of the nightly archives of all filing lists and of all company facts, by file name. */
export const bulkArchiveUrls = {
  "submissions.zip": `${www}/Archives/edgar/daily-index/bulkdata/submissions.zip`,
  "companyfacts.zip": `${www}/Archives/edgar/daily-index/xbrl/companyfacts.zip`,
} as const

/** URL of the list of all ticker symbols, with company names and exchanges. */
export const tickerListUrl = `${www}/files/company_tickers_exchange.json`

/** Returns the URL of the index of one day's filings (`master` format). The day is in the form `YYYY-MM-DD`. */
export const buildDailyIndexUrl = (day: string) => {
  const quarter = Math.ceil(Number(day.slice(5, 7)) / 3)
  const folder = `${www}/Archives/edgar/daily-index/${day.slice(0, 4)}/QTR${quarter}`
  return `${folder}/master.${day.replaceAll("-", "")}.idx`
}

/**
 * Returns the URL of a filing's folder, with a trailing slash. The CIK may be that of any company or person named in
 * the filing: all such URLs lead to the same folder.
 */
export const buildFilingFolderUrl = (cik: string, accession: string) =>
  `${www}/Archives/edgar/data/${cik.replace(/^0+(?=\d)/, "")}/${accession.replaceAll("-", "")}/`

/** Returns the URL of the page that lists a filing's documents. */
export const buildFilingIndexUrl = (cik: string, accession: string) =>
  `${buildFilingFolderUrl(cik, accession)}${accession}-index.htm`

/**
 * Returns the URL of a filing's main document in human-readable form, or of the filing's index page if the SEC lists no
 * main document.
 */
export const buildFilingDocumentUrl = (cik: string, accession: string, primaryDocument: string) =>
  primaryDocument === ""
    ? buildFilingIndexUrl(cik, accession)
    : `${buildFilingFolderUrl(cik, accession)}${encodeURI(primaryDocument)}`

/**
 * Returns the URL of a form's XML document. The SEC may list an HTML rendering as the main document: for example,
 * `xslF345X05/form4.xml` is a rendering of `form4.xml`.
 */
export const buildFilingXmlUrl = (cik: string, accession: string, primaryDocument: string) =>
  buildFilingDocumentUrl(cik, accession, primaryDocument.replace(/^xsl[^/]*\//, ""))

/**
 * Returns the URL of the XBRL instance that the SEC extracts from a filing's main document. For `a.htm`, this is
 * `a_htm.xml`.
 */
export const buildInstanceUrl = (cik: string, accession: string, primaryDocument: string) =>
  buildFilingDocumentUrl(cik, accession, primaryDocument.replace(/\.htm$/, "_htm.xml"))

/**
 * Returns whether the URL is that of an XBRL instance extracted from a filing's main document, or of an element in one.
 */
export const isInstanceUrl = (url: string) => /_htm\.xml(#|$)/.test(url)

/**
 * Returns the CIK in the URL of a company's document, or null if the URL contains none, as for the ticker list and the
 * daily indexes.
 */
export const findCikInUrl = (url: string) => {
  const [, cik] = /CIK(\d{10})/.exec(url) ?? /\/edgar\/data\/(\d{1,10})\//.exec(url) ?? []
  return cik?.padStart(10, "0") ?? null
}
