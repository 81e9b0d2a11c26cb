/**
 * Visits a company: downloads its new documents and its due documents from the queue (`edgar_work`), and builds rows
 * from them. `visitCompany`, at the end of the file, lists the steps.
 */
import { Effect, Result, Semaphore } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { readAcceptanceTimeFromIndexPage } from "../read/AcceptanceTime.ts"
import { type CompanyFacts, decodeCompanyFacts, isPeriodicReport, makeEmptyFacts } from "../read/CompanyFacts.ts"
import { assessCounts } from "../read/ShareCounts.ts"
import { readDecisions } from "../store/Doubts.ts"
import type { Decisions, Doubt } from "../read/Doubt.ts"
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
import { readFeeSources, type RegistrationFees } from "../store/RegistrationFees.ts"
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
 * Limits the number of XBRL instances in memory at the same time across all companies, because an instance can have 50
 * million characters.
 */
const instancePermits = Semaphore.makeUnsafe(4)

const statesShareCounts = ({ form }: EdgarFiling) => isPeriodicReport(form)

/**
 * Returns whether the filing is an annual or quarterly report, or an amendment to one, whose values the SEC adds to the
 * company facts.
 */
const isXbrlReport = (filing: EdgarFiling) => filing.isXbrl && statesShareCounts(filing)

/**
 * Returns whether the filing belongs to a registration. Such a filing can also change the `pending_s1` column of the
 * screener.
 */
const isPartOfRegistration = ({ form }: EdgarFiling) => /^([SF]-|424B|EFFECT|RW|POS)/.test(form)

/** Options of a run that apply to each of its visits. */
export interface CompanyVisitOptions {
  readonly datasets: ReadonlySet<IngestedDataset>
  /** Filings in the daily indexes, by company CIK. */
  readonly indexedFilings: ReadonlyMap<string, ReadonlyArray<DailyIndexFiling>>
  /** First filing date to ingest, `YYYY-MM-DD`. */
  readonly since: string
  /** Whether to download only filing lists and to count the other documents without requesting them. */
  readonly isDryRun: boolean
  /**
   * Whether to ignore the progress and the queue of earlier runs, so that all filings from `since` on are ingested
   * again.
   */
  readonly isFresh: boolean
  /** Whether to request queued documents before their next attempt is due. Final entries are never requested. */
  readonly ignoresDelays: boolean
  /** Whether to only queue new ownership forms and registration statements, which a later step then reads. */
  readonly defersForms: boolean
  /** Whether to only queue new XBRL instances, which a second visit then reads. */
  readonly defersInstances: boolean
}

/** The results of visits other than rows: progress, queue changes, and values for the ingest's own tables. */
export class VisitResults {
  readonly progress: Array<IngestDatasetProgress> = []
  /** Documents and rows that failed. They are queued for another attempt. */
  readonly setAside: Array<SetAside> = []
  /** Queue entries to delete because they are done. An entry that is also in `setAside` remains queued. */
  readonly done: Array<WorkKey> = []
  /** Documents to queue without attempting them, because a later step of the run reads them. */
  readonly listed: Array<DeferredDocument> = []
  /** Share counts from filings' XBRL instances. */
  readonly instances: Array<FilingInstance> = []
  /** Companies whose counts were assessed. */
  readonly assessed: Array<AssessedCompany> = []
  /** Amounts from the fee exhibits of registration statements. */
  readonly fees: Array<RegistrationFees> = []
  /** The scheduled ends of the visited companies' registrations. */
  readonly registrationEnds: Array<CompanyRegistrationEnds> = []
  /** Doubts about suspicious values. */
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
  /** Operators' decisions as of the start of the visit; undefined before they are read. */
  decisions: Decisions | undefined = undefined
}

/** Returns whether the URL is that of a filing list or of one filing in a list. */
const isList = (url: string) => url.includes("/submissions/")

/** Returns whether the entry concerns one filing in a list. The URL fragment is then the accession number. */
const isListedFiling = ({ url }: WorkKey) => /\/submissions\/.+#/.test(url)

/**
 * Returns the accession number of the filing that the entry concerns. It is the fragment of `…/CIK0000320193.json#…`,
 * or the folder name in `…/edgar/data/320193/000032019326000006/…`, which omits the hyphens.
 */
