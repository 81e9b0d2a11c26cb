/** Measures how fast rows are loaded, both with `copy` into tables without indexes and with the `load` command. */
import { rmSync, statSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import type pg from "pg"
import { readTreeCpu } from "../processStats.ts"
import { options } from "../options.ts"
import { dataFolder, type Postgres } from "../postgres.ts"
import { runToEnd } from "../processes.ts"
import type { Dataset } from "./tables.ts"

/** The result of loading a file. */
export interface LoadTiming {
  /** How the file was loaded. */
  readonly what: string
  readonly rows: number
  /** The size of the file in bytes. */
  readonly bytes: number
  readonly seconds: number
  /** PostgreSQL's CPU time per row, in microseconds. */
  readonly database: number
}

const file = (name: string) => join(dataFolder, "growth", name)

/**
 * Returns the columns of a table, except for the generated column `search`. `written` is the SQL expression for the
 * value in the format that `load` reads: lists are JSON, and booleans are `true` or `false`.
 */
const columnsOf = async (client: pg.Client, table: string) => {
  const { rows } = await client.query<{ readonly name: string; readonly written: string; readonly generated: boolean }>(
    `select format('%I', attname) as name, attname = 'search' as generated,
       case when coalesce(nullif(typbasetype, 0), atttypid)::regtype::text like '%[]' then format('to_jsonb(%1$I) as %1$I', attname)
         when atttypid = 'bool'::regtype then format('case when %1$I then ''true'' else ''false'' end as %1$I', attname)
         else format('%I', attname) end as written
     from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  )
  return rows.filter(({ generated }) => !generated)
}

const timed = async (what: string, rows: number, path: string, postgres: Postgres, work: () => Promise<unknown>) => {
  const [began, cpu] = [performance.now(), readTreeCpu(postgres.pid)]
  await work()
  const timing: LoadTiming = {
    what,
    rows,
    bytes: statSync(path).size,
    seconds: (performance.now() - began) / 1000,
    database: (readTreeCpu(postgres.pid) - cpu) / rows,
  }
  console.log(`  ${what}: ${rows.toLocaleString("en")} rows in ${timing.seconds.toFixed(1)} s`)
  return timing
}

/** Measures `copy` with a million rows, or with all rows of a smaller table, both with and without WAL. */
export const measureCopy = async (
  client: pg.Client,
  table: Dataset,
  postgres: Postgres,
): Promise<ReadonlyArray<LoadTiming>> => {
  const path = file("rows.copy")
  const rows = Math.min(1_000_000, options.rows)
  const names = (await columnsOf(client, table)).map(({ name }) => name).join(", ")
  await client.query(`copy (select ${names} from ${table} limit ${rows}) to '${path}'`)
  await client.query(`create unlogged table bare (like ${table} including defaults including generated)`)
  await client.query(`create table logged (like ${table} including defaults including generated)`)
  try {
    const copy = (into: string) => () => client.query(`copy ${into} (${names}) from '${path}'`)
    return [
      await timed("COPY, unlogged and without indexes", rows, path, postgres, copy("bare")),
      await timed("COPY, logged and without indexes", rows, path, postgres, copy("logged")),
    ]
  } finally {
    await client.query("drop table bare, logged")
    rmSync(path, { force: true })
  }
}

/** Measures `load` in a separate database, with 0.5, 1, and 2 million rows. */
export const measureLoad = async (
  client: pg.Client,
  url: string,
  table: Dataset,
  postgres: Postgres,
): Promise<ReadonlyArray<LoadTiming>> => {
  const other = url.replace(/\/[^/]*$/, "/growth_load")
  await client.query("drop database if exists growth_load with (force)")
  await client.query("create database growth_load")
  const command = (...args: ReadonlyArray<string>) =>
    runToEnd({
      program: process.execPath,
      args: ["src/main.ts", ...args],
      cwd: options.tickerline,
      env: { DATABASE_URL: other },
    })
  const written = (await columnsOf(client, table)).map(({ written }) => written).join(", ")
  try {
    await command("migrate")
    const found: Array<LoadTiming> = []
    for (const rows of [500_000, 1_000_000, 2_000_000].filter((count) => count <= options.rows)) {
      const path = file("rows.csv")
      await client.query(
        `copy (select ${written} from (select * from ${table} limit ${rows}) as r) to '${path}' (format csv, header)`,
      )
      found.push(await timed("load", rows, path, postgres, () => command("load", table, path)))
      rmSync(path, { force: true })
    }
    return found
  } finally {
    await client.query("drop database if exists growth_load with (force)")
  }
}
