/**
 * Rewrites statements to read tables as they were at a past timestamp (decision 0114). For each table that a statement
 * reads, the rewrite adds a common table expression with the same name, such as `with news as (…)`, which hides the
 * table. The CTE contains the rows that were visible at the timestamp: current rows, and earlier versions from the
 * schema `history`.
 */
import { Context, Effect, Exit, Schema } from "effect"
import { LRUCache } from "lru-cache"
import type { CompiledStatement } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader, type PastSource } from "../../postgres/DatabaseReader.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { makeRunningTransactionIdsSql, type ResolvedTimestamp } from "./AsOfTimestamps.ts"

/**
 * The properties of a table that determine the rewritten SQL. Only `columns` affects the result; the other fields
 * affect only the speed.
 */
const TableShape = Schema.Struct({
  table: Schema.String,
  /** The quoted column names, separated by commas. */
  columns: Schema.String,
  /** Whether at most `MaxPastRowsToSort` of the table's current rows are visible at the timestamp. */
  has_few_rows: Schema.Boolean,
  /** Whether at most `MaxPastRowsToSort` versions in the table's history were replaced after the timestamp. */
  has_few_versions: Schema.Boolean,
})
type TableShape = typeof TableShape.Type

/**
 * Up to this many rows, sorting the visible rows is faster than reading an index in order and skipping invisible rows.
 */
export const MaxPastRowsToSort = Context.Reference<number>("tickerline/query/MaxPastRowsToSort", {
  defaultValue: () => 20_000,
})

/**
 * Cached shapes expire because the number of rows in a table and in its history changes: when a row is replaced, it
 * becomes an earlier version.
 */
const maxShapeAgeMillis = 300_000
const maxShapes = 10_000

/** Creates the cache of table shapes. */
export const makeTableShapeStore = () =>
  new LRUCache<string, TableShape>({
    max: maxShapes,
    ttl: maxShapeAgeMillis,
    maxSize: 8_388_608,
    sizeCalculation: ({ columns }, key) => 512 + key.length + columns.length,
  })

const versionColumns = "recorded_in, replaced_in, replaced_month"

/**
 * The union of current rows and earlier versions needs the same columns on both sides. `live_in` is the transaction
 * that recorded a current row (null if the row is older than the history). `versionColumns` exist only for earlier
 * versions. These constants replace the columns that one side lacks. They satisfy the conditions on those columns, so
 * PostgreSQL removes the conditions for that side during planning.
 */
const [noLiveColumn, noVersionColumns] = [
  "null::bigint as live_in",
  "0::bigint as recorded_in, 9223372036854775807 as replaced_in, 'infinity'::date as replaced_month",
]

/**
 * Returns the SQL conditions for rows that were visible at `timestamp`: they had been recorded by then and
 * were not replaced until later. `isLive` applies to current rows, and `isVersion` to earlier versions.
 *
 * Rows contain transaction ids instead of times, so the conditions compare ids. A transaction had committed by the
 * timestamp if its id is at most `bound` and it is not one of the transactions that were still running then.
 * `running` contains the ids of those; if it is undefined, they are not known yet, and the conditions look them up.
 * Versions that were replaced before `month` had all been replaced by the timestamp, so their partitions are not read.
 *
 * The values need no escaping, because they come from the database and from `parseAsOfTime`.
 */
export const makePastConditions = ({ bound, month, running, timestamp }: ResolvedTimestamp) => {
  const runningIds = running === undefined
    ? makeRunningTransactionIdsSql({ bound, timestamp })
    : `'{${running.join(",")}}'::bigint[]`
  // Usually no transaction was running at the timestamp. Both conditions are then omitted, because they would be true
  // or false for every row.
  const isNotRunning = (column: string) => running?.length === 0 ? "" : ` and ${column} <> all (${runningIds})`
  const isReplacedByRunning = running?.length === 0 ? "" : ` or replaced_in = any (${runningIds})`
  return {
    isLive: `(live_in is null or live_in <= ${bound}${isNotRunning("live_in")})`,
    // `recorded_in` and `replaced_month` must not be inside an `or`, so that PostgreSQL can compare them in the index.
    isVersion: `recorded_in <= ${bound}${isNotRunning("recorded_in")} and ` +
      `(replaced_in > ${bound}${isReplacedByRunning}) and replaced_month >= '${month}'::date`,
  }
}

/**
 * Returns a common table expression that has the table's name and contains the rows that were visible at the timestamp.
 * It is `not materialized`, so that PostgreSQL reads only the rows that the statement needs.
 *
 * The rows come from two tables: `public.TABLE` holds the current rows, and `history.TABLE` their earlier versions.
 * `isLive` is the SQL condition that a current row was visible at the timestamp, and `isVersion` the condition that an
 * earlier version was. `columns` are the table's columns as SQL. For example, if there are few rows on both sides:
 *
 * ```sql
 * news as not materialized (select id, title from (
 *   select id, title, … from public.news where (isLive)
 *   union all
 *   select id, title, … from history.news where (isVersion)
 * ) as versions)
 * ```
 */
