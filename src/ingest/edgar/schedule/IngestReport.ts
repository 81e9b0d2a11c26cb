/** The report of a run: what it has counted, and whether it is complete. */
import { SqlError } from "effect/sql"
import { isDiskFull } from "../../../postgres/SqlState.ts"
import type { MergedRowCounts } from "../../load/LoadingTable.ts"
import { describeFailure } from "../../../postgres/FailureText.ts"
import type { Doubt } from "../read/Doubt.ts"
import type { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type * as Work from "../store/IngestWork.ts"

/** The counts of a run so far. The caller of the run creates it, so that it can report on an interrupted run, too. */
export class IngestReport {
  /** Companies to visit; undefined until the ticker list is read. */
  companies: number | undefined = undefined
  /** Companies that were visited. */
  visited = 0
  /** Companies whose rows are loaded, or written to the folder. */
  saved = 0
  /** Documents that were read or, in a dry run, would be downloaded. */
  documents = 0
  /** Documents and rows that were set aside. */
  rejections = 0
  /** Documents that were set aside as a whole. */
  rejectedDocuments = 0
  /** The first rejections, for the summary. */
  readonly examples: Array<DocumentRejected> = []
  /** Number of values that are not believed, and about which nobody has decided. */
  doubts = 0
  /** The first doubts, for the summary. */
  readonly doubtExamples: Array<Doubt> = []
  /** Sentences about symbols that the SEC does not list. */
  readonly unlisted: Array<string> = []
  /** Other sentences for the operator, such as about symbols whose companies have rows under another symbol. */
  readonly notes: Array<string> = []
  /** Number of rows that were made, by table. */
  readonly rows = new Map<string, number>()
  /** What loading the rows has changed, by table. */
  readonly merged = new Map<string, MergedRowCounts>()
}

/** Maximum number of rejections, and of doubts, in the summary. */
const maxExamples = 10

/** A run is incomplete if it has set aside at least this many documents, and more than this share of all. */
const [minIncomplete, maxIncompleteShare] = [3, 0.05]

/** Adds what one load has changed in a table. */
export const addMerged = (report: IngestReport, table: string, merged: MergedRowCounts) => {
  const { added, kept, unchanged, updated } = report.merged.get(table) ??
    { added: 0, updated: 0, unchanged: 0, kept: 0 }
  report.merged.set(table, {
    added: added + merged.added,
    updated: updated + merged.updated,
    unchanged: unchanged + merged.unchanged,
    kept: kept + merged.kept,
  })
}

/** Adds to the number of rows that were made for a table. */
export const addRows = (report: IngestReport, table: string, count: number) =>
  report.rows.set(table, (report.rows.get(table) ?? 0) + count)

/** Counts what is set aside. An element of a document may be set aside for several datasets, but counts once. */
export const addSetAside = (report: IngestReport, setAside: ReadonlyArray<Work.SetAside>) => {
  const rejections = Array.from(new Map(setAside.map(({ rejection }) => [rejection.url, rejection])).values())
  report.rejections += rejections.length
  report.rejectedDocuments += setAside.filter(({ dataset }) => dataset === "").length
  report.examples.push(...rejections.slice(0, maxExamples - report.examples.length))
}

/** Counts values that are not believed. */
export const addDoubts = (report: IngestReport, doubts: ReadonlyArray<Doubt>) => {
  report.doubts += doubts.length
  report.doubtExamples.push(...doubts.slice(0, maxExamples - report.doubtExamples.length))
}

/** Returns why the run is incomplete; null if it is complete. */
export const findIncompleteness = ({ documents, rejectedDocuments }: IngestReport) =>
  (documents === 0 && rejectedDocuments > 0) ||
    (rejectedDocuments >= minIncomplete && rejectedDocuments > maxIncompleteShare * (documents + rejectedDocuments))
    ? `${rejectedDocuments} of ${documents + rejectedDocuments} documents were set aside`
    : null

/** Describes an error by its cause, and says what to do if the disk of PostgreSQL is full. */
export const describeIngestError = (error: unknown) => {
  if (SqlError.isSqlError(error)) {
    const advice = isDiskFull(error) ? ". The disk of PostgreSQL is full: free some space" : ""
    return `PostgreSQL: ${describeFailure(error)}${advice}`
  }
  return describeFailure(error)
}
