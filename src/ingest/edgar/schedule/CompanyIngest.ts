/**
 * Visits a company, that is, downloads its new documents and those of its documents in the queue (`edgar_work`) that
 * are due, and builds rows from them. `visitCompany`, at the end of the file, lists the steps.
 */
import { Effect, Result, Semaphore } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { readAcceptanceTimeFromIndexPage } from "../read/AcceptanceTime.ts"
import { type CompanyFacts, decodeCompanyFacts, isPeriodicReport, makeEmptyFacts } from "../read/CompanyFacts.ts"
import { assessCounts, type CountAssessment } from "../read/ShareCounts.ts"
import { readDecisions } from "../store/Doubts.ts"
import type { Doubt, OperatorDecisions } from "../read/Doubt.ts"
import type { DailyIndexFiling } from "../fetch/DailyIndex.ts"
import { type DocumentDownloader, setDocumentAside } from "../fetch/DocumentDownloader.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import {
  buildCompanyFactsUrl,
  buildFilingDocumentUrl,
  buildFilingFolderUrl,
  buildFilingIndexUrl,
  buildInstanceUrl,
  buildSubmissionsPageUrl,
  buildSubmissionsUrl,
  isInstanceUrl,
} from "../fetch/EdgarUrls.ts"
import { listCountDoubts, makeCurrentCount, makeFloatRows } from "../read/FloatRows.ts"
import {
  currentDatasets,
  datasetsFromCompanyFilings,
  datasetsWithCounts,
  floatDatasets,
  type IngestedDataset,
} from "./IngestedDatasets.ts"
import { type IngestDatasetProgress, readIngestProgress } from "../store/IngestState.ts"
import { addInstanceCounts, type FilingInstance, mayHaveInstance, readKnownCovers } from "../store/InstanceCounts.ts"
import {
  type CompanyWork,
  type DeferredDocument,
  type DeferredForm,
  type FormFiling,
  readCompanyWork,
  type SetAside,
  type WorkKey,
} from "../store/IngestWork.ts"
import type { Issuer } from "../read/Issuer.ts"
import { findNewsDoubts, makeNewsRows } from "../read/NewsRows.ts"
import { decodeFilingFees, findFeeInstance, isFeeInstance } from "../read/FilingFees.ts"
import { buildFormUrl, findFormDataset, findFormKind, firstFeeDay } from "./FormDocuments.ts"
import { makeOwnershipRows } from "../read/OwnershipRows.ts"
import {
  findPendingFilings,
  isIngestedSince,
  lateFilingDays,
  makeIngestDatasetProgress,
  subtractDays,
} from "../store/PendingFilings.ts"
import type { CompanyRegistrationEnds } from "../store/RegistrationEnds.ts"
import { readFeeExhibitUrls, type RegistrationFees } from "../store/RegistrationFees.ts"
import { listRegistrationEnds, makeRegistrationRows } from "../read/RegistrationRows.ts"
import { findDepositaryReceiptRegistration, makeScreenerRows } from "../read/ScreenerRows.ts"
import { type AssessedCompany, readKnownPrices, readStoredCounts } from "../store/StoredCounts.ts"
import { findStaleNews, resolveAcceptanceTimes } from "../read/AcceptanceTimeZones.ts"
import {
  type CompanySubmissions,
  decodeSubmissions,
  decodeSubmissionsPage,
  type EdgarFiling,
} from "../read/Submissions.ts"
import { type CoverCounts, decodeCoverCounts } from "../read/XbrlCover.ts"

/** Datasets that require a filing's documents in addition to its entry in the company's filing list. */
const datasetsOfForms: ReadonlyArray<IngestedDataset> = ["ownership", "registrations"]

/** Number of concurrent requests for one company's documents. All of them are subject to the rate limit. */
const documentConcurrency = 4

/**
 * Limits the number of XBRL instances that all concurrent visits together keep in memory, because an instance can have
 * 50 million characters.
 */
const instancePermits = Semaphore.makeUnsafe(4)

const statesShareCounts = ({ form }: EdgarFiling) => isPeriodicReport(form)

/**
 * Returns whether the filing is an annual or quarterly report, or an amendment to one, whose values the SEC adds to the
 * company facts.
 */
const isXbrlReport = (filing: EdgarFiling) => filing.isXbrl && statesShareCounts(filing)

/**
 * Returns whether the filing belongs to the registration of securities. Such a filing can change the company's rows of
 * `registrations`, and the column `pending_s1` of its row of `screener`.
 */
const isPartOfRegistration = ({ form }: EdgarFiling) => /^([SF]-|424B|EFFECT|RW|POS)/.test(form)

/** Options of a run that apply to each company that it visits. */
export interface CompanyVisitOptions {
  readonly datasets: ReadonlySet<IngestedDataset>
  /** Filings in the daily indexes that the run has read, by company CIK. */
  readonly indexedFilings: ReadonlyMap<string, ReadonlyArray<DailyIndexFiling>>
  /** First filing date to ingest, `YYYY-MM-DD`. */
  readonly since: string
  /** Whether to download only the companies' filing lists, and to count the other documents without requesting them. */
  readonly isDryRun: boolean
  /**
   * Whether to ignore what earlier runs have ingested and queued, so that all filings from `since` on are ingested
   * again. This is so if the rows are written to files.
   */
  readonly isFresh: boolean
  /**
   * Whether to request queued documents even if their next attempt is not due yet. Entries that were given up are never
   * requested.
   */
  readonly ignoresDelays: boolean
  /** Whether to only queue new ownership forms and registration statements. A later step of the run then reads them. */
  readonly defersForms: boolean
  /** Whether to only queue new XBRL instances. A second visit to the company in the same run then reads them. */
  readonly defersInstances: boolean
}

