/** Computes row counts and digests of tables, so that a restored database can be compared with the original. */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"

/** The row count and digest of a table. */
export const TableDigest = Schema.Struct({
  /** The SQL name of the table, such as `public.news`. */
  table: Schema.String,
  rows: Schema.Number,
  /**
   * The sum of the 64-bit hashes of all rows, each computed from the row's text. The sum does not depend on row order.
   */
  digest: Schema.String,
})
/** The row count and digest of a table. */
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
 * Lists the tables that a backup contains. A partitioned table counts as one table. Unlogged tables are excluded,
 * because they hold data only about the last minute and are emptied after a crash.
 */
export const listBackedUpTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Tables (r) and partitioned tables (p), but not partitions. A table that is logged is permanent (p). Tables of
  // extensions have a row with the type e in `pg_depend`.
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

/**
 * For the current transaction, fixes the settings that affect how values are converted to text, so that digests do not
 * depend on the settings of the server or the role.
 */
const fixTextFormats = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, MDY', true),
      set_config('intervalstyle', 'postgres', true), set_config('extra_float_digits', '1', true),
      set_config('bytea_output', 'hex', true), set_config('search_path', 'pg_catalog', true),
      set_config('statement_timeout', '0', true)
  `
})

/**
 * Computes the row count and the digest of each table, all of which must exist. Must run in a transaction, for which it
 * fixes the text format of values.
 */
export const computeTableDigests = Effect.fnUntraced(function* (tables: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  yield* fixTextFormats
  return yield* Effect.forEach(tables, (table, index) => {
    Object.assign(progress, { label: `digest of ${table}`, done: index, total: tables.length, count: 0 })
    // The alias must differ from every column name, because a column with the same name would hide it.
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

/** Reads the current values of all sequences. Even in a transaction with an older snapshot, the values are current. */
export const readSequences = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeSequences(sql`
    select format('%I.%I', schemaname, sequencename) as sequence, last_value::text as value
    from pg_sequences order by 1
  `)
})

/**
 * Compares the database with the recorded tables and sequences, and returns a description of each difference, such as
 * `public.news has 5 rows, but 7 were recorded`. Objects that were not recorded are ignored. Must run in a transaction.
 */
export const findDatabaseDifferences = Effect.fnUntraced(
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
      // A sequence may have advanced since the snapshot, but never moves backward.
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
