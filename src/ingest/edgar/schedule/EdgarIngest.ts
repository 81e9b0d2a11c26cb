/**
 * Runs the ingest: reads the SEC's ticker list, visits companies (downloads their new filings and builds rows from
 * them), and loads the rows (decision 0105).
 */
import { Cause, Duration, Effect, Exit, Fiber, Predicate, Schedule, Schema, ScopedRef } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { repeatInBackground } from "../../../postgres/metrics/BackgroundFibers.ts"
import { OperationProgress } from "../../../postgres/metrics/OperationProgress.ts"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { checkArchivesExist, openBulkArchives } from "../fetch/BulkArchives.ts"
import { planCompanyVisits } from "./CompanyChoice.ts"
import { CompanyVisit, type CompanyVisitOptions, readDeferredForm, visitCompany } from "./CompanyIngest.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"
import { type DocumentDownloader, makeDocumentDownloader } from "../fetch/DocumentDownloader.ts"
import { type IngestOptions, IngestRefused, type ResolvedIngestOptions, resolveIngestOptions } from "./IngestOptions.ts"
import { findCikInUrl } from "../fetch/EdgarUrls.ts"
import { readDecisions } from "../store/Doubts.ts"
import { describeIngestError, findIncompleteness, IngestReport } from "./IngestReport.ts"
import * as State from "../store/IngestState.ts"
import * as Work from "../store/IngestWork.ts"
import type { Issuer } from "../read/Issuer.ts"
import { expireRegistrations } from "../store/RegistrationEnds.ts"
import { makeBatchWriter } from "../store/RowBatches.ts"
import { findNewTickerChanges } from "../store/TickerListUpdates.ts"

type BatchWriter = Effect.Success<ReturnType<typeof makeBatchWriter>>

/** Interval at which a run records that its process is still alive. */
const heartbeatInterval = Duration.seconds(30)

/** A note for the operator in the run's report. */
const archivesNotNeeded =
  "The archives were not read, because an earlier run has covered all companies: only companies " +
  "with new filings are visited."

/**
 * Opens the SEC's nightly archives, if the run uses any, and stores the day through which they contain all filings. The
 * next run reads the daily indexes from that day on.
 */
const openArchives = Effect.fnUntraced(
  function* ({ archives, datasets, target }: ResolvedIngestOptions, runId: number, companies: ReadonlyArray<Issuer>) {
    if (archives === undefined) return undefined
    const opened = yield* openBulkArchives(archives, new Set(companies.map(({ cik }) => cik)), datasets)
    if (target === "load") yield* retryLostConnection(State.recordArchiveDay(runId, opened.day))
    return opened
  },
)

/** Number of companies that are visited at the same time. The rate limit applies to all their requests together. */
const visitConcurrency = 8

/** Number of deferred forms that a single database query reads. */
const formsAtOnce = 500

/**
 * Returns a function that adds a step to the effect of a visit. If the visit fails because the SEC is down or blocks
 * requests, which ends the run, the results of completed visits are saved first, as well as the documents that this
 * visit has to retry later.
 */
const saveFailedVisit = (batches: BatchWriter, visit: CompanyVisit) =>
<A, E extends { readonly _tag: string }, R>(
  effect: Effect.Effect<A, E, R>,
) =>
  Effect.tapError(
    effect,
    ({ _tag }) => _tag === "EdgarUnavailable" || _tag === "EdgarBlocked" ? batches.addFailedVisit(visit) : Effect.void,
  )

/** Advances the progress display by one company or one form. */
const advanceProgress = Effect.map(OperationProgress, (progress) => {
  progress.done += 1
})

/**
 * Visits companies concurrently and saves their rows in batches. A visit that loses the database connection is repeated
 * from the start, with empty results. If the SEC stops responding, what was read so far is saved before the run ends.
 * `isFirstVisit` is false for second visits, which read the XBRL instances queued by the first visits.
 */
