/**
 * D31: a file replaces a dataset's rows, or is added to them: all of it or nothing. A replacement is built beside the
 * table, in the schema `loading`, and takes its place in one moment; readers see the old rows until then.
 */
import { PgTypes } from "@effect/sql-pg"
import { Array, Console, Data, Effect, Ref, Result, Schedule, Schema, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { type BadRow, type Checked, checker, mostBadRows, refused } from "./Check.ts"
import { type Cells, type Dataset, datasets, find } from "./Datasets.ts"
import { read } from "./Rows.ts"

/** Rows a statement; measured: more gain nothing, fewer cost round trips. */
const batchSize = 5_000

/** For how long the swap may stand in line for the table before it steps back and lets readers pass. */
const swapPatience = "100ms"

export class UnknownDataset
  extends Schema.TaggedError<UnknownDataset>()("UnknownDataset", { message: Schema.String }) {}

interface Column {
  readonly name: string
  readonly type: string
  readonly is_list: boolean
  readonly default_value: string | null
}

/** What PostgreSQL says of the table, which is the one place that knows. */
const columnsOf = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Column>`
    select attname as name, format_type(atttypid, atttypmod) as type, atttypid::regtype::text like '%[]' as is_list,
      pg_get_expr(adbin, adrelid) as default_value
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
    order by attnum
  `
})

interface Counts {
  rows: number
  /** Rows that repeated another and were left out (D22). */
  dropped: number
}

type Batch = ReadonlyArray<Checked>

const cellText = (cell: Cells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const texts = (batch: Batch, column: string) =>
  Result.getOrThrow(PgTypes.array(batch.map(({ cells }) => cellText(cells[column])), PgTypes.OID.text))

/** `insert … select … from unnest(…)`: one array a column, converted by PostgreSQL to the column's own type. */
const inserter = Effect.fnUntraced(function* (target: string, columns: ReadonlyArray<Column>) {
  const sql = yield* SqlClient.SqlClient
  const names = columns.map(({ name }) => `"${name}"`).join(", ")
  const values = columns.map(({ default_value, is_list, name, type }) => {
    const value = is_list
      ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
      : `"${name}"::${type}`
    return default_value === null ? value : `coalesce(${value}, ${default_value})`
  }).join(", ")
  const arrays = columns.map((_, at) => `$${at + 1}::text[]`).join(", ")
  const statement = `with inserted as (
    insert into ${target} (${names}) select ${values} from unnest(${arrays}) as r(${names})
    on conflict do nothing returning 1
  ) select count(*)::int as count from inserted`
  return Effect.fnUntraced(function* (batch: Batch) {
    const parameters = columns.map(({ name }) => texts(batch, name))
    const [row] = yield* sql.unsafe<{ readonly count: number }>(statement, parameters)
    return row?.count ?? 0
  })
})

class Repeats extends Schema.TaggedError<Repeats>()("Repeats", {}) {}

/** The rows of a batch whose key the table has already, or that share one among themselves. */
const repeatsIn = Effect.fnUntraced(function* (target: string, { key }: Dataset, batch: Batch) {
  const sql = yield* SqlClient.SqlClient
  const keyOf = (cells: Cells) => JSON.stringify(key.map((column) => cells[column] ?? null))
  const columns = key.map((column) => `"${column}"::text`).join(", ")
  const arrays = key.map((_, at) => `$${at + 1}::text[]`).join(", ")
  const present = yield* sql.unsafe<{ readonly key: string }>(
    `select jsonb_build_array(${columns})::text as key from ${target}
     where (${columns}) in (select * from unnest(${arrays}))`,
    key.map((column) => texts(batch, column)),
  )
  const seen = new Set(present.map((row) => JSON.stringify(JSON.parse(row.key))))
  return batch.flatMap(({ cells, line }): ReadonlyArray<BadRow> => {
    const own = keyOf(cells)
    if (seen.has(own)) return [{ line, column: key.join(", "), reason: "repeats a row that is already there" }]
    seen.add(own)
    return []
  })
})

/** Streams the file into the target; the first bad rows end it. */
const fill = Effect.fnUntraced(function* (target: string, dataset: Dataset, path: string, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const columns = yield* columnsOf(target)
  const insert = yield* inserter(target, columns)
  const check = checker(dataset)
  const bad: BadRow[] = []
  const counts: Counts = { rows: 0, dropped: 0 }

  const insertBatch = Effect.fnUntraced(function* (batch: Batch) {
    const inserted = yield* insert(batch)
    if (inserted < batch.length && dataset.repeats === "refused") return yield* new Repeats()
    counts.rows += inserted
    counts.dropped += batch.length - inserted
    yield* Ref.set(progress, counts.rows)
  })

  const take = Effect.fnUntraced(function* ([batch, wrong]: readonly [Batch, ReadonlyArray<ReadonlyArray<BadRow>>]) {
    bad.push(...wrong.flat())
    // Once a row is bad nothing is inserted any more; reading goes on only to show what else is wrong.
    if (bad.length > 0) return
    yield* sql.withTransaction(insertBatch(batch)).pipe(
      Effect.catchTag("Repeats", () => Effect.map(repeatsIn(target, dataset, batch), (found) => bad.push(...found))),
    )
  })

  const lists = new Set(columns.filter(({ is_list }) => is_list).map(({ name }) => name))
  yield* read(path, lists).pipe(
    Stream.grouped(batchSize),
    Stream.map((rows) => Array.separate(rows.map(check))),
    // The next rows are read and checked while PostgreSQL takes these.
    Stream.buffer({ capacity: 1 }),
    Stream.takeWhile(() => bad.length < mostBadRows),
    Stream.runForEach(take),
  )
  if (bad.length > 0) return yield* refused(path, dataset.table, bad)
  return counts
})

const isLockTimeout = (error: unknown) => SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** Waits its turn in short looks, so that it never holds up the readers behind it for longer than one look. */
const swap = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`set local lock_timeout = '${swapPatience}'`)
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`drop table ${sql("public")}.${sql(table)}`
    yield* sql`alter table ${sql("loading")}.${sql(table)} set schema public`
  })).pipe(Effect.retry({ while: isLockTimeout, schedule: Schedule.spaced("50 millis"), times: 600 }))
})

/** One load of a table at a time; a second one waits. The session's limits are for readers. */
const alone = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  const [first] = yield* sql<
    { readonly free: boolean }
  >`select pg_try_advisory_xact_lock(hashtext(${`load ${table}`})) as free`
  if (first?.free === true) return
  yield* Console.error(`Another load of ${table} is running; waiting for it.`)
  yield* sql`select pg_advisory_xact_lock(hashtext(${`load ${table}`}))`
})

/** Undoes a load that was only a check; not an error, but the one way out of a transaction without a commit. */
class Rehearsal extends Data.TaggedError("Rehearsal")<{ readonly counts: Counts }> {}

const replace = Effect.fnUntraced(function* (dataset: Dataset, { check, file }: Task, progress: Ref.Ref<number>) {
  const sql = yield* SqlClient.SqlClient
  const { table } = dataset
  yield* sql`create table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)} including all)`
  const counts = yield* fill(`loading.${table}`, dataset, file, progress)
  if (check === true) return counts
  yield* sql`analyze ${sql("loading")}.${sql(table)}`
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
  const dataset = find(task.dataset)
  if (dataset === undefined) {
    const known = datasets.map(({ table }) => table).join(", ")
    return yield* new UnknownDataset({ message: `There is no dataset ${task.dataset}. There are: ${known}.` })
  }
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