/**
 * Everything that one or more visits to companies produce other than rows: progress, queue changes, and values for the
 * ingest's own tables.
 */
export class VisitResults {
  readonly progress: Array<IngestDatasetProgress> = []
  /** Documents and rows that failed. They are queued for another attempt. */
  readonly setAside: Array<SetAside> = []
  /**
   * Queue entries to delete because their document or row has been read or is no longer needed. An entry that is also
   * in `setAside` remains queued.
   */
  readonly done: Array<WorkKey> = []
  /** Documents to queue without an attempt to read them, because a later step of the run does so. */
  readonly deferred: Array<DeferredDocument> = []
  /** Share counts from filings' XBRL instances. */
  readonly instances: Array<FilingInstance> = []
  /** Companies whose share counts were assessed, with what was known then. */
  readonly assessed: Array<AssessedCompany> = []
  /** Amounts from the fee exhibits of registration statements. */
  readonly fees: Array<RegistrationFees> = []
  /** The scheduled ends of the visited companies' registrations. */
  readonly registrationEnds: Array<CompanyRegistrationEnds> = []
  /** Suspicious values in the documents that were read. */
  readonly doubts: Array<Doubt> = []
  /**
   * URLs of the documents that were read. Stored doubts about these documents are deleted unless they are also in
   * `doubts`.
   */
  readonly readUrls: Array<string> = []
  /** Number of documents that were read or, in a dry run, would be downloaded. Excludes documents that failed. */
  documents = 0
}

/** The results of visiting one company. */
export class CompanyVisit extends VisitResults {
  /** New rows by dataset. */
  readonly rows = new Map<string, ReadonlyArray<RowCells>>()
  /**
   * Operators' decisions about suspicious values in the company's documents, as of the start of the visit. Undefined
   * before they are read.
   */
  decisions: OperatorDecisions | undefined = undefined
}

/** Returns whether the URL is that of a filing list or of one filing in a list. */
const isList = (url: string) => url.includes("/submissions/")

/**
 * Returns whether the queue entry concerns one filing in a filing list. The URL fragment is then the filing's accession
 * number.
 */
const isListedFiling = ({ url }: WorkKey) => /\/submissions\/.+#/.test(url)

/**
 * Returns the accession number of the filing that the queue entry concerns. It is the fragment of
 * `…/CIK0000320193.json#…`, or the folder name in `…/edgar/data/320193/000032019326000006/…`, which omits the hyphens.
 */
const findAccession = ({ url }: WorkKey) => {
  const [, fragment] = /#(\d{10}-\d{2}-\d{6})$/.exec(url) ?? []
  const [, ...parts] = /\/edgar\/data\/\d+\/(\d{10})(\d{2})(\d{6})\//.exec(url) ?? []
  return fragment ?? parts.join("-")
}

const isIndexPage = ({ url }: WorkKey) => url.endsWith("-index.htm")

/**
 * Returns whether the queue entry concerns the XBRL instance of an annual or quarterly report. The instance of a fee
 * exhibit does not count, because it belongs to a registration statement.
 */
