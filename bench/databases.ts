/**
 * Prepares the two benchmark databases: `bench`, and `bench_small`, which has a tenth of the rows. The service's
 * migrations create the tables. The data is kept for later runs until `data.sql` changes.
 */
import { createHash } from "node:crypto"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import pg from "pg"
import { options } from "./options.ts"
import { dataFolder, type Postgres, query } from "./postgres.ts"
import { runToEnd } from "./processes.ts"

export const databases = ["bench", "bench_small"] as const
export type Database = typeof databases[number]

const source = readFileSync(join(import.meta.dirname, "data.sql"), "utf8")

const steps = source.split(/^-- step: /m).slice(1).map((text) => {
  const end = text.indexOf("\n")
  return { name: text.slice(0, end).trim(), sql: text.slice(end) }
})

/** For each database, the number of tickers that have runners, and the steps of `data.sql` that fill the database. */
const plans = {
  bench: { tickers: 5000, only: steps.map(({ name }) => name) },
  bench_small: { tickers: 500, only: ["tools", "intraday_runners"] },
}

/** Runs a Tickerline command on a database, and returns the command's output. */
export const runServiceCommand = (url: string, ...args: ReadonlyArray<string>) =>
  runToEnd({
    program: process.execPath,
    args: ["src/main.ts", ...args],
    cwd: options.tickerline,
    env: { DATABASE_URL: url },
  })

/**
 * Fills a database by running those steps of `data.sql` that `plans` lists for it, with the number of tickers that is
 * also listed there, and prints how long each step took.
 */
const fill = async (url: string, database: Database) => {
  const { only, tickers } = plans[database]
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (
      const { name, sql } of steps.filter(({ name }) => only.includes(name))
    ) {
      const began = Date.now()
      await client.query(sql.replaceAll("{{tickers}}", String(tickers)))
      console.log(
        `  ${database}: ${name} in ${((Date.now() - began) / 1000).toFixed(1)} s`,
      )
    }
    await client.query("vacuum (analyze)")
  } finally {
    await client.end()
  }
}

/** Creates missing databases, and recreates those whose data is outdated. Returns an API key for each database. */
export const prepareBenchmarkDatabases = async (
  postgres: Postgres,
  wanted: ReadonlyArray<Database> = databases,
) => {
  const version = createHash("sha256").update(source).digest("hex").slice(
    0,
    12,
  )
  const keys = { bench: "", bench_small: "" }
  for (const database of wanted) {
    const url = postgres.url(database)
    const [marker, key] = [
      join(dataFolder, `cluster/${database}.complete`),
      join(dataFolder, `cluster/${database}.key`),
    ]
    const isComplete = existsSync(marker) &&
      readFileSync(marker, "utf8") === version
    if (!isComplete) {
      console.log(`Creating the data of ${database}`)
      await query(
        postgres.url("postgres"),
        `drop database if exists ${database} with (force)`,
      )
      await query(postgres.url("postgres"), `create database ${database}`)
    }
    await runServiceCommand(url, "migrate")
    if (!isComplete) {
      await fill(url, database)
      writeFileSync(
        key,
        (await runServiceCommand(
          url,
          "keys",
          "create",
          "--account",
          "bench",
          "--tier",
          "ultimate",
        )).trim(),
      )
      writeFileSync(marker, version)
    }
    await query(url, "truncate usage, usage_daily")
    keys[database] = readFileSync(key, "utf8")
  }
  await query(postgres.url("postgres"), "checkpoint")
  return keys
}
