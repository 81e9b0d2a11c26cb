/**
 * D31: a file replaces a dataset's rows, or is added to them: all of it or nothing. A replacement is built beside the
 * table, in the schema `loading`, and takes its place in one moment; readers see the old rows until then.
 */
import { Array, Data, Effect, Ref, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Progress } from "../terminal/Progress.ts"
import { type BadRow, checker, mostBadRows, refused } from "./Check.ts"
import { type Dataset, datasetNamed } from "./Datasets.ts"
import { type Batch, columnsOf, inserter, repeatsIn } from "./Insert.ts"
import { read } from "./Rows.ts"
import { alone, finish, prepare, swap } from "./Swap.ts"

/** Rows a statement. */
const batchSize = 5_000

interface Counts {
  rows: number
  /** Rows that repeated another and were left out (D22). */
  dropped: number
}

class Repeats extends Schema.TaggedError<Repeats>()("Repeats", {}) {}

/** Streams the file into the target; the first bad rows end it. */
const fill = Effect.fnUntraced(function* (target: string, dataset: Dataset, path: string, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const watched = yield* Progress
  const columns = yield* columnsOf(target)
  const insert = yield* inserter(target, columns)
  const { checkRow, wrongHeader } = checker(dataset)
  const bad: Array<ReadonlyArray<BadRow>> = []
  const counts: Counts = { rows: 0, dropped: 0 }

  const insertBatch = Effect.fnUntraced(function* (batch: Batch) {
    const inserted = yield* insert(batch)
    if (inserted < batch.length && dataset.repeats === "refused") return yield* new Repeats()
    counts.rows += inserted
    counts.dropped += batch.length - inserted
    watched.count = counts.rows
    yield* Ref.set(progress, counts.rows)
  })

  const take = Effect.fnUntraced(function* ([batch, wrong]: readonly [Batch, ReadonlyArray<ReadonlyArray<BadRow>>]) {
    bad.push(...wrong)
    // Once a row is bad nothing is inserted any more; reading goes on only to show what else is wrong.
    if (bad.length > 0) return
    yield* sql.withTransaction(insertBatch(batch)).pipe(
      Effect.catchTag(
        "Repeats",
        () => Effect.map(repeatsIn(target, dataset, batch), (found) => bad.push(...found.map((one) => [one]))),
      ),
    )
  })

  const lists = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
  yield* read(path, lists, wrongHeader).pipe(
    Stream.grouped(batchSize),
    Stream.map((rows) => Array.separate(rows.map(checkRow))),
    // The next rows are read and checked while PostgreSQL takes these.
    Stream.buffer({ capacity: 1 }),
    Stream.takeWhile(() => bad.length < mostBadRows),
    Stream.runForEach(take),
  )
  if (bad.length > 0) return yield* refused(path, dataset.table, bad)
  return counts
})

/** Undoes a load that was only a check; not an error, but the one way out of a transaction without a commit. */
class Rehearsal extends Data.TaggedError("Rehearsal")<{ readonly counts: Counts }> {}

const replace = Effect.fnUntraced(function* (dataset: Dataset, { check, file }: Task, progress: Ref.Ref<number>) {
  const { table } = dataset
  yield* prepare(table)
  const counts = yield* fill(`loading.${table}`, dataset, file, progress)
  if (check === true) return counts
  const watched = yield* Progress
  Object.assign(watched, { label: `${watched.label}: indexes`, done: 0, total: undefined, count: 0 })
  yield* finish(table)
  yield* swap(table)
  return counts
})

/** What is to be loaded, and how. */
export interface Task {
  /** The name of a table or of its endpoint. */
  readonly dataset: string
  readonly file: string
  /** Adds to the rows that are there instead of replacing them. */
  readonly append: boolean
  /** Only checks, to the last row, and leaves everything as it was. */
  readonly check?: boolean
}

/** Loads a file into a dataset. `progress` counts the rows that have arrived. */
export const load = Effect.fnUntraced(function* (task: Task, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const dataset = yield* datasetNamed(task.dataset)
  Object.assign(yield* Progress, { label: dataset.table, done: 0, total: undefined, count: 0, unit: "rows" })
  const counts = yield* alone(dataset.table).pipe(
    Effect.andThen(
      task.append ? fill(`public.${dataset.table}`, dataset, task.file, progress) : replace(dataset, task, progress),
    ),
    Effect.flatMap((counts) => task.check === true ? Effect.fail(new Rehearsal({ counts })) : Effect.succeed(counts)),
    sql.withTransaction,
    Effect.catchTag("Rehearsal", ({ counts }) => Effect.succeed(counts)),
  )
  return { table: dataset.table, ...counts }
})