const isReportInstance = ({ url }: WorkKey) =>
  isInstanceUrl(url) && !isFeeInstance(url.replace(/#.*$/, "").replace(/^.*\//, ""))

/**
 * Returns whether the queue entry concerns a document of an ownership form or the fee exhibit of a registration
 * statement. All other documents in a filing's folder are XBRL instances of reports and index pages.
 */
const isForm = (entry: WorkKey) => entry.url.includes("/edgar/data/") && !isReportInstance(entry) && !isIndexPage(entry)

/**
 * Returns whether the queue entry requires an XBRL instance to be downloaded again. An entry for a single row of a
 * dataset does not, because the row can be rebuilt from stored counts.
 */
const isDueInstance = (entry: CompanyWork) => entry.isDue && entry.dataset === "" && isReportInstance(entry)

/** The state that earlier runs have stored about a company. */
interface KnownState {
  /** How far the company's filings have been ingested, by dataset. */
  readonly progress: ReadonlyMap<string, IngestDatasetProgress>
  /** The company's entries in the queue of documents. */
  readonly work: ReadonlyArray<CompanyWork>
}

/** The reason for queuing a filing that is in a daily index but not in the company's filing list. */
const notListedYet = "is in a daily index, but not in the company's list of filings yet"

/** Input for the steps of visiting a company. The steps write their results to `visit`. */
interface VisitContext extends CompanyVisitOptions, KnownState {
  readonly issuer: Issuer
  readonly visit: CompanyVisit
  readonly downloader: DocumentDownloader
}

/** Returns whether a row of the dataset could not be loaded by an earlier run and is now due for another attempt. */
const isRowDue = ({ work }: KnownState, dataset: IngestedDataset) =>
  work.some((entry) => entry.dataset === dataset && entry.isDue)

/** Returns whether the document is queued and due for another attempt to read it. */
const isDocumentDue = ({ work }: KnownState, url: string) =>
  work.some((entry) => entry.url === url && entry.dataset === "" && entry.isDue)

/**
 * Downloads and decodes a document of the company. On success, marks its queue entry as done and returns the decoded
 * value. On failure, queues the document for a retry and returns undefined. If the SEC has no such document and
 * `whenMissing` is given, the document is not needed: returns `whenMissing` without queuing it.
 */
const readDocument = Effect.fnUntraced(
  function* <A, B = never>(
    { downloader, visit, work }: Pick<VisitContext, "downloader" | "visit" | "work">,
    url: string,
    decode: (text: string, url: string) => Result.Result<A, DocumentRejected>,
    whenMissing?: B,
  ) {
    // Documents of the kind `instance` were queued without an attempt, so this is the first one.
    const isRepeated = work.some((entry) => entry.url === url && entry.kind !== "instance")
    const text = yield* downloader.download(url, { isRepeated })
    if (Result.isFailure(text) && text.failure.isMissing && whenMissing !== undefined) {
      visit.done.push({ url, dataset: "" })
      return whenMissing
    }
    const decoded = Result.isFailure(text)
      ? Result.fail(text.failure.setAside)
      : Result.mapError(decode(text.success, url), (rejection) => setDocumentAside("rejected", rejection))
    if (Result.isFailure(decoded)) {
      visit.setAside.push(decoded.failure)
      return undefined
    }
    visit.documents += 1
    visit.readUrls.push(url)
    visit.done.push({ url, dataset: "" })
    return decoded.success
  },
)

/**
 * Returns whether the queue entry asks for another attempt to build a row of its dataset. An entry for a filing in the
 * filing list need not be due: every visit downloads the list anyway, so the attempt costs nothing.
 */
const isRetryOfRow = (entry: CompanyWork) => entry.dataset !== "" && (entry.isDue || isListedFiling(entry))

/**
 * Returns the filings that the dataset still lacks: those that are new for it, and those that are queued for it. For
 * `registrations`, they may be older than `since`, because fee exhibits are read from `firstFeeDay` on.
 */
const findPending = (
  context: Pick<VisitContext, "progress" | "since" | "work">,
  filings: ReadonlyArray<EdgarFiling>,
  dataset: IngestedDataset,
) => {
  const queued = new Set(
    context.work.filter((entry) => entry.dataset === dataset && isRetryOfRow(entry)).map(findAccession),
  )
  const since = dataset === "registrations" ? firstFeeDay : context.since
  const known = context.progress.get(dataset)
  // Pretend that an earlier run has ingested registrations from `firstFeeDay` on. Otherwise, every filing since then
  // would count as new.
  const progress = known !== undefined && dataset === "registrations" ? { ...known, since } : known
  const pending = new Set(findPendingFilings(filings, progress, since))
  return filings.filter((filing) => pending.has(filing) || queued.has(filing.accession))
}

/**
 * Queues filings that are in a daily index but not yet in the company's filing list, so that a later run visits the
 * company again. If the list contains a filing that an earlier run has queued in this way, marks its entry as done.
 * `olderFilings` are the filings on the pages of the list that this visit has read.
 */
const queueMissingFilings = (
  { indexedFilings, visit, work }: VisitContext,
  { cik, filings, pages, url }: CompanySubmissions,
  olderFilings: ReadonlyArray<EdgarFiling>,
) => {
  const inFilingList = new Set([...filings, ...olderFilings].map(({ accession }) => accession))
  // An index also contains filings that the SEC released late. If they are older than this list, they belong to other
  // pages, which this visit may not have read. Their absence here therefore means nothing.
  const oldest = pages.length === 0 ? "" : filings.at(-1)?.filingDate ?? ""
  const indexed = (indexedFilings.get(cik) ?? []).filter(({ filingDate }) => filingDate > oldest)
  // In the queue, the dataset "" stands for a document, and any other for a row.
  const queued = work.filter((entry) => entry.dataset === "" && entry.isDue && isListedFiling(entry))
  for (const accession of new Set([...indexed.map(({ accession }) => accession), ...queued.map(findAccession)])) {
    const key = { url: `${url}#${accession}`, dataset: "" }
    if (inFilingList.has(accession)) visit.done.push(key)
    else visit.setAside.push(setDocumentAside("absent", new DocumentRejected({ url: key.url, reason: notListedYet })))
  }
}

/** Decodes the acceptance time on a filing's index page. */
const decodeAcceptanceTime = (html: string, url: string) =>
  Result.fromNullishOr(
    readAcceptanceTimeFromIndexPage(html),
    () => new DocumentRejected({ url, reason: "has no time of acceptance" }),
  )

/**
 * Returns whether no run has ingested the company's filings for this dataset yet, or only those from a later day on
 * than this run does.
 */
const isFirstIngest = ({ datasets, progress, since }: VisitContext, name: IngestedDataset) =>
  datasets.has(name) && !isIngestedSince(progress.get(name), since)

/**
 * Determines which of the datasets whose rows combine several filings must be rebuilt, because one of these filings is
 * new, or because one of their documents or rows is queued and due. `floats` stands for both datasets with public
 * floats.
 */
const findOutdatedRows = (context: VisitContext, filings: ReadonlyArray<EdgarFiling>) => {
  const { datasets, issuer: { cik }, progress, since, work } = context
  const isFirst = (name: IngestedDataset) => isFirstIngest(context, name)
  /** Returns whether there is a new relevant filing for the dataset, or a queued row of the dataset that is due. */
  const hasNew = (name: IngestedDataset, isRelevant: (filing: EdgarFiling) => boolean) =>
    datasets.has(name) &&
    (isRowDue(context, name) || findPendingFilings(filings, progress.get(name), since).some(isRelevant))
  const areCountsDue = datasetsWithCounts.some((name) => datasets.has(name)) &&
    (isDocumentDue(context, buildCompanyFactsUrl(cik)) || work.some(isDueInstance))
  return {
    registrations: isFirst("registrations") || hasNew("registrations", isPartOfRegistration),
    screener: isFirst("screener") || areCountsDue ||
      hasNew("screener", (one) => isPartOfRegistration(one) || statesShareCounts(one)),
    floats: areCountsDue || floatDatasets.some((name) => isFirst(name) || hasNew(name, statesShareCounts)),
  }
}

/**
 * Selects the pages of older filings that this visit needs, in addition to the filing list itself, which contains the
 * newest filings.
 */
const selectPages = (
  context: VisitContext,
  { filings, pages }: CompanySubmissions,
  outdated: ReturnType<typeof findOutdatedRows>,
) => {
  const { datasets, progress, since, work } = context
  // Rows of these datasets combine filings that may be years apart, so all pages are needed.
  if (outdated.registrations || outdated.screener || outdated.floats) return pages
  const newestFilings = new Set(filings.map(({ accession }) => accession))
  // A queued form that is not in the list of the newest filings is on one of the pages.
  const hasOldDueForm = (datasets.has("ownership") || datasets.has("registrations")) &&
    work.some((entry) => entry.isDue && isForm(entry) && !newestFilings.has(findAccession(entry)))
  // Pages that end before the earliest of these days contain no filing that this visit reads.
  const firstDays = [since, progress.get("ownership")?.since ?? since, ...(hasOldDueForm ? [firstFeeDay] : [])]
  const firstDay = firstDays.toSorted()[0] ?? since
  const needsOldPages = isFirstIngest(context, "news") || isFirstIngest(context, "ownership") || hasOldDueForm
  return pages.filter(({ filingTo, name }) =>
    (needsOldPages && filingTo >= firstDay) || isDocumentDue(context, buildSubmissionsPageUrl(name))
  )
}

/** Downloads the pages of older filings that this visit needs. `decoded` is undefined for a page that failed. */
const readOlderPages = (
  context: VisitContext,
  submissions: CompanySubmissions,
  outdated: ReturnType<typeof findOutdatedRows>,
) =>
  Effect.forEach(selectPages(context, submissions, outdated), (page) =>
    Effect.map(
      readDocument(context, buildSubmissionsPageUrl(page.name), decodeSubmissionsPage),
      (decoded) => ({ page, decoded }),
    ))

/**
 * Queues the unreadable elements of the company's filing lists, once per dataset, because each dataset lacks the filing
 * that such an element describes.
 */
const queueUnreadableElements = (
  { datasets, visit }: VisitContext,
  rejections: ReadonlyArray<DocumentRejected>,
) => {
  const affected = datasetsFromCompanyFilings.filter((name) => datasets.has(name))
  for (const rejection of rejections) {
    visit.setAside.push(...affected.map((dataset): SetAside => ({ rejection, dataset, kind: "rejected" })))
  }
}

/**
 * Downloads the company's filing list and the needed pages of older filings. Returns the list with the filings of all
 * these pages and their acceptance times, the datasets to rebuild (`outdated`), and which datasets can be built
 * completely. Returns undefined if the list could not be read; it has then been queued for a retry.
 */
const readFilings = Effect.fnUntraced(function* (context: VisitContext) {
  const { isDryRun, issuer: { cik }, since, visit, work } = context
  const submissions = yield* readDocument(context, buildSubmissionsUrl(cik), decodeSubmissions)
  if (submissions === undefined) return undefined
  const outdated = findOutdatedRows(context, submissions.filings)
  const older = yield* readOlderPages(context, submissions, outdated)
  queueMissingFilings(context, submissions, older.flatMap(({ decoded }) => decoded?.filings ?? []))
  const lists = [submissions, ...older.flatMap(({ decoded }) => decoded ?? [])]
  queueUnreadableElements(context, lists.flatMap(({ rejections }) => rejections))
  const failedPages = older.flatMap(({ decoded, page }) => decoded === undefined ? [page] : [])
  // Index pages are requested only to determine the time zone of acceptance times. If it is already known, no page is
  // requested, and queued pages are no longer needed.
  visit.done.push(...work.filter(isIndexPage))
  const requestAcceptanceTime = ({ accession }: EdgarFiling) =>
    isDryRun ? Effect.undefined : readDocument(context, buildFilingIndexUrl(cik, accession), decodeAcceptanceTime)
  return {
    submissions: {
      ...submissions,
      filings: yield* resolveAcceptanceTimes(cik, lists.flatMap(({ filings }) => filings), requestAcceptanceTime),
    },
    outdated,
    /**
     * Returns whether all pages that the dataset needs were read. If not, the next visit builds its rows. News and
     * ownership have rows for single filings. They need older pages only for the first ingest, and only those with
     * filings from `since` on. The rows of other datasets combine filings from all pages.
     */
    isComplete: (name: IngestedDataset) =>
      name === "news" || name === "ownership"
        ? !isFirstIngest(context, name) || failedPages.every(({ filingTo }) => filingTo < since)
        : failedPages.length === 0,
    hasAllPages: failedPages.length === 0,
  }
})

type FilingsRead = NonNullable<Effect.Success<ReturnType<typeof readFilings>>>

/**
 * Handles queue entries of forms that are due (`due`, by accession number) but whose documents cannot be downloaded. If
 * no document of the filing is needed any more, marks the entries as done. If the company's filing list no longer
 * contains the filing, queues the documents again.
 */
const handleUnreadableForms = (
  { setAside, done }: CompanyVisit,
  due: ReadonlyMap<string, ReadonlyArray<CompanyWork>>,
  filings: ReadonlyArray<EdgarFiling>,
  hasAllPages: boolean,
) => {
  const filingsByAccession = new Map(filings.map((filing) => [filing.accession, filing]))
  for (const [accession, entries] of due) {
    const filing = filingsByAccession.get(accession)
    if (filing !== undefined && findFormKind(filing) === undefined) done.push(...entries)
    // If a page could not be read, the filing may be on that page.
    if (filing !== undefined || !hasAllPages) continue
    const reason = "is no longer in the company's list of filings"
    setAside.push(...entries.map(({ url }) => setDocumentAside("absent", new DocumentRejected({ url, reason }))))
  }
}

/**
 * Selects the ownership forms and registration statements whose documents must be downloaded for these datasets: new
 * ones, and those with a queue entry that is due. Returns them as `forms`, and the due queue entries by accession
 * number as `due`. `hasAllPages` means that `filings` has all filings of the company, so that a queued filing that is
 * not among them is no longer on the SEC's list.
 */
const selectForms = (
  context: VisitContext,
  filings: ReadonlyArray<EdgarFiling>,
  datasets: ReadonlyArray<IngestedDataset>,
  hasAllPages: boolean,
) => {
  const { visit, work } = context
  const queued = work.filter((entry) => entry.dataset === "" && isForm(entry))
  const due = Map.groupBy(queued.filter(({ isDue }) => isDue), findAccession)
  handleUnreadableForms(visit, due, filings, hasAllPages)
  const notDue = new Set(queued.filter(({ isDue }) => !isDue).map(findAccession))
  // The key may be undefined, so that the result of `findFormDataset` can be looked up. No entry has that key.
  const pending = new Map<string | undefined, ReadonlySet<EdgarFiling>>(
    datasets.map((dataset) => [dataset, new Set(findPending(context, filings, dataset))]),
  )
  const forms = filings.filter((filing) => {
    const pendingOfDataset = pending.get(findFormDataset(filing))
    return pendingOfDataset !== undefined &&
      (due.has(filing.accession) || (pendingOfDataset.has(filing) && !notDue.has(filing.accession)))
  })
  return { due, forms }
}

/** Input for reading the documents of one filing. `work` contains only the queue entries for these documents. */
type FormContext = Pick<VisitContext, "downloader" | "issuer" | "visit" | "work">

/**
 * Downloads the fee exhibit of a registration statement and adds its amounts to the results (`visit`). The exhibit's
 * name varies, so the file listing of the filing's folder is downloaded first. Adds nothing if there is no exhibit or
 * if it states no amounts.
 */
const readFees = Effect.fnUntraced(function* (context: FormContext, filing: FormFiling) {
  const { issuer: { cik }, visit } = context
  const { accession, fileNumber, filingDate } = filing
  const name = yield* readDocument(context, buildFormUrl(cik, filing), findFeeInstance)
  if (name === undefined || name === null || fileNumber === null) return
  const url = `${buildFilingFolderUrl(cik, accession)}${name}`
  const fees = yield* readDocument(context, url, (text, url) => decodeFilingFees(text, url, fileNumber))
  if (fees === undefined || fees.elements.length === 0) return
  const { elements, ...amounts } = fees
  const source = elements.map((element) => `${url}#ffd:${element}`)
  visit.fees.push({ cik, accession, fileNumber, filingDate, ...amounts, source })
})

/**
 * Downloads an ownership form and returns its rows. Adds the doubts about its values to the results (`visit`). For a
 * schedule filed before schedules were XML, downloads only the SGML header.
 */
const readOwnershipForm = Effect.fnUntraced(function* (context: FormContext, filing: FormFiling) {
  const { issuer, visit } = context
  const url = buildFormUrl(issuer.cik, filing)
  const urls = findFormKind(filing) === "header"
    ? { documentUrl: buildFilingDocumentUrl(issuer.cik, filing.accession, filing.primaryDocument), headerUrl: url }
    : { documentUrl: url }
  visit.done.push({ url, dataset: "" })
  const decode = (text: string) => makeOwnershipRows({ issuer, filing: { ...filing, ...urls }, text })
  const { doubts, rows } = (yield* readDocument(context, url, decode)) ?? { doubts: [], rows: [] }
  visit.doubts.push(...doubts)
  return rows
})

/**
 * Reads the documents of a filing. For a registration statement, adds the amounts in its fee exhibit to the results
 * (`visit`). For an ownership form, returns rows of `ownership`.
 */
const readForm = (context: FormContext, filing: FormFiling) => {
  // The queue entries may have a different URL than the document has now, because it can be renamed at the SEC.
  context.visit.done.push(...context.work)
  return findFormKind(filing) === "fees" ? Effect.as(readFees(context, filing), []) : readOwnershipForm(context, filing)
}

/**
 * Downloads ownership forms and fee exhibits, and adds their rows and amounts to the results (`visit`). If
 * `defersForms` is true, downloads only those with a due queue entry and queues the others.
 */
const addForms = Effect.fnUntraced(
  function* (context: VisitContext, { due, forms }: ReturnType<typeof selectForms>) {
    const { defersForms, issuer: { cik }, visit } = context
    // Forms that an earlier run has queued after a failure are not deferred again.
    const [now, later] = defersForms
      ? [forms.filter(({ accession }) => due.has(accession)), forms.filter(({ accession }) => !due.has(accession))]
      : [forms, []]
    for (const { acceptedAt, accession, fileNumber, filingDate, form, primaryDocument } of later) {
      const filing = { acceptedAt, accession, fileNumber, filingDate, form, primaryDocument }
      visit.deferred.push({ url: buildFormUrl(cik, filing), filing })
    }
    const rows = yield* Effect.forEach(
      now,
      (filing) => readForm({ ...context, work: due.get(filing.accession) ?? [] }, filing),
      { concurrency: documentConcurrency },
    )
    visit.rows.set("ownership", rows.flat())
  },
)

/**
 * Reads the documents of an ownership form or registration statement that was only queued when its company was visited,
 * and writes the results to `visit`.
 */
export const readDeferredForm = Effect.fnUntraced(
  function* (issuer: Issuer, { filing, url }: DeferredForm, downloader: DocumentDownloader, visit: CompanyVisit) {
    visit.rows.set("ownership", yield* readForm({ downloader, issuer, visit, work: [] }, filing))
    visit.done.push({ url, dataset: "" })
  },
)

/**
 * Downloads a filing's XBRL instance and returns the share counts on its cover page. Returns null if the cover page has
 * no counts or if an old filing has no instance, and undefined if the instance could not be read and has been queued
 * for a retry. A recent filing without an instance is queued as well, because the instance may still appear.
 */
const readCover = Effect.fnUntraced(
  function* (context: VisitContext, filing: EdgarFiling, url: string) {
    const isOld = filing.filingDate < subtractDays(yield* todayInNewYork, lateFilingDays)
    context.visit.done.push({ url, dataset: "" })
    return yield* readDocument(context, url, decodeCoverCounts, isOld ? null : undefined)
  },
  instancePermits.withPermit,
)

/**
 * Adds share counts from XBRL instances to the company facts, for reports without a count in the facts. Counts that an
 * earlier run has stored are reused. Other instances are downloaded if they are queued and due, if they were filed on
 * or after `since`, or if they belong to the newest report.
 *
 * `factsText` is the text of the company facts. If it does not mention a filing, the SEC has not added the filing's
 * facts yet. Its instance is then not downloaded, because the facts may soon contain its count.
 */
const addCovers = Effect.fnUntraced(
  function* (context: VisitContext, facts: CompanyFacts, filings: ReadonlyArray<EdgarFiling>, factsText: string) {
    const { defersInstances, issuer: { cik }, since, visit, work } = context
    const withCount = new Set(facts.counts.map(({ accn }) => accn))
    const lacking = filings.filter((filing) => mayHaveInstance(filing) && !withCount.has(filing.accession))
    /** Counts that earlier runs have stored, by accession number. Null means that the instance has none. */
    const known = lacking.length === 0 ? new Map<string, CoverCounts | null>() : yield* readKnownCovers(cik)
    const newest = filings.find((filing) => isXbrlReport(filing) && !filing.form.endsWith("/A"))
    const entries = work.filter((entry) => entry.dataset === "" && isReportInstance(entry))
    const queued = new Map(entries.map((entry) => [findAccession(entry), entry]))

    /** Returns a filing's stored or downloaded counts, or undefined if they are not available yet. */
    const findCover = Effect.fnUntraced(function* (filing: EdgarFiling, url: string) {
      const { accession, filingDate } = filing
      const stored = known.get(accession)
      if (stored !== undefined) {
        // All rows are recomputed from the stored counts, so queue entries for rows of this filing are also done.
        visit.done.push({ url, dataset: "" })
        visit.readUrls.push(url)
        return stored
      }
      const entry = queued.get(accession)
      const isRequested = entry?.isDue ?? (filingDate >= since || filing === newest)
      if (!isRequested || !factsText.includes(accession)) return undefined
      if (defersInstances && entry === undefined) {
        visit.deferred.push({ url, filing: null })
        return undefined
      }
      return yield* readCover(context, filing, url)
    })

    const instances = yield* Effect.forEach(lacking, (filing) => {
      const { accession, filingDate, primaryDocument } = filing
      return Effect.map(
        findCover(filing, buildInstanceUrl(cik, accession, primaryDocument)),
        (cover): ReadonlyArray<FilingInstance> => cover === undefined ? [] : [{ cik, accession, filingDate, cover }],
      )
    })
    visit.instances.push(...instances.flat())
    return addInstanceCounts(facts, lacking, instances.flat())
  },
)

/**
 * Downloads the company facts and adds the counts from XBRL instances. If the facts lack any of the newest reports,
 * queues them for another download, because the SEC adds reports with a delay. Returns "none" if there are no facts, as
 * for funds and new companies, and undefined if the facts could not be read and have been queued for a retry.
 */
const readFacts = Effect.fnUntraced(function* (context: VisitContext, filings: ReadonlyArray<EdgarFiling>) {
  const { issuer, visit } = context
  const url = buildCompanyFactsUrl(issuer.cik)
  const decode = (text: string) => Result.map(decodeCompanyFacts(text, url), (facts) => ({ facts, text }))
  // If the SEC has no facts of the company, the text is empty, so that it lacks all reports.
  const read = yield* readDocument(context, url, decode, { facts: undefined, text: "" })
  if (read === undefined) return undefined
  const { facts, text } = read
  const reports = filings.filter(isXbrlReport)
  // Only the newest report and those of the days before it are waited for. Older ones are not expected any
  // more. Without reports, no day is recent.
  const firstRecentDay = subtractDays(reports[0]?.filingDate ?? "9999-12-31", lateFilingDays)
  const missing = reports.flatMap(({ accession, filingDate }) =>
    filingDate >= firstRecentDay && !text.includes(accession) ? [accession] : []
  )
  if (missing.length > 0) {
    const rejection = new DocumentRejected({ url, reason: `does not contain ${missing.join(", ")} yet` })
    visit.setAside.push(setDocumentAside("absent", rejection))
  }
  if (facts === undefined) return "none"
  const datasets = datasetsWithCounts.filter((name) => context.datasets.has(name))
  for (const rejection of facts.rejections) {
    visit.setAside.push(...datasets.map((dataset): SetAside => ({ rejection, dataset, kind: "rejected" })))
  }
  return yield* addCovers(context, facts, filings, text)
})

/** Returns the company's current count, and the splits around its date, as they are stored for market caps. */
const describeCurrentCount = (
  assessment: CountAssessment | undefined,
): Pick<AssessedCompany, "countedSplits" | "outstanding"> => {
  const { countedSplits = [], current = "none" } = assessment ?? {}
  return {
    countedSplits,
    outstanding: current === "none" ? undefined : current === "doubtful" ? null : String(current.val),
  }
}

/**
 * Returns whether the visit may write the company's rows of the dataset. In a dataset with one row per symbol, the row
 * belongs to the other company if the SEC lists the company's symbol for another one.
 */
const isWritten = ({ isListedForOther }: Issuer, name: IngestedDataset) =>
  isListedForOther !== true || !currentDatasets.has(name)

/**
 * Adds the company's rows with share counts to the results (`visit`): its rows of `screener`, `float_outstanding`, and
 * `historical_float_pro`, as far as the run ingests these datasets. Checks the counts against prices and splits, and
 * adds the resulting doubts.
 *
 * If there are no facts, keeps the stored count. If the SEC no longer states the industry or the exchange, keeps the
 * stored value (D38). If the facts could not be read, adds only the row of `screener`, with the stored count.
 */
const addCounts = Effect.fnUntraced(function* (context: VisitContext, filingList: CompanySubmissions) {
  const { datasets, visit } = context
  const read = yield* readFacts(context, filingList.filings)
  // A due instance that `addCovers` did not request is no longer needed, for example because the facts now contain the
  // count.
  if (read !== undefined) visit.done.push(...context.work.filter(isDueInstance))
  const facts = read === "none" ? undefined : read
  const stored = yield* readStoredCounts(context.issuer, filingList.filings)
  const issuer = { ...context.issuer, exchange: context.issuer.exchange ?? stored.exchange }
  const submissions = { ...filingList, sicDescription: filingList.sicDescription ?? stored.industry }
  const add = (name: IngestedDataset, rows: ReadonlyArray<RowCells>) => {
    if (datasets.has(name) && isWritten(issuer, name)) visit.rows.set(name, rows)
  }
  const isReceipt = findDepositaryReceiptRegistration(issuer, submissions) !== undefined
  const prices = yield* readKnownPrices(issuer, facts?.floats ?? [], isReceipt)
  const assessment = facts === undefined ? undefined : assessCounts({
    facts,
    filings: submissions.filings,
    tickers: issuer.tickers,
    ...prices,
    decisions: visit.decisions,
  })
  const { cik, ticker } = issuer
  visit.assessed.push({
    cik,
    ticker,
    isInherited: stored.isInherited,
    isListedForOther: issuer.isListedForOther === true,
    ...prices,
    ...describeCurrentCount(assessment),
  })
  const countOfScreener = makeCurrentCount(issuer, assessment, stored.screener)
  add("screener", makeScreenerRows(issuer, submissions, countOfScreener, stored.screenerUpdated))
  if (read !== undefined) {
    const count = makeCurrentCount(issuer, assessment, stored.float)
    const isRatioKnown = prices.known.sharesPerReceipt !== null
    const known = facts ?? makeEmptyFacts(issuer.cik)
    const rows = makeFloatRows(issuer, known, submissions, assessment, count, isRatioKnown)
    add("historical_float_pro", rows.historical_float_pro)
    // A company that has never had a count gets no row without one.
    add("float_outstanding", facts === undefined && count.outstanding === null ? [] : rows.float_outstanding)
  }
  if (facts !== undefined && assessment !== undefined) {
    visit.doubts.push(...listCountDoubts(issuer.cik, facts, assessment))
  }
})

/**
 * Returns the datasets whose rows are built from the document of a queue entry. For an ownership form or a fee exhibit,
 * the list is empty, as if no dataset needed it: only `ownership` or `registrations` uses it, and it is downloaded only
 * if that dataset is being ingested.
 */
const findDependentDatasets = (entry: WorkKey): ReadonlyArray<IngestedDataset> => {
  if (isList(entry.url)) return datasetsFromCompanyFilings
  if (isReportInstance(entry) || entry.url.includes("/companyfacts/")) return datasetsWithCounts
  return isIndexPage(entry) ? ["news"] : []
}

/**
 * Returns the queue entries for single rows that this visit has rebuilt. That is so if the visit has built rows of the
 * entry's dataset and read the document that the row comes from.
 */
const findRebuiltRows = ({ visit, work }: VisitContext) => {
  const read = new Set(visit.done.map(({ url }) => url))
  return work.filter((entry) =>
    isRetryOfRow(entry) && visit.rows.has(entry.dataset) && read.has(entry.url.split("#")[0] ?? "")
  )
}

/**
 * Adds rows of `news` to the results (`visit`): for new filings, and for earlier filings whose row is missing or has a
 * different acceptance time. Also adds doubts about implausible acceptance times.
 */
const addNews = Effect.fnUntraced(function* (context: VisitContext, { submissions: { filings } }: FilingsRead) {
  const { datasets, issuer, progress, since, visit } = context
  if (!datasets.has("news")) return
  const pending = findPending(context, filings, "news")
  // Before the first ingest, there are no earlier rows to compare with.
  const first = progress.get("news")?.since
  const stale = first === undefined ? [] : yield* findStaleNews(issuer.cik, filings, first < since ? first : since)
  const changed = new Set([...pending, ...stale])
  visit.rows.set("news", makeNewsRows(issuer, Array.from(changed)))
  visit.doubts.push(...findNewsDoubts(filings))
})

/**
 * If any row of `registrations` may have changed, adds all of the company's rows to the results (`visit`), with the
 * sources of the amounts from fee exhibits, and the dates on which the registrations end. Adds nothing if a page of
 * filings could not be read, because registrations would then lack filings.
 */
const addRegistrations = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, outdated, submissions: { filings } }: FilingsRead) {
    const { isFresh, issuer, visit } = context
    if (!outdated.registrations || !hasAllPages) return
    const feeSources = isFresh ? new Map() : yield* readFeeExhibitUrls(issuer.cik)
    visit.rows.set("registrations", makeRegistrationRows(issuer, filings, yield* todayInNewYork, feeSources))
    visit.registrationEnds.push({ cik: issuer.cik, ends: listRegistrationEnds(issuer, filings) })
  },
)