export const makePastTable = (
  { columns, has_few_rows, has_few_versions, table }: TableShape,
  { isLive, isVersion }: ReturnType<typeof makePastConditions>,
) => {
  // A side of the union with few rows applies its own condition. If a side has many rows, the conditions of both are
  // outside the union, because only then can PostgreSQL merge sorted index scans of both sides. For example, if there
  // are many rows on both sides:
  //
  //   select id, title from (
  //     select id, title, …, recorded_in as live_in, [constants for the version columns] from public.news
  //     union all
  //     select id, title, …, [a constant for live_in], [the version columns] from history.news
  //   ) as versions where (isLive) and (isVersion)
  //
  // The sides of a union must have the same columns, so each side selects constants in place of the columns that only
  // the other side has. A side that has already applied its own condition also selects constants in place of its own
  // `live_in` or version columns. The conditions outside are true for all of these constants, so they remove no row
  // that should stay.
  //
  // `isLive` refers to the column `recorded_in` by the name `live_in`, so a subquery (`live`) renames it first.
  const currentRows = `select ${columns}, recorded_in as live_in from public.${table}`
  const currentSide = has_few_rows
    ? `select ${columns}, ${noLiveColumn}, ${noVersionColumns} from (${currentRows}) as live where ${isLive}`
    : `select ${columns}, recorded_in as live_in, ${noVersionColumns} from public.${table}`
  const versionSide = has_few_versions
    ? `select ${columns}, ${noLiveColumn}, ${noVersionColumns} from history.${table} where ${isVersion}`
    : `select ${columns}, ${noLiveColumn}, ${versionColumns} from history.${table}`
  return `${table} as not materialized (
    select ${columns} from (${currentSide} union all ${versionSide}) as versions
    ${has_few_rows && has_few_versions ? "" : `where ${isLive} and ${isVersion}`})`
}

/**
 * Adds common table expressions to a statement, before the statement's own CTEs, which may refer to them. If the
 * statement has its own CTEs, keeps its `with` or `with recursive`.
 */
const addTables = (text: string, tables: ReadonlyArray<string>) => {
  const [start] = /^\s*with\s(?:\s*recursive\s)?/.exec(text) ?? []
  return start === undefined
    ? `with ${tables.join(", ")} ${text}`
    : `${start}${tables.join(", ")}, ${text.slice(start.length)}`
}

/**
 * Creates a function that takes a timestamp and the names of tables that have a history. It returns the rewriter for
 * that timestamp: a function that changes statements which read any of these tables, and leaves others unchanged. A
 * rewritten statement is prepared only if many requests use the timestamp, because its text contains the timestamp's
 * transaction ids.
 */
export const makePastStatementRewriters = Effect.gen(function* () {
  const reader = yield* DatabaseReader
  const fewRows = yield* MaxPastRowsToSort
  const shapes = makeTableShapeStore()
  const decodeShapes = decodePositionalRows(TableShape)

  /** Returns SQL that counts rows but stops just above the limit. */
  const countUpTo = (table: string, condition: string) =>
    `(select count(*) from (select from ${table} where ${condition} limit ${fewRows + 1}) as counted)`

  /**
   * Returns SQL that selects a table's shape, with the columns in the order of `TableShape`. The visible current rows
   * are counted in two parts instead of with `or`, so that each count can use its own index.
   */
  const makeShapeSql = (table: string, { bound, month }: ResolvedTimestamp) => `
    select '${table}', (
      select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
      where attrelid = 'history.${table}'::regclass and attnum > 0 and not attisdropped
        and attname <> all (string_to_array('${versionColumns}', ', '))
    ), ${countUpTo(`public.${table}`, "recorded_in is null")}
      + ${countUpTo(`public.${table}`, `recorded_in <= ${bound}`)} <= ${fewRows},
    ${countUpTo(`history.${table}`, `replaced_in > ${bound} and replaced_month >= '${month}'`)} <= ${fewRows}`

  const readShapes = (tables: ReadonlyArray<string>, resolved: ResolvedTimestamp) => {
    const text = tables.map((table) => makeShapeSql(table, resolved)).join(" union all ")
    return decodeShapes(
      reader.read({ text, parameters: [], isPrepared: false }, { partition: "history", from: "primary" }),
    )
  }

  /** Returns the shapes of the tables at a timestamp, from the cache if possible. */
  const getShapes = Effect.fnUntraced(function* (tables: ReadonlyArray<string>, resolved: ResolvedTimestamp) {
    const keyOf = (table: string) => `${resolved.timestamp} ${resolved.bound} ${table}`
    const cached = tables.flatMap((table) => shapes.get(keyOf(table)) ?? [])
    const missing = tables.filter((table) => !cached.some((shape) => shape.table === table))
    if (missing.length === 0) return cached
    const found = yield* readShapes(missing, resolved)
    for (const shape of found) shapes.set(keyOf(shape.table), shape)
    return [...cached, ...found]
  })

  const makeRewriter = (resolved: ResolvedTimestamp, tables: ReadonlyArray<string>): PastSource["rewrite"] => {
    const conditions = makePastConditions(resolved)
    const patterns = tables.map((table) => ({ table, pattern: new RegExp(`\\b${table}\\b`) }))
    return ({ isPrepared, parameters, text }: CompiledStatement) => {
      // The table names in the statement's text, even if they are only part of a comment or an alias: an unused common
      // table expression does no harm.
      const namedTables = patterns.flatMap(({ pattern, table }) => pattern.test(text) ? [table] : [])
      if (namedTables.length === 0) return Exit.succeed({ parameters, text, isPrepared })
      return Effect.map(getShapes(namedTables, resolved), (shapes) => {
        const pastTables = shapes.map((shape) => makePastTable(shape, conditions))
        return { parameters, text: addTables(text, pastTables), isPrepared: isPrepared && resolved.isPopular }
      })
    }
  }
  return makeRewriter
})
