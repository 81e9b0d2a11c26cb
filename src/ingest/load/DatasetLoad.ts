/**
 * Loads a file into a dataset, either completely or not at all (D31, load). The rows are first written to a staging
 * table and then merged into the dataset's table, so that only changed rows are written. Readers see the old rows until
 * the load commits.
 */
import { Array, Context, Data, Effect, Ref, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { describeDatasetChange } from "../../postgres/AuditLog.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { optInColumns } from "../../contract/rows/Columns.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import { type LoadableDataset, requireDataset, type RowCells } from "../../contract/Datasets.ts"
import { makeBoundsCheck } from "./ColumnBounds.ts"
import { nullTexts, readFileRows } from "./FileReader.ts"
import { getMarketDay } from "./MarketCalendar.ts"
import { hasSeparator } from "../../contract/rules/Tickers.ts"
import * as Staging from "./LoadingTable.ts"
import {
  type LoadCellError,
  makeInvalidRowsError,
  makeRowValidator,
  maxReportedBadRows,
  missingInNewRowReason,
  type RowValidator,
  type RowValidatorOptions,
  type UnknownTexts,
  type ValidRow,
} from "./RowValidation.ts"
import { type FileSpellings, makeFileSpellings, respellColumn } from "./SymbolSpellings.ts"

/** The maximum number of rows per insert statement. Tests use it to create files that take several statements. */
export const insertBatchSize = 5_000

/** A file to load, with the options of the command `load`. */
export interface LoadTask {
  /** The name of a table or of its endpoint, such as `gap_stats` or `gap-stats`. */
  readonly dataset: string
  /** The path of the file. */
  readonly file: string
  /** Adds rows and updates existing rows with the same key, instead of replacing all rows of the table. */
  readonly append: boolean
  /**
   * With `append`: existing rows keep their values in the columns that the file omits. Otherwise, these columns become
   * null.
   */
  readonly keepOmitted?: boolean
  /** Validates the whole file without changing anything. */
  readonly check?: boolean
  /** Accepts a file without rows. Such a file empties the table. */
  readonly allowEmpty?: boolean
  /** Additional cell texts that mean null. An empty cell and `\N` always do (D43). */
  readonly nulls?: ReadonlyArray<string>
  /**
   * Asks whether a replacement may remove more than a tenth of the table's rows. Without this callback, no confirmation
   * is needed. For a file without rows, `allowEmpty` decides instead.
   */
  readonly confirmRemoval?: (removal: RowRemoval) => Effect.Effect<boolean>
  /** Runs right after the commit, even if the load is interrupted at that moment. */
  readonly onCommit?: Effect.Effect<void>
  /** The file name to record in the audit log. */
  readonly auditedFile?: string
}

/** Rows in memory that `validator` has accepted. In error messages, the first of these rows is line 1. */
export interface ValidatedRows {
  readonly dataset: LoadableDataset
  readonly validator: RowValidator
  readonly rows: ReadonlyArray<RowCells>
  /** Whether these are all the rows of their documents, so that rows built earlier from the documents are deleted. */
  readonly replacesDocuments: boolean
}

/**
 * A load of a file or of rows in memory. For rows in memory, `file` is the name that messages use for them, such as
 * `The batch`.
 */
interface FileOrRows extends LoadTask {
  readonly validated?: ValidatedRows
}

/** The number of rows that a replacement would remove from a table. */
export interface RowRemoval {
  readonly table: string
  readonly removed: number
  /** The number of rows in the table before the replacement. */
  readonly existing: number
}

/**
 * An effect that every load runs at the end of its transaction, unless it only checks the file. Does nothing by
 * default.
 */
export const BeforeLoadCommit = Context.Reference<Effect.Effect<void, SqlError.SqlError>>(
  "tickerline/ingest/BeforeLoadCommit",
  { defaultValue: () => Effect.void },
)

/** Statistics about the rows of a file. */
interface FileRowCounts {
  /** The number of rows with different keys, which is the number of rows that the file contributes to the table. */
  rows: number
  /** The number of rows that are identical to another row in the file. */
  dropped: number
  /** The number of rows that a later row with the same key replaced (D22, corrections). */
  superseded: number
  /**
   * The number of provisional rows that were left out in favor of an earlier row with the same key (D22, corrections).
   */
  kept: number
}

/** A summary of a file's contents. */
interface FileSummary extends Readonly<FileRowCounts> {
  /** Columns of the file that were not loaded, because the service fills them itself. */
  readonly ignored: ReadonlyArray<string>
  /** Texts that may stand for unknown values, such as `N/A`, but were loaded as text (D43). */
  readonly unknownTexts: ReadonlyArray<UnknownTexts>
  /** Warnings about rows that cannot be requested from `/v1/ticker-changes`, or that are about closed days. */
  readonly warnings: ReadonlyArray<string>
}

/** The result of a load or, if the file was only checked, the result that loading it would have had. */
export interface LoadResult extends FileSummary {
  readonly table: string
  /** The number of rows added, updated and so on in the dataset's table. */
  readonly merged: Staging.MergedRowCounts | Staging.ReplacedRowCounts
  /** For a check: the removal that the load would ask the user to confirm. */
  readonly unconfirmed?: RowRemoval
}

/** Rows whose symbol is too long to be requested from `/v1/ticker-changes`. */
interface UnreachableRows {
  /** Descriptions of the first few rows, such as `LONGSYM in line 12`. */
  readonly examples: Array<string>
  count: number
}

/** The maximum number of unreachable rows or closed days that a warning lists. */
const maxExamples = 3

/** Adds the unreachable rows of a batch to `unreachable`. */
const addUnreachableRows = (
  unreachable: UnreachableRows,
  { findUnreachableSymbol }: LoadableDataset,
  batch: ReadonlyArray<ValidRow>,
) => {
  for (const { cells, line } of batch) {
    const symbol = findUnreachableSymbol?.(cells)
    if (symbol === undefined) continue
    unreachable.count += 1
    if (unreachable.examples.length < maxExamples) unreachable.examples.push(`${symbol} in line ${line}`)
  }
}

/** Rows about days on which the exchanges were closed. */
interface ClosedDayRows {
  readonly days: Set<string>
  count: number
}

/** Adds the rows of a batch that are about closed days to `closed`. */
const addClosedDayRows = (
  closed: ClosedDayRows,
  { tradingDayColumn }: LoadableDataset,
  batch: ReadonlyArray<ValidRow>,
) => {
  if (tradingDayColumn === undefined) return
  for (const { cells } of batch) {
    const day = cells[tradingDayColumn]
    if (typeof day !== "string" || getMarketDay(day) !== "closed") continue
    closed.days.add(day)
    closed.count += 1
  }
}

/** Returns warnings about rows on closed days: none or one. */
const formatClosedDays = ({ count, days }: ClosedDayRows, { table }: LoadableDataset) => {
  if (count === 0) return []
  const list = [...days].toSorted().slice(0, maxExamples).join(", ") + (days.size > maxExamples ? ", …" : "")
  return [
    `Warning: ${
      formatCountWithNoun(count, "row")
    } of ${table} for days on which the exchanges were closed (${list}). ` +
    "A day with closes counts as a trading day, so market caps on it are null for symbols without a close.",
  ]
}

/** Returns warnings about unreachable rows: none or one. */
const formatUnreachable = ({ count, examples }: UnreachableRows, { table }: LoadableDataset) => {
  if (count === 0) return []
  const list = `${examples.join(", ")}${count > examples.length ? ", …" : ""}`
  return [
    `Warning: ${formatCountWithNoun(count, "row")} of ${table} with symbols longer than 6 characters (${list}). ` +
    "Requests to /v1/ticker-changes accept at most 6 characters, so they cannot reach these rows.",
  ]
}

/** The file has no rows. Without `allowEmpty`, it is rejected, because loading it by mistake would empty the table. */
export class EmptyLoadFile extends Data.TaggedError("EmptyLoadFile")<{ readonly message: string }> {}

/** Describes a removal, for example as `12 of the 13 rows`. */
export const formatRemoval = ({ existing, removed }: RowRemoval) => {
  if (existing === 1) return "the only row"
  const rows = `${existing.toLocaleString("en")} rows`
  return removed === existing ? `all ${rows}` : `${removed.toLocaleString("en")} of the ${rows}`
}

/** The replacement would remove more than a tenth of the table's rows, and this was not confirmed. */
export class RemovalRefused extends Data.TaggedError("RemovalRefused")<{ readonly message: string }> {}

/** The fraction of a table's rows that a replacement may remove without confirmation. */
const maxUnconfirmedRemoval = 0.1

/** Returns whether a removal must be confirmed. */
const isLargeRemoval = ({ existing, removed }: RowRemoval) => removed > existing * maxUnconfirmedRemoval

/** Fails if the removal must be confirmed and `confirmRemoval` returns false. */
const requireConfirmation = Effect.fnUntraced(function* (removal: RowRemoval, { confirmRemoval, file }: LoadTask) {
  if (confirmRemoval === undefined || !isLargeRemoval(removal) || (yield* confirmRemoval(removal))) return
  return yield* new RemovalRefused({
    message:
      `${file} was refused and ${removal.table} is unchanged: it would remove ${formatRemoval(removal)}. If that is ` +
      "intended, add --yes. To only add and update rows, add --append.",
  })
})

/**
 * Fails if a replacement removed more rows than were confirmed and the total needs confirmation. The additional rows
 * were added after the confirmation but before the table was locked.
 */
const refuseUnconfirmedRemoval = Effect.fnUntraced(
  function* ({ dataset: { table }, target }: Staging.StagedRows, removed: number, { file }: LoadTask) {
    const removal = { table, removed, existing: removed + (yield* Staging.countRows(target)) }
    if (!isLargeRemoval(removal)) return
    return yield* new RemovalRefused({
      message: `${file} was refused and ${table} is unchanged: other programs have added rows in the meantime, so it ` +
        `would remove ${formatRemoval(removal)}. Load it again.`,
    })
  },
)

/** Fails with `EmptyLoadFile`. The message explains what loading the empty file would have done. */
const failWithNoRows = Effect.fnUntraced(function* ({ table }: LoadableDataset, { append, file }: LoadTask) {
  const count = yield* Staging.countRows(`public.${table}`)
  const rows = formatRemoval({ table, removed: count, existing: count })
  const consequence = append ? "It would have added nothing." : `It would have removed ${rows} from the table.`
  return yield* new EmptyLoadFile({
    message: `${file} has no rows, so it was refused and ${table} is unchanged. ${consequence} ` +
      "If that is intended, add --allow-empty.",
  })
})

/** Matches the casts that PostgreSQL adds to constraint expressions. Error messages leave them out. */
const casts = /::(?:text|numeric|bigint|date|timestamp with(?:out)? time zone)(?:\[\])?/g

/**
 * Converts a violated CHECK constraint to an error for a cell. Messages call the constraint a rule, for example: `high,
 * low violate the rule high >= low: high "1", low "2"`.
 */
const toCellError = ({ columns, expression, line, values }: Staging.CheckViolation): LoadCellError => {
  const rule = expression.replace(casts, "")
  const [column = "", ...others] = columns
  if (others.length === 0) {
    return { line, column, reason: `violates the rule ${rule}: ${JSON.stringify(values[0])}` }
  }
  const cells = columns.map((name, index) => `${name} ${JSON.stringify(values[index])}`).join(", ")
  return { line, column: columns.join(", "), reason: `violate the rule ${rule}: ${cells}` }
}

/** Groups constraint violations into one list of errors per row. */
const groupViolations = (
  violations: ReadonlyArray<Staging.CheckViolation>,
): ReadonlyArray<ReadonlyArray<LoadCellError>> =>
  Array.fromIterable(Map.groupBy(violations.map(toCellError), ({ line }) => line).values())

/** Creates a validator for a dataset's rows, based on the bounds, columns and indexes of its table in this database. */
export const makeTableValidator = Effect.fnUntraced(
  function* (dataset: LoadableDataset, options: Pick<RowValidatorOptions, "mayOmitColumns" | "nullTexts">) {
    return makeRowValidator(dataset, {
      ...options,
      checkBounds: yield* makeBoundsCheck(dataset),
      ignoredColumns: yield* Staging.readUnloadableColumns(`public.${dataset.table}`),
      indexedColumns: yield* Staging.readIndexedColumns(`public.${dataset.table}`),
    })
  },
)

/**
 * Returns whether a CSV header comes from an export of one of the dataset's endpoints: it has the columns of the
 * endpoint in the same order. Opt-in columns and columns that are not in the table are ignored.
 */
const isExportHeader = ({ model, otherModels = [], row }: LoadableDataset, names: ReadonlyArray<string>) => {
  const toText = (columns: ReadonlyArray<string>) =>
    columns.filter((name) => Object.hasOwn(row.fields, name) && !Object.hasOwn(optInColumns, name)).join(",")
  const header = toText(names)
  return [model, ...otherModels].some((rows) => toText(getColumnNames(rows)) === header)
}

/** A batch of a file: the valid rows, and one list of errors per invalid row. */
type RowBatch = readonly [ReadonlyArray<ValidRow>, ReadonlyArray<ReadonlyArray<LoadCellError>>]

/**
 * Returns `batches`, a stream that reads and validates the file in batches, and `validator`, which also reports facts
 * about the whole file after the last batch, such as the columns that it omits.
 */
const readBatches = Effect.fnUntraced(
  function* (dataset: LoadableDataset, columns: ReadonlyArray<Staging.LoadableColumn>, task: LoadTask) {
    const mayOmitColumns = task.append && task.keepOmitted === true
    const textsForNull = nullTexts.union(new Set(task.nulls ?? []))
    const validator = yield* makeTableValidator(dataset, { mayOmitColumns, nullTexts: textsForNull })
    const listColumns = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
    const readerOptions = {
      checkHeader: validator.checkHeader,
      isExportHeader: (names: ReadonlyArray<string>) => isExportHeader(dataset, names),
      nullTexts: textsForNull,
    }
    const batches = readFileRows(task.file, listColumns, readerOptions).pipe(
      Stream.grouped(insertBatchSize),
      Stream.map((rows): RowBatch => Array.separate(rows.map(validator.validateRow))),
      // The next batch is read and validated while PostgreSQL inserts this one.
      Stream.buffer({ capacity: 1 }),
    )
    return { batches, validator }
  },
)

/** Splits rows in memory, which are already valid, into batches like those of `readBatches`. */
const splitIntoBatches = ({ rows, validator }: ValidatedRows) => ({
  batches: Stream.fromIterable(
    Array.chunksOf(rows.map((cells, index): ValidRow => ({ line: index + 1, cells })), insertBatchSize),
  ).pipe(Stream.map((valid): RowBatch => [valid, []])),
  validator,
})

/**
 * Returns the rows with the symbols in `symbolColumns` spelled as in the tables (D41), such as `BRK-B` for `BRK.B`. A
 * symbol without a separator has only one spelling.
 */
const spellRows = Effect.fnUntraced(function* (
  rows: ReadonlyArray<ValidRow>,
  symbolColumns: ReadonlyArray<string>,
  { learn, spell }: FileSpellings,
) {
  /** Returns the columns and symbols of a row that may be spelled in several ways. */
  const listSymbols = ({ cells }: ValidRow) =>
    symbolColumns.flatMap((name) => {
      const cell = cells[name]
      return typeof cell === "string" && hasSeparator(cell) ? [[name, cell] as const] : []
    })
  const symbols = rows.flatMap(listSymbols)
  if (symbols.length === 0) return rows
  yield* learn(symbols.map(([, symbol]) => symbol))
  return rows.map((row): ValidRow => {
    const spelled = listSymbols(row).map(([name, symbol]) => [name, spell(symbol)] as const)
    return spelled.length === 0 ? row : { ...row, cells: { ...row.cells, ...Object.fromEntries(spelled) } }
  })
})

/**
 * Stores the spellings of the file's new symbols, so that other programs use them. If another program has stored a
 * different spelling since the file was read, the staged rows are changed to that spelling.
 */
const storeStagedSpellings = Effect.fnUntraced(
  function* ({ columns, source }: Staging.StagedRows, { keep }: FileSpellings) {
    const respelled = yield* keep
    for (const { is_symbol, name } of columns) if (is_symbol) yield* respellColumn(source, name, respelled)
  },
)

/** A file whose rows `fillTable` has written to the staging table. */
interface StagedFile {
  readonly summary: FileSummary
  /** Columns that the file omits. Always empty without `keepOmitted`. */
  readonly omitted: ReadonlyArray<string>
  /** Columns that are absent from all rows of the file, and that API responses include only on request, if at all. */
  readonly hidden: ReadonlyArray<string>
  readonly spellings: FileSpellings
}

/** The errors and the row counts of the batches that have been inserted so far. */
interface InsertedBatches {
  /** One list of errors per invalid row. */
  readonly badRows: Array<ReadonlyArray<LoadCellError>>
  readonly counts: FileRowCounts
  readonly unreachable: UnreachableRows
  readonly closed: ClosedDayRows
}

/**
 * Returns a function that inserts one batch of a file into the table `target`, with its symbols spelled as in the
 * tables. It adds the batch's errors and counts to its parameter of the type `InsertedBatches`, and stores the number
 * of distinct keys so far in `insertedRows`. It does not fail if rows violate CHECK constraints, but adds them to
 * `badRows`.
 */
const makeBatchInserter = Effect.fnUntraced(
  function* (
    target: string,
    columns: ReadonlyArray<Staging.LoadableColumn>,
    dataset: LoadableDataset,
    spellings: FileSpellings,
    { badRows, closed, counts, unreachable }: InsertedBatches,
    insertedRows: Ref.Ref<number>,
  ) {
    const progress = yield* OperationProgress
    // With one row more than the message lists, the message can say that there are more.
    const insert = yield* Staging.makeRowInserter(target, columns, dataset, maxReportedBadRows + 1)
    const symbolColumns = columns.filter(({ is_symbol }) => is_symbol).map(({ name }) => name)

    return Effect.fnUntraced(function* ([valid, invalid]: RowBatch) {
      badRows.push(...invalid)
      if (valid.length === 0) return
      const rows = yield* spellRows(valid, symbolColumns, spellings)
      addUnreachableRows(unreachable, dataset, rows)
      addClosedDayRows(closed, dataset, rows)
      const inserted = yield* Effect.catchTag(insert(rows), "RowsViolateChecks", ({ violations }) => {
        badRows.push(...groupViolations(violations))
        return Effect.undefined
      })
      // After the first bad row, reading continues only to report further bad rows.
      if (inserted === undefined || badRows.length > 0) return
      counts.rows += inserted.added
      counts.dropped += inserted.dropped
      counts.superseded += inserted.superseded
      counts.kept += inserted.kept
      progress.count = counts.rows
      yield* Ref.set(insertedRows, counts.rows)
    })
  },
)

/**
 * Streams the rows of a file, or rows in memory, into the table `target`, which has the columns `columns`. Stores the
 * number of inserted rows in `insertedRows` along the way. Fails with `InvalidRows` if a row is invalid, and with
 * `EmptyLoadFile` if there are no rows and `allowEmpty` is not set.
 */
const fillTable = Effect.fnUntraced(
  function* (
    target: string,
    columns: ReadonlyArray<Staging.LoadableColumn>,
    dataset: LoadableDataset,
    task: FileOrRows,
    insertedRows: Ref.Ref<number>,
  ) {
    const found: InsertedBatches = {
      badRows: [],
      counts: { rows: 0, dropped: 0, superseded: 0, kept: 0 },
      unreachable: { examples: [], count: 0 },
      closed: { days: new Set(), count: 0 },
    }
    // `insertBatch` adds the errors and counts of each batch to these.
    const { badRows, closed, counts, unreachable } = found
    const spellings = yield* makeFileSpellings()
    const insertBatch = yield* makeBatchInserter(target, columns, dataset, spellings, found, insertedRows)
    const { batches, validator } = task.validated === undefined
      ? yield* readBatches(dataset, columns, task)
      : splitIntoBatches(task.validated)
    // After the first bad row, only further bad rows are of interest, up to the number that the error lists.
    yield* batches.pipe(
      Stream.takeWhile(() => badRows.length <= maxReportedBadRows),
      Stream.runForEach(insertBatch),
    )
    if (badRows.length > 0) return yield* makeInvalidRowsError(task.file, dataset.table, badRows, dataset.key)
    if (counts.rows === 0 && task.allowEmpty !== true) return yield* failWithNoRows(dataset, task)
    const stagedFile: StagedFile = {
      summary: {
        ...counts,
        ignored: validator.getIgnored(),
        unknownTexts: validator.getUnknownTexts(),
        warnings: [...formatUnreachable(unreachable, dataset), ...formatClosedDays(closed, dataset)],
      },
      omitted: validator.getOmitted(),
      hidden: validator.getUnseenHiddenColumns(),
      spellings,
    }
    return stagedFile
  },
)

/** The error that aborts the transaction of a load that only checks its file, so that everything is rolled back. */
class CheckPassed extends Data.TaggedError("CheckPassed")<{ readonly result: LoadResult }> {}

/**
 * The error that rolls back the savepoint of a merge that changed no rows. The dataset's version then stays the same,
 * and caches remain valid (D17).
 */
class MergeUnneeded extends Data.TaggedError("MergeUnneeded")<{ readonly merged: Staging.MergedRowCounts }> {}

/** Converts CHECK violations to the error that reports invalid cells. */
const toInvalidRows = ({ violations }: Staging.RowsViolateChecks, { table }: LoadableDataset, { file }: LoadTask) =>
  makeInvalidRowsError(file, table, groupViolations(violations))

/** Shows the load's next step in the progress display, such as `news: merging`. */
const startNextStep = (name: string) =>
  Effect.map(OperationProgress, (progress) => {
    Object.assign(progress, { label: `${progress.label}: ${name}`, done: 0, total: undefined, count: 0 })
  })

/**
 * Fails if the file omits a required column, one that accepts no null and has no default, but contains new rows, which
 * need a value in that column. Existing rows keep the value that they have.
 */
const refuseIncompleteNewRows = Effect.fnUntraced(
  function* (staged: Staging.StagedRows, omitted: ReadonlyArray<string>, { file }: LoadTask) {
    const { columns, dataset: { table } } = staged
    const required = columns.filter(({ default_value, is_nullable, name }) =>
      omitted.includes(name) && !is_nullable && default_value === null
    )
    if (required.length === 0) return
    const lines = yield* Staging.findLinesWithNewKeys(staged, maxReportedBadRows + 1)
    if (lines.length === 0) return
    const badRows = lines.map((line) =>
      required.map(({ name }) => ({ line, column: name, reason: missingInNewRowReason }))
    )
    return yield* makeInvalidRowsError(file, table, badRows)
  },
)

/**
 * Removes the default of a column. A value that is missing in the file then stays null in the staging table, so that
 * the merge can choose between the existing value and the default. A replacement does this only for columns with the
 * default `now()`, so that unchanged rows keep their time. In all other columns, a replacement fills in the default
 * immediately.
 */
const toStagedColumn = (column: Staging.LoadableColumn, { append }: LoadTask): Staging.LoadableColumn =>
  append || column.default_value === "now()" ? { ...column, default_value: null } : column

/** Returns whether this load must ask for confirmation before it removes many rows. */
const mayAskForConfirmation = ({ append, confirmRemoval }: LoadTask, { summary }: StagedFile) =>
  !append && summary.rows > 0 && confirmRemoval !== undefined

/**
 * Counts the changes that a replacement would make (`merged`). If it would ask for confirmation, also returns the
 * removal to be confirmed (`unconfirmed`).
 */
const checkReplacement = Effect.fnUntraced(
  function* (staged: Staging.StagedRows, stagedFile: StagedFile, task: LoadTask) {
    const { dataset: { table }, target } = staged
    const merged = yield* Staging.countReplacement(staged, stagedFile.hidden)
    const removal = { table, removed: merged.removed, existing: yield* Staging.countRows(target) }
    return {
      merged,
      ...(mayAskForConfirmation(task, stagedFile) && isLargeRemoval(removal) && { unconfirmed: removal }),
    }
  },
)

/**
 * Asks for confirmation if it is required, and fails if it is denied. Returns how many rows may be removed without
 * asking again: the number that was confirmed, or Infinity if this load never asks.
 */
const confirmReplacement = Effect.fnUntraced(
  function* (staged: Staging.StagedRows, stagedFile: StagedFile, task: LoadTask) {
    if (!mayAskForConfirmation(task, stagedFile)) return Infinity
    const { dataset: { table }, target } = staged
    const removed = yield* Staging.countRemovedRows(staged)
    yield* requireConfirmation({ table, removed, existing: yield* Staging.countRows(target) }, task)
    return removed
  },
)

/**
 * Removes the rows of the dataset's table that the load replaces, and returns their number. A replacement removes all
 * rows that are not in the file. Rows in memory may replace the former rows of their documents. A file with `append`
 * removes nothing.
 */
const removeReplacedRows = (staged: Staging.StagedRows, { omitted }: StagedFile, task: FileOrRows) => {
  if (!task.append) return Staging.deleteRemovedRows(staged)
  return task.validated?.replacesDocuments === true ? Staging.deleteFormerRows(staged, omitted) : Effect.succeed(0)
}

/**
 * Removes the rows that the load replaces, and merges the staged rows into the dataset's table, within a savepoint.
 * Fails if more than `confirmedRemovals` rows were removed and their number needs confirmation. Returns the row counts
 * (`merged`), and the number of rows that were added, updated or removed (`changes`).
 */
const mergeFile = Effect.fnUntraced(
  function* (staged: Staging.StagedRows, stagedFile: StagedFile, confirmedRemovals: number, task: FileOrRows) {
    const sql = yield* SqlClient.SqlClient
    const { hidden, omitted, spellings } = stagedFile
    const merge = Effect.gen(function* () {
      // If another program has stored other spellings in the meantime, the staged rows must have them before the merge.
      yield* storeStagedSpellings(staged, spellings)
      if (!task.append) yield* Staging.lockTableAgainstWriters(staged)
      const removed = yield* removeReplacedRows(staged, stagedFile, task)
      if (removed > confirmedRemovals) yield* refuseUnconfirmedRemoval(staged, removed, task)
      const counts = yield* Staging.mergeStagedRows(staged, { hidden, omitted, isAppend: task.append })
      const merged = task.append ? counts : { ...counts, removed }
      const changes = counts.added + counts.updated + removed
      // Even statements that change no rows change the dataset's version. The error rolls them back.
      return changes > 0 ? { merged, changes } : yield* new MergeUnneeded({ merged })
    })
    // Only the merge completes the rows of a file that omits columns, so they are checked after it.
    const isIncomplete = task.append && task.keepOmitted === true
    return yield* (isIncomplete
      ? Staging.explainMergeCheckViolations(merge, staged, omitted, maxReportedBadRows + 1)
      : sql.withTransaction(merge)).pipe(
        Effect.catchTag("MergeUnneeded", ({ merged }) => Effect.succeed({ merged, changes: 0 })),
      )
  },
)

/**
 * Stages the rows of the file and merges them into the dataset's table. If a replacement is only checked, counts the
 * changes instead of merging; an append is merged even then, and the caller rolls it back. Must run in a transaction.
 */
const stageAndMerge = Effect.fnUntraced(
  function* (dataset: LoadableDataset, task: FileOrRows, insertedRows: Ref.Ref<number>) {
    const isIncomplete = task.append && task.keepOmitted === true
    const staged = yield* Staging.createStagingTable(dataset, isIncomplete)
    const { columns, source, target } = staged
    const stagedColumns = [
      ...columns.map((column) => toStagedColumn(column, task)),
      ...(isIncomplete ? [Staging.lineNumberColumn] : []),
    ]
    const stagedFile = yield* fillTable(source, stagedColumns, dataset, task, insertedRows)
    yield* refuseIncompleteNewRows(staged, stagedFile.omitted, task)
    yield* startNextStep("merging")
    yield* Staging.analyzeTable(source)
    if (!task.append && task.check === true) {
      return { ...stagedFile.summary, ...yield* checkReplacement(staged, stagedFile, task) }
    }
    const confirmedRemovals = yield* confirmReplacement(staged, stagedFile, task)
    const { changes, merged } = yield* mergeFile(staged, stagedFile, confirmedRemovals, task)
    // A replacement has removed all rows that are not in the file, so the table's constraints hold for all rows now.
    if (!task.append) yield* Staging.validateConstraints(target)
    // After a small number of changes, autovacuum decides when to analyze the table.
    if (changes > stagedFile.summary.rows / 10) yield* Staging.analyzeTable(target)
    yield* Staging.dropStagingTable(staged)
    return { ...stagedFile.summary, merged }
  },
  // The merge of a file that omits columns fails with `RowsViolateChecks`, because only then the rows are complete.
  (effect, dataset, task) =>
    Effect.catchTag(effect, "RowsViolateChecks", (violated) => toInvalidRows(violated, dataset, task)),
)

/**
 * Loads a file, or rows in memory, in one transaction. If the file is only checked, rolls the transaction back and
 * returns what the load would have done.
 */
const load = Effect.fnUntraced(function* (task: FileOrRows, insertedRows: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const dataset = yield* requireDataset(task.dataset)
  const { table } = dataset
  Object.assign(yield* OperationProgress, { label: table, done: 0, total: undefined, count: 0, unit: "rows" })
  return yield* Effect.gen(function* () {
    yield* Staging.acquireTableLoadLocks([table])
    if (task.onCommit !== undefined) yield* sql.afterCommit(task.onCommit)
    const result: LoadResult = { table, ...yield* stageAndMerge(dataset, task, insertedRows) }
    // The error rolls back the transaction, which has staged and possibly merged the rows.
    if (task.check === true) return yield* new CheckPassed({ result })
    if (task.auditedFile !== undefined) yield* describeDatasetChange({ file: task.auditedFile })
    // The first `yield*` gets the effect that the process has set to run at the end of each load, and the second one
    // runs it.
    yield* yield* BeforeLoadCommit
    return result
  }).pipe(
    sql.withTransaction,
    Effect.catchTag("CheckPassed", ({ result }) => Effect.succeed(result)),
  )
})

/**
 * Loads a file into a dataset. While the load runs, `insertedRows` contains the number of staged rows, so that an
 * interruption can report it. Fails with `InvalidRows` if a row is invalid, or with one of the other errors defined in
 * this folder. A failed load changes nothing.
 */
export const loadDatasetFile = (task: LoadTask, insertedRows: Ref.Ref<number>) => load(task, insertedRows)

/** Loads rows in memory into their dataset, like a file with the options `append` and `keepOmitted`. */
export const loadValidatedRows = Effect.fnUntraced(function* (validated: ValidatedRows) {
  const { table } = validated.dataset
  return yield* load(
    { dataset: table, file: "The batch", append: true, keepOmitted: true, validated },
    yield* Ref.make(0),
  )
})

/**
 * Removes the rows of a file from its dataset. By default, rows that were changed since they were loaded are not
 * removed. Returns how many rows were removed, how many were not removed because they had changed, and how many rows
 * the table still has (`kept`).
 */
export const removeFileRows = Effect.fnUntraced(function* (
  file: Pick<LoadTask, "dataset" | "file">,
  options: Staging.StagedRowRemovalOptions = {},
) {
  const sql = yield* SqlClient.SqlClient
  const dataset = yield* requireDataset(file.dataset)
  const { table } = dataset
  const task: LoadTask = { ...file, append: false, allowEmpty: true }
  Object.assign(yield* OperationProgress, { label: table, done: 0, total: undefined, count: 0, unit: "rows" })
  return yield* Effect.gen(function* () {
    yield* Staging.acquireTableLoadLocks([table])
    const staged = yield* Staging.createStagingTable(dataset, false)
    const { columns, source, target } = staged
    const stagedColumns = columns.map((column) => toStagedColumn(column, task))
    const { hidden } = yield* fillTable(source, stagedColumns, dataset, task, yield* Ref.make(0))
    yield* Staging.analyzeTable(source)
    const counts = yield* Staging.deleteStagedRows(staged, hidden, options)
    const kept = yield* Staging.countRows(target)
    yield* Staging.dropStagingTable(staged)
    // Gets the effect that the process has set to run at the end of each load, and runs it.
    yield* yield* BeforeLoadCommit
    return { table, ...counts, kept }
  }).pipe(sql.withTransaction)
})

/**
 * A query whose result `loadComputedRows` merges into a dataset, such as a query that computes the rows of `gap_stats`
 * from price bars.
 */
export interface ComputedRows {
  /**
   * The query's columns: SQL expressions, keyed by dataset column name. In all other columns, existing rows keep their
   * values, and new rows get the default.
   */
  readonly columns: Readonly<Record<string, string>>
  /** The rest of the query, starting with `from`. It must return at most one row per key. */
  readonly from: string
  /**
   * An SQL condition on `existing`, a row of the dataset's table. Rows that satisfy it are removed unless the query
   * returns a row with the same key.
   */
  readonly replaced?: string
}

/**
 * Merges the rows that a query computes into the dataset of a table, like a file with the options `append` and
 * `keepOmitted`: new keys are added, existing rows are updated in the query's columns, and no other row changes, except
 * those that `replaced` selects. Waits for other loads of the table. Must run in a transaction. Returns how many rows
 * were added, updated, left unchanged and removed.
 */
export const loadComputedRows = Effect.fnUntraced(
  function* (table: string, { columns: expressions, from, replaced }: ComputedRows) {
    const sql = yield* SqlClient.SqlClient
    const dataset = yield* requireDataset(table)
    yield* Staging.acquireTableLoadLocks([table])
    // The query computes only some columns, so the staging table must accept null in the others (`isIncomplete`).
    const staged = yield* Staging.createStagingTable(dataset, true)
    const { columns, source } = staged
    const computedNames = Object.keys(expressions)
    const omitted = columns.map(({ name }) => name).filter((name) => !computedNames.includes(name))
    yield* sql.unsafe(
      `insert into ${source} (${computedNames.map((name) => `"${name}"`).join(", ")})
      select ${Object.values(expressions).join(", ")} ${from}`,
    )
    yield* Staging.analyzeTable(source)
    const merge = Effect.gen(function* () {
      const removed = replaced === undefined ? 0 : yield* Staging.deleteRemovedRows(staged, replaced)
      const merged = yield* Staging.mergeStagedRows(staged, { hidden: [], omitted, isAppend: true })
      const counts: Staging.ReplacedRowCounts = { ...merged, removed }
      // Statements that match no rows change the dataset's version, too. If nothing changed, the error rolls them back.
      return merged.added + merged.updated + removed > 0 ? counts : yield* new MergeUnneeded({ merged: counts })
    })
    const counts = yield* sql.withTransaction(merge).pipe(
      // The error's type has no `removed`. Its value is 0 whenever the merge is unneeded.
      Effect.catchTag("MergeUnneeded", ({ merged }) => Effect.succeed({ removed: 0, ...merged })),
    )
    yield* Staging.dropStagingTable(staged)
    return counts
  },
)
