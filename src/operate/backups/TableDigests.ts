/** Row counts and digests of tables, to compare a restored database with the original. */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"

/** What identifies the content of a table. */
export const TableDigest = Schema.Struct({
  /** The table's name in SQL, such as `public.news`. */
  table: Schema.String,
  rows: Schema.Number,
  /** The sum of a 64-bit hash of each row's text, which does not depend on the order of the rows. */
  digest: Schema.String,
})
/** What identifies the content of a table. */
export type TableDigest = typeof TableDigest.Type

/** A sequence and its last value. */
export const SequenceValue = Schema.Struct({
  sequence: Schema.String,
  /** Null if the sequence has never been used. */
  value: Schema.NullOr(Schema.String),
})
/** A sequence and its last value. */
export type SequenceValue = typeof SequenceValue.Type

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))
const decodeDigests = decodeRows(Schema.Struct({ rows: Schema.String, digest: Schema.String }))
const decodeSequences = decodeRows(SequenceValue)

/**
 * Lists the tables of a backup. Partitions count as part of their table. Unlogged tables are left out: they only hold
 * data about the last minute, and are emptied by a crash.
 */
export const listBackedUpTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* decodeNames(sql`
    select format('%I.%I', nspname, relname) as name
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relkind in ('r', 'p') and not relispartition and relpersistence = 'p'
      and nspname <> 'information_schema' and nspname !~ '^pg_'
      and not exists (
        select from pg_depend
        where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e'
      )
    order by 1
  `)
  return tables.map(({ name }) => name)
})

/** Makes the text of values independent of the settings of the server and the role, for this transaction only. */
const fixTextFormats = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, MDY', true),
      set_config('intervalstyle', 'postgres', true), set_config('extra_float_digits', '1', true),
      set_config('bytea_output', 'hex', true), set_config('search_path', 'pg_catalog', true),
      set_config('statement_timeout', '0', true)
  `
})

/** Computes the digests of tables, all of which must exist. Must run in a transaction. */
export const computeTableDigests = Effect.fnUntraced(function* (tables: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  yield* fixTextFormats
  return yield* Effect.forEach(tables, (table, index) => {
    Object.assign(progress, { label: `digest of ${table}`, done: index, total: tables.length, count: 0 })
    // An alias that no column is called, because a column with the same name would hide it.
    const query = decodeDigests(sql.unsafe(`
      select count(*)::text as rows,
        coalesce(sum(hashtextextended("the whole row"::text collate "C", 0)), 0)::text as digest
      from ${table} as "the whole row"
    `))
    return Effect.map(query, ([found]): TableDigest => ({
      table,
      rows: Number(found?.rows),
      digest: found?.digest ?? "",
    }))
  })
})

/** Reads the current values of all sequences, even in a transaction with an older snapshot. */
export const readSequences = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeSequences(sql`
    select format('%I.%I', schemaname, sequencename) as sequence, last_value::text as value
    from pg_sequences order by 1
  `)
})

/**
 * Compares the database with recorded tables and sequences, and describes each difference. Must run in a transaction.
 */
export const findDifferences = Effect.fnUntraced(
  function* (recorded: {
    readonly tables: ReadonlyArray<TableDigest>
    readonly sequences: ReadonlyArray<SequenceValue>
  }) {
    const existing = new Set(yield* listBackedUpTables)
    const missing = recorded.tables.filter(({ table }) => !existing.has(table))
    const found = yield* computeTableDigests(
      recorded.tables.flatMap(({ table }) => existing.has(table) ? [table] : []),
    )
    const byTable = new Map(found.map((digest) => [digest.table, digest]))
    const values = new Map((yield* readSequences).map(({ sequence, value }) => [sequence, value]))
    return [
      ...missing.map(({ table }) => `${table} is missing`),
      ...recorded.tables.flatMap(({ digest, rows, table }) => {
        const other = byTable.get(table)
        if (other === undefined || (other.rows === rows && other.digest === digest)) return []
        return other.rows === rows
          ? [`${table} has ${rows} rows as recorded, but other values`]
          : [`${table} has ${other.rows} rows, but ${rows} were recorded`]
      }),
      // A sequence may have advanced after the snapshot, but never goes back.
      ...recorded.sequences.flatMap(({ sequence, value }) => {
        const other = values.get(sequence)
        if (other === undefined) return [`${sequence} is missing`]
        return value === null || (other !== null && BigInt(other) >= BigInt(value))
          ? []
          : [`${sequence} is at ${other ?? "its start"}, but ${value} was recorded`]
      }),
    ]
  },
)
