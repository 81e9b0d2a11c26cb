/**
 * Loads a file into a dataset, completely or not at all (D31, load). The rows first go into a table in the schema
 * `loading` and are then merged, so that only rows that differ change; until the commit, readers see the old rows.
 */
import { Array, Context, Data, Effect, Ref, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { formatCountWithNoun } from "../../contract/rules/CountText.ts"
import { describeDatasetChange } from "../../postgres/AuditLog.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"
import { optInColumns } from "../../contract/rows/Columns.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import { type LoadableDataset, requireDataset, type RowCells } from "../../contract/Datasets.ts"
import { makeBoundsCheck } from "./ColumnBounds.ts"
import { nullTexts, readFileRows } from "./FileReader.ts"
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

/** Rows per insert statement. */
const batchSize = 5_000

export interface LoadTask {
  /** The name of a table or of its endpoint. */
  readonly dataset: string
  readonly file: string
  /** Adds the file's rows to the table and updates rows whose key already exists, instead of replacing all rows. */
  readonly append: boolean
  /** With `append`: in columns that the file omits, existing rows keep their values instead of becoming null. */
  readonly keepOmitted?: boolean
  /** Validates the whole file and changes nothing. */
  readonly check?: boolean
  /** Accepts a file without rows, which empties the table. */
  readonly allowEmpty?: boolean
  /** Texts of cells that mean null, besides an empty cell and `\N` (D43). */
  readonly nulls?: ReadonlyArray<string>
  /**
   * Decides whether a replacement may remove more than a tenth of the table's rows. If absent, it may. A file
   * without rows needs `allowEmpty` instead.
   */
  readonly confirmRemoval?: (removal: Removal) => Effect.Effect<boolean>
  /** Runs as soon as the rows are committed, even if the load is interrupted at that moment. */
  readonly onCommit?: Effect.Effect<void>
  /** The name of the file in the audit log. */
  readonly auditedFile?: string
}

/** Rows in memory that the validator has accepted. Errors call the first one line 1. */
export interface ValidatedRows {
  readonly dataset: LoadableDataset
  readonly validator: RowValidator
  readonly rows: ReadonlyArray<RowCells>
}

/** A load of a file, or of rows, for which `file` is then what messages call them. */
interface FileOrRows extends LoadTask {
  readonly validated?: ValidatedRows
}

/** Rows of a table that a replacement would remove. */
export interface Removal {
  readonly table: string
  readonly removed: number
  readonly existing: number
}

/** Runs at the end of the transaction of each load, unless the load only checks the file. */
export const BeforeLoadCommit = Context.Reference<Effect.Effect<void, SqlError.SqlError>>(
  "tickerline/ingest/BeforeLoadCommit",
  { defaultValue: () => Effect.void },
)

interface RowCounts {
  /** Rows with distinct keys. */
  rows: number
  /** Rows that are identical to another row in the file. */
  dropped: number
  /** Rows replaced by a later row with the same key (D22, corrections). */
  superseded: number
  /** Provisional rows for which an earlier row with the same key was kept (D22, corrections). */
  kept: number
}

export interface LoadResult extends Readonly<RowCounts> {
  readonly table: string
  /** Counts of the rows that the load changed, or would change. */
  readonly merged: Staging.MergedRowCounts | Staging.ReplacedRowCounts
  /** Columns of the file that were not loaded, because the service itself sets them. */
  readonly ignored: ReadonlyArray<string>
  /** Texts of the file that were kept, but may denote unknown values (D43). */
  readonly unknownTexts: ReadonlyArray<UnknownTexts>
  /** For a load that only checks the file: rows that the load would remove only with a confirmation. */
  readonly unconfirmed?: Removal
  /** Describes loaded rows that `/v1/ticker-changes` cannot reach. */
  readonly warning: string | undefined
}

/** Loaded rows whose symbol is too long for `/v1/ticker-changes`. */
interface UnreachableRows {
  readonly examples: Array<string>
  count: number
}

const maxExamples = 3

const formatWarning = ({ count, examples }: UnreachableRows, { table }: LoadableDataset) => {
  if (count === 0) return undefined
  const list = `${examples.join(", ")}${count > examples.length ? ", …" : ""}`
  return `Warning: ${formatCountWithNoun(count, "row")} of ${table} with symbols longer than 6 characters (${list}). ` +
    "Requests to /v1/ticker-changes accept at most 6 characters, so they cannot reach these rows."
}

/** The file has no rows. It is refused, because loading it by mistake would empty the table. */
export class EmptyLoadFile extends Data.TaggedError("EmptyLoadFile")<{ readonly message: string }> {}

/** Describes the rows that a replacement would remove, such as `12 of the 13 rows`. */
export const formatRemoval = ({ existing, removed }: Removal) => {
  if (existing === 1) return "the only row"
  const rows = `${existing.toLocaleString("en")} rows`
  return removed === existing ? `all ${rows}` : `${removed.toLocaleString("en")} of the ${rows}`
}

/** The replacement would remove many rows, which nobody has confirmed. */
export class RemovalRefused extends Data.TaggedError("RemovalRefused")<{ readonly message: string }> {}

/** Share of a table's rows that a replacement may remove without a confirmation. */
const maxUnconfirmedRemoval = 0.1

/** Whether a replacement may remove the rows only with a confirmation. */
const isLargeRemoval = ({ existing, removed }: Removal) => removed > existing * maxUnconfirmedRemoval

/** Fails if the replacement removes more than a tenth of the rows, unless the user confirms it. */
const confirmRemoval = Effect.fnUntraced(function* (removal: Removal, { confirmRemoval, file }: LoadTask) {
  if (confirmRemoval === undefined || !isLargeRemoval(removal) || (yield* confirmRemoval(removal))) return
  return yield* new RemovalRefused({
    message:
      `${file} was refused and ${removal.table} is unchanged: it would remove ${
        formatRemoval(removal)
      }. If that is intended, add --yes. To only add and ` +
      "update rows, add --append.",
  })
})

/** Fails if rows that were added since the confirmation make the removal a large one. */
const refuseLaterRows = Effect.fnUntraced(
  function* ({ dataset: { table }, target }: Staging.StagedRows, removed: number, { file }: LoadTask) {
    const removal = { table, removed, existing: removed + (yield* Staging.countRows(target)) }
    if (!isLargeRemoval(removal)) return
    return yield* new RemovalRefused({
      message: `${file} was refused and ${table} is unchanged: other programs have added rows meanwhile, so it would ` +
        `remove ${formatRemoval(removal)}. Load it again.`,
    })
  },
)

const failWithNoRows = Effect.fnUntraced(function* ({ table }: LoadableDataset, { append, file }: LoadTask) {
  const count = yield* Staging.countRows(`public.${table}`)
  const rows = formatRemoval({ table, removed: count, existing: count })
  const consequence = append ? "It would have added nothing." : `It would have removed ${rows} from the table.`
  return yield* new EmptyLoadFile({
    message: `${file} has no rows, so it was refused and ${table} is unchanged. ${consequence} ` +
      "If that is intended, add --allow-empty.",
  })
})

/** Casts that PostgreSQL adds to expressions. */
const casts = /::(?:text|numeric|bigint|date|timestamp with(?:out)? time zone)(?:\[\])?/g

/** Describes a violated rule of the table, such as `high, low violate the rule high >= low: high "1", low "2"`. */
const toCellError = ({ columns, expression: rule, line, values }: Staging.ViolatedRule): LoadCellError => {
  const expression = rule.replace(casts, "")
  const [column = "", ...others] = columns
  if (others.length === 0) {
    return { line, column, reason: `violates the rule ${expression}: ${JSON.stringify(values[0])}` }
  }
  const cells = columns.map((name, index) => `${name} ${JSON.stringify(values[index])}`).join(", ")
  return { line, column: columns.join(", "), reason: `violate the rule ${expression}: ${cells}` }
}

/** Returns the errors of each row that violates rules. */
const groupViolations = (
  violations: ReadonlyArray<Staging.ViolatedRule>,
): ReadonlyArray<ReadonlyArray<LoadCellError>> =>
  Array.fromIterable(Map.groupBy(violations.map(toCellError), ({ line }) => line).values())

/** Makes the validator of the rows of a table, which knows its columns, bounds and indexes in this database. */
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

/** Whether a CSV header has all columns of an endpoint's rows that the table has, in the order of the endpoint. */
const isExportHeader = ({ model, otherModels = [], row }: LoadableDataset, names: ReadonlyArray<string>) => {
  const toText = (columns: ReadonlyArray<string>) =>
    columns.filter((name) => Object.hasOwn(row.fields, name) && !Object.hasOwn(optInColumns, name)).join(",")
  const given = toText(names)
  return [model, ...otherModels].some((rows) => toText(getColumnNames(rows)) === given)
}

/** The valid and the invalid rows of a part of a file. */
type RowBatch = readonly [ReadonlyArray<ValidRow>, ReadonlyArray<ReadonlyArray<LoadCellError>>]

/** Reads and validates the file in batches. */
const readBatches = Effect.fnUntraced(
  function* (dataset: LoadableDataset, columns: ReadonlyArray<Staging.LoadableColumn>, task: LoadTask) {
    const mayOmitColumns = task.append && task.keepOmitted === true
    const meanNull = nullTexts.union(new Set(task.nulls ?? []))
    const validator = yield* makeTableValidator(dataset, { mayOmitColumns, nullTexts: meanNull })
    const listColumns = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
    const reading = {
      checkHeader: validator.checkHeader,
      isExportHeader: (names: ReadonlyArray<string>) => isExportHeader(dataset, names),
      nullTexts: meanNull,
    }
    const batches = readFileRows(task.file, listColumns, reading).pipe(
      Stream.grouped(batchSize),
      Stream.map((rows): RowBatch => Array.separate(rows.map(validator.validateRow))),
      // Reads and validates the next batch while PostgreSQL inserts this one.
      Stream.buffer({ capacity: 1 }),
    )
    return { batches, validator }
  },
)

/** Splits rows that are already valid into batches. */
const splitIntoBatches = ({ rows, validator }: ValidatedRows) => ({
  batches: Stream.fromIterable(
    Array.chunksOf(rows.map((cells, index): ValidRow => ({ line: index + 1, cells })), batchSize),
  ).pipe(Stream.map((valid): RowBatch => [valid, []])),
  validator,
})

/** Spells the symbols of the rows like the tables. */
const spellRows = Effect.fnUntraced(function* (
  rows: ReadonlyArray<ValidRow>,
  symbolColumns: ReadonlyArray<string>,
  { learn, spell }: FileSpellings,
) {
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

/** Keeps the spellings of the file's new symbols for other programs, and adopts those that they have kept meanwhile. */
const keepSpellings = Effect.fnUntraced(function* ({ columns, source }: Staging.StagedRows, { keep }: FileSpellings) {
  const respelled = yield* keep
  for (const { is_symbol, name } of columns) if (is_symbol) yield* respellColumn(source, name, respelled)
})

/** Streams the rows into the target table. Fails with `InvalidRows` if a row is invalid. */
const fillTable = Effect.fnUntraced(
  function* (
    target: string,
    columns: ReadonlyArray<Staging.LoadableColumn>,
    dataset: LoadableDataset,
    task: FileOrRows,
    insertedRows: Ref.Ref<number>,
  ) {
    const progress = yield* OperationProgress
    const insert = yield* Staging.makeRowInserter(target, columns, dataset, maxReportedBadRows + 1)
    const { batches, validator } = task.validated === undefined
      ? yield* readBatches(dataset, columns, task)
      : splitIntoBatches(task.validated)
    const badRows: Array<ReadonlyArray<LoadCellError>> = []
    const counts: RowCounts = { rows: 0, dropped: 0, superseded: 0, kept: 0 }
    const unreachable: UnreachableRows = { examples: [], count: 0 }
    const spellings = yield* makeFileSpellings()
    const symbolColumns = columns.filter(({ is_symbol }) => is_symbol).map(({ name }) => name)

    const noteUnreachableRows = (batch: ReadonlyArray<ValidRow>) => {
      for (const { cells, line } of batch) {
        const symbol = dataset.findUnreachableSymbol?.(cells)
        if (symbol === undefined) continue
        unreachable.count += 1
        if (unreachable.examples.length < maxExamples) unreachable.examples.push(`${symbol} in line ${line}`)
      }
    }

    const insertBatch = Effect.fnUntraced(
      function* ([given, invalid]: RowBatch) {
        badRows.push(...invalid)
        if (given.length === 0) return
        const valid = yield* spellRows(given, symbolColumns, spellings)
        noteUnreachableRows(valid)
        const { added, dropped, kept, superseded } = yield* Effect.catchTag(
          insert(valid),
          "ViolatedRules",
          ({ violations }) => {
            badRows.push(...groupViolations(violations))
            return Effect.succeed({ added: 0, dropped: 0, superseded: 0, kept: 0 })
          },
        )
        // After the first bad row, reading continues only to report further bad rows.
        if (badRows.length > 0) return
        counts.rows += added
        counts.dropped += dropped
        counts.superseded += superseded
        counts.kept += kept
        progress.count = counts.rows
        yield* Ref.set(insertedRows, counts.rows)
      },
    )

    yield* batches.pipe(
      Stream.takeWhile(() => badRows.length <= maxReportedBadRows),
      Stream.runForEach(insertBatch),
    )
    if (badRows.length > 0) return yield* makeInvalidRowsError(task.file, dataset.table, badRows, dataset.key)
    if (counts.rows === 0 && task.allowEmpty !== true) return yield* failWithNoRows(dataset, task)
    return {
      counts: {
        ...counts,
        ignored: validator.getIgnored(),
        unknownTexts: validator.getUnknownTexts(),
        warning: formatWarning(unreachable, dataset),
      },
      omitted: validator.getOmitted(),
      hidden: validator.getUnseenHiddenColumns(),
      spellings,
    }
  },
)

/** Fails the transaction of a load that only checks a file, so that it is rolled back. */
class CheckPassed extends Data.TaggedError("CheckPassed")<{ readonly result: LoadResult }> {}

/** Fails the transaction of a merge that changed no row, so that the dataset keeps its version (D17, caching). */
class MergeUnneeded extends Data.TaggedError("MergeUnneeded")<{ readonly merged: Staging.MergedRowCounts }> {}

/** Reports violated rules of the table like invalid cells. */
const reportViolations = (dataset: LoadableDataset, { file }: LoadTask) => ({ violations }: Staging.ViolatedRules) =>
  makeInvalidRowsError(file, dataset.table, groupViolations(violations))

const startNextStep = (name: string) =>
  Effect.map(OperationProgress, (progress) => {
    Object.assign(progress, { label: `${progress.label}: ${name}`, done: 0, total: undefined, count: 0 })
  })

/** Fails if the file omits a required column but has new rows, which need a value in it. */
const refuseIncompleteRows = Effect.fnUntraced(
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
 * Removes the column's default, so that a missing value stays null in the staging table until the merge. A replacement
 * does this only for the default `now()`, and applies all other defaults when it fills the staging table.
 */
const toStagedColumn = (column: Staging.LoadableColumn, { append }: LoadTask): Staging.LoadableColumn =>
  append || column.default_value === "now()" ? { ...column, default_value: null } : column

const loadRows = Effect.fnUntraced(
  function* (dataset: LoadableDataset, task: FileOrRows, insertedRows: Ref.Ref<number>) {
    const sql = yield* SqlClient.SqlClient
    const { table } = dataset
    const keepOmitted = task.append && task.keepOmitted === true
    const staged = yield* Staging.createStagingTable(dataset, keepOmitted)
    const { columns, source, target } = staged
    const stagedColumns = [
      ...columns.map((column) => toStagedColumn(column, task)),
      ...(keepOmitted ? [Staging.lineNumberColumn] : []),
    ]
    const { counts, hidden, omitted, spellings } = yield* fillTable(source, stagedColumns, dataset, task, insertedRows)
    yield* refuseIncompleteRows(staged, omitted, task)
    yield* startNextStep("merging")
    yield* Staging.analyzeTable(source)
    const asksToRemove = !task.append && counts.rows > 0 && task.confirmRemoval !== undefined
    if (!task.append && task.check === true) {
      const merged = yield* Staging.countReplacement(staged, hidden)
      const removal = { table, removed: merged.removed, existing: yield* Staging.countRows(target) }
      return { ...counts, merged, ...(asksToRemove && isLargeRemoval(removal) && { unconfirmed: removal }) }
    }
    const confirmed = asksToRemove ? yield* Staging.countRemovedRows(staged) : Infinity
    if (asksToRemove) {
      yield* confirmRemoval({ table, removed: confirmed, existing: yield* Staging.countRows(target) }, task)
    }
    const merge = Effect.gen(function* () {
      yield* keepSpellings(staged, spellings)
      if (!task.append) yield* Staging.lockTableAgainstWriters(staged)
      const removed = task.append ? 0 : yield* Staging.deleteRemovedRows(staged)
      if (removed > confirmed) yield* refuseLaterRows(staged, removed, task)
      const merged = yield* Staging.mergeStagedRows(staged, { hidden, omitted, isAppend: task.append })
      const changes = merged.added + merged.updated + removed
      const counted = task.append ? merged : { ...merged, removed }
      return changes > 0 ? { merged: counted, changes } : yield* new MergeUnneeded({ merged: counted })
    })
    const { changes, merged } =
      yield* (keepOmitted
        ? Staging.explainMergeViolations(merge, staged, omitted, maxReportedBadRows + 1)
        : sql.withTransaction(merge)).pipe(
          Effect.catchTag("MergeUnneeded", ({ merged }) => Effect.succeed({ merged, changes: 0 })),
        )
    if (!task.append) yield* Staging.validateConstraints(target)
    if (changes > counts.rows / 10) yield* Staging.analyzeTable(target)
    yield* Staging.dropStagingTable(staged)
    return { ...counts, merged }
  },
  (effect, dataset, task) => Effect.catchTag(effect, "ViolatedRules", reportViolations(dataset, task)),
)

const load = Effect.fnUntraced(function* (task: FileOrRows, insertedRows: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const dataset = yield* requireDataset(task.dataset)
  const { table } = dataset
  Object.assign(yield* OperationProgress, { label: table, done: 0, total: undefined, count: 0, unit: "rows" })
  return yield* Effect.gen(function* () {
    yield* Staging.acquireTableLoadLocks([table])
    if (task.onCommit !== undefined) yield* sql.afterCommit(task.onCommit)
    const counts = yield* loadRows(dataset, task, insertedRows)
    const result: LoadResult = { table, ...counts }
    if (task.check === true) return yield* new CheckPassed({ result })
    if (task.auditedFile !== undefined) yield* describeDatasetChange({ file: task.auditedFile })
    yield* yield* BeforeLoadCommit
    return result
  }).pipe(
    sql.withTransaction,
    Effect.catchTag("CheckPassed", ({ result }) => Effect.succeed(result)),
  )
})

/** Loads a file into a dataset, and updates `insertedRows` while the load runs. */
export const loadDatasetFile = (task: LoadTask, insertedRows: Ref.Ref<number>) => load(task, insertedRows)

/** Adds rows in memory to their dataset, like a file that is loaded with `append` and `keepOmitted`. */
export const loadValidatedRows = (validated: ValidatedRows) =>
  Effect.flatMap(
    Ref.make(0),
    (inserted) =>
      load(
        { dataset: validated.dataset.table, file: "The batch", append: true, keepOmitted: true, validated },
        inserted,
      ),
  )

/** Removes the rows of a file from its dataset. Rows that were changed since they were loaded stay by default. */
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
    yield* yield* BeforeLoadCommit
    return { table, ...counts, kept }
  }).pipe(sql.withTransaction)
})

