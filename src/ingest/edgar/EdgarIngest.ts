/** Runs the ingest: reads the SEC's ticker list, visits companies one by one, and loads their rows (decision 0105). */
import { Cause, Clock, Config, Data, Effect, Exit, Fiber, FileSystem, Path, Predicate, Ref, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { loadableDatasets } from "../../load/Datasets.ts"
import { loadDatasetFile } from "../../load/Load.ts"
import type { MergedRowCounts } from "../../load/LoadingTable.ts"
import { OperationProgress } from "../../observability/Progress.ts"
import { todayInNewYork } from "../../rules/Dates.ts"
import { formatNameSuggestion } from "../../rules/Suggestions.ts"
import { tickerPattern } from "../../rules/Tickers.ts"
import { ingestCompany, makeDocumentDownloader } from "./CompanyIngest.ts"
import { decodeDailyIndex } from "./DailyIndex.ts"
import type { DocumentRejected } from "./DocumentRejected.ts"
import { type CacheValidators, EdgarClient } from "./EdgarClient.ts"
import { buildDailyIndexUrl } from "./EdgarUrls.ts"
import { datasetsFromCompanyFilings, type IngestedDataset, ingestedDatasets } from "./IngestedDatasets.ts"
import * as State from "./IngestState.ts"
import type { Issuer } from "./Issuer.ts"
import { subtractDays } from "./PendingFilings.ts"
import { expireRegistrations } from "./RegistrationRows.ts"
import { makeIngestRowFileWriter, type RowsByTable } from "./RowFiles.ts"
import { groupTickersByIssuer } from "./TickerList.ts"
import { downloadTickerList, findNewTickerChanges } from "./TickerListUpdates.ts"

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
}

/** What a run has done so far. The caller creates it, and can thus report even on an interrupted run. */
export interface IngestReport {
  /** Companies to visit; undefined until the ticker list is read. */
  companies: number | undefined
  visited: number
  /** Companies whose rows are loaded, or written to the folder. */
  saved: number
  documents: number
  rejections: number
  /** The first rejections, for the summary. */
  readonly examples: Array<DocumentRejected>
  readonly rows: Map<string, number>
  readonly merged: Map<string, MergedRowCounts>
}

