/** Runs the ingest: reads the SEC's ticker list, visits companies one by one, and loads their rows (decision 0105). */
import {
  Cause,
  Clock,
  Config,
  Data,
  Duration,
  Effect,
  Exit,
  Fiber,
  FileSystem,
  Path,
  Predicate,
  Ref,
  Result,
  Schema,
} from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { tmpdir } from "node:os"
import { describeSqlError, isDiskFull } from "../../db/SqlState.ts"
import { loadableDatasets } from "../../load/Datasets.ts"
import { loadDatasetFile } from "../../load/Load.ts"
import type { MergedRowCounts } from "../../load/LoadingTable.ts"
import type { InvalidRows } from "../../load/RowValidation.ts"
import { repeatInBackground } from "../../observability/BackgroundFibers.ts"
import { OperationProgress } from "../../observability/Progress.ts"
import { todayInNewYork } from "../../rules/Dates.ts"
import { formatNameSuggestion } from "../../rules/Suggestions.ts"
import { tickerPattern } from "../../rules/Tickers.ts"
import { type CompanyVisitOptions, makeEmptyCompanyVisit, visitCompany } from "./CompanyIngest.ts"
import { decodeDailyIndex } from "./DailyIndex.ts"
import { retryLostConnection } from "./DatabaseReconnection.ts"
import { type DocumentDownloader, makeDocumentDownloader, setDocumentAside } from "./DocumentDownloader.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { type CacheValidators, EdgarClient } from "./EdgarClient.ts"
import { buildDailyIndexUrl, buildTickerListUrl } from "./EdgarUrls.ts"
import { datasetsFromCompanyFilings, type IngestedDataset, ingestedDatasets } from "./IngestedDatasets.ts"
import * as State from "./IngestState.ts"
import * as Work from "./IngestWork.ts"
import type { Issuer } from "./Issuer.ts"
import { subtractDays } from "./PendingFilings.ts"
import { addSymbolPeriods, assignSymbols, loadWithCurrentSymbols } from "./PrimarySymbols.ts"
import { expireRegistrations } from "./RegistrationRows.ts"
import { makeIngestRowFileWriter, type RowsByTable } from "./RowFiles.ts"
import { makeTemporaryFolder } from "./TemporaryFolder.ts"
import { downloadTickerList, findNewTickerChanges } from "./TickerListUpdates.ts"

/** A temporary file could not be written, for example because the disk is full. */
export class TemporaryFileError extends Data.TaggedError("TemporaryFileError")<{ readonly message: string }> {}

export class IngestRefused extends Data.TaggedError("IngestRefused")<{ readonly message: string }> {}

export interface IngestOptions {
  /** Symbols of the companies; null for the whole ticker list; undefined for the companies of the interrupted run. */
  readonly tickers: ReadonlyArray<string> | null | undefined
  readonly datasets: ReadonlyArray<IngestedDataset>
  /** Filings of this day and later are ingested, `YYYY-MM-DD`. */
  readonly since: string
  /** Continues the newest run if it did not succeed. */
  readonly resume: boolean
  /** `load` loads rows into the tables; `dry-run` only reads lists of filings; `folder` receives the rows as files. */
  readonly target: "load" | "dry-run" | { readonly folder: string }
  readonly scheduled: boolean
  /** Requests all documents that earlier runs set aside, including those that were rejected for good. */
  readonly retryRejected?: boolean
}

/** What a run has done so far. The caller creates it, and can thus report even on an interrupted run. */
export interface IngestReport {
  /** Companies to visit; undefined until the ticker list is read. */
  companies: number | undefined
  visited: number
  /** Companies whose rows are loaded, or written to the folder. */
  saved: number
  documents: number
  /** Documents and rows that were set aside. */
  rejections: number
  /** Documents that were set aside as a whole. */
  rejectedDocuments: number
  /** The first rejections, for the summary. */
  readonly examples: Array<DocumentRejected>
  /** Sentences about symbols that the SEC does not list. */
  readonly unlisted: Array<string>
  /** Sentences about requested symbols whose companies have rows under another symbol. */
  readonly notes: Array<string>
  readonly rows: Map<string, number>
  readonly merged: Map<string, MergedRowCounts>
}

