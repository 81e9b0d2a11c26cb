/** Ingests one company: requests its new documents, and turns them into rows. */
import { Effect, Result } from "effect"
import type { RowCells } from "../../load/FileReader.ts"
import { todayInNewYork } from "../../rules/Dates.ts"
import { decodeCompanyFacts, isPeriodicReport } from "./CompanyFacts.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { EdgarClient } from "./EdgarClient.ts"
import {
  buildCompanyFactsUrl,
  buildFilingIndexUrl,
  buildFilingXmlUrl,
  buildSubmissionsPageUrl,
  buildSubmissionsUrl,
  type EdgarBaseUrls,
  edgarBaseUrls,
} from "./EdgarUrls.ts"
import { makeCurrentCount, makeFloatRows } from "./FloatRows.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import { type IngestDatasetProgress, readIngestProgress } from "./IngestState.ts"
import type { Issuer } from "./Issuer.ts"
import { makeNewsRows } from "./NewsRows.ts"
import { isOwnershipForm, isSchedule13, makeOwnershipRows } from "./OwnershipRows.ts"
import { findPendingFilings, isIngestedSince, makeIngestDatasetProgress } from "./PendingFilings.ts"
import { makeRegistrationRows } from "./RegistrationRows.ts"
import { makeScreenerRows } from "./ScreenerRows.ts"
import { readStoredCounts } from "./StoredCounts.ts"
import { findFilingsWithNewTimes, resolveAcceptanceTimes } from "./StampZones.ts"
import { type CompanySubmissions, decodeSubmissions, decodeSubmissionsPage, type EdgarFiling } from "./Submissions.ts"

/** Concurrent requests for the documents of one company; the rate limit applies to all of them. */
const documentConcurrency = 4

/** If this many documents in a row cannot be downloaded, the run ends, because the SEC is probably down. */
const maxConsecutiveFailures = 3

const statesShareCounts = ({ form }: EdgarFiling) => isPeriodicReport(form)

/** Whether the filing belongs to a registration. Such a filing may also change the screener's column `pending_s1`. */
const isPartOfRegistration = ({ form }: EdgarFiling) => /^([SF]-|424B|EFFECT|RW|POS)/.test(form)

const floatDatasets = ["float_outstanding", "historical_float_pro"] as const

const datasetsWithCounts = [...floatDatasets, "screener"] as const

type StoredProgress = ReadonlyMap<string, IngestDatasetProgress>

/** Whether the filing is a Form 3, 4 or 5 or a Schedule 13 in XML. Older schedules are HTML or text. */
const hasOwnershipXml = ({ form, primaryDocument }: EdgarFiling) =>
  (isOwnershipForm(form) || isSchedule13(form)) && primaryDocument.endsWith(".xml")

export interface CompanyIngestOptions {
  readonly datasets: ReadonlySet<IngestedDataset>
  /** Filings of this day and later are ingested, `YYYY-MM-DD`. */
  readonly since: string
  /** Requests only lists of filings, and counts the other documents without requesting them. */
  readonly isDryRun: boolean
  /** Ignores the stored progress of earlier runs, so all filings from `since` on are ingested again. */
  readonly isFresh: boolean
}

/** The rows of one company, its new progress and the rejected documents. */
export interface CompanyIngestResult {
  readonly rows: Map<string, ReadonlyArray<RowCells>>
  readonly progress: Array<IngestDatasetProgress>
  readonly rejections: Array<DocumentRejected>
  /** Number of documents that were downloaded or, in a dry run, would be downloaded. */
  documents: number
}

/** A failed download and its reason. If an ownership form is `rejected`, later runs do not request it again. */
interface FailedDownload {
  readonly kind: "missing" | "unavailable" | "rejected"
  readonly rejection: DocumentRejected
}

/**
 * Returns a function that downloads a document.
 * A failed download is a result of the function; an error means that the whole run cannot continue.
 */
export const makeDocumentDownloader = Effect.gen(function* () {
  const { bases, request } = yield* EdgarClient
  let consecutiveFailures = 0

  return (makeUrl: (bases: EdgarBaseUrls) => string) => {
    const url = makeUrl(edgarBaseUrls)
    const fail = (kind: FailedDownload["kind"], reason: string): Result.Result<string, FailedDownload> =>
      Result.fail({ kind, rejection: new DocumentRejected({ url, reason }) })
    return request({ url: makeUrl(bases) }).pipe(
      Effect.map((answer) => {
        consecutiveFailures = 0
        return answer._tag === "Found" ? Result.succeed(answer.text) : fail("missing", "is not there")
      }),
      Effect.catchTag("DocumentRejected", ({ reason }) => Effect.succeed(fail("rejected", reason))),
      Effect.catchTag("EdgarUnavailable", (error) => {
        consecutiveFailures += 1
        return consecutiveFailures < maxConsecutiveFailures
          ? Effect.succeed(fail("unavailable", "could not be downloaded"))
          : Effect.fail(error)
      }),
    )
  }
})

