/** Visits one company: requests its new documents and those of the queue, and turns them into rows. */
import { Effect, Result, Semaphore } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { readAcceptanceTimeFromIndexPage } from "../read/AcceptanceTime.ts"
import { type CompanyFacts, decodeCompanyFacts, isPeriodicReport, makeEmptyFacts } from "../read/CompanyFacts.ts"
import { assessCounts } from "../read/ShareCounts.ts"
import { readDecisions } from "../store/Doubts.ts"
import type { Doubt } from "../read/Doubt.ts"
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
  type FormFiling,
  type ListedDocument,
  type ListedForm,
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
import { makeScreenerRows } from "../read/ScreenerRows.ts"
import { readCloses, readStoredCounts } from "../store/StoredCounts.ts"
import { findStaleNews, resolveAcceptanceTimes } from "../read/StampZones.ts"
import {
  type CompanySubmissions,
  decodeSubmissions,
  decodeSubmissionsPage,
  type EdgarFiling,
} from "../read/Submissions.ts"
import { type CoverCounts, decodeCoverCounts } from "../read/XbrlCover.ts"

/** Datasets for which more is read of a filing than its entry in the list. */
const datasetsOfForms: ReadonlyArray<IngestedDataset> = ["ownership", "registrations"]

/** Concurrent requests for the documents of one company; the rate limit applies to all of them. */
const documentConcurrency = 4

/** Bounds the memory for XBRL instances of all companies, because each may have 50 million characters. */
const instancePermits = Semaphore.makeUnsafe(4)

const statesShareCounts = ({ form }: EdgarFiling) => isPeriodicReport(form)

/** Whether the filing is an annual or quarterly report, or an amendment, whose values the SEC adds to the facts. */
const isXbrlReport = (filing: EdgarFiling) => filing.isXbrl && statesShareCounts(filing)

/** Whether the filing belongs to a registration. Such a filing may also change the screener's column `pending_s1`. */
const isPartOfRegistration = ({ form }: EdgarFiling) => /^([SF]-|424B|EFFECT|RW|POS)/.test(form)

export interface CompanyVisitOptions {
  readonly datasets: ReadonlySet<IngestedDataset>
  /** The filings that daily indexes name, by the CIK of each company. */
  readonly indexedFilings: ReadonlyMap<string, ReadonlyArray<DailyIndexFiling>>
  /** Filings of this day and later are ingested, `YYYY-MM-DD`. */
  readonly since: string
  /** Requests only lists of filings, and counts the other documents without requesting them. */
  readonly isDryRun: boolean
  /** Ignores the progress and the queue of earlier runs, so all filings from `since` on are ingested again. */
  readonly isFresh: boolean
  /** Whether documents of the queue are requested before their time, unless they are final. */
  readonly ignoresDelays: boolean
  /** Whether new ownership forms and statements are only listed, and their documents read later. */
  readonly defersForms: boolean
  /** Whether new XBRL instances are only listed, and read by another visit. */
  readonly defersInstances: boolean
}

/** The new progress of companies, and the changes of the queue. */
export class VisitResults {
  readonly progress: Array<IngestDatasetProgress> = []
  readonly setAside: Array<SetAside> = []
  /** Entries of the queue that are done, unless they are also set aside. */
  readonly served: Array<WorkKey> = []
  /** Documents that are read later. */
  readonly listed: Array<ListedDocument> = []
  /** The XBRL instances of filings. */
  readonly instances: Array<FilingInstance> = []
  readonly fees: Array<RegistrationFees> = []
  /** When the registrations of the visited companies end. */
  readonly registrationEnds: Array<CompanyRegistrationEnds> = []
  /** The values that are not believed. */
  readonly doubts: Array<Doubt> = []
  /** Documents whose doubts are in `doubts`, if they have any, so that earlier ones are gone. */
  readonly read: Array<string> = []
  /** Number of documents that were read or, in a dry run, would be downloaded. Those set aside are counted apart. */
  documents = 0
}

