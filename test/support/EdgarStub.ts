/**
 * A server in this process that sends recorded SEC responses, and faults that a test chooses.
 *
 * ```ts
 * const stub = yield* startEdgarStub
 * yield* removeRequestLimit
 * addCompaniesAndFilings(stub)
 * stub.responses.set(tickerListPath, makeTickerList([snowflake]))
 * // … run the ingest with the settings in `stub`, and compare the rows …
 * ```
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Buffer } from "node:buffer"
import { existsSync, readFileSync } from "node:fs"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"

const recordings = fileURLToPath(new URL("../ingest/edgar/recordings/", import.meta.url))

/** Reads the text of a recorded SEC response. */
export const readRecording = (file: string) => readFileSync(recordings + file, "utf8")

/** A response of the stub. */
export interface EdgarStubResponse {
  readonly status: number
  readonly type: string
  readonly body: string
  /** The encoded body, for encodings other than UTF-8. */
  readonly bytes?: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

/** A request that the stub received. */
export interface EdgarStubRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/** Builds a response with a JSON body. */
const json = (body: string): EdgarStubResponse => ({ status: 200, type: "application/json", body })

/** Builds a response with an XML body. */
export const makeXmlResponse = (body: string): EdgarStubResponse => ({ status: 200, type: "text/xml", body })

/** Reads a recorded error response. Omits the headers that the stub's HTTP server sets itself. */
const readError = (name: string, extension: string): EdgarStubResponse => {
  const [status = "", , ...lines] = readRecording(`errors/${name}.headers.txt`).split("\n")
  const headers = lines.flatMap((line) => {
    const [, field = "", value = ""] = /^([\w-]+): (.*)$/.exec(line) ?? []
    return /^(|connection|content-length|content-type|date)$/i.test(field) ? [] : [[field, value] as const]
  })
  return {
    status: Number(status.split(" ")[1]),
    type: extension === "xml" ? "application/xml" : "text/html",
    body: readRecording(`errors/${name}.${extension}`),
    headers: Object.fromEntries(headers),
  }
}

/** The SEC's response for a document that does not exist. */
export const missingDocumentResponse = readError("403-object-not-there", "xml")
/** The SEC's response for a company that does not exist. */
export const missingSubmissionsResponse = readError("404-no-such-submissions", "xml")
/** The SEC's response when it is overloaded. */
export const unavailableFileResponse = readError("503-getcurrent-past-the-end", "html")

/** This page is not a recording, because only the title and heading of the SEC's page are known. */
const refusalPage = `<!DOCTYPE html><html><head><title>SEC.gov | Request Rate Threshold Exceeded</title></head><body>
<h1>Automated access to our sites must comply with SEC.gov's Privacy and Security Policy.</h1></body></html>`

/**
 * Builds the response with which the SEC refuses automated access. The SEC sends it with the status 403, 429 or 200.
 */
export const makeAccessRefusal = (status: number): EdgarStubResponse => ({
  status,
  type: "text/html",
  body: refusalPage,
})

/** A filing in a company's submissions document. */
export interface ListedFiling {
  readonly accession: string
  readonly form: string
  readonly filingDate: string
  /** The acceptance time. The hour of the default value shows whether a time is in Eastern time or UTC. */
  readonly stamp?: string
  readonly primaryDocument?: string
  readonly fileNumber?: string
  readonly items?: string
  readonly isXbrl?: boolean
  /** The end of the reporting period. */
  readonly reportDate?: string
}

/** A company in the SEC's ticker list. */
export interface ListedCompany {
  readonly cik: string
  readonly name: string
  readonly tickers: ReadonlyArray<string>
}

/** Lists filings in the SEC's format: one array per property, with one element for each filing. */
const makeFilingArrays = (filings: ReadonlyArray<ListedFiling>) => ({
  accessionNumber: filings.map(({ accession }) => accession),
  filingDate: filings.map(({ filingDate }) => filingDate),
  reportDate: filings.map(({ reportDate = "" }) => reportDate),
  acceptanceDateTime: filings.map(({ filingDate, stamp = `${filingDate}T08:05:00.000Z` }) => stamp),
  act: filings.map(() => "34"),
  form: filings.map(({ form }) => form),
  fileNumber: filings.map(({ fileNumber = "" }) => fileNumber),
  filmNumber: filings.map(() => ""),
  items: filings.map(({ items = "" }) => items),
  core_type: filings.map(({ form }) => form),
  size: filings.map(() => 1000),
  isXBRL: filings.map(({ isXbrl = false }) => isXbrl ? 1 : 0),
  isInlineXBRL: filings.map(() => 0),
  primaryDocument: filings.map(({ primaryDocument = "" }) => primaryDocument),
  primaryDocDescription: filings.map(() => ""),
})

/** Builds a page with a company's older filings. */
export const makeSubmissionsPage = (filings: ReadonlyArray<ListedFiling>) =>
  json(JSON.stringify(makeFilingArrays(filings)))

/**
 * Builds a company's submissions document, which lists its filings, newest first, and the names of the pages with older
 * filings.
 */
export const makeSubmissions = (
  { cik, name, tickers }: ListedCompany,
  filings: ReadonlyArray<ListedFiling>,
  pages: ReadonlyArray<string> = [],
) =>
  json(JSON.stringify({
    cik,
    entityType: "operating",
    sic: "7372",
    sicDescription: "Services-Prepackaged Software",
    name,
    tickers,
    exchanges: tickers.map(() => "NYSE"),
    website: "",
    formerNames: [],
    filings: {
      recent: makeFilingArrays(filings),
      files: pages.map((name) => ({ name, filingFrom: "2025-01-01", filingTo: "2026-06-10" })),
    },
  }))

/** Builds a filing's index page, with the acceptance time in New York, such as `2026-01-16 16:19:42`. */
export const makeIndexPage = (accepted: string): EdgarStubResponse => ({
  status: 200,
  type: "text/html",
  body: readRecording("archives/0001045810-26-000024-index.html").replace(
    /(>Accepted<\/div>\s*<div class="info">)[^<]*/,
    `$1${accepted}`,
  ),
})

/** Builds the SEC's ticker list, with one row per symbol. */
export const makeTickerList = (
  companies: ReadonlyArray<ListedCompany>,
  lastModified = "Fri, 12 Jun 2026 10:00:00 GMT",
): EdgarStubResponse => ({
  ...json(JSON.stringify({
    fields: ["cik", "name", "ticker", "exchange"],
    data: companies.flatMap(({ cik, name, tickers }) => tickers.map((ticker) => [Number(cik), name, ticker, "Nasdaq"])),
  })),
  headers: { "last-modified": lastModified },
})

/** The path of the SEC's ticker list. */
export const tickerListPath = "/files/company_tickers_exchange.json"

/** Returns the recorded response for a path, if there is one. */
const findRecording = (path: string): EdgarStubResponse | undefined => {
  const [, folder = "", name = ""] = /^\/(?:api\/xbrl\/)?(submissions|companyfacts)\/(CIK[\w-]+)\.json$/.exec(path) ??
    []
  const file = [`${folder}/${name}.json`, `${folder}/${name}.trimmed.json`].find((file) =>
    folder !== "" && existsSync(recordings + file)
  )
  return file === undefined ? undefined : json(readRecording(file))
}

/** The directory listing of a filing that has no fee exhibit. */
const folderResponse = json(readRecording("archives/0001213900-24-004875.index.json"))

/** Returns that directory listing for the folder path of any filing. */
const findFolder = (path: string) =>
  /^\/Archives\/edgar\/data\/.*\/index\.json$/.test(path) ? folderResponse : undefined

/**
 * Starts a stub of the SEC's servers, which stops when the scope closes. It responds with recordings. A test can put
 * other responses into `responses`, by path. `behaviour.intercept` can respond to any request with a fault: a response,
 * `hang` (no response), or `reset` (a closed connection). If it returns undefined, the request gets its usual response.
 * Like the SEC's servers, the stub compresses responses, and responds with 304 to `If-Modified-Since`.
 */
export const startEdgarStub = Effect.gen(function* () {
  const requests: Array<EdgarStubRequest> = []
  const responses = new Map<string, EdgarStubResponse>()
  const behaviour: { intercept: (request: EdgarStubRequest) => EdgarStubResponse | "hang" | "reset" | undefined } = {
    intercept: () => undefined,
  }
  /**
   * Chooses the response: a fault, a response set by the test, a recording, or the SEC's response for a missing
   * document.
   */
  const choose = (request: EdgarStubRequest) =>
    behaviour.intercept(request) ?? responses.get(request.path) ?? findRecording(request.path) ??
      findFolder(request.path) ??
      (/^\/(submissions|api)\//.test(request.path) ? missingSubmissionsResponse : missingDocumentResponse)

  const server = createServer((incoming, response) => {
    const request = { path: incoming.url ?? "", headers: incoming.headers }
    requests.push(request)
    const reply = choose(request)
    if (reply === "hang") return
    if (reply === "reset") return void incoming.socket.destroy()
    const { body, bytes = Buffer.from(body), headers = {}, status, type } = reply
    const lastModified = headers["last-modified"]
    if (lastModified !== undefined && incoming.headers["if-modified-since"] === lastModified) {
      return void response.writeHead(304, headers).end()
    }
    const isCompressed = String(incoming.headers["accept-encoding"]).includes("gzip")
    response.writeHead(status, {
      ...headers,
      "content-type": type,
      ...(isCompressed && { "content-encoding": "gzip" }),
    }).end(isCompressed ? gzipSync(bytes) : bytes)
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      }),
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { url: `http://127.0.0.1:${port}`, requests, responses, behaviour }
})

/** A running EDGAR stub. */
export type EdgarStub = Effect.Success<typeof startEdgarStub>

/** Returns the path of a daily index and the header lines above its entries. */
export const describeDailyIndex = (day: string) => {
  const quarter = Math.ceil(Number(day.slice(5, 7)) / 3)
  const name = `master.${day.replaceAll("-", "")}.idx`
  const [header = ""] = readRecording("index/daily-index.master.20200103.excerpt.idx").split(/(?<=-{20,}\s*\n)/)
  return { path: `/Archives/edgar/daily-index/${day.slice(0, 4)}/QTR${quarter}/${name}`, header }
}

/** Three companies with recorded submissions, and two (Snowflake and Zivo) with filings invented for the tests. */
export const stubCompanies = {
  apple: { cik: "0000320193", name: "Apple Inc.", tickers: ["AAPL"] },
  imunon: { cik: "0000749647", name: "Imunon, Inc.", tickers: ["IMNN"] },
  siemensEnergy: { cik: "0001830056", name: "Siemens Energy AG/ADR", tickers: ["SMEGF"] },
  snowflake: { cik: "0001640147", name: "Snowflake Inc.", tickers: ["SNOW"] },
  zivo: { cik: "0001101026", name: "Zivo Bioscience, Inc.", tickers: ["ZIVO"] },
} as const

/** Invented filings. Their documents are recorded ownership forms, which contain no accession number. */
export const snowflakeFilings: ReadonlyArray<ListedFiling> = [
  { accession: "0001640147-26-000003", form: "8-K", filingDate: "2026-06-10", items: "5.02", primaryDocument: "a.htm" },
  { accession: "0001640147-26-000002", form: "4", filingDate: "2026-06-09", primaryDocument: "xslF345X05/form4.xml" },
  { accession: "0001640147-26-000001", form: "3", filingDate: "2026-05-04", primaryDocument: "xslF345X02/form3.xml" },
]

/** A filing invented for Zivo. */
export const zivoFilings: ReadonlyArray<ListedFiling> = [{
  accession: "0001101026-26-000001",
  form: "SCHEDULE 13D/A",
  filingDate: "2026-06-08",
  primaryDocument: "xslSCHEDULE_13D_X01/primary_doc.xml",
}]

/** Returns the path of a document in a filing. */
export const getFilingDocumentPath = ({ cik }: ListedCompany, accession: string, document: string) =>
  `/Archives/edgar/data/${Number(cik)}/${accession.replaceAll("-", "")}/${document}`

/** Adds responses for the companies: the lists, two ownership forms, and a malformed Schedule 13D/A. */
export const addCompaniesAndFilings = ({ responses }: EdgarStub) => {
  const { apple, siemensEnergy, snowflake, zivo } = stubCompanies
  responses.set(tickerListPath, makeTickerList(Object.values(stubCompanies)))
  responses.set(`/submissions/CIK${apple.cik}-submissions-001.json`, makeSubmissionsPage([]))
  // The hours of Siemens Energy's filings do not show whether its times are in UTC or Eastern time.
  responses.set(
    getFilingDocumentPath(siemensEnergy, "0001193805-26-000032", "0001193805-26-000032-index.htm"),
    makeIndexPage("2026-01-16 11:19:42"),
  )
  responses.set(`/submissions/CIK${snowflake.cik}.json`, makeSubmissions(snowflake, snowflakeFilings))
  responses.set(`/submissions/CIK${zivo.cik}.json`, makeSubmissions(zivo, zivoFilings))
  responses.set(
    getFilingDocumentPath(snowflake, "0001640147-26-000002", "form4.xml"),
    makeXmlResponse(readRecording("ownership/form4-derivative-and-holdings-snow.xml")),
  )
  responses.set(
    getFilingDocumentPath(snowflake, "0001640147-26-000001", "form3.xml"),
    makeXmlResponse(readRecording("ownership/form3-two-owners-snow.xml")),
  )
  responses.set(
    getFilingDocumentPath(zivo, "0001101026-26-000001", "primary_doc.xml"),
    makeXmlResponse(readRecording("schedule13/schedule13da-zivo-not-well-formed.xml")),
  )
}

/** Makes the database record the time of each request slot that a process reserves (`next_request_at`). */
export const recordRequestSlots = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`create table slots (at timestamptz)`
  yield* sql.unsafe(`create function record_slot() returns trigger language plpgsql as $$ begin
    if new.next_request_at <> old.next_request_at then insert into slots values (new.next_request_at); end if;
    return new; end $$`)
  yield* sql`create trigger record_slot after update on edgar_access for each row execute function record_slot()`
})

/** Counts the recorded request slots, in total and in the busiest second. */
export const countRequestSlots = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly count: number; readonly busiest: number }>`
    select count(*)::int as count, max(within)::int as busiest from (
      select count(*) over (order by at range between current row and '999 milliseconds' following) as within
      from slots
    ) as windows
  `
  return { count: found?.count ?? 0, busiestSecond: found?.busiest ?? 0 }
})

/** Removes the request rate limit, so that ingest tests do not wait for it. */
export const removeRequestLimit = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`create function remove_limit() returns trigger language plpgsql as
    $$ begin new.next_request_at := clock_timestamp(); return new; end $$`
  yield* sql`create trigger remove_limit before update on edgar_access for each row execute function remove_limit()`
})
