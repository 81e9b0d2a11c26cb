/**
 * `npm run past` compares the latency of requests with `as_of` to the latency of requests for current data. The table
 * contains 100,000 intraday runners with ten versions each. The database is kept for later runs. The service's caches
 * are disabled.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import pg from "pg"
import { runServiceCommand } from "./databases.ts"
import { authorizationHeaders, sendRequest } from "./httpClient.ts"
import { dataFolder, query, startPostgres } from "./postgres.ts"
import { makeCleanup } from "./processes.ts"
import { startServer } from "./servers/index.ts"
import { median } from "./statistics.ts"
import { makeTickerSymbol } from "./symbols.ts"

const tickers = 1000
const versions = 10
const [warmups, repetitions] = [200, 400]

const marker = join(dataFolder, "as-of.json")

/**
 * Fills the table, then updates every row nine times. Returns ten timestamps, one at which each version was current.
 */
const fill = async (url: string) => {
  const steps = readFileSync(join(import.meta.dirname, "data.sql"), "utf8").split(/^-- step: /m)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const moments: Array<string> = []
  const addMoment = async () => {
    const { rows: [row] } = await client.query("select clock_timestamp()::text as now")
    moments.push(new Date(row.now).toISOString())
    await client.query("select pg_sleep(0.01)")
  }
  for (const name of ["tools", "intraday_runners"]) {
    const step = steps.find((text) => text.startsWith(`${name}\n`)) ?? ""
    await client.query(step.slice(name.length).replaceAll("{{tickers}}", String(tickers)))
  }
  await addMoment()
  for (let version = 2; version <= versions; version += 1) {
    // Each transaction changes a hundred tickers, like a real load.
    for (let first = 1; first <= tickers; first += 100) {
      const symbols = Array.from({ length: 100 }, (_, at) => makeTickerSymbol(first + at))
      await client.query("update intraday_runners set volume = volume + 1 where ticker = any ($1)", [symbols])
    }
    await addMoment()
    console.log(`  version ${version}`)
  }
  await client.query("vacuum (analyze)")
  await client.end()
  return moments
}

const runners = "/v1/intraday-runners"

/** Functions that return the path of a request, by description. `number` varies the ticker or the month. */
const requests: Readonly<Record<string, (number: number) => string>> = {
  "one ticker": (number) => `${runners}?ticker=${makeTickerSymbol(1 + number % tickers)}`,
  "ten tickers": (number) =>
    `${runners}?ticker=${
      Array.from({ length: 10 }, (_, at) => makeTickerSymbol(1 + (number + at * 97) % tickers)).join()
    }`,
  "first page": () => `${runners}?`,
  "page of 100 after 5,000 rows": () => `${runners}?limit=100&page=51`,
  "gaps of a month": (number) =>
    `${runners}?date_from=2021-0${1 + number % 9}-01&date_to=2021-0${1 + number % 9}-28&min_gap_percentage=40`,
}

const { cleanUp, cleanupSteps } = makeCleanup()
try {
  const postgres = await startPostgres({ folder: "as-of" })
  cleanupSteps.push(postgres.stop)
  const url = postgres.url("as_of")
  if (!existsSync(marker)) {
    await query(postgres.url("postgres"), "drop database if exists as_of with (force)")
    await query(postgres.url("postgres"), "create database as_of")
    await runServiceCommand(url, "migrate")
    writeFileSync(marker, JSON.stringify(await fill(url)))
  }
  const moments: ReadonlyArray<string> = JSON.parse(readFileSync(marker, "utf8"))
  const key = (await runServiceCommand(url, "keys", "create", "--account", "bench", "--tier", "ultimate")).trim()
  process.env["CACHE_MEGABYTES"] = "0"
  const server = await startServer("tickerline", { databaseUrl: url, key, origin: 0 })
  cleanupSteps.push(() => server.stop())

  const time = async (path: string) => {
    const began = performance.now()
    const { status } = await sendRequest(server.port, path, authorizationHeaders(key))
    if (status !== 200) throw new Error(`${path} returned ${status}`)
    return performance.now() - began
  }
  const states = [
    ["current", ""],
    ["oldest version", `&as_of=${moments[0]}`],
    ["fifth version", `&as_of=${moments[4]}`],
    ["newest version", `&as_of=${moments.at(-1)}`],
  ] as const
  for (const [name, path] of Object.entries(requests)) {
    const timings = states.map(() => [] as Array<number>)
    // Requests for the different versions alternate, so that other load on the machine affects all versions equally.
    for (let number = 0; number < warmups + repetitions; number += 1) {
      for (const [index, [, parameter]] of states.entries()) {
        const took = await time(path(number) + parameter)
        if (number >= warmups) timings[index]?.push(took)
      }
    }
    const [current = Number.NaN, ...past] = timings.map(median)
    const shown = past.map((took, index) =>
      `${states[index + 1]?.[0]} ${took.toFixed(2)} ms (${(took / current).toFixed(2)} ×)`
    )
    console.log(`${name.padEnd(30)} current ${current.toFixed(2)} ms, ${shown.join(", ")}`)
  }
} finally {
  await cleanUp()
}
