/** `npm run growth` fills large tables, and measures requests and loading (see ../README.md). */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import pg from "pg"
import { runServiceCommand } from "../databases.ts"
import { options } from "../options.ts"
import { dataFolder, type Postgres, query, startPostgres } from "../postgres.ts"
import { makeCleanup } from "../processes.ts"
import { startServer } from "../servers/index.ts"
import { measureRequest, measureStatement } from "./latency.ts"
import { measureCopy, measureLoad } from "./loading.ts"
import { listAlternatives, listDatasetRequests } from "./requests.ts"
import { formatGrowthReport, type GrowthResult } from "./report.ts"
import { type Dataset, datasets, datasetSources, fillDataset, readTableSizes } from "./tables.ts"

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

/**
 * PostgreSQL settings for filling tables. Little WAL is written, because the rows can be regenerated, and autovacuum is
 * off.
 */
const whileFilling = {
  wal_level: "minimal",
  max_wal_senders: 0,
  autovacuum: "off",
  synchronous_commit: "off",
  // With full-page writes, the first vacuum would write every page to the WAL.
  full_page_writes: "off",
}

/**
 * PostgreSQL settings for measuring requests. The plan of every statement that takes at least a millisecond is logged.
 */
const whileMeasuring = {
  shared_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "1ms",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_buffers": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_format": "json",
  "auto_explain.log_nested_statements": "off",
}

const resultsFolder = join(import.meta.dirname, "../results")

const marker = (dataset: Dataset) => join(dataFolder, "growth", `${dataset}.json`)

const outer = makeCleanup()

/**
 * Fills the database of a dataset, unless it already has the requested number of rows. Before filling, drops the
 * databases of all datasets. Returns how long each table took to
 * fill, and its size. The file `marker(dataset)` stores this together with the number of rows.
 */
const fillUnlessFilled = async (dataset: Dataset) => {
  const earlier = existsSync(marker(dataset)) ? JSON.parse(readFileSync(marker(dataset), "utf8")) : undefined
  if (earlier?.rows === options.rows) return earlier.fillings
  const { cleanUp, cleanupSteps } = makeCleanup(outer.cleanupSteps)
  const postgres = await startPostgres({ folder: "growth", settings: whileFilling })
  cleanupSteps.push(postgres.stop)
  try {
    for (const each of datasets) {
      await query(postgres.url("postgres"), `drop database if exists growth_${each} with (force)`)
      // Without `rows`, the database counts as not filled.
      writeFileSync(marker(each), "{}")
    }
    const url = postgres.url(`growth_${dataset}`)
    await query(postgres.url("postgres"), `create database growth_${dataset}`)
    await runServiceCommand(url, "migrate")
    const fillings = await withClient(url, async (client) => {
      const found = []
      for (const filling of await fillDataset(client, dataset, options.rows)) {
        found.push({ ...filling, sizes: await readTableSizes(client, filling.table) })
      }
      await client.query("checkpoint")
      return found
    })
    writeFileSync(marker(dataset), JSON.stringify({ rows: options.rows, fillings }))
    return fillings
  } finally {
    await cleanUp()
  }
}

/**
 * Measures all requests for a dataset, with the service's caches disabled. Starts a service on the dataset's database,
 * and stops it at the end. `client` is a connection to the same database, with which caches are emptied. Returns one
 * measurement per request.
 */
const measureRequests = async (postgres: Postgres, dataset: Dataset, client: pg.Client) => {
  const url = postgres.url(`growth_${dataset}`)
  const key = (await runServiceCommand(url, "keys", "create", "--account", "growth", "--tier", "ultimate")).trim()
  process.env["CACHE_MEGABYTES"] = "0"
  const { cleanUp, cleanupSteps } = makeCleanup(outer.cleanupSteps)
  const server = await startServer("tickerline", { databaseUrl: url, key, origin: 0 })
  cleanupSteps.push(() => server.stop())
  try {
    const found = []
    for (const request of listDatasetRequests(dataset, options.rows)) {
      const one = await measureRequest({ postgres, client, port: server.port, key }, request)
      console.log(
        `  ${one.name.padEnd(44)} ${one.status} cold ${one.cold.toFixed(0)} ms, then ${one.median.toFixed(1)} ms`,
      )
      found.push(one)
    }
    return found
  } finally {
    await cleanUp()
  }
}

/**
 * Measures a dataset: its requests, alternative statements for them, and how long it takes to copy and to load its
 * rows. Later measurements take long, so each result is passed to `keep`, which writes the report, as soon as it is
 * available.
 */
const measureDataset = async (dataset: Dataset, keep: (part: Partial<GrowthResult>) => void) => {
  const { cleanUp, cleanupSteps } = makeCleanup(outer.cleanupSteps)
  const postgres = await startPostgres({ folder: "growth", settings: whileMeasuring })
  cleanupSteps.push(postgres.stop)
  try {
    const url = postgres.url(`growth_${dataset}`)
    await withClient(url, async (client) => {
      await client.query("create extension if not exists pg_buffercache; set statement_timeout = 0")
      keep({ requests: await measureRequests(postgres, dataset, client) })
      const alternatives = []
      for (const { name, sql } of listAlternatives(dataset)) {
        alternatives.push({ name, ...(await measureStatement(client, sql)) })
      }
      keep({ alternatives })
      keep({ copied: await measureCopy(client, dataset, postgres) })
      keep({ loaded: await measureLoad(client, url, dataset, postgres) })
    })
  } finally {
    await cleanUp()
  }
}

mkdirSync(resultsFolder, { recursive: true })
for (const dataset of wanted) {
  console.log(`${dataset}: ${datasetSources[dataset].tables.join(", ")}, ${options.rows.toLocaleString("en")} rows`)
  const file = join(resultsFolder, `growth-${dataset}-${options.rows}`)
  let result: GrowthResult = {
    date: new Date().toISOString(),
    dataset,
    rows: options.rows,
    fillings: await fillUnlessFilled(dataset),
    requests: [],
    alternatives: [],
    copied: [],
    loaded: [],
  }
  await measureDataset(dataset, (part) => {
    result = { ...result, ...part }
    writeFileSync(`${file}.json`, `${JSON.stringify(result, null, 2)}\n`)
    writeFileSync(`${file}.md`, formatGrowthReport(result))
  })
  console.log(formatGrowthReport(result))
}
