/**
 * `npm run usage` measures writing and reading of usage records. With `--against`, it also compares the results with
 * another version (see ../README.md).
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import pg from "pg"
import { options } from "../options.ts"
import { type Postgres, query, startPostgres } from "../postgres.ts"
import { makeCleanup, runToEnd } from "../processes.ts"
import { startService } from "../capacity/services.ts"
import { measureRequest, measureStatement } from "./latency.ts"
import { usageAccounts } from "./requests.ts"
import { readSteps } from "./tables.ts"
import {
  formatUsageReport,
  type UnsettledReading,
  type UsageReading,
  type UsageResult,
  type UsageWriting,
} from "./usageReport.ts"
import type { WritingCosts, WritingScenario } from "./usageWriting.ts"

/** A checkout of the service to measure, and the database that it uses. */
interface Version {
  /** `before` for the version given by `--against`, otherwise `after`. */
  readonly name: string
  readonly folder: string
  readonly url: string
}

const scenarios: ReadonlyArray<Omit<WritingScenario, "isSettled">> = [
  { writers: 1, accounts: "1,000", requestsPerBatch: 2000, batches: 100 },
  { writers: 2, accounts: "1,000", requestsPerBatch: 2000, batches: 60 },
  { writers: 2, accounts: "500 of each writer", requestsPerBatch: 2000, batches: 60 },
  { writers: 1, accounts: "1,000", requestsPerBatch: 250, batches: 200 },
  { writers: 1, accounts: "1,000", requestsPerBatch: 25, batches: 400 },
  { writers: 1, accounts: "1,000", requestsPerBatch: 1, batches: 1000 },
  { writers: 1, accounts: "one", requestsPerBatch: 2000, batches: 100 },
  { writers: 2, accounts: "one", requestsPerBatch: 2000, batches: 60 },
  { writers: 1, accounts: "one", requestsPerBatch: 250, batches: 200 },
]

const runIn = ({ folder, url }: Version, ...args: ReadonlyArray<string>) =>
  runToEnd({ program: process.execPath, args: ["src/main.ts", ...args], cwd: folder, env: { DATABASE_URL: url } })

const steps = readSteps("usage.sql")
const tools = readSteps("../data.sql").get("tools") ?? ""

/**
 * Creates a database that contains the accounts' usage, in the storage format of the version of the service. The steps
 * are those of `usage.sql`: `requests` generates the requests, `after` stores them as batches, as newer versions do,
 * and `before` as one row per request.
 */
const fill = async (postgres: Postgres, version: Version) => {
  const name = `growth_usage_${version.name}`
  await query(postgres.url("postgres"), `drop database if exists ${name} with (force)`)
  await query(postgres.url("postgres"), `create database ${name}`)
  await runIn(version, "migrate")
  const client = new pg.Client({ connectionString: version.url })
  await client.connect()
  try {
    const { rows: [found] } = await client.query<{ readonly has_batches: boolean }>(
      "select to_regclass('usage_batches') is not null as has_batches",
    )
    await client.query(`set work_mem = '256MB'; ${tools}`)
    for (const step of ["requests", found?.has_batches === true ? "after" : "before"]) {
      const start = performance.now()
      await client.query((steps.get(step) ?? "").replaceAll("{{rows}}", String(options.rows)))
      console.log(`  ${version.name}: ${step} in ${((performance.now() - start) / 1000).toFixed(1)} s`)
    }
    await client.query("create extension if not exists pg_buffercache")
    await client.query("vacuum (analyze)")
    await client.query("checkpoint")
  } finally {
    await client.end()
  }
}

/**
 * Measures the requests for each account's usage, in several rounds. Starts one service per version, each on its own
 * database. Within a round, the versions are measured one after the other, so that other load on the machine affects
 * all of them equally.
 */
