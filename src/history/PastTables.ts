/**
 * Rewrites statements so that they read tables as they were at a moment: each table becomes the union of its rows and
 * of their earlier versions in the schema `history`, limited to those visible at the moment (decision 0114).
 */
import { Context, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { LRUCache } from "lru-cache"
import { type CompiledStatement, compileStatement } from "../db/CompiledStatement.ts"
import { Database, type StatementRewriter } from "../db/Database.ts"
import { decodePositionalRows } from "../db/DecodeRows.ts"
import type { ResolvedMoment } from "./Moments.ts"

/** What the SQL for a table at a moment depends on. Only the columns affect the result. */
const TableShape = Schema.Struct({
  table: Schema.String,
  /** The quoted names, separated by commas. */
  columns: Schema.String,
  /** Whether few rows of the table, or few of its earlier versions, are visible at the moment. */
  has_few_rows: Schema.Boolean,
  has_few_versions: Schema.Boolean,
})
type TableShape = typeof TableShape.Type

/** Up to this number of rows, sorting them is faster than reading an index in order and skipping invisible rows. */
export const MaxSortedRows = Context.Reference<number>("tickerline/history/MaxSortedRows", { defaultValue: () => 20_000 })

/** The visible rows of a moment become earlier versions as time passes. */
const maxShapeAgeMillis = 300_000
const maxShapes = 10_000

/** Placeholders for the parameters of a moment. */
interface MomentParameters {
  readonly bound: string
  readonly moment: string
  readonly month: string
}

const versionColumns = "recorded_in, replaced_in, replaced_month"
const noVersionColumns = "null::bigint as recorded_in, null::bigint as replaced_in, null::date as replaced_month"

/** The SQL of a table at a moment. The rest of the statement reads it under the name of the table. */
const makePastTable = (shape: TableShape, { bound, moment, month }: MomentParameters) => {
  const { columns, has_few_rows, has_few_versions, table } = shape
  // Found by each statement, because a transaction with an id up to the bound may still be running.
  const running = `array(
    select id from history.transactions
    where int8range(id, highest_id, '[]') @> ${bound}::bigint and recorded_at > ${moment}::timestamptz
  )`
  const isRecorded = `(recorded_in is null or recorded_in <= ${bound}::bigint)
    and (recorded_in is null or recorded_in <> all (${running}))`
  const isReplacedLater = `(replaced_in > ${bound}::bigint or replaced_in = any (${running}))
    and replaced_month >= ${month}::date`
  // A condition outside of the union lets PostgreSQL merge the indexes of both tables, in the order of the statement.
  const rows = has_few_rows
    ? `select ${columns}, ${noVersionColumns} from public.${table} where ${isRecorded}`
    : `select ${columns}, recorded_in, null::bigint as replaced_in, null::date as replaced_month from public.${table}`
  const versions = has_few_versions
    ? `select ${columns}, ${noVersionColumns} from history.${table} where ${isRecorded} and ${isReplacedLater}`
    : `select ${columns}, ${versionColumns} from history.${table}`
  return `${table} as not materialized (
    select ${columns} from (${rows} union all ${versions}) as versions
    ${
    has_few_rows && has_few_versions ? "" : `where ${isRecorded} and (replaced_in is null or (${isReplacedLater}))`
  })`
}

/** Adds common table expressions to a statement. Its own ones, if any, follow them. */
const addTables = (text: string, tables: ReadonlyArray<string>) =>
  /^\s*with\s/.test(text)
    ? text.replace(/^\s*with\s/, () => `with ${tables.join(", ")}, `)
    : `with ${tables.join(", ")} ${text}`

/** Makes a function that returns the rewriter of a moment for statements that read some of the tables. */
export const makePastTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { readValues } = yield* Database
  const fewRows = yield* MaxSortedRows
  const shapes = new LRUCache<string, TableShape>({ max: maxShapes, ttl: maxShapeAgeMillis })
  const decodeShapes = decodePositionalRows(TableShape)

  /** Each count stops at the limit. Two counts of a table use one index each. */
  const countUpTo = (table: string, condition: string) =>
    `(select count(*) from (select from ${table} where ${condition} limit ${fewRows + 1}) as counted)`

  const findShapes = (tables: ReadonlyArray<string>, { bound, month }: ResolvedMoment) =>
    decodeShapes(readValues(compileStatement<void>({
      isPrepared: false,
      build: () =>
        sql`${sql.literal(
          tables.map((table) => `
            select '${table}', (
              select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
              where attrelid = 'history.${table}'::regclass and attnum > 0 and not attisdropped
                and attname <> all (string_to_array('${versionColumns}', ', '))
            ), ${countUpTo(`public.${table}`, "recorded_in is null")}
              + ${countUpTo(`public.${table}`, `recorded_in <= ${bound}`)} <= ${fewRows},
            ${countUpTo(`history.${table}`, `replaced_in > ${bound} and replaced_month >= '${month}'`)} <= ${fewRows}
          `).join(" union all "),
        )}`,
    })(), "history"))

  const getShapes = Effect.fnUntraced(function* (tables: ReadonlyArray<string>, moment: ResolvedMoment) {
    const keyOf = (table: string) => `${moment.moment} ${moment.bound} ${table}`
    const known = tables.flatMap((table) => shapes.get(keyOf(table)) ?? [])
    const missing = tables.filter((table) => !known.some((shape) => shape.table === table))
    if (missing.length === 0) return known
    const found = yield* findShapes(missing, moment)
    for (const shape of found) shapes.set(keyOf(shape.table), shape)
    return [...known, ...found]
  })

  const makeRewriter = (moment: ResolvedMoment, tables: ReadonlyArray<string>): StatementRewriter => {
    const patterns = tables.map((table) => ({ table, pattern: new RegExp(`\\b${table}\\b`) }))
    return Effect.fnUntraced(function* ({ parameters, text }: CompiledStatement) {
      const read = patterns.flatMap(({ pattern, table }) => pattern.test(text) ? [table] : [])
      if (read.length === 0) return { parameters, text, isPrepared: false }
      const first = parameters.length + 1
      const placeholders = { bound: `$${first}`, moment: `$${first + 1}`, month: `$${first + 2}` }
      const past = (yield* getShapes(read, moment)).map((shape) => makePastTable(shape, placeholders))
      return {
        text: addTables(text, past),
        parameters: [...parameters, moment.bound, moment.moment, moment.month],
        // PostgreSQL must plan for the moment, for which a table may have all of its rows or none.
        isPrepared: false,
      }
    })
  }
  return makeRewriter
})
