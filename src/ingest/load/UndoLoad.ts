/**
 * Replaces the rows of a dataset with those of an earlier moment, from the history. It is a load whose rows come from
 * the history instead of a file, so the change feed, `as_of` and the caches see it as any other load.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { describeDatasetChange } from "../../postgres/AuditLog.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import { requireDataset } from "../../contract/Datasets.ts"
import { BeforeLoadCommit } from "./Load.ts"
import * as Staging from "./LoadingTable.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"
import { parseAsOfTime } from "../../contract/rules/AsOfParameter.ts"
import { makeMomentSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { makePastConditions, makePastTable } from "../../query/history/PastTables.ts"

/** The rows of the moment cannot be restored. Nothing was changed. The message says why. */
export class UndoRefused extends Data.TaggedError("UndoRefused")<{ readonly message: string }> {}

/** Keys of rows, such as `(ABC,2026-03-02)`. Only the first few of them. */
export interface UndoExamples {
  readonly added: ReadonlyArray<string>
  readonly updated: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
}

/** What an undo changes. */
export interface UndoPreview {
  readonly table: string
  /** The moment whose rows the table gets, such as `2026-03-01T10:00:00.123456-05:00`. */
  readonly moment: string
  readonly counts: Staging.ReplacedRowCounts
  readonly examples: UndoExamples
}

export interface UndoTask {
  /** The name of a table or of its endpoint. */
  readonly dataset: string
  /** A date, which means the end of that day in New York, or a timestamp with an offset. */
  readonly to: string
  /** Decides whether the dataset is changed. If others change it while this runs, the undo is refused. */
  readonly confirm: (preview: UndoPreview) => Effect.Effect<boolean>
  /** Runs as soon as the change is committed, even if the undo is interrupted at that moment. */
  readonly onCommit: Effect.Effect<void>
}

const maxExamples = 5

const MomentRow = Schema.Struct({
  bound: Schema.String,
  month: Schema.String,
  earliest: Schema.String,
  is_early: Schema.Boolean,
})
const decodeMoment = decodeRows(MomentRow)

/** Parses a moment. Refuses a timestamp without an offset, because it has several meanings. */
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

/** Resolves the moment to the transactions that had committed by then. Fails if the history does not contain it. */
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
  // Waits for the transactions that got an earlier time but whose commits are not visible yet.
  yield* sql`select pg_advisory_lock_shared(7101886)`
  yield* sql`select pg_advisory_unlock_shared(7101886)`
  const [found] = yield* decodeMoment(sql.unsafe(
    `select coalesce((
        select highest_id from history.transactions
        where recorded_at <= $1::text::timestamptz order by recorded_at desc limit 1
      ), 0)::text as bound,
      coalesce((
        select min(month) from history.transactions where recorded_at > $1::text::timestamptz
      ), '-infinity')::text as month,
      ${makeMomentSql("earliest")} as earliest, earliest > $1::text::timestamptz as is_early
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
  return { moment, bound, month, running: undefined, isPopular: false }
})

/** Fills the staging table with the rows of the moment. */
const stagePastRows = Effect.fnUntraced(
  function* ({ columns, dataset: { table }, source }: Staging.StagedRows, moment: string) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => `"${name}"`).join(", ")
    const past = makePastTable(
      { table, columns: names, has_few_rows: false, has_few_versions: false },
      makePastConditions(yield* resolveMoment(moment)),
    )
    yield* sql.unsafe(`with ${past} insert into ${source} (${names}) select ${names} from ${table}`)
    yield* Staging.analyzeTable(source)
  },
)

/** Fails the transaction of an undo that nobody confirmed, so that it is rolled back. */
class UndoDeclined extends Data.TaggedError("UndoDeclined")<{ readonly preview: UndoPreview }> {}

/** Returns the time of the last transaction that changed the dataset; undefined if there is none. */
const readLastChange = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const [last] = yield* decodeRows(Schema.Struct({ recorded_at: Schema.String }))(sql`
    select recorded_at::text from history.transactions
    where recorded_at is not null and changes ? ${table} order by history.transactions.recorded_at desc limit 1
  `)
  return last?.recorded_at
})

const explainForbiddenRows = Effect.fnUntraced(function* (moment: string, error: SqlError.SqlError) {
  if (!isCheckViolation(error)) return yield* Effect.fail(error)
  return yield* new UndoRefused({
    message: `The rows at ${moment} violate a rule that the table has now, so nothing was changed: ${
      describeSqlError(error)
    }.`,
  })
})

/**
 * Removes the sums of the bars whose closes are about to be replaced, because later ingests of prices would read the
 * wrong closes from them. The history has no earlier sums, so the days must be ingested again.
 */
const forgetBars = Effect.fnUntraced(function* ({ source }: Staging.StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(
    `delete from price_periods as known
    using (select ticker, date, close from daily_prices except select ticker, date, close from ${source}) as undone
    where known.ticker = undone.ticker and known.date = undone.date`,
  )
})

/**
 * Replaces the rows of a dataset with those of an earlier moment, in one transaction, if the preview is confirmed.
 * Returns the preview, and whether the dataset was changed.
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
    const created = yield* Staging.createStagingTable(dataset, false)
    // Without defaults, null in a row of the history stays null.
    const staged = { ...created, columns: created.columns.map((column) => ({ ...column, default_value: null })) }
    yield* stagePastRows(staged, moment)
    // Read before the rows, so that a change in between is noticed.
    const lastChange = yield* readLastChange(table)
    const counts = yield* Staging.countReplacement(staged, [])
    const preview: UndoPreview = {
      table,
      moment,
      counts,
      examples: yield* Staging.findReplacedKeys(staged, maxExamples),
    }
    const changes = counts.added + counts.updated + counts.removed
    if (changes === 0 || !(yield* confirm(preview))) return yield* new UndoDeclined({ preview })
    Object.assign(progress, { label: `${table}: replacing rows` })
    yield* Staging.lockTableAgainstWriters(staged)
    if ((yield* readLastChange(table)) !== lastChange) {
      return yield* new UndoRefused({
        message: `Other programs have changed ${table} meanwhile, so nothing was changed. Run the command again.`,
      })
    }
    yield* describeDatasetChange({ undone_to: moment })
    if (table === "daily_prices") yield* forgetBars(staged)
    yield* Staging.deleteRemovedRows(staged)
    yield* Staging.mergeStagedRows(staged, { hidden: [], omitted: [], isAppend: false })
    if (changes > (counts.unchanged + counts.updated + counts.added) / 10) yield* Staging.analyzeTable(staged.target)
    yield* Staging.dropStagingTable(staged)
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
  /** The last moment before the change. */
  before: PrintedTime,
  recorded_at: PrintedTime,
  added: Schema.Number,
  corrected: Schema.Number,
  removed: Schema.Number,
})
const decodeChanges = decodeRows(RecordedChange)

/** Lists the newest transactions that changed a dataset, newest first, to find the moment before a bad load. */
export const listRecentChanges = Effect.fnUntraced(function* (name: string, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const { table } = yield* requireDataset(name)
  return yield* decodeChanges(sql.unsafe(
    `select ${makeMomentSql("recorded_at - interval '1 microsecond'")} as before,
      ${makeMomentSql("recorded_at")} as recorded_at,
      coalesce((changes -> $1 ->> 'added')::int, 0) as added,
      coalesce((changes -> $1 ->> 'corrected')::int, 0) as corrected,
      coalesce((changes -> $1 ->> 'removed')::int, 0) as removed
    from history.transactions where recorded_at is not null and changes ? $1
    order by recorded_at desc limit ${limit}`,
    [table],
  ))
})