/** Rows that an SQL statement computes, for `loadComputedRows`. */
export interface ComputedRows {
  /** The names and SQL values of the columns. Existing rows keep their values in all other columns. */
  readonly columns: Readonly<Record<string, string>>
  /** The part of the statement from `from` on. It returns at most one row per key. */
  readonly from: string
  /** SQL condition of the rows of `existing` that are removed unless the statement returns their keys. */
  readonly replaced?: string
}

/**
 * Merges rows that PostgreSQL computes into a dataset, like an append with `keepOmitted`. Must run in a transaction.
 */
export const loadComputedRows = Effect.fnUntraced(
  function* (table: string, { columns: values, from, replaced }: ComputedRows) {
    const sql = yield* SqlClient.SqlClient
    const dataset = yield* requireDataset(table)
    yield* Staging.acquireTableLoadLocks([table])
    const staged = yield* Staging.createStagingTable(dataset, true)
    const { columns, source } = staged
    const names = Object.keys(values)
    const omitted = columns.map(({ name }) => name).filter((name) => !names.includes(name))
    yield* sql.unsafe(
      `insert into ${source} (${names.map((name) => `"${name}"`).join(", ")})
      select ${Object.values(values).join(", ")} ${from}`,
    )
    yield* Staging.analyzeTable(source)
    const merge = Effect.gen(function* () {
      const removed = replaced === undefined ? 0 : yield* Staging.deleteRemovedRows(staged, replaced)
      const merged = yield* Staging.mergeStagedRows(staged, { hidden: [], omitted, isAppend: true })
      const counted: Staging.ReplacedRowCounts = { ...merged, removed }
      return merged.added + merged.updated + removed > 0 ? counted : yield* new MergeUnneeded({ merged: counted })
    })
    const merged = yield* sql.withTransaction(merge).pipe(
      Effect.catchTag("MergeUnneeded", ({ merged }) => Effect.succeed({ removed: 0, ...merged })),
    )
    yield* Staging.dropStagingTable(staged)
    return merged
  },
)