const visitCompanies = Effect.fnUntraced(
  function* (
    companies: ReadonlyArray<Issuer>,
    visitOptions: CompanyVisitOptions,
    downloader: DocumentDownloader,
    batches: BatchWriter,
    isFirstVisit: boolean,
  ) {
    const progress = yield* OperationProgress
    const label = isFirstVisit ? "companies" : "companies with several classes of shares"
    Object.assign(progress, { label, total: companies.length, done: 0, count: 0, unit: "documents" })
    yield* Effect.forEach(companies, (issuer) =>
      retryLostConnection(Effect.suspend(() => {
        const visit = new CompanyVisit()
        return Effect.as(
          saveFailedVisit(batches, visit)(visitCompany(issuer, visitOptions, downloader, visit)),
          visit,
        )
      })).pipe(
        Effect.flatMap((visit) => batches.addVisit(issuer, visit, isFirstVisit)),
        Effect.tap(advanceProgress),
      ), { concurrency: visitConcurrency, discard: true })
    yield* batches.save
  },
)

/** Downloads the deferred forms of these companies (by CIK) and datasets, newest first, and saves their rows. */
const downloadDeferredForms = Effect.fnUntraced(
  function* (
    issuers: ReadonlyMap<string, Issuer>,
    { datasets }: Pick<ResolvedIngestOptions, "datasets">,
    downloader: DocumentDownloader,
    batches: BatchWriter,
  ) {
    const progress = yield* OperationProgress
    const formCounts = yield* retryLostConnection(Work.countDeferredForms(datasets))
    const counts = Array.from(formCounts).filter(([cik]) => issuers.has(cik))
    const total = counts.reduce((sum, [, count]) => sum + count, 0)
    Object.assign(progress, { label: "deferred forms", total, done: 0, count: 0, unit: "documents" })
    const ciks = counts.map(([cik]) => cik)
    // The companies have already been visited, in this run or an earlier one, so they are not counted again.
    const isFirstVisit = false
    while (progress.done < total) {
      const forms = yield* retryLostConnection(Work.readDeferredForms(ciks, datasets, formsAtOnce))
      // Another process may have read the remaining forms.
      if (forms.length === 0) return
      yield* Effect.forEach(forms, (form) => {
        const issuer = issuers.get(form.cik)
        if (issuer === undefined) return Effect.void
        const visit = new CompanyVisit()
        return readDeferredForm(issuer, form, downloader, visit).pipe(
          saveFailedVisit(batches, visit),
          Effect.andThen(batches.addVisit(issuer, visit, isFirstVisit)),
          Effect.tap(advanceProgress),
        )
      }, { concurrency: visitConcurrency, discard: true })
      // Saving deletes these forms from the queue, so that the next query returns others.
      yield* batches.save
    }
  },
)

/**
 * Adds rows of `ticker_changes` for symbol changes that are not yet stored. If the options restrict the run to some
 * companies, adds only their changes.
 */
const addTickerChanges = Effect.fnUntraced(
  function* (companies: ReadonlyArray<Issuer>, { tickers }: ResolvedIngestOptions, batches: BatchWriter) {
    const ciks = new Set(companies.map(({ cik }) => cik))
    const changes = yield* retryLostConnection(findNewTickerChanges)
    const requested = changes.filter(({ cik }) => tickers === null || ciks.has(String(cik)))
    yield* batches.add(new Map([["ticker_changes", requested]]), [])
  },
)

type CompanyVisitPlan = Effect.Success<ReturnType<typeof planCompanyVisits>>

/**
 * Reads the companies' filing lists and builds their rows (`visitCompany`), and then reads the ownership forms and fee
 * exhibits that this has queued. On a first load, it also only queues XBRL instances, so that most rows of all
 * companies become available early. Second visits to the companies then read the instances (decision 0128).
 */
const runVisits = Effect.fnUntraced(
  function* (
    options: ResolvedIngestOptions,
    { companies, formIssuers, indexes, isFirstLoad }: CompanyVisitPlan,
    downloader: DocumentDownloader,
    batches: BatchWriter,
  ) {
    const { datasets, since, target, tickers } = options
    const visitOptions: CompanyVisitOptions = {
      datasets: new Set(datasets),
      indexedFilings: indexes.filings,
      since,
      isDryRun: target === "dry-run",
      isFresh: Predicate.isObject(target),
      ignoresDelays: tickers !== null,
      defersForms: target === "load" && tickers === null,
      defersInstances: target === "load" && isFirstLoad,
    }
    const needsVisits = datasets.some((dataset) => dataset !== "ticker_changes")
    yield* visitCompanies(needsVisits ? companies : [], visitOptions, downloader, batches, true)
    if (visitOptions.defersInstances) {
      const withInstances = yield* retryLostConnection(Work.readCompaniesWithDueWork("instance"))
      const issuers = Array.from(formIssuers.values()).filter(({ cik }) => withInstances.has(cik))
      if (issuers.length > 0) {
        yield* visitCompanies(issuers, { ...visitOptions, defersInstances: false }, downloader, batches, false)
      }
    }
    if (target === "load") yield* downloadDeferredForms(formIssuers, options, downloader, batches)
  },
)