export type DocumentDownloader = Effect.Success<typeof makeDocumentDownloader>

/** Downloads and decodes a document. Fails if there is none, because the company cannot be visited without it. */
const requireDocument = Effect.fnUntraced(
  function* <A>(
    download: DocumentDownloader,
    makeUrl: (bases: EdgarBaseUrls) => string,
    decode: (text: string, url: string) => Result.Result<A, DocumentRejected>,
  ) {
    const text = yield* Effect.fromResult(Result.mapError(yield* download(makeUrl), ({ rejection }) => rejection))
    return yield* Effect.fromResult(decode(text, makeUrl(edgarBaseUrls)))
  },
)

/** Reads the company's lists of filings, and decides which tables get new rows from them. */
const readFilings = Effect.fnUntraced(
  function* (
    { cik }: Issuer,
    { datasets, isDryRun, since }: CompanyIngestOptions,
    stored: StoredProgress,
    visit: CompanyIngestResult,
    download: DocumentDownloader,
  ) {
    const submissions = yield* requireDocument(download, (bases) => buildSubmissionsUrl(cik, bases), decodeSubmissions)
    const isFirst = (name: IngestedDataset) => datasets.has(name) && !isIngestedSince(stored.get(name), since)
    const hasNew = (name: IngestedDataset, isRelevant: (filing: EdgarFiling) => boolean) =>
      datasets.has(name) && findPendingFilings(submissions.filings, stored.get(name), since).some(isRelevant)
    const makes = {
      registrations: isFirst("registrations") || hasNew("registrations", isPartOfRegistration),
      screener: isFirst("screener") || hasNew("screener", (one) => isPartOfRegistration(one) || statesShareCounts(one)),
      floats: floatDatasets.some((name) => isFirst(name) || hasNew(name, statesShareCounts)),
    }
    // Rows of these datasets combine filings that may be years apart, so they need all pages.
    const needsAllPages = makes.registrations || makes.screener || makes.floats
    const needsOldPages = isFirst("news") || isFirst("ownership")
    const pages = submissions.pages.filter(({ filingTo }) => needsAllPages || (needsOldPages && filingTo >= since))
    const older = yield* Effect.forEach(
      pages,
      ({ name }) => requireDocument(download, (bases) => buildSubmissionsPageUrl(name, bases), decodeSubmissionsPage),
    )
    visit.documents += 1 + pages.length
    const requestIndexPage = Effect.fnUntraced(function* ({ accession }: EdgarFiling) {
      const page = isDryRun ? undefined : yield* download((bases) => buildFilingIndexUrl(cik, accession, bases))
      if (page !== undefined && Result.isFailure(page)) visit.rejections.push(page.failure.rejection)
      else visit.documents += 1
      return page === undefined ? null : Result.getOrNull(page)
    })
    const filings = yield* resolveAcceptanceTimes(cik, [submissions.filings, ...older].flat(), requestIndexPage)
    return { submissions: { ...submissions, filings }, makes }
  },
)

/**
 * Adds the rows of Forms 3, 4 and 5 and Schedules 13 to `visit`.
 * Returns the accession numbers of filings whose documents the next run must request again.
 */
const addOwnership = Effect.fnUntraced(
  function* (
    issuer: Issuer,
    forms: ReadonlyArray<EdgarFiling>,
    visit: CompanyIngestResult,
    download: DocumentDownloader,
  ) {
    const failed = new Set<string>()
    const rows = yield* Effect.forEach(forms, (filing) => {
      const makeUrl = (bases: EdgarBaseUrls) =>
        buildFilingXmlUrl(issuer.cik, filing.accession, filing.primaryDocument, bases)
      return Effect.map(download(makeUrl), (result) => {
        if (Result.isFailure(result)) {
          if (result.failure.kind !== "rejected") failed.add(filing.accession)
          visit.rejections.push(result.failure.rejection)
          return []
        }
        visit.documents += 1
        const documentUrl = makeUrl(edgarBaseUrls)
        const made = makeOwnershipRows({ issuer, filing: { ...filing, documentUrl }, xml: result.success })
        if (Result.isSuccess(made)) return made.success
        visit.rejections.push(made.failure)
        return []
      })
    }, { concurrency: documentConcurrency })
    visit.rows.set("ownership", rows.flat())
    return failed
  },
)

