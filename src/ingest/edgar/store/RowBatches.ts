/**
 * Collects the results of concurrent company visits (rows, progress, and queue changes) and loads them into the
 * database in batches (decision 0105).
 */
import { Clock, Duration, Effect, FileSystem, Path, Predicate, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { InvalidRows } from "../../load/RowValidation.ts"
import { OperationProgress, ProgressState } from "../../../postgres/metrics/OperationProgress.ts"
import { type CompanyVisit, VisitResults } from "../schedule/CompanyIngest.ts"
import { updateMarketCaps } from "../../load/MarketCaps.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"
import type { IngestOptions } from "../schedule/IngestOptions.ts"
import {
  addBuiltRowsToReport,
  addDoubtsToReport,
  addMergedRowsToReport,
  addSetAsideToReport,
  type IngestReport,
} from "../schedule/IngestReport.ts"
import {
  type AppliedDecisions,
  changeRowCells,
  findLaterDecisions,
  listDecidedChanges,
  readDecisions,
  requestCountsAgain,
  saveDoubts,
  splitDecidedDoubts,
} from "./Doubts.ts"
import * as State from "./IngestState.ts"
import * as Work from "./IngestWork.ts"
import { saveInstances } from "./InstanceCounts.ts"
import type { Issuer } from "../read/Issuer.ts"
import { deleteRowsOfOtherCompanies, saveAssessments } from "./StoredCounts.ts"
import { saveRegistrationEnds } from "./RegistrationEnds.ts"
import { saveRegistrationFees } from "./RegistrationFees.ts"
import { loadWithCurrentSymbols } from "./PrimarySymbols.ts"
import { makeRowCollector, type RowsByTable } from "./RowCollector.ts"

/** A batch is loaded as soon as it contains this many companies or rows, to limit memory use. */
const [maxBatchCompanies, maxBatchRows] = [250, 20_000]

/**
 * A batch is loaded if the last one was loaded this long ago, so that an interruption loses only a few seconds of
 * downloads.
 */
const maxBatchAge = Duration.seconds(10)

/** The results of all visits since the previous batch was loaded, except rows, which are in a `RowCollector`. */
class Batch extends VisitResults {
  /** Companies that the run has finished with this batch. Second visits are not included. */
  readonly companies: Array<Issuer> = []
  /**
   * All companies that the batch contains results for, by CIK. For some of them, these are only the results of a
   * deferred form or of XBRL instances, which are read after the company has been visited.
   */
  readonly issuers = new Map<string, Issuer>()
  /** Operators' decisions about suspicious values that were known when the rows were built. */
  readonly usedDecisions: Array<AppliedDecisions> = []
}

/** Adds the results of a visit to the batch, except rows, failures, and doubts, which `addVisit` adds itself. */
const addResults = (batch: Batch, visit: VisitResults) => {
  batch.readUrls.push(...visit.readUrls)
  batch.progress.push(...visit.progress)
  batch.done.push(...visit.done)
  batch.deferred.push(...visit.deferred)
  batch.instances.push(...visit.instances)
  batch.assessed.push(...visit.assessed)
  batch.fees.push(...visit.fees)
  batch.registrationEnds.push(...visit.registrationEnds)
  batch.documents += visit.documents
}

type RowCollector = Effect.Success<ReturnType<typeof makeRowCollector>>

/**
 * Loads the rows and saves the batch's other results in the same transaction. The stored progress and the queue
 * therefore never say that a filing has been ingested although its rows are missing. Operators may have decided about
 * values after the rows were built; these decisions are applied to the rows first. Returns how many rows each table
 * gained or changed (`results`), and messages about deleted rows of other companies (`deletions`).
 */
const loadRows = Effect.fnUntraced(function* (
  rows: RowCollector,
  batch: Batch,
  runId: number,
  datasets: IngestOptions["datasets"],
) {
  const sql = yield* SqlClient.SqlClient
  return yield* retryLostConnection(sql.withTransaction(Effect.gen(function* () {
    const issuers = Array.from(batch.issuers.values())
    const [results, later, deletions] = yield* loadWithCurrentSymbols(
      issuers,
      Effect.gen(function* () {
        const later = yield* findLaterDecisions(batch.usedDecisions)
        if (later.changes.length > 0) rows.change((table, cells) => changeRowCells(table, cells, later.changes))
        const deletions = yield* deleteRowsOfOtherCompanies(batch.assessed, datasets)
        return [yield* rows.load, later.decisions, deletions] as const
      }),
    )
    yield* saveRegistrationFees(batch.fees)
    yield* saveRegistrationEnds(batch.registrationEnds)
    yield* State.saveIngestProgress(runId, batch.progress)
    yield* Work.updateWork(batch.done, batch.setAside, batch.deferred)
    yield* requestCountsAgain(later)
    yield* saveInstances(batch.instances)
    yield* saveAssessments(batch.assessed)
    yield* saveDoubts(batch, datasets)
    yield* updateMarketCaps(issuers.map(({ ticker }) => ticker))
    yield* State.addIngestRunCounts(runId, {
      documents: batch.documents,
      rows: rows.count(),
      rejections: batch.setAside.length,
    })
    return { results, deletions }
  })))
})

/**
 * Loads the batch. If some of its rows violate a rule of their table, the whole load fails. In that case, removes these
 * rows, queues them for a retry, and loads the rest again. Gives up if an error does not identify any rows to remove.
 */
const loadBatch = Effect.fnUntraced(
  function* (
    rows: RowCollector,
    batch: Batch,
    runId: number,
    datasets: IngestOptions["datasets"],
    report: IngestReport,
  ) {
    let hasFewerRows = false
    const removeInvalid = (error: InvalidRows) =>
      Effect.sync(() => {
        const invalid = rows.removeInvalid(error)
        hasFewerRows = invalid.length > 0
        batch.setAside.push(...invalid)
        addSetAsideToReport(report, invalid)
      })
    const { deletions, results } = yield* loadRows(rows, batch, runId, datasets).pipe(
      Effect.tapErrorTag("InvalidRows", removeInvalid),
      Effect.retry({ while: ({ _tag }) => _tag === "InvalidRows" && hasFewerRows }),
    )
    yield* Effect.forEach(deletions, (message) => Effect.logWarning(message), { discard: true })
    return results
  },
)

/**
 * If the rows are to be written to files, creates the folder, deletes the files of an earlier run, and returns the
 * folder's path. Otherwise, returns undefined.
 */
const prepareFolder = Effect.fnUntraced(
  function* ({ datasets, target }: Pick<IngestOptions, "datasets" | "target">) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    if (!Predicate.isObject(target)) return undefined
    yield* fs.makeDirectory(target.folder, { recursive: true })
    yield* Effect.forEach(
      datasets,
      (table) => fs.remove(path.join(target.folder, `${table}.ndjson`), { force: true }),
      { discard: true },
    )
    return target.folder
  },
)

