/**
 * D31: a file replaces a dataset's rows, or is added to them: all of it or nothing. A replacement is built beside the
 * table, in the schema `loading`, and takes its place in one moment; readers see the old rows until then.
 */
import { Array, Data, Effect, Ref, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Progress } from "../observability/Progress.ts"
import { formatCount } from "../cli/terminal/Text.ts"
import { makeBadRowsError, makeRowChecker, maxBadRows, type RowError } from "./RowValidation.ts"
import { type Dataset, getDataset } from "./Datasets.ts"
import {
  type LoadColumn,
  makeRowInserter,
  type MergeCounts,
  mergeRows,
  readColumns,
  type RowBatch,
} from "./RowInserter.ts"
import { readRows } from "./FileReader.ts"
import {
  acquireLoadLock,
  createReplacementTable,
  createStagingTable,
  dropStagingTable,
  ensureUniqueKey,
  finishReplacementTable,
  swapTables,
} from "./TableSwap.ts"

/** Rows per statement. */
const batchSize = 5_000

/** What is to be loaded, and how. */
export interface LoadTask {
  /** The name of a table or of its endpoint. */
  readonly dataset: string
  readonly file: string
  /** Adds the file's rows to those of the table, and updates the rows whose key is known. */
  readonly append: boolean
  /** Checks the file to its last row, and changes nothing. */
  readonly check?: boolean
  /** Accepts a file without rows, which empties the table. */
  readonly allowEmpty?: boolean
  /** Runs as soon as the rows are committed, even if the load is interrupted at that moment. */
  readonly onCommit?: Effect.Effect<void>
}

/** What became of the rows of a file. */
interface Counts {
  /** Rows with different keys. */
  rows: number
  /** Rows that another row of the file repeats to the letter. */
  dropped: number
  /** Rows with the key of a later row of the file, which won (D22). */
  superseded: number
}

/** What became of a file's rows; `merged` after an append, `warning` if some can be loaded but not queried. */
export interface LoadResult extends Readonly<Counts> {
  readonly table: string
  readonly merged?: MergeCounts
  readonly warning: string | undefined
}

/** The first rows that can be loaded but not queried. */
interface Unreachable {
  readonly examples: Array<string>
  count: number
}

const mostExamples = 3

const warningOf = ({ count, examples }: Unreachable, { table }: Dataset) => {
  if (count === 0) return undefined
  const which = `${examples.join(", ")}${count > examples.length ? ", …" : ""}`
  return `Warning: ${formatCount(count, "row")} of ${table} with symbols of more than 6 characters ` +
    `(${which}). /v1/ticker-changes takes symbols of up to 6, so nobody can ask it for these.`
}

/** A file without rows: loading it by mistake would empty a table. */
export class NoRows extends Schema.TaggedError<NoRows>()("NoRows", { message: Schema.String }) {}

const noRows = Effect.fnUntraced(function* ({ table }: Dataset, { append, file }: LoadTask) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly count: number }>`
    select count(*)::int as count from ${sql("public")}.${sql(table)}
  `
  const count = found?.count ?? 0
  const rows = `${count.toLocaleString("en")} ${count === 1 ? "row" : "rows"}`
  const would = append ? "It would have added nothing." : `It would have removed all ${rows} of the table.`
  return yield* new NoRows({
    message: `${file} has no rows, so it was refused and ${table} is unchanged. ${would} ` +
      "If the file is right, add --allow-empty.",
  })
})