const measureReading = async (postgres: Postgres, versions: ReadonlyArray<Version>) => {
  const { cleanUp, cleanupSteps } = makeCleanup(outer.cleanupSteps)
  const found: Array<UsageReading> = []
  try {
    const services = []
    for (const version of versions) {
      const service = await startService(
        `usage-${version.name}`,
        version.url,
        { CACHE_MEGABYTES: "0" },
        version.folder,
      )
      const client = new pg.Client({ connectionString: version.url })
      await client.connect()
      cleanupSteps.push(service.stop, () => client.end())
      services.push({ version, service, client })
    }
    for (const { name: account, requests } of usageAccounts) {
      const measured = []
      for (const { client, service, version } of services) {
        const key = (await runIn(version, "keys", "create", "--account", account, "--tier", "ultimate")).trim()
        measured.push({ name: version.name, context: { postgres, client, port: service.port, key } })
      }
      for (const request of requests) {
        for (let round = 0; round < options.rounds; round += 1) {
          for (const { context, name } of measured) {
            found.push({ version: name, account, ...(await measureRequest(context, request)) })
          }
        }
        const [last] = found.slice(-1)
        console.log(`  ${account}: ${request.name}, ${last?.status}, ${last?.median.toFixed(1)} ms`)
      }
    }
    return found
  } finally {
    await cleanUp()
  }
}

/** Runs a writing scenario in a separate process, with the version's usage writer. */
const write = async (
  postgres: Postgres,
  { folder, url }: Pick<Version, "folder" | "url">,
  scenario: WritingScenario,
): Promise<WritingCosts> =>
  JSON.parse(
    await runToEnd({
      program: process.execPath,
      args: [join(import.meta.dirname, "../main.ts"), "usage-writing", "--tickerline", folder],
      env: { TASK: JSON.stringify({ ...scenario, url, postgres: postgres.pid }) },
    }),
  )

/** Measures each writing scenario. Measurements of the versions alternate. */
const measureWriting = async (postgres: Postgres, versions: ReadonlyArray<Version>) => {
  const found: Array<UsageWriting> = []
  for (const scenario of scenarios) {
    for (let round = 0; round < options.rounds; round += 1) {
      for (const version of versions) {
        const costs = await write(postgres, version, { ...scenario, isSettled: true })
        console.log(`  ${version.name}: ${JSON.stringify({ ...scenario, ...costs })}`)
        found.push({ version: version.name, ...scenario, ...costs })
      }
    }
  }
  return found
}

/**
 * Measures how long it takes to read the balance of a prepaid account while some of its usage has not been charged yet
 * (unsettled). Every unsettled batch contains usage of the account.
 */
const measureUnsettled = async (postgres: Postgres, versions: ReadonlyArray<Version>) => {
  const found: Array<UnsettledReading> = []
  for (const batches of [40, 2000]) {
    for (const { folder, name, url } of versions) {
      const scenario = { writers: 1, accounts: "1,000", requestsPerBatch: 500, batches, isSettled: false } as const
      await write(postgres, { folder, url }, scenario)
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      try {
        const { best } = await measureStatement(
          client,
          "select spendable_microdollars(accounts) from accounts where account_id = 1",
        )
        found.push({ version: name, batches, milliseconds: best })
      } finally {
        await client.end()
      }
    }
  }
  return found
}

const outer = makeCleanup()
const postgres = await startPostgres({ folder: "growth" })
outer.cleanupSteps.push(postgres.stop)
try {
  const folders = { ...(options.against === undefined ? {} : { before: options.against }), after: options.tickerline }
  const versions = Object.entries(folders).map(([name, folder]) => ({
    name,
    folder,
    url: postgres.url(`growth_usage_${name}`),
  }))
  const isWanted = (part: string) => options.only?.includes(part) ?? true
  if (isWanted("fill")) { for (const version of versions) await fill(postgres, version) }
  const result: UsageResult = {
    date: new Date().toISOString(),
    rows: options.rows,
    readings: isWanted("reading") ? await measureReading(postgres, versions) : [],
    writings: isWanted("writing") ? await measureWriting(postgres, versions) : [],
    unsettled: isWanted("unsettled") ? await measureUnsettled(postgres, versions) : [],
  }
  const folder = join(import.meta.dirname, "../results")
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `usage-${result.date.slice(0, 16).replaceAll(":", "-")}`)
  writeFileSync(`${file}.json`, `${JSON.stringify(result, null, 2)}\n`)
  writeFileSync(`${file}.md`, formatUsageReport(result))
  console.log(formatUsageReport(result))
} finally {
  await outer.cleanUp()
}