export const makeEmptyIngestReport = (): IngestReport => ({
  companies: undefined,
  visited: 0,
  saved: 0,
  documents: 0,
  rejections: 0,
  rejectedDocuments: 0,
  examples: [],
  unlisted: [],
  notes: [],
  rows: new Map(),
  merged: new Map(),
})

const maxExamples = 10

/** Rows are loaded after this many companies or rows, so that an interruption loses only minutes of work. */
const [maxBatchCompanies, maxBatchRows] = [25, 1_000]

/** Maximum number of past days whose daily indexes are read. After a longer gap, all companies are visited. */
const maxIndexDays = 30

/** A run also reads the indexes of this many days before the last run, because late filings may be added to them. */
const lateIndexDays = 7

/** A run is incomplete if it set aside at least this many documents, and more than this share of all documents. */
const [minIncomplete, maxIncompleteShare] = [3, 0.05]

/** How often a run records that its process is alive. */
const heartbeatInterval = Duration.seconds(30)

/** The default for `IngestOptions.since`: a year ago. */
export const getDefaultIngestStartDate = Effect.map(todayInNewYork, (today) => subtractDays(today, 365))

/** Parses symbols separated by commas, and writes share classes with a hyphen, as the SEC does: `BRK-B`. */
export const parseTickers = (text: string): ReadonlyArray<string> =>
  text.split(",").map((ticker) => ticker.trim().toUpperCase().replaceAll(".", "-")).filter((ticker) => ticker !== "")

const Companies = Schema.String.check(
  Schema.makeFilter((text) => {
    const tickers = parseTickers(text)
    return tickers.length > 0 && tickers.every((ticker) => tickerPattern.test(ticker))
  }, { message: "must be symbols, or all" }),
)

/** Symbols of the companies that the scheduled ingest covers; null for all companies. */
export const EdgarTickersConfig = Config.schema(Companies, "EDGAR_TICKERS").pipe(
  Config.map((text) => text === "all" ? null : parseTickers(text)),
  Config.withDefault(null),
)

/** Finds the companies with these symbols. Reports symbols that the list lacks, and fails if it lacks all of them. */
const findCompanies = Effect.fnUntraced(function* (
  issuers: ReadonlyArray<Issuer>,
  tickers: ReadonlyArray<string>,
  { scheduled }: Pick<IngestOptions, "scheduled">,
  report: IngestReport,
) {
  const byTicker = new Map([
    ...issuers.map((issuer) => [issuer.ticker, issuer] as const),
    ...issuers.flatMap((issuer) => issuer.tickers.map((ticker) => [ticker, issuer] as const)),
  ])
  const setting = scheduled ? "EDGAR_TICKERS: " : ""
  for (const ticker of tickers) {
    if (byTicker.has(ticker)) continue
    const message = `${setting}The SEC's ticker list has no ${ticker}.${
      formatNameSuggestion(ticker, [...byTicker.keys()])
    } It lists companies whose shares are traded now.`
    report.unlisted.push(message)
    if (scheduled) yield* Effect.logWarning(message)
  }
  const chosen = new Set(tickers.map((ticker) => byTicker.get(ticker)))
  const companies = issuers.filter((issuer) => chosen.has(issuer))
  const [message] = report.unlisted
  return companies.length === 0 && message !== undefined ? yield* new IngestRefused({ message }) : companies
})

/** Says which symbol the rows carry if a company was requested by another of its symbols. */
const listAnsweringSymbols = (companies: ReadonlyArray<Issuer>, tickers: ReadonlyArray<string>) =>
  tickers.flatMap((ticker) => {
    const issuer = companies.find(({ tickers }) => tickers.includes(ticker))
    return issuer === undefined || issuer.ticker === ticker
      ? []
      : [`${ticker} is a symbol of ${issuer.name}, whose rows carry ${issuer.ticker}.`]
  })

