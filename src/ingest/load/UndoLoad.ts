/**
 * Undoes loads (`docs/operations/history.md`) by restoring the rows that a dataset had at an earlier time. An undo is a
 * load whose rows come from the history instead of a file. The change feed, `as_of` and the caches treat it like any
 * other load.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { describeDatasetChange } from "../../postgres/AuditLog.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import { type LoadableDataset, requireDataset } from "../../contract/Datasets.ts"
import { BeforeLoadCommit } from "./DatasetLoad.ts"
import * as Staging from "./LoadingTable.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { parseAsOfTime } from "../../contract/rules/AsOfParameter.ts"
import { makeHistoryTimestampSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { makePastConditions, makePastTable } from "../../query/history/PastTables.ts"

/** The rows cannot be restored, so nothing was changed. The message explains why. */
export class UndoRefused extends Data.TaggedError("UndoRefused")<{ readonly message: string }> {}

/** Keys of the first rows that an undo adds, updates and removes, such as `(ABC,2026-03-02)`. */
export interface UndoExamples {
  readonly added: ReadonlyArray<string>
  readonly updated: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
}

/** The changes that an undo would make. A person confirms them. */
export interface UndoPreview {
  readonly table: string
  /** The time whose rows are restored, such as `2026-03-01T10:00:00.123456-05:00`. */
  readonly moment: string
  readonly counts: Staging.ReplacedRowCounts
  readonly examples: UndoExamples
}

/** An undo, with the callbacks of the command that runs it. */
export interface UndoTask {
  /** The name of a table or of its endpoint. */
  readonly dataset: string
  /** A date, which means the end of that day in New York, or a timestamp with an offset. */
  readonly to: string
  /**
   * Decides whether to change the dataset. If the dataset changes before this effect completes, the undo is refused.
   */
  readonly confirm: (preview: UndoPreview) => Effect.Effect<boolean>
  /** Runs right after the commit, even if the undo is interrupted at that moment. */
  readonly onCommit: Effect.Effect<void>
}

/** The maximum number of keys in each list of `UndoExamples`. */
const maxExamples = 5

/**
 * The id of the advisory lock that `24_history.sql` takes when it assigns a transaction's time in the history. The lock
 * is released when the transaction commits.
 */
const recordingLock = "7101886"

const MomentRow = Schema.Struct({
  bound: Schema.String,
  month: Schema.String,
  earliest: Schema.String,
  is_early: Schema.Boolean,
})
const decodeMoment = decodeRows(MomentRow)

/**
 * Parses the time to which the dataset is restored. Rejects a timestamp without an offset, because its time zone would
 * be unknown.
 */
const requireMoment = (to: string) => {
  const moment = parseAsOfTime(to)
  return moment === undefined
    ? Effect.fail(
      new UndoRefused({
        message:
          `"${to}" is not a moment. Expected a date, which means the end of that day in New York, or a timestamp ` +
          "with an offset and at most six decimals, such as 2026-03-02T09:30:00-05:00.",
      }),
    )
    : Effect.succeed(moment)
}

/**
 * Returns the values with which `makePastConditions` selects the rows that were visible at the given time: the highest
 * transaction id that had been assigned by then (`bound`; 0 if the history has no earlier transaction), and the first
 * month of the history with rows that were replaced later (`month`). Fails if the time is in the future or before the
 * start of the history.
 */
const resolveMoment = Effect.fnUntraced(function* (moment: string) {
  const sql = yield* SqlClient.SqlClient
  const [clock] = yield* decodeRows(Schema.Struct({ is_future: Schema.Boolean }))(sql`
    select ${moment}::text::timestamptz > clock_timestamp() as is_future
  `)
  if (clock?.is_future !== false) {
    return yield* new UndoRefused({
      message: `The moment ${moment} is in the future. A date means the end of that day in New York: use an earlier ` +
        "date or a timestamp.",
    })
  }
  // Waits for transactions that already have a time, which may be before `moment`, but have not committed yet. They
  // hold the lock until the commit. This connection releases it immediately, because transactions that begin now get a
  // later time.
  yield* sql.unsafe(`select pg_advisory_lock_shared(${recordingLock})`)
  yield* sql.unsafe(`select pg_advisory_unlock_shared(${recordingLock})`)
  const [found] = yield* decodeMoment(sql.unsafe(
    `select coalesce((
        select highest_id from history.transactions
        where recorded_at <= $1::text::timestamptz order by recorded_at desc limit 1
      ), 0)::text as bound,
      coalesce((
        select min(month) from history.transactions where recorded_at > $1::text::timestamptz
      ), '-infinity')::text as month,
      ${makeHistoryTimestampSql("earliest")} as earliest, earliest > $1::text::timestamptz as is_early
    from history.beginning`,
    [moment],
  ))
  const { bound, earliest, is_early, month } = yield* Effect.orDie(Effect.fromNullishOr(found))
  if (is_early) {
    return yield* new UndoRefused({
      message:
        `The moment ${moment} is too early: the history begins at ${earliest}. Use a backup or the original files.`,
    })
  }
  // If `running` is undefined, the statement itself looks up which transactions were running at that moment.
  // `isPopular` is false, so that no statement is prepared for a moment that is needed only once.
  return { timestamp: moment, bound, month, running: undefined, isPopular: false }
})

