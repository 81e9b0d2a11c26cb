/** Ingests one company: requests its new documents, and turns them into rows. */
import { Effect, Result } from "effect"
import type { RowCells } from "../../load/FileReader.ts"
import { decodeCompanyFacts } from "./CompanyFacts.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { EdgarClient } from "./EdgarClient.ts"
import {
  companyFactsUrl,
  type EdgarBases,
  edgarBases,
  submissionsPageUrl,
  submissionsUrl,
  xmlDocumentUrl,
} from "./EdgarUrls.ts"
import { makeFloatRows } from "./FloatRows.ts"
import { companyDatasets, type IngestedDataset } from "./IngestedDatasets.ts"
import { type DatasetProgress, readProgress } from "./IngestState.ts"
import type { Issuer } from "./Issuer.ts"
import { makeNewsRows } from "./NewsRows.ts"
import { isOwnershipForm, makeOwnershipRows } from "./OwnershipForm.ts"
import { covers, findPendingFilings, makeProgress } from "./PendingFilings.ts"
import { makeRegistrationRows } from "./RegistrationRows.ts"
import { isSchedule13 } from "./Schedule13.ts"
import { makeScreenerRow } from "./ScreenerRows.ts"
import { decodeSubmissions, decodeSubmissionsPage, type Filing } from "./Submissions.ts"

/** Concurrent requests for the documents of one company; the rate limit applies to all of them. */
const documentConcurrency = 4

/** If this many documents in a row cannot be downloaded, the run ends, because the SEC is down. */
const maxConsecutiveFailures = 3

/** Forms that state shares outstanding or public float in XBRL. */
const statesShareCounts = ({ form }: Filing) => /^(10-[KQ]T?|20-F|40-F)(\/A)?$/.test(form)

/** Forms 3, 4 and 5 and Schedules 13 that were filed as XML. Older schedules are HTML or text. */
const hasOwnershipXml = ({ form, primaryDocument }: Filing) =>
  (isOwnershipForm(form) || isSchedule13(form)) && primaryDocument.endsWith(".xml")

export interface VisitOptions {
  readonly datasets: ReadonlySet<IngestedDataset>
  /** `YYYY-MM-DD` */
  readonly since: string
  /** Requests only the list of filings, and counts the other documents. */
  readonly isDryRun: boolean
  /** Ignores what earlier runs ingested. */
  readonly isFresh: boolean
}

/** What a visit found. */
export interface CompanyVisit {
  readonly rows: Map<string, ReadonlyArray<RowCells>>
  readonly progress: Array<DatasetProgress>
  readonly rejections: Array<DocumentRejected>
  /** Number of downloaded documents, or of those that would be downloaded. */
  documents: number
}

/** A document that was not downloaded. Only a rejected document is not requested again. */
interface FailedDownload {
  readonly kind: "missing" | "unavailable" | "rejected"
  readonly rejection: DocumentRejected
}