/** What a run has to do before it visits companies, and what it records when it has visited all of them. */
interface IndexRead {
  readonly ciks: Set<string>
  /** Indexes that need not be read again once all companies are visited. */
  readonly done: Array<Work.WorkKey>
  /** Stored only after all companies were visited. If the run fails earlier, the next run reads the indexes again. */
  readonly validators: Map<string, CacheValidators>
  readonly setAside: Array<Work.SetAside>
}

const makeEmptyIndexRead = (): IndexRead => ({ ciks: new Set(), done: [], validators: new Map(), setAside: [] })

/** Returns the day of a daily index; undefined for another document. */
const findIndexDay = (url: string) => {
  const [, ...parts] = /\/master\.(\d{4})(\d\d)(\d\d)\.idx$/.exec(url) ?? []
  return parts.length === 0 ? undefined : parts.join("-")
}

/**
 * Reads the CIKs in the daily indexes of these days. Skips indexes that have not changed since a run that visited their
 * companies. An index that cannot be read is set aside.
 */
const readIndexes = Effect.fnUntraced(
  function* (days: ReadonlyArray<string>, { requestDocument }: DocumentDownloader, report: IngestReport) {
    const { bases } = yield* EdgarClient
    const read = makeEmptyIndexRead()
    for (const day of days) {
      const [url, requestUrl] = [buildDailyIndexUrl(day), buildDailyIndexUrl(day, bases)]
      const validators = yield* State.readCacheValidators(requestUrl)
      const answer = yield* requestDocument((bases) => buildDailyIndexUrl(day, bases), { validators })
      // Weekends and holidays have no index. The index of the current day appears in the evening.
      if (Result.isFailure(answer) && !answer.failure.isMissing) {
        read.setAside.push(answer.failure.setAside)
        continue
      }
      if (Result.isSuccess(answer) && answer.success._tag === "Found") {
        const entries = decodeDailyIndex(answer.success.text, url)
        if (Result.isFailure(entries)) {
          read.setAside.push(setDocumentAside("rejected", entries.failure))
          continue
        }
        report.documents += 1
        for (const { cik } of entries.success) read.ciks.add(cik)
        read.validators.set(requestUrl, answer.success.validators)
      }
      read.done.push({ url, dataset: "" })
    }
    return read
  },
)

const listDays = (firstDay: string, lastDay: string): ReadonlyArray<string> =>
  firstDay > lastDay ? [] : [firstDay, ...listDays(subtractDays(firstDay, -1), lastDay)]

/**
 * Chooses the companies to visit. Without `tickers`, these are companies with documents in the queue, new companies,
 * and those in the daily indexes since the last run over all companies. If there was no such run, or not recently, all
 * companies are visited.
 */
const chooseCompanies = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    options: Pick<State.NewIngestRun, "datasets" | "scheduled" | "since" | "tickers">,
    day: string,
    downloader: DocumentDownloader,
    report: IngestReport,
  ) {
    if (options.tickers !== null) {
      return {
        companies: yield* findCompanies(issuers, options.tickers, options, report),
        indexes: makeEmptyIndexRead(),
      }
    }
    const datasets = options.datasets.filter((name) => datasetsFromCompanyFilings.some((one) => one === name))
    const lastDay = yield* State.findLastRunDayOfAllCompanies(datasets)
    const firstDay = lastDay === undefined ? undefined : subtractDays(lastDay, lateIndexDays)
    const queued = (yield* Work.readDueWorkWithoutCompany).flatMap((url) => findIndexDay(url) ?? [])
    if (firstDay === undefined || firstDay < subtractDays(day, maxIndexDays)) {
      const done = queued.map((day) => ({ url: buildDailyIndexUrl(day), dataset: "" }))
      return { companies: issuers, indexes: { ...makeEmptyIndexRead(), done } }
    }
    const days = new Set([...queued, ...listDays(firstDay, day)])
    const indexes = yield* readIndexes(Array.from(days).toSorted(), downloader, report)
    const due = yield* Work.readCompaniesWithDueWork
    const known = yield* State.readIngestedCompanies(datasets, options.since)
    indexes.setAside.push(...yield* findWorkOfUnlistedCompanies(issuers, due))
    const [queuedFirst, others] = [
      issuers.filter(({ cik }) => due.has(cik)),
      issuers.filter(({ cik }) => !due.has(cik) && (!known.has(cik) || indexes.ciks.has(cik))),
    ]
    return { companies: [...queuedFirst, ...others], indexes }
  },
)

