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
  readonly row: BinaryRecord | undefined
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

/** Creates the functions that read and encode one dataset's changes. */
const makeChangedRows = (
  sql: SqlClient.SqlClient,
  { condition, key, model, row, selection, table }: ShownDataset,
) => {
  const columns = Object.keys(model.json.fields)
  const keyModel = selectColumns([model], key)
  const writeKey = makeJsonRowWriter(keyModel, key)
  const writeRow = makeJsonRowWriter(model, columns)

  const isNullable = (column: string) => Schema.is(row.fields[column] ?? Schema.Never)(null)
  // Columns that are never null are compared with `=`, because `is not distinct from` cannot use an index.
  const hasKey = (alias: string) =>
    key.map((column) => `${alias}."${column}" ${isNullable(column) ? "is not distinct from" : "="} key."${column}"`)
      .join(" and ")
  // This must be exactly the expression in the history's indexes on key and transaction. With the plain column, the
  // planner might use an index on the transaction alone and read all rows of a large transaction.
  const isOf = (column: string, transaction = "change.transaction") => `coalesce(${column}, 0) = ${transaction}`

  const isRecorded = (alias: string) =>
    // If a row is in the feed because endpoints start to show it on this day, an earlier transaction recorded the row
    // (`change.version`).
    sql.literal(
      `${hasKey(alias)} and ${isOf(`${alias}.recorded_in`, "coalesce(change.version, change.transaction)")}`,
    )
  const isEnded = `${hasKey("past")} and ${isOf("past.replaced_in")} and past.replaced_month = change.month`

  const values = sql.literal(selection)
  // The current day is the last day that the feed had started when the change was recorded. If `history.days` no longer
  // has that row, the date of the change is used instead.
  const currentDay = sql.literal(`cross join lateral (
          select coalesce(
            (select day from history.days where days.recorded_at <= requested.recorded_at
              order by days.recorded_at desc limit 1),
            (requested.recorded_at at time zone 'America/Chicago')::date
          ) as day
        ) as current_day`)
  /**
   * Selects a version of the row, or null if endpoints did not show that version on the day of the change
   * (`DayStart.ts`).
   */
  const version = condition === undefined
    ? values
    : sql`case when ${condition(sql, sql.literal("current_day.day"))} then ${values} end`

  /**
   * An SQL expression for how late a correction was, in seconds. If the transaction that recorded the replaced row has
   * been dropped, the delay is counted from the earliest time in the history.
   */
  const delay = `(
    select extract(epoch from ended.recorded_at - coalesce(recorded.recorded_at, beginning.earliest))::float8
    from history."${table}" as past
    join history.transactions as ended on ended.id = change.transaction
    left join history.transactions as recorded on recorded.id = past.recorded_in
    cross join history.beginning
    where ${isEnded} and past.recorded_in > 0
  )`

  /**
   * Compiles the statement that selects the following for each change: the key, the row before and after the change,
   * whether the history still contains these rows, and the expressions in `more`.
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
        // the history does not contain the version.
        return sql`
        select ${sql.literal(selectRecord(keyModel, key, (column) => `key."${column}"`))},
          after.version, before.version, after.is_known, before.is_known${more}
        from unnest(
          (select ${array(({ transaction }) => String(transaction))}::text[]::bigint[]),
          (select ${array(({ position }) => String(position))}::text[]::bigint[]),
          (select ${array(({ month }) => month)}::text[]::date[]),
          (select ${array(({ recordedAt }) => recordedAt)}::text[]::timestamptz[])
        ) with ordinality as requested (transaction, position, month, recorded_at, place)
        join history.changes as change using (transaction, position, month)
        cross join lateral jsonb_populate_record(${sql.literal(`null::public."${table}"`)}, change.key) as key
        ${condition === undefined ? sql.literal("") : currentDay}
        left join lateral (
          select true as is_known, version from (
            select ${version} as version from ${sql.literal(`public."${table}"`)} as live where ${isRecorded("live")}
            union all
            select ${version} from ${sql.literal(`history."${table}"`)} as past where ${isRecorded("past")}
          ) as versions limit 1
        ) as after on true
        left join lateral (
          select true as is_known, ${version} as version from ${sql.literal(`history."${table}"`)} as past
          where ${sql.literal(isEnded)} limit 1
        ) as before on true
        order by place
      `
      },
    })

  /**
   * Returns whether one of the change's rows is missing from the history, according to the values selected by
   * `compile`.
   */
  const lacksRow = (
    { kind }: ChangeWithoutRows,
    [, , , isAfterKnown, isBeforeKnown]: ReadonlyArray<unknown>,
  ) => (kind !== "removed" && isAfterKnown !== true) || (kind !== "added" && isBeforeKnown !== true)

  /**
   * Determines how clients see the change, from the values selected by `compile`. Returns "hidden" if they do not see
   * it at all.
   */
  const interpret = (change: ChangeWithoutRows, values: ReadonlyArray<unknown>): ShownChange | "hidden" => {
    const { kind } = change
    const [, after, ended, isAfterKnown] = values
    const row = kind !== "removed" && after instanceof BinaryRecord ? after : undefined
    const before = kind !== "added" && ended instanceof BinaryRecord ? ended : undefined
    if (lacksRow(change, values)) {
      // Endpoints may have shown the missing version. If they do not show the row now, clients must be told to remove
      // it.
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