/** Reads new and due ownership forms and fee exhibits. In a dry run, only counts them. */
const addSelectedForms = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, isComplete, submissions: { filings } }: FilingsRead) {
    const { datasets, isDryRun, isFresh, visit } = context
    // A fresh run writes files, and does not add amounts from fee exhibits to them. All rows in a file have the same
    // columns, so the amounts of registrations without an exhibit would be null. Loading such a file would overwrite
    // amounts that another source may have loaded.
    const datasetsToRead = datasetsOfForms.filter((name) =>
      datasets.has(name) && isComplete(name) && !(isFresh && name === "registrations")
    )
    if (datasetsToRead.length === 0) return
    const selected = selectForms(context, filings, datasetsToRead, hasAllPages)
    if (isDryRun) visit.documents += selected.forms.length
    else yield* addForms(context, selected)
  },
)

/**
 * Rebuilds the rows with share counts if they are outdated. A dry run does not download the company facts, but counts
 * them as one document.
 */
const updateCounts = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, outdated, submissions }: FilingsRead) {
    const { isDryRun, issuer, visit } = context
    if (!(outdated.floats || outdated.screener) || !hasAllPages) return
    if (!isDryRun) return yield* addCounts(context, submissions)
    if (outdated.screener) visit.rows.set("screener", makeScreenerRows(issuer, submissions))
    visit.documents += 1
  },
)