/** Sets aside again what the queue has of companies that the SEC no longer lists, because they cannot be visited. */
const findWorkOfUnlistedCompanies = Effect.fnUntraced(
  function* (issuers: ReadonlyArray<Issuer>, due: ReadonlySet<string>) {
    const unlisted = due.difference(new Set(issuers.map(({ cik }) => cik)))
    const work = yield* Effect.forEach(unlisted, (cik) => Work.readCompanyWork(cik, false))
    return work.flat().filter(({ isDue }) => isDue).map(({ dataset, url }): Work.SetAside => ({
      rejection: new DocumentRejected({ url, reason: "is about a company that the SEC's ticker list lacks" }),
      dataset,
      kind: "absent",
    }))
  },
)

const addMerged = (report: IngestReport, table: string, merged: MergedRowCounts) => {
  const { added, unchanged, updated } = report.merged.get(table) ?? { added: 0, unchanged: 0, updated: 0 }
  report.merged.set(table, {
    added: added + merged.added,
    updated: updated + merged.updated,
    unchanged: unchanged + merged.unchanged,
  })
}

const addRows = (report: IngestReport, table: string, count: number) =>
  report.rows.set(table, (report.rows.get(table) ?? 0) + count)

/** Counts what is set aside. An element of a document may be set aside for several datasets, but counts once. */
const addSetAside = (report: IngestReport, setAside: ReadonlyArray<Work.SetAside>) => {
  const rejections = Array.from(new Map(setAside.map(({ rejection }) => [rejection.url, rejection])).values())
  report.rejections += rejections.length
  report.rejectedDocuments += setAside.filter(({ dataset }) => dataset === "").length
  report.examples.push(...rejections.slice(0, maxExamples - report.examples.length))
}

/** Why the run is incomplete; null if it is complete. */
const findIncompleteness = ({ documents, rejectedDocuments }: IngestReport) =>
  rejectedDocuments >= minIncomplete && rejectedDocuments > maxIncompleteShare * (documents + rejectedDocuments)
    ? `${rejectedDocuments} of ${documents + rejectedDocuments} documents were set aside`
    : null

/** Returns the options of the interrupted run if it is continued, and otherwise the given options. */
const resolveOptions = Effect.fnUntraced(function* (options: IngestOptions) {
  const found = options.resume ? yield* State.findUnfinishedIngestRun(options.scheduled) : undefined
  const isSame = options.tickers === undefined || String(options.tickers) === String(found?.tickers)
  // If EDGAR_TICKERS has changed since the interruption, a scheduled run starts from the beginning.
  const interrupted = isSame || !options.scheduled ? found : undefined
  if (interrupted === undefined) {
    if (options.tickers !== undefined) return { interrupted, ...options, tickers: options.tickers }
    return yield* new IngestRefused({
      message: "There is no interrupted run to resume. Start one with --tickers or --all.",
    })
  }
  const { datasets, since, tickers } = interrupted
  if (!isSame) {
    return yield* new IngestRefused({
      message: `The interrupted run covers ${tickers === null ? "all companies" : tickers.join(",")}. ` +
        "To continue it, run the command again with --resume but without --tickers or --all; to start a new run, " +
        "omit --resume.",
    })
  }
  return {
    ...options,
    interrupted,
    tickers,
    since,
    datasets: ingestedDatasets.filter((name) => datasets.includes(name)),
  }
})

