/**
 * Reads the rows of changes: the version that a transaction recorded, and the version that it replaced or removed. Rows
 * have every column that `load` accepts, in the API's format, so that a client can keep a copy of a dataset up to date.
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../db/ArrayParameters.ts"
import { compileStatement } from "../db/CompiledStatement.ts"
import { type LoadableDataset, loadableDatasets } from "../load/Datasets.ts"
import { booleanColumn, nullableColumn, optInColumns, textColumn } from "../rows/Columns.ts"
import { rowOutputBuffer } from "../rows/OutputBuffer.ts"
import { makeJsonRowWriter, type RowModel } from "../rows/RowEncoder.ts"
import { BinaryRecord } from "../rows/BinaryRecord.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import type { ChangeKind } from "../v1/changes/Api.ts"

interface LoadedColumn {
  readonly schemas: { readonly select: Schema.Codec<unknown, unknown>; readonly json: Schema.Codec<unknown, unknown> }
}

/** Schemas for data file columns that the models lack, because responses do not normally have them. */
const loadedColumns: Readonly<Record<string, LoadedColumn>> = {
  source: optInColumns.source,
  source_links: optInColumns.source,
  recorded_at: nullableColumn(InstantColumn),
  anomaly_flagged: booleanColumn(""),
  tldr_text: textColumn(""),
}

/** Makes a model of the given columns. Throws at startup if one of them has no schema. */
const selectColumns = ({ model, table }: LoadableDataset, columns: ReadonlyArray<string>): RowModel => {
  const found = columns.map((column) => {
    const [select, json, loaded] = [model.fields[column], model.json.fields[column], loadedColumns[column]?.schemas]
    if (select !== undefined && json !== undefined) return { column, select, json }
    if (loaded !== undefined) return { column, ...loaded }
    throw new Error(`${table}.${column} has no schema for responses`)
  })
  return {
    identifier: model.identifier,
    fields: Object.fromEntries(found.map(({ column, select }) => [column, select])),
    json: { fields: Object.fromEntries(found.map(({ column, json }) => [column, json])) },
  }
}

/** A change before its rows are read. */
export interface ChangeWithoutRows {
  /** Id of the transaction in `history.transactions`. */
  readonly transaction: bigint
  readonly position: bigint
  /** The first day of the month whose partitions contain the transaction's rows. */
  readonly month: string
  readonly kind: ChangeKind
  /** With this cursor, a client continues after the change. */
  readonly cursor: string
  /** The time as the API prints it, with microseconds. */
  readonly recordedAt: string
}

const sqlRow = (columns: ReadonlyArray<string>, alias: string) =>
  `row(${columns.map((column) => `${alias}."${column}"`).join(", ")})`

/** How late a row was corrected, and in which columns. */
export interface RowCorrection {
  /** The columns whose values differ, as in the field `changed` of the feed. */
  readonly changed: ReadonlyArray<string>
  /** Time from recording the replaced version to replacing it. Null if that version is not in the history or older. */
  readonly delaySeconds: number | null
}

