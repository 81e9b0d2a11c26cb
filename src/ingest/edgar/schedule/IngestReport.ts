/** Counts the results of an ingest run so far, and determines whether the run is complete. */
import { SqlError } from "effect/sql"
import { isDiskFull } from "../../../postgres/SqlState.ts"
import type { MergedRowCounts } from "../../load/LoadingTable.ts"
import { describeFailure } from "../../../postgres/FailureText.ts"
import { type Doubt, formatDoubtKey } from "../read/Doubt.ts"
import type { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type * as Work from "../store/IngestWork.ts"

/**
 * Counts of an ingest run so far. The caller creates the report, so that it still has the counts if the run is
 * interrupted.
 */
export class IngestReport {
  /** Number of companies to visit; undefined until the ticker list has been read. */
  companies: number | undefined = undefined
  /** Number of companies whose filing list and documents have been read. */
  visited = 0
  /** Number of companies whose rows have been loaded or written to the folder. */
  saved = 0
  /** Number of documents that were read or, in a dry run, would be downloaded. */
  documents = 0
  /** Number of documents and of single rows that failed. They are queued for another attempt. */
  rejections = 0
  /** Number of documents that failed as a whole. They are queued for another attempt. */
  rejectedDocuments = 0
  /** The first documents and rows that failed, for the summary. */
  readonly examples: Array<DocumentRejected> = []
  /** Suspicious values that await an operator's decision, by key (`formatDoubtKey`). */
  readonly doubts = new Map<string, Doubt>()
  /** Messages about requested symbols that are not in the SEC's ticker list. */
  readonly unlisted: Array<string> = []
  /**
   * Other messages for the operator, for example that a company's rows have a different symbol than the requested one.
   */
  readonly notes: Array<string> = []
  /** Number of rows built, by table. */
  readonly rows = new Map<string, number>()
  /** Numbers of rows that loading has added, updated, and left unchanged, by table. */
  readonly merged = new Map<string, MergedRowCounts>()
}

/** Maximum number of failed documents and of suspicious values shown in the summary of a run. */
export const maxExamples = 10

/**
 * A run is incomplete if at least `minIncomplete` documents failed and they are more than this fraction of all
 * documents.
 */
const [minIncomplete, maxIncompleteShare] = [3, 0.05]

/** Adds the changes that one load made to a table. */
export const addMergedRowsToReport = (report: IngestReport, table: string, merged: MergedRowCounts) => {
  const { added, kept, unchanged, updated } = report.merged.get(table) ??
    { added: 0, updated: 0, unchanged: 0, kept: 0 }
  report.merged.set(table, {
    added: added + merged.added,
    updated: updated + merged.updated,
    unchanged: unchanged + merged.unchanged,
    kept: kept + merged.kept,
  })
}

/** Adds to the number of rows built for a table. */
export const addBuiltRowsToReport = (report: IngestReport, table: string, count: number) =>
  report.rows.set(table, (report.rows.get(table) ?? 0) + count)

/**
 * Adds documents and rows that failed to the report. An element of a document that failed for several datasets counts
 * only once.
 */
export const addSetAsideToReport = (report: IngestReport, setAside: ReadonlyArray<Work.SetAside>) => {
  const rejections = Array.from(new Map(setAside.map(({ rejection }) => [rejection.url, rejection])).values())
  report.rejections += rejections.length
  report.rejectedDocuments += setAside.filter(({ dataset }) => dataset === "").length
  report.examples.push(...rejections.slice(0, maxExamples - report.examples.length))
}

/** Adds suspicious values that await an operator's decision to the report. */
export const addDoubtsToReport = ({ doubts }: IngestReport, found: ReadonlyArray<Doubt>) => {
  for (const doubt of found) doubts.set(formatDoubtKey(doubt), doubt)
}

/**
 * Returns why the run is incomplete, or null if it is complete. It is also incomplete if no document could be read,
 * even if there were fewer than `minIncomplete`.
 */
export const findIncompleteness = ({ documents, rejectedDocuments }: IngestReport) => {
  const total = documents + rejectedDocuments
  const hasOnlyFailures = documents === 0 && rejectedDocuments > 0
  const hasManyFailures = rejectedDocuments >= minIncomplete && rejectedDocuments > maxIncompleteShare * total
  return hasOnlyFailures || hasManyFailures ? `${rejectedDocuments} of ${total} documents were set aside` : null
}

/** Describes the cause of an error. If the PostgreSQL disk is full, adds advice. */
export const describeIngestError = (error: unknown) => {
  if (SqlError.isSqlError(error)) {
    const advice = isDiskFull(error) ? ". The disk of PostgreSQL is full: free some space" : ""
    return `PostgreSQL: ${describeFailure(error)}${advice}`
  }
  return describeFailure(error)
}
