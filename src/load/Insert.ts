/** Rows into a table, thousands at a time. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { BadRow, Checked } from "./Check.ts"
import type { Dataset } from "./Datasets.ts"
import type { Cells } from "./Row.ts"

export interface Column {
  readonly name: string
  readonly type: string
  readonly is_list: boolean
  readonly default_value: string | null
}

/** The columns that can be written, as PostgreSQL knows them. */
export const columnsOf = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Column>`
    select attname as name, format_type(atttypid, atttypmod) as type, atttypid::regtype::text like '%[]' as is_list,
      pg_get_expr(adbin, adrelid) as default_value
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
      and attgenerated = '' and attidentity <> 'a'
    order by attnum
  `
})

export type Batch = ReadonlyArray<Checked>

const cellText = (cell: Cells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const texts = (batch: Batch, column: string) =>
  Result.getOrThrow(PgTypes.array(batch.map(({ cells }) => cellText(cells[column])), PgTypes.OID.text))

/** `insert … select … from unnest(…)`: one array a column, converted by PostgreSQL to the column's own type. */
export const inserter = Effect.fnUntraced(function* (target: string, columns: ReadonlyArray<Column>) {
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

/** The rows of a batch whose key the table has already, or that share one among themselves. */
export const repeatsIn = Effect.fnUntraced(function* (target: string, { key }: Dataset, batch: Batch) {
  const sql = yield* SqlClient.SqlClient
  const keyOf = (cells: Cells) => JSON.stringify(key.map((column) => cells[column] ?? null))
  const columns = key.map((column) => `"${column}"::text`).join(", ")
  const names = key.map((column) => `"${column}"`).join(", ")
  const arrays = key.map((_, at) => `$${at + 1}::text[]`).join(", ")
  const present = yield* sql.unsafe<{ readonly key: string }>(
    `select jsonb_build_array(${columns})::text as key from ${target}
     where jsonb_build_array(${columns}) in (
       select jsonb_build_array(${columns}) from unnest(${arrays}) as r(${names})
     )`,
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
