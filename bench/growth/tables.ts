/** Fills the large tables. Like `load`, inserts the rows first and builds the indexes afterwards. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type pg from "pg"

/** The datasets for which large tables can be generated. */
export const datasets = ["intraday_runners", "news", "historical_float_pro"] as const
export type Dataset = typeof datasets[number]

interface DatasetSource {
  /** The steps of `../data.sql` that generate the original rows, which `fill.sql` multiplies. */
  readonly from: ReadonlyArray<string>
  /** The tables, in the order in which they are filled. The step of `fill.sql` with the same name fills the table. */
  readonly tables: ReadonlyArray<string>
}

/** How to generate each dataset. */
export const datasetSources: Readonly<Record<Dataset, DatasetSource>> = {
  intraday_runners: { from: ["tools", "intraday_runners"], tables: ["intraday_runners"] },
  news: { from: ["tools"], tables: ["news"] },
  historical_float_pro: { from: ["tools", "daily_prices", "historical_float_pro"], tables: ["historical_float_pro"] },
}

/** Reads the steps of an SQL file, by name. Each step begins with `-- step: name`. */
export const readSteps = (file: string) =>
  new Map(
    readFileSync(join(import.meta.dirname, file), "utf8").split(/^-- step: /m).slice(1).map((text) => {
      const end = text.indexOf("\n")
      return [text.slice(0, end).trim(), text.slice(end)] as const
    }),
  )

const originalSteps = readSteps("../data.sql")
const multiplyingSteps = readSteps("fill.sql")

const step = (steps: ReadonlyMap<string, string>, name: string) => {
  const found = steps.get(name)
  if (found === undefined) throw new Error(`no step ${name}`)
  return found
}

/** Runs a step, and returns how many seconds it took. */
const timed = async (what: string, work: () => Promise<unknown>) => {
  const began = performance.now()
  await work()
  const seconds = (performance.now() - began) / 1000
  console.log(`  ${what}: ${seconds.toFixed(1)} s`)
  return { what, seconds }
}

/**
 * Returns the indexes of a table, with the statements to drop and rebuild each of them. For a primary key or a unique
 * constraint, the statements drop and add the constraint. `ON ONLY` is removed from the definitions, because it would
 * leave out the partitions.
 */
const readIndexes = async (client: pg.Client, table: string) => {
  const { rows } = await client.query<{ readonly name: string; readonly drop: string; readonly make: string }>(
    `select conname as name, format('alter table %I drop constraint %I', $1::text, conname) as drop,
       format('alter table %I add constraint %I %s', $1::text, conname, pg_get_constraintdef(oid)) as make
     from pg_constraint where conrelid = $1::regclass and contype in ('p', 'u')
     union all
     select relname, format('drop index %I', relname), replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')
     from pg_index join pg_class on pg_class.oid = indexrelid
     where indrelid = $1::regclass and not exists (select from pg_constraint where conindid = indexrelid)
     order by 1`,
    [table],
  )
  return rows
}

/** How long it took to fill a table. */
export interface FillTiming {
  readonly table: string
  readonly rows: number
  /** The seconds spent on inserting the rows, on building each index, and on `vacuum (analyze)`. */
  readonly times: ReadonlyArray<{ readonly what: string; readonly seconds: number }>
}

/**
 * Fills a table, and builds its indexes afterwards. `fill.sql` truncates the table in the same transaction. With
 * `wal_level=minimal`, PostgreSQL therefore writes no WAL for the rows.
 */
const fillTable = async (client: pg.Client, table: string, rows: number): Promise<FillTiming> => {
  const indexes = await readIndexes(client, table)
  await client.query("begin")
  for (const { drop } of indexes) await client.query(drop)
  const filled = await timed(
    `${table}: ${rows} rows`,
    () => client.query(step(multiplyingSteps, table).replaceAll("{{rows}}", String(rows))),
  )
  await client.query("commit")
  const built = []
  for (const { make, name } of indexes) built.push(await timed(`${table}: index ${name}`, () => client.query(make)))
  const cleaned = await timed(`${table}: vacuum (analyze)`, () => client.query(`vacuum (analyze) ${table}`))
  return { table, rows, times: [filled, ...built, cleaned] }
}

/** Fills all tables of a dataset. */
export const fillDataset = async (
  client: pg.Client,
  dataset: Dataset,
  rows: number,
): Promise<ReadonlyArray<FillTiming>> => {
  const { from, tables } = datasetSources[dataset]
  await client.query("set maintenance_work_mem = '1GB'; set max_parallel_maintenance_workers = 2")
  for (const name of from) {
    await timed(`${name} of data.sql`, () => client.query(step(originalSteps, name).replaceAll("{{tickers}}", "200")))
  }
  await client.query(step(multiplyingSteps, "tools").replaceAll("{{rows}}", String(rows)))
  const fillings: Array<FillTiming> = []
  for (const table of tables) fillings.push(await fillTable(client, table, rows))
  return fillings
}

/** The size of one component of a table. */
export interface TableSize {
  /** `heap`, `toast`, or the name of an index. */
  readonly name: string
  readonly bytes: number
}

/**
 * Reads the sizes of the heap, the TOAST table, and each index of a table, including its partitions. The sizes of
 * corresponding partition indexes are added up. They are recognized by their names, which differ only in the month and
 * in a trailing number.
 */
export const readTableSizes = async (client: pg.Client, table: string): Promise<ReadonlyArray<TableSize>> => {
  const { rows } = await client.query<{ readonly name: string; readonly bytes: string }>(
    `with parts as (select $1::regclass as oid union select relid from pg_partition_tree($1::regclass))
     select 'heap' as name, sum(pg_relation_size(oid)) as bytes from parts
     union all
     select 'toast', coalesce(sum(pg_total_relation_size(nullif(reltoastrelid, 0))), 0)
       from parts join pg_class using (oid)
     union all
     select regexp_replace(regexp_replace(relname, '_\\d{4}_\\d{2}', ''), '\\d+$', ''), sum(pg_relation_size(indexrelid))
       from parts join pg_index on indrelid = oid join pg_class on pg_class.oid = indexrelid
       where relkind = 'i' group by 1`,
    [table],
  )
  return rows.map(({ bytes, name }) => ({ name, bytes: Number(bytes) }))
}