/** Streams the file into the target; the first bad rows end it. */
const fill = Effect.fnUntraced(
  function* (
    target: string,
    columns: ReadonlyArray<LoadColumn>,
    dataset: Dataset,
    task: LoadTask,
    progress: Ref.Ref<number>,
  ) {
    const watched = yield* Progress
    const insert = yield* makeRowInserter(target, columns, dataset)
    const { checkRow, wrongHeader } = makeRowChecker(dataset)
    const bad: Array<ReadonlyArray<RowError>> = []
    const counts: Counts = { rows: 0, dropped: 0, superseded: 0 }
    const unreachable: Unreachable = { examples: [], count: 0 }

    const note = (batch: RowBatch) => {
      for (const { cells, line } of batch) {
        const symbol = dataset.findUnreachableSymbol?.(cells)
        if (symbol === undefined) continue
        unreachable.count += 1
        if (unreachable.examples.length < mostExamples) unreachable.examples.push(`${symbol} in line ${line}`)
      }
    }

    const take = Effect.fnUntraced(
      function* ([batch, wrong]: readonly [RowBatch, ReadonlyArray<ReadonlyArray<RowError>>]) {
        bad.push(...wrong)
        // Once a row is bad nothing is inserted any more; reading goes on only to show what else is wrong.
        if (bad.length > 0 || batch.length === 0) return
        note(batch)
        const { added, dropped, superseded } = yield* insert(batch)
        counts.rows += added
        counts.dropped += dropped
        counts.superseded += superseded
        watched.count = counts.rows
        yield* Ref.set(progress, counts.rows)
      },
    )

    const lists = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
    yield* readRows(task.file, lists, wrongHeader).pipe(
      Stream.grouped(batchSize),
      Stream.map((rows) => Array.separate(rows.map(checkRow))),
      // The next rows are read and checked while PostgreSQL takes these.
      Stream.buffer({ capacity: 1 }),
      Stream.takeWhile(() => bad.length < maxBadRows),
      Stream.runForEach(take),
    )
    if (bad.length > 0) return yield* makeBadRowsError(task.file, dataset.table, bad)
    if (counts.rows === 0 && task.allowEmpty !== true) return yield* noRows(dataset, task)
    return { ...counts, warning: warningOf(unreachable, dataset) }
  },
)

/** Undoes a load that was only a check: the way out of a transaction without a commit. */
class Checked extends Data.TaggedError("Checked")<{ readonly loaded: LoadResult }> {}

/** Undoes a merge that changed nothing, so that it does not count as a change of the dataset (D17). */
class Unchanged extends Data.TaggedError("Unchanged")<{ readonly merged: MergeCounts }> {}

const nextStep = (name: string) =>
  Effect.map(Progress, (watched) => {
    Object.assign(watched, { label: `${watched.label}: ${name}`, done: 0, total: undefined, count: 0 })
  })

const replace = Effect.fnUntraced(function* (dataset: Dataset, task: LoadTask, progress: Ref.Ref<number>) {
  const { table } = dataset
  yield* createReplacementTable(table)
  yield* ensureUniqueKey(dataset)
  const counts = yield* fill(`loading.${table}`, yield* readColumns(`loading.${table}`), dataset, task, progress)
  if (task.check === true) return counts
  yield* nextStep("indexes")
  yield* finishReplacementTable(table)
  yield* swapTables(table)
  return counts
})

const append = Effect.fnUntraced(function* (dataset: Dataset, task: LoadTask, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const { table } = dataset
  const columns = yield* readColumns(`public.${table}`)
  yield* createStagingTable(table)
  yield* ensureUniqueKey(dataset)
  // Without the defaults, so that the merge can tell a cell that was left out.
  const bare = columns.map((column) => ({ ...column, default_value: null }))
  const counts = yield* fill(`loading.${table}`, bare, dataset, task, progress)
  yield* nextStep("merging")
  const merged = yield* mergeRows(`loading.${table}`, `public.${table}`, columns, dataset).pipe(
    Effect.filterOrFail(({ added, updated }) => added + updated > 0, (merged) => new Unchanged({ merged })),
    sql.withTransaction,
    Effect.catchTag("Unchanged", ({ merged }) => Effect.succeed(merged)),
  )
  yield* dropStagingTable(table)
  return { ...counts, merged }
})

/** Loads a file into a dataset. `progress` counts the rows that have arrived. */
export const loadFile = Effect.fnUntraced(function* (task: LoadTask, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const dataset = yield* getDataset(task.dataset)
  const { table } = dataset
  Object.assign(yield* Progress, { label: table, done: 0, total: undefined, count: 0, unit: "rows" })
  return yield* Effect.gen(function* () {
    yield* acquireLoadLock(table)
    if (task.onCommit !== undefined) yield* sql.afterCommit(task.onCommit)
    const counts = yield* (task.append ? append : replace)(dataset, task, progress)
    const loaded: LoadResult = { table, ...counts }
    return task.check === true ? yield* new Checked({ loaded }) : loaded
  }).pipe(
    sql.withTransaction,
    Effect.catchTag("Checked", ({ loaded }) => Effect.succeed(loaded)),
  )
})