/** The results of the company visits since the last load. */
interface Batch {
  readonly companies: Array<Issuer>
  documents: number
  readonly progress: Array<State.IngestDatasetProgress>
  readonly served: Array<Work.WorkKey>
  readonly setAside: Array<Work.SetAside>
}

const makeBatch = (): Batch => ({ companies: [], documents: 0, progress: [], served: [], setAside: [] })

type RowFiles = Effect.Success<ReturnType<typeof makeIngestRowFileWriter>>

const countRows = ({ counts }: RowFiles) => Array.from(counts.values()).reduce((sum, count) => sum + count, 0)

/** Loads the files, and saves the progress of the visited companies and the queue in the same transaction. */
const loadFiles = Effect.fnUntraced(function* (files: RowFiles, batch: Batch, runId: number) {
  const sql = yield* SqlClient.SqlClient
  const insertedRows = yield* Ref.make(0)
  return yield* retryLostConnection(sql.withTransaction(Effect.gen(function* () {
    const load = Effect.forEach(
      loadableDatasets.filter(({ table }) => files.counts.has(table)),
      ({ table }) =>
        loadDatasetFile({ dataset: table, file: files.getFile(table), append: true, keepOmitted: true }, insertedRows),
    )
    const results = yield* loadWithCurrentSymbols(batch.companies, load)
    yield* State.saveIngestProgress(runId, batch.progress)
    yield* Work.updateWork(batch.served, batch.setAside)
    yield* State.addIngestRunCounts(runId, {
      documents: batch.documents,
      rows: countRows(files),
      rejections: batch.setAside.length,
    })
    return results
  })))
})

/** Loads the files. Rows that violate a rule of their table are set aside, and the others are loaded. */
const loadBatch = Effect.fnUntraced(function* (files: RowFiles, batch: Batch, runId: number, report: IngestReport) {
  let hasFewerRows = false
  const removeInvalid = (error: InvalidRows) =>
    Effect.map(files.removeInvalid(error), (invalid) => {
      hasFewerRows = invalid.length > 0
      batch.setAside.push(...invalid)
      addSetAside(report, invalid)
    })
  return yield* loadFiles(files, batch, runId).pipe(
    Effect.tapErrorTag("InvalidRows", removeInvalid),
    Effect.retry({ while: ({ _tag }) => _tag === "InvalidRows" && hasFewerRows }),
  )
})

/** Creates the folder for the files, and removes the files of an earlier run from it. */
const prepareFolder = Effect.fnUntraced(function* ({ datasets, target }: Pick<IngestOptions, "datasets" | "target">) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if (!Predicate.isObject(target)) return yield* makeTemporaryFolder
  yield* fs.makeDirectory(target.folder, { recursive: true })
  yield* Effect.forEach(
    datasets,
    (table) => fs.remove(path.join(target.folder, `${table}.ndjson`), { force: true }),
    { discard: true },
  )
  return target.folder
})

type ResolvedOptions = Effect.Success<ReturnType<typeof resolveOptions>>