/**
 * Selects the companies, reads their documents, and saves the rows in batches. After a complete run, stores which daily
 * indexes have been read. `runId` is 0 if the run does not load rows.
 */
const ingestCompanies = Effect.fnUntraced(
  function* (options: ResolvedIngestOptions, runId: number, report: IngestReport) {
    const { datasets, target } = options
    const batches = yield* makeBatchWriter(options, runId, report)
    // The archives can only be opened once the companies are known, so the indexes are read by another downloader.
    const indexDownloader = yield* makeDocumentDownloader()
    const prepared = yield* retryLostConnection(Effect.suspend(() => {
      // If the preparation is retried after a lost connection, it starts from the beginning, so the report must do so,
      // too.
      Object.assign(report, new IngestReport())
      return planCompanyVisits(options, runId, indexDownloader, report)
    }))
    const { companies, indexes, isFirstLoad } = prepared
    const archives = isFirstLoad ? yield* openArchives(options, runId, companies) : undefined
    if (options.archives !== undefined && !isFirstLoad) report.notes.push(archivesNotNeeded)
    const downloader = yield* makeDocumentDownloader(archives)
    report.companies = companies.length

    yield* batches.add(new Map(), prepared.setAside, { done: prepared.done, unrequested: prepared.unlistedWork })
    if (target === "load" && datasets.includes("registrations")) {
      yield* retryLostConnection(expireRegistrations(yield* todayInNewYork))
    }
    if (datasets.includes("ticker_changes")) yield* addTickerChanges(companies, options, batches)
    yield* Effect.raceFirst(runVisits(options, prepared, downloader, batches), batches.saveOldResults)
    // A resumed run skips companies that were visited before the interruption, even if an index lists newer filings of
    // theirs. The next run must therefore read the indexes again.
    if (target !== "load" || options.interrupted !== undefined) return
    yield* retryLostConnection(Effect.gen(function* () {
      for (const [url, validators] of indexes.validators) yield* State.saveCacheValidators(url, validators)
      yield* Work.updateWork(indexes.done, [])
    }))
  },
  Effect.scoped,
)

/** Returns the status to record for an ingest run that has ended. */
const toStatus = (exit: Exit.Exit<unknown, unknown>, report: IngestReport): State.IngestRunStatus => {
  if (Exit.isSuccess(exit)) {
    if (findIncompleteness(report) === null) return "succeeded"
    // If no document could be read, the SEC is probably down. A failed run is resumed soon, but an incomplete run is
    // not.
    return report.documents === 0 ? "failed" : "incomplete"
  }
  // If none of the requested symbols is in the ticker list, there is nothing to resume.
  if (report.companies === undefined && report.unlisted.length > 0) return "incomplete"
  return Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : "failed"
}

/** Returns why the run failed or is incomplete, for operators. Returns null if it succeeded or was interrupted. */
const findFailureReason = (exit: Exit.Exit<unknown, unknown>, report: IngestReport) => {
  if (Exit.isSuccess(exit)) return findIncompleteness(report)
  return Cause.hasInterruptsOnly(exit.cause) ? null : describeIngestError(Cause.squash(exit.cause))
}

/**
 * Records the end of an ingest run in `edgar_runs`, waiting for at most five seconds. The statement runs in a separate
 * fiber, because timeouts do not work in a finalizer.
 */
const recordEnd = Effect.fnUntraced(
  function* (runId: number, exit: Exit.Exit<unknown, unknown>, report: IngestReport) {
    const record = State.recordIngestRunEnd(runId, toStatus(exit, report), findFailureReason(exit, report))
    const fiber = yield* Effect.forkDetach(Effect.ignore(Effect.timeout(record, "5 seconds")))
    yield* Fiber.await(fiber)
  },
)

const decodeLock = decodeRows(Schema.Struct({ acquired: Schema.Boolean }))

/**
 * If a service was killed, PostgreSQL may take some seconds to notice that its connection is gone. Until then, it keeps
 * the lock, so the service's successor tries repeatedly.
 */