const findAccession = ({ url }: WorkKey) => {
  const [, fragment] = /#(\d{10}-\d{2}-\d{6})$/.exec(url) ?? []
  const [, ...parts] = /\/edgar\/data\/\d+\/(\d{10})(\d{2})(\d{6})\//.exec(url) ?? []
  return fragment ?? parts.join("-")
}

const isIndexPage = ({ url }: WorkKey) => url.endsWith("-index.htm")

/**
 * Returns whether the entry concerns a report's XBRL instance. The instance of a fee exhibit does not count, because it
 * is treated as a form.
 */
const isReportInstance = ({ url }: WorkKey) =>
  isInstanceUrl(url) && !isFeeInstance(url.replace(/#.*$/, "").replace(/^.*\//, ""))

/** Returns whether the entry concerns an ownership form or the fee exhibit of a registration statement. */
const isForm = (entry: WorkKey) => entry.url.includes("/edgar/data/") && !isReportInstance(entry) && !isIndexPage(entry)

/**
 * Returns whether the instance itself must be downloaded. An entry for a single row requires only that the row be
 * rebuilt.
 */
const isDueInstance = (entry: CompanyWork) => entry.isDue && entry.dataset === "" && isReportInstance(entry)

/** The state that earlier runs have stored about a company. */
interface KnownState {
  /** Progress by dataset. */
  readonly progress: ReadonlyMap<string, IngestDatasetProgress>
  readonly work: ReadonlyArray<CompanyWork>
}

/** The reason for queuing a filing that is only in a daily index. */
const notListedYet = "is in a daily index, but not in the company's list of filings yet"

/** Input for the steps of a visit. The steps write their results to `visit`. */
interface VisitContext extends CompanyVisitOptions, KnownState {
  readonly issuer: Issuer
  readonly visit: CompanyVisit
  readonly downloader: DocumentDownloader
}

/** Returns whether a row of the dataset is queued for a retry that is due. */
const isRowDue = ({ work }: KnownState, dataset: IngestedDataset) =>
  work.some((entry) => entry.dataset === dataset && entry.isDue)

/** Returns whether the whole document is queued and due for an attempt. */
const isDocumentDue = ({ work }: KnownState, url: string) =>
  work.some((entry) => entry.url === url && entry.dataset === "" && entry.isDue)

/**
 * Downloads and decodes a document. If this fails, queues the document for a retry and returns undefined. If the SEC
 * has no such document and `whenMissing` is given, returns `whenMissing` without queuing the document.
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
 * Returns the filings that are new for the dataset or queued for it. For `registrations`, they may be older than
 * `since`, because fee exhibits are read from `firstFeeDay` on.
 */
const findPending = (
  context: Pick<VisitContext, "progress" | "since" | "work">,
  filings: ReadonlyArray<EdgarFiling>,
  dataset: IngestedDataset,
) => {
  const queued = new Set(
    context.work.filter((entry) => entry.dataset === dataset && (entry.isDue || isListedFiling(entry)))
      .map(findAccession),
  )
  const since = dataset === "registrations" ? firstFeeDay : context.since
  const known = context.progress.get(dataset)
  const progress = known !== undefined && dataset === "registrations" ? { ...known, since } : known
  const pending = new Set(findPendingFilings(filings, progress, since))
  return filings.filter((filing) => pending.has(filing) || queued.has(filing.accession))
}

/**
 * Queues filings that are in a daily index but not in the company's filing list. Marks their entries as done once the
 * list contains them.
 */
const queueMissingFilings = (
  { indexedFilings, visit, work }: VisitContext,
  { cik, filings, pages, url }: CompanySubmissions,
  olderFilings: ReadonlyArray<EdgarFiling>,
) => {
  const listed = new Set([...filings, ...olderFilings].map(({ accession }) => accession))
  // An index also contains filings that the SEC released late. If they are older than this list, they belong to other
  // pages, which this visit may not have read. Their absence here therefore means nothing.
  const oldest = pages.length === 0 ? "" : filings.at(-1)?.filingDate ?? ""
  const indexed = (indexedFilings.get(cik) ?? []).filter(({ filingDate }) => filingDate > oldest)
  const queued = work.filter((entry) => entry.dataset === "" && entry.isDue && isListedFiling(entry))
  for (const accession of new Set([...indexed.map(({ accession }) => accession), ...queued.map(findAccession)])) {
    const key = { url: `${url}#${accession}`, dataset: "" }
    if (listed.has(accession)) visit.done.push(key)
    else visit.setAside.push(setDocumentAside("absent", new DocumentRejected({ url: key.url, reason: notListedYet })))
  }
}

/** Decodes the acceptance time on a filing's index page. */
const decodeAcceptanceTime = (html: string, url: string) =>
  Result.fromNullishOr(
    readAcceptanceTimeFromIndexPage(html),
    () => new DocumentRejected({ url, reason: "has no time of acceptance" }),
  )

/** Returns whether the dataset is ingested for the first time or from an earlier day than before. */
const isFirstIngest = ({ datasets, progress, since }: VisitContext, name: IngestedDataset) =>
  datasets.has(name) && !isIngestedSince(progress.get(name), since)

/**
 * Determines the datasets whose rows combine several filings and must be rebuilt, because one of these filings is new
 * or one of their documents is due.
 */
const findOutdatedRows = (context: VisitContext, filings: ReadonlyArray<EdgarFiling>) => {
  const { datasets, issuer: { cik }, progress, since, work } = context
  const isFirst = (name: IngestedDataset) => isFirstIngest(context, name)
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

/** Selects the pages of older filings that this visit needs. */
const selectPages = (
  context: VisitContext,
  { filings, pages }: CompanySubmissions,
  outdated: ReturnType<typeof findOutdatedRows>,
) => {
  const { datasets, progress, since, work } = context
  // Rows of these datasets combine filings that may be years apart, so all pages are needed.
  if (outdated.registrations || outdated.screener || outdated.floats) return pages
  const listed = new Set(filings.map(({ accession }) => accession))
  const hasOldDueForm = (datasets.has("ownership") || datasets.has("registrations")) &&
    work.some((entry) => entry.isDue && isForm(entry) && !listed.has(findAccession(entry)))
  const firstDays = [since, progress.get("ownership")?.since ?? since, ...(hasOldDueForm ? [firstFeeDay] : [])]
  const firstDay = firstDays.toSorted()[0] ?? since
  const needsOldPages = isFirstIngest(context, "news") || isFirstIngest(context, "ownership") || hasOldDueForm
  return pages.filter(({ filingTo, name }) =>
    (needsOldPages && filingTo >= firstDay) || isDocumentDue(context, buildSubmissionsPageUrl(name))
  )
}

/**
 * Downloads the company's filing list and the needed pages of older filings. Returns undefined if the list could not be
 * read and has been queued for a retry.
 */
const readFilings = Effect.fnUntraced(function* (context: VisitContext) {
  const { datasets, isDryRun, issuer: { cik }, since, visit, work } = context
  const submissions = yield* readDocument(context, buildSubmissionsUrl(cik), decodeSubmissions)
  if (submissions === undefined) return undefined
  const outdated = findOutdatedRows(context, submissions.filings)
  const older = yield* Effect.forEach(
    selectPages(context, submissions, outdated),
    (page) =>
      Effect.map(
        readDocument(context, buildSubmissionsPageUrl(page.name), decodeSubmissionsPage),
        (decoded) => ({ page, decoded }),
      ),
  )
  queueMissingFilings(context, submissions, older.flatMap(({ decoded }) => decoded?.filings ?? []))
  const lists = [submissions, ...older.flatMap(({ decoded }) => decoded ?? [])]
  for (const rejection of lists.flatMap(({ rejections }) => rejections)) {
    const lacking = datasetsFromCompanyFilings.filter((name) => datasets.has(name))
    visit.setAside.push(...lacking.map((dataset): SetAside => ({ rejection, dataset, kind: "rejected" })))
  }
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
    /** Returns whether all pages that the dataset needs were read. If not, the next visit builds its rows. */
    isComplete: (name: IngestedDataset) =>
      name === "news" || name === "ownership"
        ? !isFirstIngest(context, name) || failedPages.every(({ filingTo }) => filingTo < since)
        : failedPages.length === 0,
    hasAllPages: failedPages.length === 0,
  }
})

type FilingsRead = NonNullable<Effect.Success<ReturnType<typeof readFilings>>>

/**
 * Selects the forms to download for these datasets: new forms, and forms that are due. Does not select queued forms
 * that are no longer in the company's filing list or are no longer needed. `due` contains the queue entries of due
 * forms, by accession number.
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
  const waiting = new Set(queued.filter(({ isDue }) => !isDue).map(findAccession))
  const pending = new Map<string | undefined, ReadonlySet<EdgarFiling>>(
    datasets.map((dataset) => [dataset, new Set(findPending(context, filings, dataset))]),
  )
  const listed = new Map(filings.map((filing) => [filing.accession, filing]))
  for (const [accession, entries] of due) {
    const filing = listed.get(accession)
    if (filing !== undefined && findFormKind(filing) === undefined) visit.done.push(...entries)
    // If a page could not be read, the filing may be on that page.
    if (filing !== undefined || !hasAllPages) continue
    visit.setAside.push(
      ...entries.map(({ url }) =>
        setDocumentAside(
          "absent",
          new DocumentRejected({ url, reason: "is no longer in the company's list of filings" }),
        )
      ),
    )
  }
  const forms = filings.filter((filing) => {
    const ofDataset = pending.get(findFormDataset(filing))
    return ofDataset !== undefined &&
      (due.has(filing.accession) || (ofDataset.has(filing) && !waiting.has(filing.accession)))
  })
  return { due, forms }
}

/** Input for reading a form. `work` contains only the queue entries for the form's documents. */
type FormContext = Pick<VisitContext, "downloader" | "issuer" | "visit" | "work">

/** Downloads the fee exhibit of a registration statement, if there is one, and adds its amounts to the visit. */
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

/** Downloads an ownership form and returns its rows. For an old schedule, downloads only the header. */
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
 * Reads a form's documents. For a registration statement, adds the fees to the visit. For an ownership form, returns
 * rows of `ownership`.
 */
const readForm = (context: FormContext, filing: FormFiling) => {
  // The document may have had a different name when it was queued.
  context.visit.done.push(...context.work)
  return findFormKind(filing) === "fees" ? Effect.as(readFees(context, filing), []) : readOwnershipForm(context, filing)
}

/**
 * Downloads the forms and adds their rows to the visit. If forms are deferred, downloads only due forms and queues new
 * ones.
 */
const addForms = Effect.fnUntraced(
  function* (context: VisitContext, { due, forms }: ReturnType<typeof selectForms>) {
    const { defersForms, issuer: { cik }, visit } = context
    const [now, later] = defersForms
      ? [forms.filter(({ accession }) => due.has(accession)), forms.filter(({ accession }) => !due.has(accession))]
      : [forms, []]
    for (const { acceptedAt, accession, fileNumber, filingDate, form, primaryDocument } of later) {
      const filing = { acceptedAt, accession, fileNumber, filingDate, form, primaryDocument }
      visit.listed.push({ url: buildFormUrl(cik, filing), filing })
    }
    const rows = yield* Effect.forEach(
      now,
      (filing) => readForm({ ...context, work: due.get(filing.accession) ?? [] }, filing),
      { concurrency: documentConcurrency },
    )
    visit.rows.set("ownership", rows.flat())
  },
)

/** Reads the documents of a form that an earlier visit has queued, and writes the results to `visit`. */
export const readDeferredForm = Effect.fnUntraced(
  function* (issuer: Issuer, { filing, url }: DeferredForm, downloader: DocumentDownloader, visit: CompanyVisit) {
    visit.rows.set("ownership", yield* readForm({ downloader, issuer, visit, work: [] }, filing))
    visit.done.push({ url, dataset: "" })
  },
)

/**
 * Downloads a filing's XBRL instance and returns the share counts on its cover page. Returns null if the instance has
 * no usable counts or does not exist, and undefined if it has been queued for a retry. The missing instance of a recent
 * filing is queued for a retry, because it may still appear.
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
 * Adds share counts from XBRL instances to the company facts, for reports whose count is missing there. Counts stored
 * by an earlier run are reused. Other instances are downloaded if they are due, if they were filed on or after
 * `since`, or if they belong to the newest report. `factsText` is the company facts document. A filing that it does not
 * mention is left for later, because the SEC has not added it yet, and its count may then be in the facts.
 */
const addCovers = Effect.fnUntraced(
  function* (context: VisitContext, facts: CompanyFacts, filings: ReadonlyArray<EdgarFiling>, factsText: string) {
    const { defersInstances, issuer: { cik }, since, visit, work } = context
    const withCover = new Set(facts.counts.map(({ accn }) => accn))
    const lacking = filings.filter((filing) => mayHaveInstance(filing) && !withCover.has(filing.accession))
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
        visit.listed.push({ url, filing: null })
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
 * Downloads the company facts and adds the counts from XBRL instances. Queues the facts again until the SEC has added
 * the newest reports. Returns "none" if there are no facts, as for funds and new companies, and undefined if the facts
 * could not be read and have been queued for a retry.
 */
const readFacts = Effect.fnUntraced(function* (context: VisitContext, filings: ReadonlyArray<EdgarFiling>) {
  const { issuer, visit } = context
  const url = buildCompanyFactsUrl(issuer.cik)
  const decode = (text: string) => Result.map(decodeCompanyFacts(text, url), (facts) => ({ facts, text }))
  const read = yield* readDocument(context, url, decode, { facts: undefined, text: "" })
  if (read === undefined) return undefined
  const { facts, text } = read
  const reports = filings.filter(isXbrlReport)
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

/**
 * Adds the rows with share counts (screener and float datasets) to the visit. If there are no facts, keeps the stored
 * count. If the SEC no longer states the industry or the exchange, keeps the stored value (D38).
 */
const addCounts = Effect.fnUntraced(function* (context: VisitContext, listedFilings: CompanySubmissions) {
  const { datasets, visit } = context
  const read = yield* readFacts(context, listedFilings.filings)
  // A due instance that `addCovers` did not request is no longer needed, for example because the facts now contain the
  // count.
  if (read !== undefined) visit.done.push(...context.work.filter(isDueInstance))
  const facts = read === "none" ? undefined : read
  const stored = yield* readStoredCounts(context.issuer, listedFilings.filings)
  const issuer = { ...context.issuer, exchange: context.issuer.exchange ?? stored.exchange }
  const submissions = { ...listedFilings, sicDescription: listedFilings.sicDescription ?? stored.industry }
  const add = (name: IngestedDataset, rows: ReadonlyArray<RowCells>) => {
    if (datasets.has(name)) visit.rows.set(name, rows)
  }
  const isReceipt = findDepositaryReceiptRegistration(issuer, submissions) !== undefined
  const prices = yield* readKnownPrices(issuer, facts?.floats ?? [], isReceipt)
  visit.assessed.push({ cik: issuer.cik, awaited: prices.awaited })
  const assessment = facts === undefined ? undefined : assessCounts({
    facts,
    filings: submissions.filings,
    ...prices,
    decisions: visit.decisions,
  })
  const listed = makeCurrentCount(issuer, assessment, stored.screener)
  add("screener", makeScreenerRows(issuer, submissions, listed, stored.screenerUpdated))
  if (read !== undefined) {
    const count = makeCurrentCount(issuer, assessment, stored.float)
    const rows = makeFloatRows(issuer, facts ?? makeEmptyFacts(issuer.cik), submissions, assessment, count)
    add("historical_float_pro", rows.historical_float_pro)
    add("float_outstanding", facts === undefined && count.outstanding === null ? [] : rows.float_outstanding)
  }
  if (facts !== undefined && assessment !== undefined) {
    visit.doubts.push(...listCountDoubts(issuer.cik, facts, assessment))
  }
})

/**
 * Returns the datasets whose rows are built from a document. For a form, the list is empty: only `ownership` or
 * `registrations` uses it, and it is downloaded only if that dataset is being ingested.
 */
const findDependentDatasets = (entry: WorkKey): ReadonlyArray<IngestedDataset> => {
  if (isList(entry.url)) return datasetsFromCompanyFilings
  if (isReportInstance(entry) || entry.url.includes("/companyfacts/")) return datasetsWithCounts
  return isIndexPage(entry) ? ["news"] : []
}

/** Returns the queue entries for single rows that this visit has rebuilt from a document it has read. */
const findRebuiltRows = ({ visit, work }: VisitContext) => {
  const read = new Set(visit.done.map(({ url }) => url))
  return work.filter((entry) =>
    entry.dataset !== "" && (entry.isDue || isListedFiling(entry)) && visit.rows.has(entry.dataset) &&
    read.has(entry.url.split("#")[0] ?? "")
  )
}

/**
 * Adds rows of `news` for new filings, and for earlier filings whose row is missing or has a different acceptance time.
 */
const addNews = Effect.fnUntraced(function* (context: VisitContext, { submissions: { filings } }: FilingsRead) {
  const { datasets, issuer, progress, since, visit } = context
  if (!datasets.has("news")) return
  const pending = findPending(context, filings, "news")
  const first = progress.get("news")?.since
  const stale = first === undefined ? [] : yield* findStaleNews(issuer.cik, filings, first < since ? first : since)
  const changed = new Set([...pending, ...stale])
  visit.rows.set("news", makeNewsRows(issuer, Array.from(changed)))
  visit.doubts.push(...findNewsDoubts(filings))
})

/**
 * If any row of `registrations` may have changed, adds all of the company's rows, with the sources of stored amounts.
 */
const addRegistrations = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, outdated, submissions: { filings } }: FilingsRead) {
    const { isFresh, issuer, visit } = context
    if (!outdated.registrations || !hasAllPages) return
    const feeSources = isFresh ? new Map() : yield* readFeeSources(issuer.cik)
    visit.rows.set("registrations", makeRegistrationRows(issuer, filings, yield* todayInNewYork, feeSources))
    visit.registrationEnds.push({ cik: issuer.cik, ends: listRegistrationEnds(issuer, filings) })
  },
)

/** Reads new and due forms. In a dry run, only counts them. */
const addSelectedForms = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, isComplete, submissions: { filings } }: FilingsRead) {
    const { datasets, isDryRun, isFresh, visit } = context
    // A fresh run writes files. All rows in a file have the same columns, so if only some statements had amounts, the
    // others would be null. Loading such a file would overwrite amounts that another source may have loaded.
    const complete = datasetsOfForms.filter((name) =>
      datasets.has(name) && isComplete(name) && !(isFresh && name === "registrations")
    )
    if (complete.length === 0) return
    const selected = selectForms(context, filings, complete, hasAllPages)
    if (isDryRun) visit.documents += selected.forms.length
    else yield* addForms(context, selected)
  },
)