/** Reads the ticker list, and chooses the companies to visit. */
const prepareVisits = Effect.fnUntraced(
  function* (options: ResolvedOptions, runId: number, downloader: DocumentDownloader, report: IngestReport) {
    const { datasets, interrupted, target, tickers } = options
    const day = yield* todayInNewYork
    const { day: listDay, list, rejections } = yield* downloadTickerList(day, target === "load")
    const assignment = yield* assignSymbols(list, listDay)
    const { issuers } = assignment
    if (target === "load") yield* Work.requeueWorkOfOlderParsers
    if (target === "load" && options.retryRejected === true) {
      const named = issuers.filter((issuer) => issuer.tickers.some((ticker) => tickers?.includes(ticker)))
      yield* Work.requeueAllWork(tickers === null ? null : named.map(({ cik }) => cik))
    }
    const { companies: chosen, indexes } = yield* chooseCompanies(issuers, options, day, downloader, report)
    const companies = yield* addSymbolPeriods(assignment, chosen, target === "load")
    report.notes.push(...listAnsweringSymbols(companies, tickers ?? []))
    const completed = interrupted === undefined ? new Set() : yield* State.readCompaniesCompletedByRun(runId)
    const due = yield* Work.readCompaniesWithDueWork
    // The list is read by every run, and the changes of symbols are found again.
    const listWork = [
      ...(rejections.length === 0 ? [{ url: buildTickerListUrl(), dataset: "" }] : []),
      ...(datasets.includes("ticker_changes")
        ? (yield* Work.readDueWorkWithoutCompany).filter((url) => url.startsWith(`${buildTickerListUrl()}#`))
          .map((url) => ({ url, dataset: "ticker_changes" }))
        : []),
    ]
    return {
      companies: companies.filter(({ cik }) => !completed.has(cik) || due.has(cik)),
      indexes,
      served: listWork,
      setAside: [...rejections.map((rejection) => setDocumentAside("absent", rejection)), ...indexes.setAside],
    }
  },
)

/** Visits the companies one by one, and saves their rows in batches. */
const ingestCompanies = Effect.fnUntraced(
  function* (options: ResolvedOptions, runId: number, report: IngestReport) {
    const { datasets, since, target, tickers } = options
    const progress = yield* OperationProgress
    const files = yield* makeIngestRowFileWriter(yield* prepareFolder(options))
    const downloader = yield* makeDocumentDownloader
    const { companies, indexes, served, setAside } = yield* prepareVisits(options, runId, downloader, report)
    report.companies = companies.length
    let batch = makeBatch()

    /** Counts rows and what is set aside, and writes the rows unless this is a dry run. */
    const add = Effect.fnUntraced(function* (rows: RowsByTable, rejected: ReadonlyArray<Work.SetAside>) {
      for (const [table, { length }] of rows) if (length > 0) addRows(report, table, length)
      const invalid = target === "dry-run" ? [] : yield* files.append(rows)
      batch.setAside.push(...rejected, ...invalid)
      addSetAside(report, [...rejected, ...invalid])
    })

    const save = Effect.gen(function* () {
      if (target === "load") {
        for (const { merged, table } of yield* loadBatch(files, batch, runId, report)) addMerged(report, table, merged)
        yield* files.clear
      }
      report.saved += batch.companies.length
      batch = makeBatch()
    })

    batch.served.push(...served)
    yield* add(new Map(), setAside)
    if (target === "load" && datasets.includes("registrations")) {
      yield* retryLostConnection(expireRegistrations(yield* todayInNewYork))
    }
    if (datasets.includes("ticker_changes")) {
      const ciks = new Set(companies.map(({ cik }) => cik))
      const changes = yield* retryLostConnection(findNewTickerChanges)
      yield* add(
        new Map([["ticker_changes", changes.filter(({ cik }) => tickers === null || ciks.has(String(cik)))]]),
        [],
      )
    }
    const visitOptions: CompanyVisitOptions = {
      datasets: new Set(datasets),
      since,
      isDryRun: target === "dry-run",
      isFresh: Predicate.isObject(target),
      ignoresDelays: tickers !== null,
    }
    const needsVisits = datasets.some((dataset) => dataset !== "ticker_changes")
    for (const issuer of needsVisits ? companies : []) {
      Object.assign(progress, {
        label: issuer.ticker,
        total: companies.length,
        done: report.visited,
        unit: "documents",
      })
      progress.count = report.documents
      const visit = makeEmptyCompanyVisit()
      yield* visitCompany(issuer, visitOptions, downloader, visit).pipe(
        // What was visited before the SEC stopped answering is not visited again, and what failed is remembered.
        Effect.tapErrorTag(
          ["EdgarUnavailable", "EdgarBlocked"],
          () => Effect.andThen(add(new Map(), visit.setAside), save),
        ),
      )
      yield* add(visit.rows, visit.setAside)
      batch.progress.push(...visit.progress)
      batch.served.push(...visit.served)
      batch.documents += visit.documents
      batch.companies.push(issuer)
      report.documents += visit.documents
      report.visited += 1
      if (batch.companies.length >= maxBatchCompanies || countRows(files) >= maxBatchRows) yield* save
    }
    yield* save
    if (target !== "load") return
    yield* retryLostConnection(Effect.gen(function* () {
      for (const [url, validators] of indexes.validators) yield* State.saveCacheValidators(url, validators)
      yield* Work.updateWork(indexes.done, [])
    }))
  },
  Effect.scoped,
)