/** Downloads the company's facts. Returns them, if there are any, and whether the next run must request them again. */
const downloadFacts = Effect.fnUntraced(
  function* ({ cik }: Issuer, visit: CompanyIngestResult, download: DocumentDownloader) {
    const result = yield* download((bases) => buildCompanyFactsUrl(cik, bases))
    if (Result.isFailure(result)) {
      const { kind, rejection } = result.failure
      // Funds and new companies have no facts.
      if (kind !== "missing") visit.rejections.push(rejection)
      return { isRepeated: kind === "unavailable" }
    }
    visit.documents += 1
    const facts = decodeCompanyFacts(result.success, buildCompanyFactsUrl(cik))
    if (Result.isSuccess(facts)) return { facts: facts.success, isRepeated: false }
    visit.rejections.push(facts.failure)
    return { isRepeated: false }
  },
)

/**
 * Adds the rows with share counts to `visit`: the screener and, if the company has facts, the floats. Returns whether
 * the next run must request the facts again.
 */
const addCounts = Effect.fnUntraced(
  function* (
    issuer: Issuer,
    submissions: CompanySubmissions,
    visit: CompanyIngestResult,
    download: DocumentDownloader,
  ) {
    const { facts, isRepeated } = yield* downloadFacts(issuer, visit, download)
    const stored = yield* readStoredCounts(issuer)
    const countForScreener = makeCurrentCount(issuer, facts, submissions, stored.screener)
    visit.rows.set("screener", makeScreenerRows(issuer, submissions, countForScreener))
    if (facts === undefined) return isRepeated
    const rows = makeFloatRows(issuer, facts, submissions, makeCurrentCount(issuer, facts, submissions, stored.float))
    for (const name of floatDatasets) visit.rows.set(name, rows[name])
    return isRepeated
  },
)

export const ingestCompany = Effect.fnUntraced(
  function* (issuer: Issuer, options: CompanyIngestOptions, download: DocumentDownloader) {
    const { datasets, isDryRun, isFresh, since } = options
    const stored: StoredProgress = isFresh ? new Map() : yield* readIngestProgress(issuer.cik)
    const visit: CompanyIngestResult = { rows: new Map(), progress: [], rejections: [], documents: 0 }
    const read = yield* readFilings(issuer, options, stored, visit, download).pipe(
      Effect.catchTag("DocumentRejected", (rejection) => {
        visit.rejections.push(rejection)
        return Effect.succeed(undefined)
      }),
    )
    if (read === undefined) return visit

    const { makes, submissions } = read
    const { filings } = submissions
    const findPending = (dataset: IngestedDataset) => findPendingFilings(filings, stored.get(dataset), since)
    const noteProgress = (dataset: IngestedDataset, failed: ReadonlySet<string> = new Set()) =>
      visit.progress.push(makeIngestDatasetProgress(issuer.cik, dataset, filings, since, stored.get(dataset), failed))

    if (datasets.has("news")) {
      const changed = new Set([...findPending("news"), ...(yield* findFilingsWithNewTimes(issuer.cik, filings))])
      visit.rows.set("news", makeNewsRows(issuer, Array.from(changed)))
      noteProgress("news")
    }
    if (makes.registrations) {
      visit.rows.set("registrations", makeRegistrationRows(issuer, filings, yield* todayInNewYork))
    }
    if (datasets.has("registrations")) noteProgress("registrations")
    if (datasets.has("ownership")) {
      const forms = findPending("ownership").filter(hasOwnershipXml)
      if (isDryRun) visit.documents += forms.length
      else noteProgress("ownership", yield* addOwnership(issuer, forms, visit, download))
    }
    const needsCounts = makes.floats || makes.screener
    if (makes.screener && isDryRun) visit.rows.set("screener", makeScreenerRows(issuer, submissions))
    if (needsCounts && isDryRun) visit.documents += 1
    const isRepeated = needsCounts && !isDryRun && (yield* addCounts(issuer, submissions, visit, download))
    for (const name of datasetsWithCounts) {
      if (!datasets.has(name)) visit.rows.delete(name)
      else if (!isRepeated) noteProgress(name)
    }
    return visit
  },
)