const lockRetrySchedule = Schedule.spaced("1 second").pipe(Schedule.upTo({ times: 20 }))

/**
 * Acquires the database lock for ingesting all companies, on a connection that is used for nothing else. The lock is
 * released when the scope closes, and by PostgreSQL if the process ends. If another process has the lock, fails with
 * `IngestRefused`, after 20 seconds if `waits` is true. Returns `check`, an effect that fails if the connection, and
 * thus the lock, is lost.
 */
const acquireMarketLock = Effect.fnUntraced(function* (waits: boolean) {
  const sql = yield* SqlClient.SqlClient
  const key = sql`hashtext('tickerline ingest of all companies')`
  const connection = yield* sql.reserve
  // Run statements on the reserved connection by providing it as the transaction's connection. The 0 is the transaction
  // depth; there is no actual transaction.
  const onConnection = Effect.provideService(sql.transactionService, [connection, 0])
  const lock = Effect.gen(function* () {
    const [row] = yield* onConnection(decodeLock(sql`select pg_try_advisory_lock(${key}) as acquired`))
    if (row?.acquired === true) return
    return yield* new IngestRefused({
      message: "Another process is ingesting all companies. Wait until it has ended, or stop it.",
    })
  })
  yield* Effect.retry(lock, {
    schedule: lockRetrySchedule,
    while: (error) => waits && error._tag === "IngestRefused",
  })
  yield* Effect.addFinalizer(() => Effect.ignore(onConnection(sql`select pg_advisory_unlock(${key})`)))
  return { check: onConnection(sql`select 1`) }
})

/**
 * Ensures that only one process ingests all companies, because two would request the same documents. Returns an effect
 * that never completes: it checks the lock's connection, reacquires the lock if the connection was lost, and fails if
 * another process has acquired the lock in the meantime.
 */
const lockFullIngest = Effect.fnUntraced(function* ({ scheduled }: Pick<IngestOptions, "scheduled">) {
  const lock = yield* ScopedRef.fromAcquire(acquireMarketLock(scheduled))
  const isHeld = Effect.flatMap(ScopedRef.get(lock), ({ check }) => Effect.isSuccess(check))
  const acquireAgain = retryLostConnection(ScopedRef.set(lock, acquireMarketLock(true)))
  return Effect.forever(
    Effect.delay(Effect.flatMap(isHeld, (held) => held ? Effect.void : acquireAgain), heartbeatInterval),
  )
})

/** Removes the suspicious values from the report that an operator has decided about during the run. */
const dropDecidedDoubts = Effect.fnUntraced(function* ({ doubts }: IngestReport) {
  const ciks = new Set(Array.from(doubts.values()).flatMap(({ url }) => findCikInUrl(url) ?? []))
  for (const key of (yield* readDecisions(Array.from(ciks))).keys()) doubts.delete(key)
})

/**
 * Runs the ingest and updates `report` along the way. Returns why the run is incomplete, or null if it is complete. A
 * run that loads rows is recorded in `edgar_runs` before its first request, so that a later run can resume it. A run
 * over all companies has a lock, so that only one process does this at a time.
 */
export const runIngest = Effect.fnUntraced(function* (requested: IngestOptions, report: IngestReport) {
  Object.assign(yield* OperationProgress, { label: "ticker list", unit: "documents" })
  const options = yield* resolveIngestOptions(requested)
  if (options.archives !== undefined) yield* checkArchivesExist(options.archives, options.datasets)
  if (options.target !== "load") {
    yield* ingestCompanies(options, 0, report)
    return findIncompleteness(report)
  }
  // Never completes. Fails, and thereby stops the run, if another process has taken the lock.
  const keepLock = options.tickers === null ? yield* lockFullIngest(options) : Effect.never
  const runId = options.interrupted === undefined
    ? yield* State.recordIngestRunStart(options)
    : yield* State.resumeIngestRun(options.interrupted.run_id)
  const heartbeat = repeatInBackground(Effect.ignore(State.recordIngestRunHeartbeat(runId)), heartbeatInterval)
  yield* Effect.andThen(heartbeat, ingestCompanies(options, runId, report)).pipe(
    Effect.raceFirst(keepLock),
    Effect.scoped,
    Effect.onExit((exit) => recordEnd(runId, exit, report)),
  )
  yield* retryLostConnection(dropDecidedDoubts(report))
  return findIncompleteness(report)
}, Effect.scoped)