export const makeEmptyIngestReport = (): IngestReport => ({
  companies: undefined,
  visited: 0,
  saved: 0,
  documents: 0,
  rejections: 0,
  examples: [],
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

/** Finds the companies with these symbols. Fails if the ticker list lacks one of the symbols. */
const findCompanies = Effect.fnUntraced(function* (issuers: ReadonlyArray<Issuer>, tickers: ReadonlyArray<string>) {
  const byTicker = new Map(issuers.flatMap((issuer) => issuer.tickers.map((ticker) => [ticker, issuer] as const)))
  const unknown = tickers.find((ticker) => !byTicker.has(ticker))
  if (unknown !== undefined) {
    return yield* new IngestRefused({
      message: `The SEC's ticker list has no ${unknown}.${formatNameSuggestion(unknown, [...byTicker.keys()])} ` +
        "It lists companies whose shares are traded now.",
    })
  }
  const chosen = new Set(tickers.map((ticker) => byTicker.get(ticker)))
  return issuers.filter((issuer) => chosen.has(issuer))
})

interface IndexRead {
  readonly ciks: ReadonlySet<string>
  /** Stored only after all companies were visited. If the run fails earlier, the next run reads the indexes again. */
  readonly validators: ReadonlyMap<string, CacheValidators>
}

/** Reads the CIKs in the daily indexes of these days. Skips indexes that have not changed since a successful run. */
const readIndexes = Effect.fnUntraced(function* (firstDay: string, lastDay: string, report: IngestReport) {
  const { bases, request } = yield* EdgarClient
  const ciks = new Set<string>()
  const validators = new Map<string, CacheValidators>()
  for (let day = firstDay; day <= lastDay; day = subtractDays(day, -1)) {
    const url = buildDailyIndexUrl(day, bases)
    const answer = yield* request({ url, validators: yield* State.readCacheValidators(url) })
    // Weekends and holidays have no index. The index of the current day appears in the evening.
    if (answer._tag !== "Found") continue
    report.documents += 1
    const entries = yield* Effect.fromResult(decodeDailyIndex(answer.text, buildDailyIndexUrl(day)))
    for (const { cik } of entries) ciks.add(cik)
    validators.set(url, answer.validators)
  }
  const read: IndexRead = { ciks, validators }
  return read
})

const noIndexes: IndexRead = { ciks: new Set(), validators: new Map() }

/**
 * Chooses the companies to visit. Without `tickers`, these are new companies and those in the daily indexes since the
 * last run over all companies. If there was no such run, or not recently, all companies are visited.
 */
const chooseCompanies = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    options: Pick<State.NewIngestRun, "datasets" | "since" | "tickers">,
    day: string,
    report: IngestReport,
  ) {
    if (options.tickers !== null) {
      return { companies: yield* findCompanies(issuers, options.tickers), indexes: noIndexes }
    }
    const datasets = options.datasets.filter((name) => datasetsFromCompanyFilings.some((one) => one === name))
    const lastDay = yield* State.findLastRunDayOfAllCompanies(datasets)
    const firstDay = lastDay === undefined ? undefined : subtractDays(lastDay, lateIndexDays)
    if (firstDay === undefined || firstDay < subtractDays(day, maxIndexDays)) {
      return { companies: issuers, indexes: noIndexes }
    }
    const indexes = yield* readIndexes(firstDay, day, report)
    const known = yield* State.readIngestedCompanies(datasets, options.since)
    return { companies: issuers.filter(({ cik }) => !known.has(cik) || indexes.ciks.has(cik)), indexes }
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

const addRejections = (report: IngestReport, rejections: ReadonlyArray<DocumentRejected>) => {
  report.rejections += rejections.length
  report.examples.push(...rejections.slice(0, maxExamples - report.examples.length))
}

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
  companies: number
  documents: number
  readonly progress: Array<State.IngestDatasetProgress>
  readonly rejections: Array<DocumentRejected>
}

const makeBatch = (): Batch => ({ companies: 0, documents: 0, progress: [], rejections: [] })

type RowFiles = Effect.Success<ReturnType<typeof makeIngestRowFileWriter>>

const countRows = ({ counts }: RowFiles) => Array.from(counts.values()).reduce((sum, count) => sum + count, 0)

/** Loads the files, and saves the progress of the visited companies in the same transaction. */
const loadBatch = Effect.fnUntraced(function* (files: RowFiles, batch: Batch, runId: number, report: IngestReport) {
  const sql = yield* SqlClient.SqlClient
  const insertedRows = yield* Ref.make(0)
  const now = yield* Clock.currentTimeMillis
  const results = yield* sql.withTransaction(Effect.gen(function* () {
    const results = yield* Effect.forEach(
      loadableDatasets.filter(({ table }) => files.counts.has(table)),
      ({ table }) =>
        loadDatasetFile({ dataset: table, file: files.getFile(table), append: true, keepOmitted: true }, insertedRows),
    )
    yield* State.saveIngestProgress(runId, batch.progress)
    yield* State.saveRejectedDocuments(batch.rejections, now)
    yield* State.addIngestRunCounts(runId, {
      documents: batch.documents,
      rows: countRows(files),
      rejections: batch.rejections.length,
    })
    return results
  }))
  for (const { merged, table } of results) addMerged(report, table, merged)
  yield* files.clear
})

/** Creates the folder for the files, and removes the files of an earlier run from it. */
const prepareFolder = Effect.fnUntraced(function* ({ datasets, target }: Pick<IngestOptions, "datasets" | "target">) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if (!Predicate.isObject(target)) return yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-ingest-" })
  yield* fs.makeDirectory(target.folder, { recursive: true })
  yield* Effect.forEach(
    datasets,
    (table) => fs.remove(path.join(target.folder, `${table}.ndjson`), { force: true }),
    { discard: true },
  )
  return target.folder
})

interface IngestPlan extends Pick<IngestOptions, "datasets" | "since" | "target"> {
  readonly companies: ReadonlyArray<Issuer>
  readonly indexes: IndexRead
  /** Whether the run covers all companies. If not, only symbol changes of `companies` are added. */
  readonly coversAll: boolean
  readonly runId: number
}