/** The results of one company. */
export class CompanyVisit extends VisitResults {
  /** By dataset. */
  readonly rows = new Map<string, ReadonlyArray<RowCells>>()
}

const isList = (url: string) => url.includes("/submissions/")

const isListElement = ({ url }: WorkKey) => /\/submissions\/.+#/.test(url)

/** Returns the accession number in the URL of a form or of an element of a list of filings. */
const findAccession = ({ url }: WorkKey) => {
  const [, fragment] = /#(\d{10}-\d{2}-\d{6})$/.exec(url) ?? []
  const [, ...parts] = /\/edgar\/data\/\d+\/(\d{10})(\d{2})(\d{6})\//.exec(url) ?? []
  return fragment ?? parts.join("-")
}

const isIndexPage = ({ url }: WorkKey) => url.endsWith("-index.htm")

/** Whether the entry is about the XBRL instance of a report, and not of a fee exhibit. */
const isReportInstance = ({ url }: WorkKey) =>
  isInstanceUrl(url) && !isFeeInstance(url.replace(/#.*$/, "").replace(/^.*\//, ""))

const isForm = (entry: WorkKey) => entry.url.includes("/edgar/data/") && !isReportInstance(entry) && !isIndexPage(entry)

/** Whether the whole instance is due, rather than a row that was made from it. */
const isDueInstance = (entry: CompanyWork) => entry.isDue && entry.dataset === "" && isReportInstance(entry)

/** The results of earlier runs for the company. */
interface KnownState {
  readonly progress: ReadonlyMap<string, IngestDatasetProgress>
  readonly work: ReadonlyArray<CompanyWork>
}

const notListedYet = "is in a daily index, but not in the company's list of filings yet"

interface VisitContext extends CompanyVisitOptions, KnownState {
  readonly issuer: Issuer
  readonly visit: CompanyVisit
  readonly downloader: DocumentDownloader
}

/** Whether a row of the dataset, or the document as a whole if `dataset` is empty, is due. */
const isDatasetDue = ({ work }: KnownState, dataset: string) =>
  work.some((entry) => entry.dataset === dataset && entry.isDue)

const isDocumentDue = ({ work }: KnownState, url: string) =>
  work.some((entry) => entry.url === url && entry.dataset === "" && entry.isDue)

/**
 * Downloads and decodes a document. Sets it aside and returns undefined if that fails. If `whenMissing` is given, it is
 * returned instead if there is no such document.
 */
const readDocument = Effect.fnUntraced(
  function* <A, B = never>(
    { downloader, visit, work }: Pick<VisitContext, "downloader" | "visit" | "work">,
    url: string,
    decode: (text: string, url: string) => Result.Result<A, DocumentRejected>,
    whenMissing?: B,
  ) {
    const isRepeated = work.some((entry) => entry.url === url && entry.kind !== "instance")
    const text = yield* downloader.download(url, { isRepeated })
    if (Result.isFailure(text) && text.failure.isMissing && whenMissing !== undefined) {
      visit.served.push({ url, dataset: "" })
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
    visit.read.push(url)
    visit.served.push({ url, dataset: "" })
    return decoded.success
  },
)

/**
 * Returns the filings of the dataset that are new, or of which the queue has an element. Those of registrations may be
 * older than `since`.
 */
const findPending = (
  context: Pick<VisitContext, "progress" | "since" | "work">,
  filings: ReadonlyArray<EdgarFiling>,
  dataset: IngestedDataset,
) => {
  const queued = new Set(
    context.work.filter((entry) => entry.dataset === dataset && (entry.isDue || isListElement(entry)))
      .map(findAccession),
  )
  const since = dataset === "registrations" ? firstFeeDay : context.since
  const known = context.progress.get(dataset)
  const progress = known !== undefined && dataset === "registrations" ? { ...known, since } : known
  const pending = new Set(findPendingFilings(filings, progress, since))
  return filings.filter((filing) => pending.has(filing) || queued.has(filing.accession))
}

/** Keeps filings in the queue that a daily index names until the company's list has them. */
const noteMissingFilings = (
  { indexedFilings, visit, work }: VisitContext,
  { cik, filings, pages, url }: CompanySubmissions,
  olderFilings: ReadonlyArray<EdgarFiling>,
) => {
  const listed = new Set([...filings, ...olderFilings].map(({ accession }) => accession))
  // Filings that are older than the list are on its other pages. An index names them if they were released late.
  const oldest = pages.length === 0 ? "" : filings.at(-1)?.filingDate ?? ""
  const indexed = (indexedFilings.get(cik) ?? []).filter(({ filingDate }) => filingDate > oldest)
  const queued = work.filter((entry) => entry.dataset === "" && entry.isDue && isListElement(entry))
  for (const accession of new Set([...indexed.map(({ accession }) => accession), ...queued.map(findAccession)])) {
    const key = { url: `${url}#${accession}`, dataset: "" }
    if (listed.has(accession)) visit.served.push(key)
    else visit.setAside.push(setDocumentAside("absent", new DocumentRejected({ url: key.url, reason: notListedYet })))
  }
}

const decodeAcceptanceTime = (html: string, url: string) =>
  Result.fromNullishOr(
    readAcceptanceTimeFromIndexPage(html),
    () => new DocumentRejected({ url, reason: "has no time of acceptance" }),
  )

/** Reads the company's lists of filings, and decides which tables get new rows from them. */
const readFilings = Effect.fnUntraced(function* (context: VisitContext) {
  const { datasets, isDryRun, issuer: { cik }, progress, since, visit, work } = context
  const submissions = yield* readDocument(context, buildSubmissionsUrl(cik), decodeSubmissions)
  if (submissions === undefined) return undefined
  const isFirst = (name: IngestedDataset) => datasets.has(name) && !isIngestedSince(progress.get(name), since)
  const hasNew = (name: IngestedDataset, isRelevant: (filing: EdgarFiling) => boolean) =>
    datasets.has(name) && (isDatasetDue(context, name) ||
      findPendingFilings(submissions.filings, progress.get(name), since).some(isRelevant))
  const areCountsDue = datasetsWithCounts.some((name) => datasets.has(name)) &&
    (isDocumentDue(context, buildCompanyFactsUrl(cik)) || work.some(isDueInstance))
  const makes = {
    registrations: isFirst("registrations") || hasNew("registrations", isPartOfRegistration),
    screener: isFirst("screener") || areCountsDue ||
      hasNew("screener", (one) => isPartOfRegistration(one) || statesShareCounts(one)),
    floats: areCountsDue || floatDatasets.some((name) => isFirst(name) || hasNew(name, statesShareCounts)),
  }
  const listed = new Set(submissions.filings.map(({ accession }) => accession))
  const hasOldDueForm = (datasets.has("ownership") || datasets.has("registrations")) &&
    work.some((entry) => entry.isDue && isForm(entry) && !listed.has(findAccession(entry)))
  const firstDays = [since, progress.get("ownership")?.since ?? since, ...(hasOldDueForm ? [firstFeeDay] : [])]
  const firstDay = firstDays.toSorted()[0] ?? since
  // Rows of these datasets combine filings that may be years apart, so they need all pages.
  const needsAllPages = makes.registrations || makes.screener || makes.floats
  const needsOldPages = isFirst("news") || isFirst("ownership") || hasOldDueForm
  const pages = submissions.pages.filter(({ filingTo, name }) =>
    needsAllPages || (needsOldPages && filingTo >= firstDay) || isDocumentDue(context, buildSubmissionsPageUrl(name))
  )
  const older = yield* Effect.forEach(
    pages,
    (page) =>
      Effect.map(
        readDocument(context, buildSubmissionsPageUrl(page.name), decodeSubmissionsPage),
        (decoded) => ({ page, decoded }),
      ),
  )
  noteMissingFilings(context, submissions, older.flatMap(({ decoded }) => decoded?.filings ?? []))
  const lists = [submissions, ...older.flatMap(({ decoded }) => decoded ?? [])]
  for (const rejection of lists.flatMap(({ rejections }) => rejections)) {
    const lacking = datasetsFromCompanyFilings.filter((name) => datasets.has(name))
    visit.setAside.push(...lacking.map((dataset): SetAside => ({ rejection, dataset, kind: "rejected" })))
  }
  const failedPages = older.flatMap(({ decoded, page }) => decoded === undefined ? [page] : [])
  // If the time zone is known meanwhile, the index page is not needed any more.
  visit.served.push(...work.filter(isIndexPage))
  const requestAcceptanceTime = ({ accession }: EdgarFiling) =>
    isDryRun ? Effect.undefined : readDocument(context, buildFilingIndexUrl(cik, accession), decodeAcceptanceTime)
  return {
    submissions: {
      ...submissions,
      filings: yield* resolveAcceptanceTimes(cik, lists.flatMap(({ filings }) => filings), requestAcceptanceTime),
    },
    makes,
    /** Whether all pages were read that the dataset needs. If not, the next visit makes its rows. */
    isComplete: (name: IngestedDataset) =>
      name === "news" || name === "ownership"
        ? !isFirst(name) || failedPages.every(({ filingTo }) => filingTo < since)
        : failedPages.length === 0,
    hasAllPages: failedPages.length === 0,
  }
})

/** Selects the forms to download for these datasets: the new forms, and the forms in the queue that are due. */
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
    if (filing !== undefined && findFormKind(filing) === undefined) visit.served.push(...entries)
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

/** Here, `work` has only the queue's documents of the form. */
type FormContext = Pick<VisitContext, "downloader" | "issuer" | "visit" | "work">

/** Downloads the fee exhibit of a statement, if it has one. */
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

/** Downloads an ownership form, and returns its rows. */
const readOwnershipForm = Effect.fnUntraced(function* (context: FormContext, filing: FormFiling) {
  const { issuer, visit } = context
  const url = buildFormUrl(issuer.cik, filing)
  const urls = findFormKind(filing) === "header"
    ? { documentUrl: buildFilingDocumentUrl(issuer.cik, filing.accession, filing.primaryDocument), headerUrl: url }
    : { documentUrl: url }
  visit.served.push({ url, dataset: "" })
  const decode = (text: string) => makeOwnershipRows({ issuer, filing: { ...filing, ...urls }, text })
  const { doubts, rows } = (yield* readDocument(context, url, decode)) ?? { doubts: [], rows: [] }
  visit.doubts.push(...doubts)
  return rows
})

/** Reads the documents of a form: adds fees to the visit, or returns the rows of `ownership`. */
const readForm = (context: FormContext, filing: FormFiling) => {
  // The document may have had another name when it was added to the queue.
  context.visit.served.push(...context.work)
  return findFormKind(filing) === "fees" ? Effect.as(readFees(context, filing), []) : readOwnershipForm(context, filing)
}

/** Downloads the forms and adds their rows to the visit. If forms are deferred, downloads only those due. */
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

/** Reads the documents of a form that was only listed, and writes the result to `visit`. */
export const visitListedForm = Effect.fnUntraced(
  function* (issuer: Issuer, { filing, url }: ListedForm, downloader: DocumentDownloader, visit: CompanyVisit) {
    visit.rows.set("ownership", yield* readForm({ downloader, issuer, visit, work: [] }, filing))
    visit.served.push({ url, dataset: "" })
  },
)

/**
 * Requests the XBRL instance of a filing. Returns null if it has no usable counts, or if there is none, and undefined
 * if it was set aside. The instance of a new filing may appear later.
 */
const readCover = Effect.fnUntraced(
  function* (context: VisitContext, filing: EdgarFiling, url: string) {
    const isOld = filing.filingDate < subtractDays(yield* todayInNewYork, lateFilingDays)
    context.visit.served.push({ url, dataset: "" })
    return yield* readDocument(context, url, decodeCoverCounts, isOld ? null : undefined)
  },
  instancePermits.withPermit,
)

/**
 * Adds the counts of instances to the facts, for filings without a count on the cover in the facts: the newest report,
 * and filings of the requested days. `text` is that of the facts, which a new filing may not have reached yet.
 */
const addCovers = Effect.fnUntraced(
  function* (context: VisitContext, facts: CompanyFacts, filings: ReadonlyArray<EdgarFiling>, text: string) {
    const { defersInstances, issuer: { cik }, since, visit, work } = context
    const withCover = new Set(facts.counts.map(({ accn }) => accn))
    const lacking = filings.filter((filing) => mayHaveInstance(filing) && !withCover.has(filing.accession))
    const known = lacking.length === 0 ? new Map<string, CoverCounts | null>() : yield* readKnownCovers(cik)
    const newest = filings.find((filing) => isXbrlReport(filing) && !filing.form.endsWith("/A"))
    const entries = work.filter((entry) => entry.dataset === "" && isReportInstance(entry))
    const queued = new Map(entries.map((entry) => [findAccession(entry), entry]))
    const covers = yield* Effect.forEach(lacking, (filing) => {
      const { accession, filingDate } = filing
      const url = buildInstanceUrl(cik, accession, filing.primaryDocument)
      const note = (cover: CoverCounts | null): ReadonlyArray<FilingInstance> => [{ cik, accession, filingDate, cover }]
      const cover = known.get(accession)
      if (cover !== undefined) {
        // Rows that were set aside are made again.
        visit.served.push({ url, dataset: "" })
        visit.read.push(url)
        return Effect.succeed(note(cover))
      }
      const entry = queued.get(accession)
      const isRequested = entry?.isDue ?? (filingDate >= since || filing === newest)
      if (!isRequested || !text.includes(accession)) return Effect.succeed([])
      if (defersInstances && entry === undefined) {
        visit.listed.push({ url, filing: null })
        return Effect.succeed([])
      }
      return Effect.map(readCover(context, filing, url), (read) => read === undefined ? [] : note(read))
    })
    visit.instances.push(...covers.flat())
    return addInstanceCounts(facts, lacking, covers.flat())
  },
)

/**
 * Downloads the company's facts. Keeps them in the queue until they have the newest report. Returns "none" if there are
 * no facts, as for funds and new companies, and undefined if they were set aside.
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
 * Adds the rows with share counts to the visit: the screener and the floats. Without facts, the stored count stays, and
 * so do a stored industry and exchange that the SEC no longer names (D38).
 */
const addCounts = Effect.fnUntraced(function* (context: VisitContext, listedFilings: CompanySubmissions) {
  const { datasets, visit } = context
  const read = yield* readFacts(context, listedFilings.filings)
  // Instances that this visit did not request are not needed any more, for example because the facts have the count.
  if (read !== undefined) visit.served.push(...context.work.filter(isDueInstance))
  const facts = read === "none" ? undefined : read
  const stored = yield* readStoredCounts(context.issuer)
  const issuer = { ...context.issuer, exchange: context.issuer.exchange ?? stored.exchange }
  const submissions = { ...listedFilings, sicDescription: listedFilings.sicDescription ?? stored.industry }
  const add = (name: IngestedDataset, rows: ReadonlyArray<RowCells>) => {
    if (datasets.has(name)) visit.rows.set(name, rows)
  }
  const assessment = facts === undefined ? undefined : assessCounts({
    facts,
    filings: submissions.filings,
    closes: yield* readCloses(issuer, facts.floats),
    decisions: yield* readDecisions(issuer.cik),
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

/** Returns the datasets whose rows depend on a document. Forms concern only the dataset that requests them. */
const findDependentDatasets = (entry: WorkKey): ReadonlyArray<IngestedDataset> => {
  if (isList(entry.url)) return datasetsFromCompanyFilings
  if (isReportInstance(entry) || entry.url.includes("/companyfacts/")) return datasetsWithCounts
  return isIndexPage(entry) ? ["news"] : []
}

/** Finds the entries for single rows that this visit has made again. */
const findServedRows = ({ visit, work }: VisitContext) => {
  const read = new Set(visit.served.map(({ url }) => url))
  return work.filter((entry) =>
    entry.dataset !== "" && (entry.isDue || isListElement(entry)) && visit.rows.has(entry.dataset) &&
    read.has(entry.url.split("#")[0] ?? "")
  )
}

/**
 * Visits a company, and writes the result to `visit`. If the visit fails, because the SEC is down, `visit` has the
 * documents that were set aside until then.
 */
export const visitCompany = Effect.fnUntraced(
  function* (issuer: Issuer, options: CompanyVisitOptions, downloader: DocumentDownloader, visit: CompanyVisit) {
    const { datasets, defersInstances, isDryRun, isFresh, since } = options
    const known: KnownState = isFresh ? { progress: new Map(), work: [] } : {
      progress: yield* readIngestProgress(issuer.cik),
      work: (yield* readCompanyWork(issuer.cik, options.ignoresDelays))
        .filter(({ kind }) => !defersInstances || kind !== "instance"),
    }
    const context: VisitContext = { ...options, ...known, issuer, visit, downloader }
    const read = yield* readFilings(context)
    if (read === undefined) return

    const { hasAllPages, isComplete, makes, submissions } = read
    const { filings } = submissions
    const noteProgress = (dataset: IngestedDataset) => {
      if (!datasets.has(dataset) || !isComplete(dataset)) return
      visit.progress.push(
        makeIngestDatasetProgress(issuer.cik, dataset, filings, since, known.progress.get(dataset)),
      )
    }

    if (datasets.has("news")) {
      const pending = findPending(context, filings, "news")
      const first = known.progress.get("news")?.since
      const stale = first === undefined ? [] : yield* findStaleNews(issuer.cik, filings, first < since ? first : since)
      const changed = new Set([...pending, ...stale])
      visit.rows.set("news", makeNewsRows(issuer, Array.from(changed)))
      visit.doubts.push(...findNewsDoubts(filings))
    }
    if (makes.registrations && hasAllPages) {
      const feeSources = isFresh ? new Map() : yield* readFeeSources(issuer.cik)
      visit.rows.set("registrations", makeRegistrationRows(issuer, filings, yield* todayInNewYork, feeSources))
      visit.registrationEnds.push({ cik: issuer.cik, ends: listRegistrationEnds(issuer, filings) })
    }
    // All rows of a file have the same columns, so a file with amounts would replace amounts of other sources by null.
    const complete = datasetsOfForms.filter((name) =>
      datasets.has(name) && isComplete(name) && !(isFresh && name === "registrations")
    )
    if (complete.length > 0) {
      const selected = selectForms(context, filings, complete, hasAllPages)
      if (isDryRun) visit.documents += selected.forms.length
      else yield* addForms(context, selected)
    }
    if ((makes.floats || makes.screener) && hasAllPages) {
      if (makes.screener && isDryRun) visit.rows.set("screener", makeScreenerRows(issuer, submissions))
      if (isDryRun) visit.documents += 1
      else yield* addCounts(context, submissions)
    }
    datasetsFromCompanyFilings.forEach(noteProgress)
    visit.served.push(...findServedRows(context))
    // Datasets that this run does not fill still need what the documents have.
    const isServed = (entry: WorkKey) =>
      entry.dataset !== "" ||
      findDependentDatasets(entry).every((name) => datasets.has(name) || !known.progress.has(name))
    visit.served.splice(0, Infinity, ...visit.served.filter(isServed))
  },
)