/** Returns a function that downloads documents. It fails only if the whole run cannot continue. */
export const makeDownload = Effect.gen(function* () {
  const { bases, fetch } = yield* EdgarClient
  let consecutiveFailures = 0

  return (makeUrl: (bases: EdgarBases) => string) => {
    const url = makeUrl(edgarBases)
    const fail = (kind: FailedDownload["kind"], reason: string): Result.Result<string, FailedDownload> =>
      Result.fail({ kind, rejection: new DocumentRejected({ url, reason }) })
    return fetch({ url: makeUrl(bases) }).pipe(
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

export type Download = Effect.Success<typeof makeDownload>

/** The company's filings: the recent ones, and older ones if `since` requires them and they were not read before. */
const readFilings = Effect.fnUntraced(
  function* (
    { cik }: Issuer,
    { datasets, since }: VisitOptions,
    stored: ReadonlyMap<string, DatasetProgress>,
    download: Download,
  ) {
    const require = (makeUrl: (bases: EdgarBases) => string) =>
      Effect.flatMap(download(makeUrl), (result) =>
        Effect.fromResult(Result.mapError(result, ({ rejection }) => rejection)))

    const text = yield* require((bases) => submissionsUrl(cik, bases))
    const submissions = yield* Effect.fromResult(decodeSubmissions(text, submissionsUrl(cik)))
    const isNew = companyDatasets.some((name) => datasets.has(name) && !covers(stored.get(name), since))
    const pages = isNew ? submissions.pages.filter(({ filingTo }) => filingTo >= since) : []
    const older = yield* Effect.forEach(pages, ({ name }) =>
      Effect.flatMap(
        require((bases) => submissionsPageUrl(name, bases)),
        (text) => Effect.fromResult(decodeSubmissionsPage(text, submissionsPageUrl(name))),
      ))
    return { submissions, filings: [submissions.filings, ...older].flat(), requests: 1 + pages.length }
  },
)

/** Rows of the forms 3, 4 and 5 and the Schedules 13. Returns the filings whose document is to be requested again. */
const addOwnership = Effect.fnUntraced(
  function* (issuer: Issuer, forms: ReadonlyArray<Filing>, visit: CompanyVisit, download: Download) {
    const failed = new Set<string>()
    const rows = yield* Effect.forEach(forms, ({ accession, filingDate, form, primaryDocument }) => {
      const makeUrl = (bases: EdgarBases) => xmlDocumentUrl(issuer.cik, accession, primaryDocument, bases)
      return Effect.map(download(makeUrl), (result) => {
        if (Result.isFailure(result)) {
          if (result.failure.kind !== "rejected") failed.add(accession)
          visit.rejections.push(result.failure.rejection)
          return []
        }
        visit.documents += 1
        const filing = { accession, form, filingDate, documentUrl: makeUrl(edgarBases) }
        const made = makeOwnershipRows({ issuer, filing, xml: result.success })
        if (Result.isSuccess(made)) return made.success
        visit.rejections.push(made.failure)
        return []
      })
    }, { concurrency: documentConcurrency })
    visit.rows.set("ownership", rows.flat())
    return failed
  },
)

/** Rows of the company's facts. Returns whether the facts are to be requested again. */
const addFloats = Effect.fnUntraced(function* (issuer: Issuer, visit: CompanyVisit, download: Download) {
  const result = yield* download((bases) => companyFactsUrl(issuer.cik, bases))
  if (Result.isFailure(result)) {
    // Funds and new companies have no facts.
    if (result.failure.kind === "missing") return false
    visit.rejections.push(result.failure.rejection)
    return result.failure.kind === "unavailable"
  }
  visit.documents += 1
  const facts = decodeCompanyFacts(result.success, companyFactsUrl(issuer.cik))
  if (Result.isFailure(facts)) {
    visit.rejections.push(facts.failure)
    return false
  }
  for (const [table, rows] of Object.entries(makeFloatRows(issuer, facts.success))) visit.rows.set(table, rows)
  return false
})

export const visitCompany = Effect.fnUntraced(function* (issuer: Issuer, options: VisitOptions, download: Download) {
  const { datasets, isDryRun, isFresh, since } = options
  const stored: ReadonlyMap<string, DatasetProgress> = isFresh ? new Map() : yield* readProgress(issuer.cik)
  const visit: CompanyVisit = { rows: new Map(), progress: [], rejections: [], documents: 0 }
  const read = yield* readFilings(issuer, options, stored, download).pipe(
    Effect.catchTag("DocumentRejected", (rejection) => {
      visit.rejections.push(rejection)
      return Effect.succeed(undefined)
    }),
  )
  if (read === undefined) return visit

  const { filings, requests, submissions } = read
  visit.documents += requests
  const findPending = (dataset: IngestedDataset) => findPendingFilings(filings, stored.get(dataset), since)
  const noteProgress = (dataset: IngestedDataset, failed: ReadonlySet<string> = new Set()) =>
    visit.progress.push(makeProgress(issuer.cik, dataset, filings, since, stored.get(dataset), failed))

  if (datasets.has("news")) {
    visit.rows.set("news", makeNewsRows(issuer, findPending("news")))
    noteProgress("news")
  }
  if (datasets.has("registrations")) {
    // All filings, because a new one can belong to an old registration.
    if (findPending("registrations").length > 0) visit.rows.set("registrations", makeRegistrationRows(issuer, filings))
    noteProgress("registrations")
  }
  if (datasets.has("screener")) {
    visit.rows.set("screener", [makeScreenerRow(issuer, submissions, filings)])
    noteProgress("screener")
  }
  if (datasets.has("ownership")) {
    const forms = findPending("ownership").filter(hasOwnershipXml)
    if (isDryRun) visit.documents += forms.length
    else noteProgress("ownership", yield* addOwnership(issuer, forms, visit, download))
  }
  const floats = (["float_outstanding", "historical_float_pro"] as const).filter((name) => datasets.has(name))
  const needsFacts = floats.some((name) =>
    !covers(stored.get(name), since) || findPending(name).some(statesShareCounts)
  )
  if (needsFacts && isDryRun) visit.documents += 1
  const isRepeated = needsFacts && !isDryRun && (yield* addFloats(issuer, visit, download))
  if (!isRepeated) floats.forEach((name) => noteProgress(name))
  for (const table of visit.rows.keys()) if (!datasets.has(table)) visit.rows.delete(table)
  return visit
})