/** Visits the companies one by one, and saves their rows in batches. */
const visitCompanies = Effect.fnUntraced(
  function* (work: IngestPlan, rejections: Array<DocumentRejected>, report: IngestReport) {
    const { companies, coversAll, datasets, indexes, runId, since, target } = work
    const progress = yield* OperationProgress
    const files = yield* makeIngestRowFileWriter(yield* prepareFolder(work))
    const download = yield* makeDocumentDownloader
    let batch = makeBatch()

    /** Counts rows and rejections, and writes the rows unless this is a dry run. */
    const add = Effect.fnUntraced(function* (rows: RowsByTable, rejected: ReadonlyArray<DocumentRejected>) {
      for (const [table, { length }] of rows) if (length > 0) addRows(report, table, length)
      const invalid = target === "dry-run" ? [] : yield* files.append(rows)
      batch.rejections.push(...rejected, ...invalid)
      addRejections(report, [...rejected, ...invalid])
    })

    const save = Effect.gen(function* () {
      if (target === "load") yield* loadBatch(files, batch, runId, report)
      report.saved += batch.companies
      batch = makeBatch()
    })

    yield* add(new Map(), rejections)
    if (target === "load" && datasets.includes("registrations")) yield* expireRegistrations(yield* todayInNewYork)
    if (datasets.includes("ticker_changes")) {
      const ciks = new Set(companies.map(({ cik }) => cik))
      const changes = yield* findNewTickerChanges
      yield* add(new Map([["ticker_changes", changes.filter(({ cik }) => coversAll || ciks.has(String(cik)))]]), [])
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
      const options = {
        datasets: new Set(datasets),
        since,
        isDryRun: target === "dry-run",
        isFresh: Predicate.isObject(target),
      }
      const visit = yield* ingestCompany(issuer, options, download)
      yield* add(visit.rows, visit.rejections)
      batch.progress.push(...visit.progress)
      batch.documents += visit.documents
      batch.companies += 1
      report.documents += visit.documents
      report.visited += 1
      if (batch.companies >= maxBatchCompanies || countRows(files) >= maxBatchRows) yield* save
    }
    yield* save
    if (target !== "load") return
    for (const [url, validators] of indexes.validators) yield* State.saveCacheValidators(url, validators)
  },
  Effect.scoped,
)

/** Reads the ticker list, chooses the companies to visit, and records the start of the run. */
const prepareRun = Effect.fnUntraced(function* (given: IngestOptions, report: IngestReport) {
  const options = yield* resolveOptions(given)
  const day = yield* todayInNewYork
  const { list, rejections } = yield* downloadTickerList(day, options.target === "load")
  const issuers = Array.from(groupTickersByIssuer(list).values())
  const { companies, indexes } = yield* chooseCompanies(issuers, options, day, report)
  const startedAt = yield* Clock.currentTimeMillis
  const { interrupted, target } = options
  const runId = target !== "load"
    ? 0
    : interrupted === undefined
    ? yield* State.recordIngestRunStart({ ...options, startedAt })
    : yield* State.resumeIngestRun(interrupted.run_id)
  const completed = interrupted === undefined ? new Set() : yield* State.readCompaniesCompletedByRun(runId)
  const work: IngestPlan = {
    ...options,
    companies: companies.filter(({ cik }) => !completed.has(cik)),
    indexes,
    coversAll: options.tickers === null,
    runId,
  }
  report.companies = work.companies.length
  return { work, rejections: [...rejections] }
})

const toStatus = <E>(exit: Exit.Exit<unknown, E>): State.IngestRunStatus =>
  Exit.isSuccess(exit) ? "succeeded" : Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : "failed"

const getMessage = (exit: Exit.Exit<unknown, { readonly message: string }>) => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return null
  const error = Cause.squash(exit.cause)
  return Predicate.hasProperty(error, "message") ? String(error.message) : String(error)
}

/** Records that the run has ended. The statement has its own fiber, because timeouts do not work in a finalizer. */
const recordEnd = Effect.fnUntraced(function* (runId: number, exit: Exit.Exit<unknown, { readonly message: string }>) {
  const now = yield* Clock.currentTimeMillis
  const record = State.recordIngestRunEnd(runId, toStatus(exit), now, getMessage(exit))
  const fiber = yield* Effect.forkDetach(Effect.ignore(Effect.timeout(record, "5 seconds")))
  yield* Fiber.await(fiber)
})

/** Runs the ingest. `report` is updated during the run. */
export const runIngest = Effect.fnUntraced(function* (options: IngestOptions, report: IngestReport) {
  Object.assign(yield* OperationProgress, { label: "ticker list", unit: "documents" })
  const { rejections, work } = yield* prepareRun(options, report)
  const visits = visitCompanies(work, rejections, report)
  yield* work.target === "load" ? Effect.onExit(visits, (exit) => recordEnd(work.runId, exit)) : visits
})
