/**
 * Reads the rows of changes: the version that a transaction recorded, and the version that it replaced or removed. A
 * version that endpoints do not show is treated as nonexistent (`ShownRows.ts`).
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { compileStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import { rowOutputBuffer } from "../rows/OutputBuffer.ts"
import { makeJsonRowWriter, selectRecord } from "../rows/RowEncoder.ts"
import type { ChangeKind } from "../../contract/endpoints/changes.ts"
import { selectColumns, type ShownDataset, shownDatasets } from "./ShownRows.ts"

/** A change whose row values have not been read yet. */
export interface ChangeWithoutRows {
  /** The transaction's id in `history.transactions`. */
  readonly transaction: bigint
  /** The position of the change within the transaction. */
  readonly position: bigint
  /** The first day of a month. The partitions for this month contain the transaction's changes. */
  readonly month: string
  /** What happened to the row in its table, regardless of whether endpoints show it. */
  readonly kind: ChangeKind
  /** The cursor for continuing after this change. */
  readonly cursor: string
  /** The time of the change, formatted as in the API, with microseconds. */
  readonly recordedAt: string
}

/**
 * A change as clients see it. A row counts as added when endpoints start to show it, and as removed when they stop
 * showing it.
 */
export interface ShownChange {
  readonly kind: ChangeKind
  /** The row after the change. Undefined if endpoints do not show it. */
  readonly row: BinaryRecord | undefined
  /** The row before the change. Undefined if endpoints did not show it. */
  readonly before: BinaryRecord | undefined
  /** The columns whose values differ. Empty if the row was added or removed. */
  readonly changed: ReadonlyArray<string>
}

/** How late a row was corrected and which columns changed. */
export interface RowCorrection {
  /** The columns whose values differ, as in the feed's field `changed`. */
  readonly changed: ReadonlyArray<string>
  /**
   * Seconds between recording the replaced version and replacing it. Null if the history does not contain that version,
   * or begins after it was recorded.
   */
  readonly delaySeconds: number | null
}

/**
 * Creates the functions that read and encode one dataset's changes. `ShownDataset` says which of the dataset's rows and
 * columns endpoints show: `condition` selects the rows, `selection` is the SQL for the columns, `model` has their
 * schemas, and `key` names the columns that identify a row.
 *
 * `compile` builds the statement that reads the rows of some changes, and `compileWithDelay` the same with a further
 * column: how late the change was. All other functions take the values of one result row, as an array in the order of
 * the columns.
 *
 * In the SQL below, `change` is a row of `history.changes`, and `key` is a row of the dataset's table in which only the
 * key columns of the changed row are set. Versions of the row come from two tables: `public.TABLE` contains the current
 * version, and `history.TABLE` contains earlier versions. `recorded_in` is the transaction that recorded a version, and
 * `replaced_in` the one that replaced or removed it.
 */