/**
 * Records how far each dataset has been ingested, unless a page of filings that the dataset needs could not be read.
 */
const addProgress = (context: VisitContext, { isComplete, submissions: { filings } }: FilingsRead) => {
  const { datasets, issuer, progress, since, visit } = context
  for (const name of datasetsFromCompanyFilings) {
    if (!datasets.has(name) || !isComplete(name) || !isWritten(issuer, name)) continue
    visit.progress.push(makeIngestDatasetProgress(issuer.cik, name, filings, since, progress.get(name)))
  }
}

/**
 * Completes the list of queue entries to delete. If a dataset that this run does not ingest, but that an earlier run
 * has ingested, also needs a document, its entry remains queued for that dataset.
 */
const finishQueueEntries = (context: VisitContext) => {
  const { datasets, progress, visit } = context
  visit.done.push(...findRebuiltRows(context))
  const isDone = (entry: WorkKey) =>
    entry.dataset !== "" ||
    findDependentDatasets(entry).every((name) => datasets.has(name) || !progress.has(name))
  // Replaces all elements, because `done` is read-only as a property.
  visit.done.splice(0, Infinity, ...visit.done.filter(isDone))
}

/** Reads how far earlier runs have ingested a company, and its queue entries. If `isFresh` is true, ignores both. */
const readKnownState = Effect.fnUntraced(
  function* (cik: string, { defersInstances, ignoresDelays, isFresh }: CompanyVisitOptions) {
    const unknown: KnownState = { progress: new Map(), work: [] }
    if (isFresh) return unknown
    const progress = yield* readIngestProgress(cik)
    const work = yield* readCompanyWork(cik, ignoresDelays)
    // XBRL instances in the queue are left for the second visit, which reads them.
    const known: KnownState = { progress, work: work.filter(({ kind }) => !defersInstances || kind !== "instance") }
    return known
  },
)

/**
 * Visits a company: reads its filing list, builds the rows of each dataset that are new or outdated, and writes all
 * results to `visit`. If the visit fails because the SEC is down, `visit` contains the documents to queue for a retry.
 */
export const visitCompany = Effect.fnUntraced(
  function* (issuer: Issuer, options: CompanyVisitOptions, downloader: DocumentDownloader, visit: CompanyVisit) {
    const known = yield* readKnownState(issuer.cik, options)
    visit.decisions = yield* readDecisions([issuer.cik])
    const context: VisitContext = { ...options, ...known, issuer, visit, downloader }
    const read = yield* readFilings(context)
    if (read === undefined) return
    yield* addNews(context, read)
    yield* addRegistrations(context, read)
    yield* addSelectedForms(context, read)
    yield* updateCounts(context, read)
    addProgress(context, read)
    finishQueueEntries(context)
  },
)