/** Fills the staging table with the rows that the dataset had at the given time. */
const stagePastRows = Effect.fnUntraced(
  function* ({ columns, dataset: { table }, source }: Staging.StagedRows, moment: string) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => `"${name}"`).join(", ")
    // A common table expression with the name of the table, so that the statement reads the earlier rows instead.
    const pastTable = makePastTable(
      { table, columns: names, has_few_rows: false, has_few_versions: false },
      makePastConditions(yield* resolveMoment(moment)),
    )
    yield* sql.unsafe(`with ${pastTable} insert into ${source} (${names}) select ${names} from ${table}`)
    yield* Staging.analyzeTable(source)
  },
)

/** The error that rolls back the transaction of an undo that would change nothing or was not confirmed. */
class UndoDeclined extends Data.TaggedError("UndoDeclined")<{ readonly preview: UndoPreview }> {}

/**
 * Returns the time of the dataset's last change, as text that is compared for equality. Returns undefined if the
 * history contains no change to the dataset.
 */
const readLastChange = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const [last] = yield* decodeRows(Schema.Struct({ recorded_at: Schema.String }))(sql`
    select recorded_at::text from history.transactions
    where recorded_at is not null and changes ? ${table} order by history.transactions.recorded_at desc limit 1
  `)
  return last?.recorded_at
})

/**
 * Explains a CHECK violation. It means that a constraint was added to the table after `moment`, and that the old rows
 * violate it.
 */
const explainForbiddenRows = Effect.fnUntraced(function* (moment: string, error: SqlError.SqlError) {
  if (!isCheckViolation(error)) return yield* Effect.fail(error)
  return yield* new UndoRefused({
    message: `The rows at ${moment} violate a rule that the table has now, so nothing was changed: ${
      describeSqlError(error)
    }.`,
  })
})

/**
 * Deletes the totals of price bars (`price_periods`) for the symbols and days whose closes in `daily_prices` are about
 * to be replaced or removed. Otherwise, the next price ingest would compute the undone closes from these totals again.
 * `price_periods` has no history, so the earlier totals cannot be restored, and prices for these days must be ingested
 * again.
 */
const deleteReplacedBarTotals = Effect.fnUntraced(function* ({ source }: Staging.StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(
    `delete from price_periods as known
    -- The closes that the table has now and that the earlier rows, in the staging table, do not have.
    using (select ticker, date, close from daily_prices except select ticker, date, close from ${source}) as undone
    where known.ticker = undone.ticker and known.date = undone.date`,
  )
})

/** An undo whose rows have been staged. */
interface StagedUndo {
  readonly staged: Staging.StagedRows
  readonly preview: UndoPreview
  /** The time of the last change before the preview. */
  readonly lastChange: string | undefined
}

/**
 * Stages the rows that the dataset had at the given time, and determines what restoring them would change. Returns the
 * staging table, the preview of the changes, and the time of the dataset's last change.
 */
const stageUndo = Effect.fnUntraced(function* (dataset: LoadableDataset, moment: string) {
  const { table } = dataset
  const created = yield* Staging.createStagingTable(dataset, false)
  // A merge would replace null with the column's default. Without defaults, a null from the history stays null.
  const staged = { ...created, columns: created.columns.map((column) => ({ ...column, default_value: null })) }
  yield* stagePastRows(staged, moment)
  // Read before the rows are compared, so that a change in between is detected.
  const lastChange = yield* readLastChange(table)
  const counts = yield* Staging.countReplacement(staged, [])
  const examples = yield* Staging.findReplacedKeys(staged, maxExamples)
  const undo: StagedUndo = { staged, preview: { table, moment, counts, examples }, lastChange }
  return undo
})