const makeChangedRows = (
  sql: SqlClient.SqlClient,
  { condition, key, model, row, selection, table }: ShownDataset,
) => {
  const columns = Object.keys(model.json.fields)
  const keyModel = selectColumns([model], key)
  const writeKey = makeJsonRowWriter(keyModel, key)
  const writeRow = makeJsonRowWriter(model, columns)

  const hasNulls = (column: string) => Schema.is(row.fields[column] ?? Schema.Never)(null)
  /**
   * Returns the condition that a version has the key of the changed row. Columns that are never null are compared with
   * `=`, because `is not distinct from` cannot use an index.
   */
  const hasKey = (alias: string) =>
    key.map((column) => `${alias}."${column}" ${hasNulls(column) ? "is not distinct from" : "="} key."${column}"`)
      .join(" and ")
  /**
   * Returns the condition that a version's column contains this transaction. `coalesce` must be exactly the expression
   * in the history's indexes on key and transaction. With the plain column, the planner might use an index on the
   * transaction alone and read all rows of a large transaction.
   */
  const isTransaction = (column: string, transaction = "change.transaction") =>
    `coalesce(${column}, 0) = ${transaction}`

  /** Returns the condition that the transaction of the change recorded this version. */
  const isRecordedByChange = (alias: string) =>
    // If a row is in the feed because endpoints start to show it on this day, an earlier transaction recorded the row
    // (`change.version`).
    sql.literal(
      `${hasKey(alias)} and ${isTransaction(`${alias}.recorded_in`, "coalesce(change.version, change.transaction)")}`,
    )

  /** The condition that the transaction of the change replaced or removed this earlier version. */
  const isReplacedByChange = [
    hasKey("past"),
    isTransaction("past.replaced_in"),
    // Makes PostgreSQL read only one partition of the history.
    "past.replaced_month = change.month",
  ].join(" and ")

  const [currentTable, pastTable] = [sql.literal(`public."${table}"`), sql.literal(`history."${table}"`)]
  const values = sql.literal(selection)
  // `current_day` is the day for which the feed showed rows when the change was recorded: the last day that the feed
  // had started by then (`FeedDayStart.ts`). If `history.days` no longer has that row, the date of the change is used
  // instead.
  const currentDayJoin = sql.literal(`cross join lateral (
          select coalesce(
            (select day from history.days where days.recorded_at <= requested.recorded_at
              order by days.recorded_at desc limit 1),
            (requested.recorded_at at time zone 'America/Chicago')::date
          ) as day
        ) as current_day`)
  /**
   * Selects a version of the row, or null if endpoints did not show that version on the day of the change
   * (`FeedDayStart.ts`).
   */
  const version = condition === undefined
    ? values
    : sql`case when ${condition(sql, sql.literal("current_day.day"))} then ${values} end`

  /**
   * An SQL expression for how late a correction was: the seconds between recording the version that it replaced
   * (`past`) and the correction itself. If the transaction that recorded that version has been dropped, the delay is
   * counted from the earliest time in the history. The result is null if the history does not contain the replaced
   * version, or if that version is older than the history (`recorded_in` is then 0).
   */
  const delay = `(
    select extract(epoch from correction.recorded_at - coalesce(recorded.recorded_at, beginning.earliest))::float8
    from history."${table}" as past
    join history.transactions as correction on correction.id = change.transaction
    left join history.transactions as recorded on recorded.id = past.recorded_in
    cross join history.beginning
    where ${isReplacedByChange} and past.recorded_in > 0
  )`

  /**
   * Compiles the statement that reads the rows of some changes. It returns one row per change, in the order of the
   * changes; a change that the history no longer contains has no row. The columns are: the key, the version of the row
   * after and before the change, whether the history still contains each of these versions, and the expressions in
   * `more`.
   */
  const compileReader = (more: Statement.Fragment) =>
    compileStatement<ReadonlyArray<ChangeWithoutRows>>({
      isPrepared: true,
      build: (parameter) => {
        // Each array is passed through a subquery. Otherwise PostgreSQL would see the array's length and plan every
        // execution separately.
        const array = (read: (change: ChangeWithoutRows) => string) =>
          parameter((changes) => makeArrayParameter(changes.map(read), OID.text))
        // `after` is the version that the transaction recorded. It may be the current version, or may have been
        // replaced since then. `before` is the version that the transaction replaced or removed. `is_known` is null if
        // the history does not contain the version. `limit 1` guarantees that each change has only one result row.
        return sql`
        select ${sql.literal(selectRecord(keyModel, key, (column) => `key."${column}"`))},
          after.version, before.version, after.is_known, before.is_known${more}
        from unnest(
          (select ${array(({ transaction }) => String(transaction))}::text[]::bigint[]),
          (select ${array(({ position }) => String(position))}::text[]::bigint[]),
          (select ${array(({ month }) => month)}::text[]::date[]),
          (select ${array(({ recordedAt }) => recordedAt)}::text[]::timestamptz[])
        ) with ordinality as requested (transaction, position, month, recorded_at, number)
        join history.changes as change using (transaction, position, month)
        cross join lateral jsonb_populate_record(${sql.literal(`null::public."${table}"`)}, change.key) as key
        ${condition === undefined ? sql.literal("") : currentDayJoin}
        left join lateral (
          select true as is_known, version from (
            select ${version} as version from ${currentTable} as live where ${isRecordedByChange("live")}
            union all
            select ${version} from ${pastTable} as past where ${isRecordedByChange("past")}
          ) as versions limit 1
        ) as after on true
        left join lateral (
          select true as is_known, ${version} as version from ${pastTable} as past
          where ${sql.literal(isReplacedByChange)} limit 1
        ) as before on true
        order by number
      `
      },
    })

  /**
   * Returns whether one of the change's versions is missing from the history, according to the values selected by
   * `compile`. A removal has no version after it, and an addition has none before it.
   */
  const lacksRow = (
    { kind }: ChangeWithoutRows,
    // The first three columns are the key and the two versions.
    [, , , isAfterKnown, isBeforeKnown]: ReadonlyArray<unknown>,
  ) => (kind !== "removed" && isAfterKnown !== true) || (kind !== "added" && isBeforeKnown !== true)

  /**
   * Determines how clients see the change, from the values selected by `compile`. Returns "hidden" if they do not see
   * it at all: either endpoints show neither version of the row, or both versions have the same values in all columns
   * that endpoints show.
   */
  const interpret = (change: ChangeWithoutRows, values: ReadonlyArray<unknown>): ShownChange | "hidden" => {
    const { kind } = change
    const [, afterVersion, beforeVersion, isAfterKnown] = values
    const row = kind !== "removed" && afterVersion instanceof BinaryRecord ? afterVersion : undefined
    const before = kind !== "added" && beforeVersion instanceof BinaryRecord ? beforeVersion : undefined
    if (lacksRow(change, values)) {
      // Endpoints may have shown the missing version. If they do not show the row now although the new version is
      // known, clients must be told to remove the row.
      return { kind: row === undefined && isAfterKnown === true ? "removed" : kind, row, before, changed: [] }
    }
    if (row === undefined) return before === undefined ? "hidden" : { kind: "removed", row, before, changed: [] }
    if (before === undefined) return { kind: "added", row, before, changed: [] }
    const changed = columns.filter((_, index) => !row.hasSameField(before, index))
    return changed.length === 0 ? "hidden" : { kind: "corrected", row, before, changed }
  }

  const writeRecord = (write: typeof writeRow, record: unknown, position: number) =>
    record instanceof BinaryRecord ? write(record, position) : rowOutputBuffer.writeText("null", position)

  /** Encodes a change as JSON from the values selected by `compile`. */
  const encode = (
    { cursor, recordedAt }: ChangeWithoutRows,
    { before, changed, kind, row }: ShownChange,
    [keyRecord]: ReadonlyArray<unknown>,
  ): Uint8Array => {
    let end = rowOutputBuffer.writeText(
      `{"cursor":"${cursor}","recorded_at":"${recordedAt}","dataset":"${table}","kind":"${kind}","key":`,
      0,
    )
    end = rowOutputBuffer.writeText(`,"row":`, writeRecord(writeKey, keyRecord, end))
    end = rowOutputBuffer.writeText(`,"before":`, writeRecord(writeRow, row, end))
    end = writeRecord(writeRow, before, end)
    return rowOutputBuffer.take(rowOutputBuffer.writeText(`,"changed":${JSON.stringify(changed)}}`, end))
  }

  /** Describes a correction from the values selected by `compileWithDelay`. */
  const describeCorrection = ({ changed }: ShownChange, values: ReadonlyArray<unknown>): RowCorrection => {
    // `order by 6` sorts by the sixth selected column, `delay`.
    const seconds = values[5]
    return { changed, delaySeconds: typeof seconds === "number" ? seconds : null }
  }

  return {
    compile: compileReader(sql.literal("")),
    compileWithDelay: compileReader(sql.literal(`, ${delay}`)),
    interpret,
    lacksRow,
    encode,
    describeCorrection,
  }
}

/** Reads and encodes one dataset's changes. */
export type ChangedRowReader = ReturnType<typeof makeChangedRows>

/** Creates the reader for each dataset. The map's keys are the dataset names. */
export const makeChangedRowReaders = (sql: SqlClient.SqlClient) =>
  new Map<string, ChangedRowReader>(shownDatasets.map((dataset) => [dataset.table, makeChangedRows(sql, dataset)]))