/**
 * Replaces the values in a visit's rows about which an operator has decided. Returns the changed rows, the decisions,
 * and the doubts that no operator has decided yet (`open`).
 */
const applyDecisions = Effect.fnUntraced(function* ({ cik }: Issuer, visit: CompanyVisit) {
  // A deferred form is read without decisions. They are needed only if it contains suspicious values.
  const decisions = visit.decisions ??
    (visit.doubts.length === 0 ? new Map() : yield* retryLostConnection(readDecisions([cik])))
  const { decided, open } = splitDecidedDoubts(visit.doubts, decisions)
  const changes = listDecidedChanges(decided)
  const rows = new Map(Array.from(visit.rows, ([table, cells]) => [table, changeRowCells(table, cells, changes)]))
  return { rows, decisions, open }
})

/**
 * Creates a writer that collects the results of concurrent visits and saves them in batches. With `target: "load"`, the
 * batches are loaded. Otherwise, the writer only appends rows to files or, in a dry run, only counts them. Adds the
 * counts to `report`. A lock ensures that visits do not change a batch while it is being saved.
 */
export const makeBatchWriter = Effect.fnUntraced(
  function* (options: Pick<IngestOptions, "datasets" | "target">, runId: number, report: IngestReport) {
    const { target } = options
    const collected = yield* makeRowCollector(yield* prepareFolder(options))
    const lock = Semaphore.makeUnsafe(1)
    let batch = new Batch()
    let savedAt = yield* Clock.currentTimeMillis

    /**
     * Adds the rows of a visit, and its failed documents and rows (`rejected`), to the batch and the report. Call it
     * only with the lock.
     */
    const append = Effect.fnUntraced(function* (rows: RowsByTable, rejected: ReadonlyArray<Work.SetAside>) {
      for (const [table, { length }] of rows) if (length > 0) addBuiltRowsToReport(report, table, length)
      const invalid = target === "dry-run" ? [] : yield* collected.add(rows)
      batch.setAside.push(...rejected, ...invalid)
      addSetAsideToReport(report, [...rejected, ...invalid])
    })

    /** Saves the batch and starts a new one. Call it only with the lock. */
    const saveNow = Effect.gen(function* () {
      if (target === "load") {
        // The load has a separate progress object, so that it does not overwrite the progress of the run.
        const load = Effect.provideService(
          loadBatch(collected, batch, runId, options.datasets, report),
          OperationProgress,
          new ProgressState(),
        )
        for (const { merged, table } of yield* load) addMergedRowsToReport(report, table, merged)
        collected.clear()
      }
      report.saved += batch.companies.length
      batch = new Batch()
      savedAt = yield* Clock.currentTimeMillis
    })

    const isOld = Effect.map(
      Clock.currentTimeMillis,
      (now) => now - savedAt >= Duration.toMillis(maxBatchAge) && batch.issuers.size > 0,
    )

    return {
      /**
       * Adds results that do not belong to a single company. `rejected` contains documents and rows that failed.
       * `unrequested` is queued as well, but not counted in the report, because the run did not request it.
       */
      add: (
        rows: RowsByTable,
        rejected: ReadonlyArray<Work.SetAside>,
        { done = [], unrequested = [] }: {
          readonly done?: ReadonlyArray<Work.WorkKey>
          readonly unrequested?: ReadonlyArray<Work.SetAside>
        } = {},
      ) =>
        lock.withPermit(Effect.suspend(() => {
          batch.done.push(...done)
          batch.setAside.push(...unrequested)
          return append(rows, rejected)
        })),
      /**
       * Adds the results of a visit, and saves the batch if it is full. Values about which an operator has decided are
       * replaced in the rows; the other doubts are added to the batch. `isFirstVisit` is false if the visit only read a
       * deferred form or XBRL instances of a company that had already been visited, so that the company is not counted
       * twice.
       */
      addVisit: (issuer: Issuer, visit: CompanyVisit, isFirstVisit: boolean) =>
        lock.withPermit(Effect.gen(function* () {
          const { decisions, open, rows } = yield* applyDecisions(issuer, visit)
          batch.usedDecisions.push({ cik: issuer.cik, decisions })
          yield* append(rows, visit.setAside)
          addDoubtsToReport(report, open)
          batch.doubts.push(...open)
          addResults(batch, visit)
          batch.issuers.set(issuer.cik, issuer)
          report.documents += visit.documents
          if (isFirstVisit) {
            batch.companies.push(issuer)
            report.visited += 1
          }
          if (batch.companies.length >= maxBatchCompanies || collected.count() >= maxBatchRows) yield* saveNow
        })),
      /**
       * Adds only the documents and rows that failed in an aborted visit, and saves the batch, because the run is about
       * to fail.
       */
      addFailedVisit: (visit: CompanyVisit) =>
        lock.withPermit(Effect.andThen(append(new Map(), visit.setAside), saveNow)),
      /** Saves the batch now. */
      save: lock.withPermit(saveNow),
      /** Saves the batch whenever it reaches the maximum age, checking once per second. Never completes. */
      saveOldResults: Effect.forever(
        Effect.delay(lock.withPermit(Effect.flatMap(isOld, (isDue) => isDue ? saveNow : Effect.void)), "1 second"),
      ),
    }
  },
)