/** Returns the number of rows that an undo would add, update or remove. */
const countChanges = ({ counts: { added, removed, updated } }: UndoPreview) => added + updated + removed

/**
 * Replaces the rows of the dataset with the staged rows. Fails if another program has changed the dataset since the
 * preview.
 */
const replaceRows = Effect.fnUntraced(function* ({ lastChange, preview, staged }: StagedUndo) {
  const { counts, moment, table } = preview
  yield* Staging.lockTableAgainstWriters(staged)
  if ((yield* readLastChange(table)) !== lastChange) {
    return yield* new UndoRefused({
      message: `Other programs have changed ${table} in the meantime, so nothing was changed. Run the command again.`,
    })
  }
  yield* describeDatasetChange({ undone_to: moment })
  if (table === "daily_prices") yield* deleteReplacedBarTotals(staged)
  yield* Staging.deleteRemovedRows(staged)
  yield* Staging.mergeStagedRows(staged, { hidden: [], omitted: [], isAppend: false })
  const rows = counts.unchanged + counts.updated + counts.added
  // After a small number of changes, autovacuum decides when to analyze the table.
  if (countChanges(preview) > rows / 10) yield* Staging.analyzeTable(staged.target)
  yield* Staging.dropStagingTable(staged)
})

/**
 * Restores the rows that a dataset had at an earlier time, in one transaction, if `confirm` returns true for the
 * preview of the changes. Returns the preview, and whether the dataset was changed (`isChanged`). If the dataset
 * already has these rows, nothing is changed, and `confirm` is not called. Fails with `UndoRefused` if the rows cannot
 * be restored.
 */
export const undoLoad = Effect.fnUntraced(function* ({ confirm, dataset: name, onCommit, to }: UndoTask) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  const dataset = yield* requireDataset(name)
  const { table } = dataset
  const moment = yield* requireMoment(to)
  Object.assign(progress, { label: `${table}: reading the history`, done: 0, total: undefined, count: 0 })
  return yield* Effect.gen(function* () {
    yield* Staging.acquireTableLoadLocks([table])
    const undo = yield* stageUndo(dataset, moment)
    const { preview } = undo
    // The error rolls back the transaction, which has only staged the rows.
    if (countChanges(preview) === 0 || !(yield* confirm(preview))) return yield* new UndoDeclined({ preview })
    Object.assign(progress, { label: `${table}: replacing rows` })
    yield* replaceRows(undo)
    // Gets the effect that the process has set to run at the end of each load, and runs it.
    yield* yield* BeforeLoadCommit
    yield* sql.afterCommit(onCommit)
    return { preview, isChanged: true }
  }).pipe(
    sql.withTransaction,
    Effect.catchTag("UndoDeclined", ({ preview }) => Effect.succeed({ preview, isChanged: false })),
    Effect.catchTag("SqlError", (error) => explainForbiddenRows(moment, error)),
  )
})

const RecordedChange = Schema.Struct({
  /** The last time before the change. It can be passed to `undoLoad`. */
  before: PrintedTime,
  recorded_at: PrintedTime,
  added: Schema.Number,
  corrected: Schema.Number,
  removed: Schema.Number,
})
const decodeChanges = decodeRows(RecordedChange)

/**
 * Returns the last `limit` transactions that changed a dataset, newest first, with the number of rows that each added,
 * corrected and removed. `before` is the last microsecond before the transaction. Operators use this list to find the
 * time to which a bad load must be undone.
 */
export const listRecentChanges = Effect.fnUntraced(function* (name: string, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const { table } = yield* requireDataset(name)
  return yield* decodeChanges(sql.unsafe(
    `select ${makeHistoryTimestampSql("recorded_at - interval '1 microsecond'")} as before,
      ${makeHistoryTimestampSql("recorded_at")} as recorded_at,
      coalesce((changes -> $1 ->> 'added')::int, 0) as added,
      coalesce((changes -> $1 ->> 'corrected')::int, 0) as corrected,
      coalesce((changes -> $1 ->> 'removed')::int, 0) as removed
    from history.transactions where recorded_at is not null and changes ? $1
    order by recorded_at desc limit ${limit}`,
    [table],
  ))
})
