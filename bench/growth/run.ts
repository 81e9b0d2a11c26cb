/** Measures large tables (`npm run growth`, see ../README.md). */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import pg from "pg"
import { runServiceCommand } from "../data.ts"
import { options } from "../options.ts"
import { dataFolder, type Postgres, query, startPostgres } from "../postgres.ts"
import { makeCleanup } from "../processes.ts"
import { startServer } from "../servers/index.ts"
import { explainStatement, measureLatency } from "./latency.ts"
import { measureCopy, measureLoad } from "./loading.ts"
import { alternativeStatements, growthQueries } from "./queries.ts"
import { type GrowthOutcome, growthReport } from "./report.ts"
import { type Dataset, datasets, datasetSources, fillDataset, measureSizes } from "./tables.ts"
import { measureUsageWrites } from "./usageWrites.ts"

const wanted = datasets.filter((name) => options.datasets?.includes(name) ?? name !== "historical_float_pro")

const withClient = async <A>(url: string, work: (client: pg.Client) => Promise<A>) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Settings for filling: no WAL for data that can be regenerated, and no autovacuum during timings. */
const whileFilling = {
  wal_level: "minimal",
  max_wal_senders: 0,
  autovacuum: "off",
  synchronous_commit: "off",
  // The first vacuum modifies every page.
  full_page_writes: "off",
}

/** Settings for requests: `auto_explain` logs the plan of each statement. */
const whileAsking = {
  shared_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "1ms",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_buffers": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_format": "json",
  "auto_explain.log_nested_statements": "off",
}

const folderOfResults = join(import.meta.dirname, "../results")

const marker = (dataset: Dataset) => join(dataFolder, "growth", `${dataset}.json`)

/** Filled data is kept until a different number of rows is requested; then all datasets are deleted. */
const outer = makeCleanup()

const make = async (dataset: Dataset) => {
  const kept = existsSync(marker(dataset)) ? JSON.parse(readFileSync(marker(dataset), "utf8")) : undefined
  if (kept?.rows === options.rows) return kept.fillings
  const { end, ends } = makeCleanup(outer.ends)
  const postgres = await startPostgres({ folder: "growth", settings: whileFilling })
  ends.push(postgres.stop)
  try {
    for (const other of datasets) {
      await query(postgres.url("postgres"), `drop database if exists growth_${other} with (force)`)
      writeFileSync(marker(other), "{}")
    }
    const url = postgres.url(`growth_${dataset}`)
    await query(postgres.url("postgres"), `create database growth_${dataset}`)
    await runServiceCommand(url, "migrate")
    const fillings = await withClient(url, async (client) => {
      const found = []
      for (const filling of await fillDataset(client, dataset, options.rows)) {
        found.push({ ...filling, sizes: await measureSizes(client, filling.table) })
      }
      await client.query("checkpoint")
      return found
    })
    writeFileSync(marker(dataset), JSON.stringify({ rows: options.rows, fillings }))
    return fillings
  } finally {
    await end()
  }
}

/** API key. For the `usage` dataset it belongs to the account with the most requests. */
const keyOf = async (url: string, dataset: Dataset) => {
  const name = dataset === "usage" ? "account 1" : "growth"
  return (await runServiceCommand(url, "keys", "create", "--account", name, "--tier", "ultimate")).trim()
}

const asked = async (postgres: Postgres, dataset: Dataset, client: pg.Client) => {
  const url = postgres.url(`growth_${dataset}`)
  const key = await keyOf(url, dataset)
  process.env["CACHE_MEGABYTES"] = "0"
  const { end, ends } = makeCleanup(outer.ends)
  const server = await startServer("tickerline", { databaseUrl: url, key, origin: 0 })
  ends.push(() => server.stop())
  try {
    const found = []
    for (const question of growthQueries(dataset, options.rows)) {
      const one = await measureLatency({ postgres, client, port: server.port, key }, question)
      console.log(
        `  ${one.name.padEnd(44)} ${one.status} cold ${one.cold.toFixed(0)} ms, then ${one.median.toFixed(1)} ms`,
      )
      found.push(one)
    }
    return found
  } finally {
    await end()
  }
}

/** Measures dropping the oldest monthly partition. */
const dropped = async (client: pg.Client) => {
  const { rows: [oldest] } = await client.query<{ readonly month: string }>(
    "select (date_trunc('month', min(requested_at)) + interval '1 month 1 day')::text as month from usage",
  )
  const began = performance.now()
  const { rows } = await client.query("select drop_usage_partitions($1) as name", [oldest?.month])
  return { names: rows.map(({ name }) => String(name)), milliseconds: performance.now() - began }
}

/** Runs all measurements. Each result is saved at once, because later ones take long. */
const ask = async (dataset: Dataset, keep: (part: Partial<GrowthOutcome>) => void) => {
  const { end, ends } = makeCleanup(outer.ends)
  const postgres = await startPostgres({ folder: "growth", settings: whileAsking })
  ends.push(postgres.stop)
  try {
    const url = postgres.url(`growth_${dataset}`)
    await withClient(url, async (client) => {
      await client.query("create extension if not exists pg_buffercache; set statement_timeout = 0")
      keep({ answers: await asked(postgres, dataset, client) })
      const others = []
      for (const { name, sql } of alternativeStatements(dataset)) {
        others.push({ name, ...(await explainStatement(client, sql)) })
      }
      keep({ others })
      if (dataset === "usage") {
        keep({ written: await measureUsageWrites(postgres, url) })
        keep({ dropped: await dropped(client) })
      } else {
        keep({ copied: await measureCopy(client, dataset, postgres) })
        keep({ loaded: await measureLoad(client, url, dataset, postgres) })
      }
    })
  } finally {
    await end()
  }
}

mkdirSync(folderOfResults, { recursive: true })
for (const dataset of wanted) {
  console.log(`${dataset}: ${datasetSources[dataset].tables.join(", ")}, ${options.rows.toLocaleString("en")} rows`)
  const file = join(folderOfResults, `growth-${dataset}-${options.rows}`)
  let result: GrowthOutcome = {
    date: new Date().toISOString(),
    dataset,
    rows: options.rows,
    fillings: await make(dataset),
    answers: [],
    others: [],
    written: [],
    dropped: undefined,
    copied: [],
    loaded: [],
  }
  await ask(dataset, (part) => {
    result = { ...result, ...part }
    writeFileSync(`${file}.json`, `${JSON.stringify(result, null, 2)}\n`)
    writeFileSync(`${file}.md`, growthReport(result))
  })
  console.log(growthReport(result))
}
