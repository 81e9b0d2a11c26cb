/** Rows into a table, thousands at a time. Of rows with the same key the last one stays (D22). */
import { Array, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { arrayParameter, OID } from "../db/ArrayParameters.ts"
import type { CheckedRow } from "./RowValidation.ts"
import type { Dataset } from "./Datasets.ts"
import type { RowCells } from "./ParsedRow.ts"

export interface LoadColumn {
  readonly name: string
  readonly type: string
  readonly is_list: boolean
  readonly is_nullable: boolean
  readonly default_value: string | null
}

/** The columns that can be written, as PostgreSQL knows them. */
export const readColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<LoadColumn>`
    select attname as name, format_type(atttypid, atttypmod) as type, atttypid::regtype::text like '%[]' as is_list,
      not attnotnull as is_nullable, pg_get_expr(adbin, adrelid) as default_value
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
      and attgenerated = '' and attidentity <> 'a'
    order by attnum
  `
})

export type RowBatch = ReadonlyArray<CheckedRow>

const cellText = (cell: RowCells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const texts = (batch: RowBatch, column: string) =>
  arrayParameter(batch.map(({ cells }) => cellText(cells[column])), OID.text)

const listed = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

const of = (alias: string, names: ReadonlyArray<string>) => names.map((name) => `${alias}."${name}"`).join(", ")

/** A cell's text as a value of its column. */
const converted = ({ default_value, is_list, name, type }: LoadColumn) => {
  const value = is_list
    ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
    : `"${name}"::${type}`
  return default_value === null ? value : `coalesce(${value}, ${default_value})`
}

/**
 * Inserts into a table that no other session sees and whose key is unique. Each column is one array parameter, which
 * PostgreSQL converts to the column's type. Returns how many keys were added, how many rows a later row with the same
 * key replaced, and how many only repeated another row.
 */
export const makeRowInserter = Effect.fnUntraced(
  function* (target: string, columns: ReadonlyArray<LoadColumn>, { key }: Dataset) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => name)
    const others = names.filter((name) => !key.includes(name))
    const arrays = columns.map((_, at) => `$${at + 1}::text[]`).join(", ")
    const given = `select ${columns.map((column) => `${converted(column)} as "${column.name}"`).join(", ")}, line
    from unnest(${arrays}) with ordinality as r(${listed(names)}, line)`
    const conflict = others.length === 0
      ? "do nothing"
      : `do update set ${others.map((name) => `"${name}" = excluded."${name}"`).join(", ")}
       where (${of("kept", others)}) is distinct from (${of("excluded", others)})`
    // The comment shows in pg_stat_activity, which cuts long statements off.
    const insert = `/* load ${target} */ with given as (${given}),
    last as (select distinct on (${listed(key)}) * from given order by ${listed(key)}, line desc),
    inserted as (
      insert into ${target} as kept (${listed(names)}) select ${listed(names)} from last order by line
      on conflict (${listed(key)}) ${conflict} returning xmax = 0 as added
    )
    select (select count(*)::int from last) as keys, count(*) filter (where added)::int as added,
      count(*) filter (where not added)::int as updated
    from inserted`
    const distinct = `with given as (${given})
    select count(*)::int as count from (select distinct ${listed(names)} from given) as one`

    return Effect.fnUntraced(function* (batch: RowBatch) {
      const parameters = names.map((name) => texts(batch, name))
      const [found] = yield* sql.unsafe<{ readonly keys: number; readonly added: number; readonly updated: number }>(
        insert,
        parameters,
      )
      const { added, keys, updated } = found ?? { added: 0, keys: 0, updated: 0 }
      if (keys === batch.length) return { added, superseded: updated, dropped: keys - added - updated }
      const [different] = yield* sql.unsafe<{ readonly count: number }>(distinct, parameters)
      const corrected = (different?.count ?? keys) - keys
      return { added, superseded: updated + corrected, dropped: batch.length - added - updated - corrected }
    })
  },
)

/** What `--append` did with the rows of a file. */
export interface MergeCounts {
  readonly added: number
  readonly updated: number
  readonly unchanged: number
}

/**
 * Merges the rows of `source` into `target` by key. A null in `source` stands for the default of a column that has
 * one: it is filled in for a new row and does not make a known row different.
 */
export const mergeRows = Effect.fnUntraced(
  function* (source: string, target: string, columns: ReadonlyArray<LoadColumn>, { key }: Dataset) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => name)
    const others = columns.filter(({ name }) => !key.includes(name))
    const value = ({ default_value, name }: LoadColumn) =>
      default_value === null ? `given."${name}"` : `coalesce(given."${name}", ${default_value})`
    const compared = ({ default_value, name }: LoadColumn) =>
      default_value === null ? `given."${name}"` : `coalesce(given."${name}", kept."${name}")`
    // Plain equality where it is possible, so that PostgreSQL can use an index.
    const match = columns.filter(({ name }) => key.includes(name)).map(({ is_nullable, name }) =>
      `kept."${name}" ${is_nullable ? "is not distinct from" : "="} given."${name}"`
    ).join(" and ")
    const updated = Array.isReadonlyArrayEmpty(others) ? 0 : yield* Effect.map(
      sql.unsafe<{ readonly count: number }>(`with updated as (
        update ${target} as kept set ${others.map((column) => `"${column.name}" = ${value(column)}`).join(", ")}
        from ${source} as given
        where ${match} and (${of("kept", others.map(({ name }) => name))}) is distinct from (${
        others.map(compared).join(", ")
      })
        returning given.ctid as place
      ) select count(distinct place)::int as count from updated`),
      ([found]) => found?.count ?? 0,
    )
    const [found] = yield* sql.unsafe<{ readonly count: number; readonly given: number }>(`with added as (
        insert into ${target} (${listed(names)}) select ${columns.map(value).join(", ")} from ${source} as given
        where not exists (select from ${target} as kept where ${match})
        on conflict do nothing returning 1
      ) select (select count(*)::int from added) as count, count(*)::int as given from ${source}`)
    const added = found?.count ?? 0
    return { added, updated, unchanged: (found?.given ?? 0) - added - updated }
  },
)