/** Describes an error by its cause, and names the setting that would help, if any. */
export const describeIngestError = (error: unknown) => {
  if (SqlError.isSqlError(error)) {
    const advice = isDiskFull(error) ? ". The disk of PostgreSQL is full: free some space" : ""
    return `PostgreSQL: ${describeSqlError(error)}${advice}`
  }
  return Predicate.hasProperty(error, "message") ? String(error.message) : String(error)
}

const toStatus = (exit: Exit.Exit<unknown, unknown>, report: IngestReport): State.IngestRunStatus => {
  if (Exit.isSuccess(exit)) return findIncompleteness(report) === null ? "succeeded" : "incomplete"
  return Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : "failed"
}

const getMessage = (exit: Exit.Exit<unknown, unknown>, report: IngestReport) => {
  if (Exit.isSuccess(exit)) return findIncompleteness(report)
  return Cause.hasInterruptsOnly(exit.cause) ? null : describeIngestError(Cause.squash(exit.cause))
}

/** Records that the run has ended. The statement has its own fiber, because timeouts do not work in a finalizer. */
const recordEnd = Effect.fnUntraced(
  function* (runId: number, exit: Exit.Exit<unknown, unknown>, report: IngestReport) {
    const now = yield* Clock.currentTimeMillis
    const record = State.recordIngestRunEnd(runId, toStatus(exit, report), now, getMessage(exit, report))
    const fiber = yield* Effect.forkDetach(Effect.ignore(Effect.timeout(record, "5 seconds")))
    yield* Fiber.await(fiber)
  },
)

/**
 * Runs the ingest, and updates `report` meanwhile. Returns why the run is incomplete, or null if it is complete.
 * A run that loads is recorded before its first request.
 */
export const runIngest = Effect.fnUntraced(function* (given: IngestOptions, report: IngestReport) {
  Object.assign(yield* OperationProgress, { label: "ticker list", unit: "documents" })
  const options = yield* resolveOptions(given)
  const startedAt = yield* Clock.currentTimeMillis
  if (options.target !== "load") {
    yield* ingestCompanies(options, 0, report)
    return findIncompleteness(report)
  }
  const runId = options.interrupted === undefined
    ? yield* State.recordIngestRunStart({ ...options, startedAt })
    : yield* State.resumeIngestRun(options.interrupted.run_id)
  const heartbeat = repeatInBackground(Effect.ignore(State.recordIngestRunHeartbeat(runId)), heartbeatInterval)
  yield* Effect.andThen(heartbeat, ingestCompanies(options, runId, report)).pipe(
    Effect.catchTag("PlatformError", ({ message }) =>
      new TemporaryFileError({
        message: `The folder for temporary files, ${tmpdir()}, cannot be used: ${message}. Free some space there, or ` +
          "set TMPDIR to another folder.",
      })),
    Effect.scoped,
    Effect.onExit((exit) => recordEnd(runId, exit, report)),
  )
  return findIncompleteness(report)
})