/** Rebuilds outdated rows with share counts. A dry run counts the company facts as one document. */
const updateCounts = Effect.fnUntraced(
  function* (context: VisitContext, { hasAllPages, outdated, submissions }: FilingsRead) {
    const { isDryRun, issuer, visit } = context
    if (!(outdated.floats || outdated.screener) || !hasAllPages) return
    if (!isDryRun) return yield* addCounts(context, submissions)
    if (outdated.screener) visit.rows.set("screener", makeScreenerRows(issuer, submissions))
    visit.documents += 1
  },
)

/** Records progress for the datasets whose pages were all read. */
const addProgress = (context: VisitContext, { isComplete, submissions: { filings } }: FilingsRead) => {
  const { datasets, issuer: { cik }, progress, since, visit } = context
  for (const name of datasetsFromCompanyFilings) {
    if (!datasets.has(name) || !isComplete(name)) continue
    visit.progress.push(makeIngestDatasetProgress(cik, name, filings, since, progress.get(name)))
  }
}

/**
 * Completes the list of queue entries to delete. The entry of a document remains queued if a dataset outside this run
 * also needs the document.
 */
const finishQueueEntries = (context: VisitContext) => {
  const { datasets, progress, visit } = context
  visit.done.push(...findRebuiltRows(context))
  const isDone = (entry: WorkKey) =>
    entry.dataset !== "" ||
    findDependentDatasets(entry).every((name) => datasets.has(name) || !progress.has(name))
  visit.done.splice(0, Infinity, ...visit.done.filter(isDone))
}

/** Reads what earlier runs have stored about a company. A fresh run ignores all of it. */
const readKnownState = Effect.fnUntraced(
  function* (cik: string, { defersInstances, ignoresDelays, isFresh }: CompanyVisitOptions) {
    const unknown: KnownState = { progress: new Map(), work: [] }
    if (isFresh) return unknown
    const progress = yield* readIngestProgress(cik)
    const work = yield* readCompanyWork(cik, ignoresDelays)
    // Queued instances are left for the second visit.
    const known: KnownState = { progress, work: work.filter(({ kind }) => !defersInstances || kind !== "instance") }
    return known
  },
)

/**
 * Visits a company and writes the results to `visit`. If the visit fails because the SEC is down, `visit` contains the
 * documents to queue for a retry.
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