/** Reads and encodes the changes of one dataset. */
const makeChangedRows = (sql: SqlClient.SqlClient, dataset: LoadableDataset) => {
  const { key, row, table } = dataset
  const columns = Object.keys(row.fields)
  const writeKey = makeJsonRowWriter(selectColumns(dataset, key), key)
  const writeRow = makeJsonRowWriter(selectColumns(dataset, columns), columns)

  const isNullable = (column: string) => Schema.is(row.fields[column] ?? Schema.Never)(null)
  // Columns that are never null use `=`, because an index does not support `is not distinct from`.
  const hasKey = (alias: string) =>
    key.map((column) => `${alias}."${column}" ${isNullable(column) ? "is not distinct from" : "="} key."${column}"`)
      .join(" and ")
  // The history's indexes on key and transaction contain this expression. With the plain column, the planner might use
  // an index on the transaction alone, and read all rows of a large transaction.
  const isOf = (column: string) => `coalesce(${column}, 0) = change.transaction`

  const isEnded = `${hasKey("past")} and ${isOf("past.replaced_in")} and past.replaced_month = change.month`

  /**
   * SQL for a correction's delay in seconds. If the transaction that recorded the replaced row was dropped, the delay
   * is counted from the beginning of the remaining history.
   */
  const delay = `(
    select extract(epoch from ended.recorded_at - coalesce(recorded.recorded_at, beginning.earliest))::float8
    from history."${table}" as past
    join history.transactions as ended on ended.id = change.transaction
    left join history.transactions as recorded on recorded.id = past.recorded_in
    cross join history.beginning
    where ${isEnded} and past.recorded_in > 0
  )`

  /** Compiles the statement that selects, for each change, the key, the row after it, the row before it, and `more`. */
  const compileReader = (more: Statement.Fragment) =>
    compileStatement<ReadonlyArray<ChangeWithoutRows>>({
      isPrepared: true,
      build: (parameter) => {
        const array = (read: (change: ChangeWithoutRows) => string) =>
          parameter((changes) => makeArrayParameter(changes.map(read), OID.text))
        const [live, past] = [sqlRow(columns, "live"), sqlRow(columns, "past")]
        return sql`
        select ${sql.literal(sqlRow(key, "key"))},
          (
            select version from (
              select ${sql.literal(live)} as version from ${sql.literal(`public."${table}"`)} as live
              where ${sql.literal(`${hasKey("live")} and ${isOf("live.recorded_in")}`)}
              union all
              select ${sql.literal(past)} from ${sql.literal(`history."${table}"`)} as past
              where ${sql.literal(`${hasKey("past")} and ${isOf("past.recorded_in")}`)}
            ) as versions limit 1
          ),
          (
            select ${sql.literal(past)} from ${sql.literal(`history."${table}"`)} as past
            where ${sql.literal(isEnded)}
          )${more}
        from unnest(
          (select ${array(({ transaction }) => String(transaction))}::text[]::bigint[]),
          (select ${array(({ position }) => String(position))}::text[]::bigint[]),
          (select ${array(({ month }) => month)}::text[]::date[])
        ) with ordinality as requested (transaction, position, month, place)
        join history.changes as change using (transaction, position, month)
        cross join lateral jsonb_populate_record(${sql.literal(`null::public."${table}"`)}, change.key) as key
        order by place
      `
      },
    })

  const writeRecord = (write: typeof writeRow, record: unknown, position: number) =>
    record instanceof BinaryRecord ? write(record, position) : rowOutputBuffer.writeAscii("null", position)

  const listDifferences = (row: unknown, before: unknown) =>
    row instanceof BinaryRecord && before instanceof BinaryRecord
      ? columns.filter((_, index) => !row.hasSameField(before, index))
      : []

  /** Whether the values that `compile` selects lack a row of the change. */
  const lacksRow = ({ kind }: ChangeWithoutRows, [, row, before]: ReadonlyArray<unknown>) =>
    (kind !== "removed" && !(row instanceof BinaryRecord)) || (kind !== "added" && !(before instanceof BinaryRecord))

  /** Encodes a change with the values that `compile` selects. A row that the history lacks becomes null. */
  const encode = (
    { cursor, kind, recordedAt }: ChangeWithoutRows,
    [keyRecord, row, before]: ReadonlyArray<unknown>,
  ): Uint8Array => {
    let end = rowOutputBuffer.writeAscii(
      `{"cursor":"${cursor}","recorded_at":"${recordedAt}","dataset":"${table}","kind":"${kind}","key":`,
      0,
    )
    end = rowOutputBuffer.writeAscii(`,"row":`, writeRecord(writeKey, keyRecord, end))
    end = rowOutputBuffer.writeAscii(`,"before":`, writeRecord(writeRow, row, end))
    end = writeRecord(writeRow, before, end)
    return rowOutputBuffer.take(
      rowOutputBuffer.writeAscii(`,"changed":${JSON.stringify(listDifferences(row, before))}}`, end),
    )
  }

  /** Describes a correction from the values of `compileWithDelay`, without the columns if the history lacks a row. */
  const describeCorrection = ([, row, before, seconds]: ReadonlyArray<unknown>): RowCorrection => ({
    changed: listDifferences(row, before),
    delaySeconds: typeof seconds === "number" ? seconds : null,
  })

  return {
    compile: compileReader(sql.literal("")),
    compileWithDelay: compileReader(sql.literal(`, ${delay}`)),
    lacksRow,
    encode,
    describeCorrection,
  }
}

export type ChangedRowReader = ReturnType<typeof makeChangedRows>

/** Makes the readers of changed rows, by dataset. */
export const makeChangedRowReaders = (sql: SqlClient.SqlClient) =>
  new Map(loadableDatasets.map((dataset) => [dataset.table, makeChangedRows(sql, dataset)]))
