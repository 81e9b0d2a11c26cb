/**
 * Records the replies of a real PostgreSQL server to the statements of all cases. Its database contains a subset of the
 * benchmark data.
 */
import { hash } from "node:crypto"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import pg from "pg"
import { runServiceCommand } from "../databases.ts"
import { dataFolder, query, startPostgres } from "../postgres.ts"
import { sleep } from "../processes.ts"
import { allChains, makeInProcessCases } from "./cases.ts"
import { MemoryClient } from "./memoryClient.ts"
import { makeRecorder, type Recording } from "./recording.ts"
import { startService } from "./service.ts"

/** The number of tickers in the screener, and the number of tickers that have data in the other tables. */
const [screenerTickers, otherTickers] = [2000, 20]

/**
 * How long the service keeps running after the last request, in milliseconds, so that all its background statements are
 * recorded.
 */
const backgroundMillis = 3000

const source = readFileSync(join(import.meta.dirname, "../data.sql"), "utf8")

/**
 * Fills the database with the steps of `data.sql`, which `source` contains: the screener for many tickers, then the
 * other datasets for fewer. Adds the ticker changes of `allChains`, each of which lists the symbols of one company from
 * the oldest to the newest.
 */
const fill = async (url: string) => {
  const steps = new Map(
    source.split(/^-- step: /m).slice(1).map((text) => {
      const end = text.indexOf("\n")
      return [text.slice(0, end).trim(), text.slice(end)]
    }),
  )
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const run = (name: string) =>
    client.query(
      (steps.get(name) ?? "").replaceAll("{{tickers}}", String(otherTickers)),
    )
  const keepTickers = (count: number) => client.query("delete from tickers where n > $1::int", [count])
  await run("tools")
  await keepTickers(screenerTickers)
  await run("screener")
  await keepTickers(otherTickers)
  for (
    const name of ["intraday_runners", "daily_prices", "historical_float_pro"]
  ) await run(name)
  await client.query(
    `insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, company_name, status)
     select old_ticker, new_ticker, date '2009-05-06' + number * 400, '0001000000', 'Company 0', 'confirmed'
     from unnest($1::text[], $2::text[], $3::int[]) as change (old_ticker, new_ticker, number)`,
    [
      allChains.flatMap((symbols) => symbols.slice(0, -1)),
      allChains.flatMap((symbols) => symbols.slice(1)),
      allChains.flatMap((symbols) => symbols.slice(1).map((_, number) => 1 + number)),
    ],
  )
  await client.query("vacuum (analyze)")
  await client.end()
}

/**
 * Creates and fills the database at `url` unless that was done before, and migrates it. Returns an API key. The file of
 * the key shows that the database has been filled: its name contains a hash of the data. `admin` is the URL of another
 * database on the same server.
 */
const prepare = async (admin: string, url: string) => {
  const keyFile = join(
    dataFolder,
    `inprocess/${hash("sha256", source + String(allChains)).slice(0, 12)}.key`,
  )
  if (!existsSync(keyFile)) {
    await query(admin, "drop database if exists inprocess with (force)")
    await query(admin, "create database inprocess")
  }
  await runServiceCommand(url, "migrate")
  if (!existsSync(keyFile)) {
    await fill(url)
    const key = await runServiceCommand(
      url,
      "keys",
      "create",
      "--account",
      "bench",
      "--tier",
      "ultimate",
    )
    writeFileSync(keyFile, key.trim())
  }
  return readFileSync(keyFile, "utf8")
}

/** Sends the request of each case to the service. Returns the recording, except for its version. */
export const recordStatements = async (): Promise<
  Omit<Recording, "version">
> => {
  const postgres = await startPostgres({ folder: "inprocess" })
  try {
    const url = postgres.url("inprocess")
    const key = await prepare(postgres.url("postgres"), url)
    const { failures, listStatements, record, startCase } = makeRecorder()
    const bodies: Record<string, string> = {}
    const all = makeInProcessCases(key)
    for (const isUncached of [undefined, true] as const) {
      const service = await startService(url, (openSocket) => record(openSocket()), isUncached)
      const client = new MemoryClient(service.server)
      for (const { name, recorded, results, status } of all.filter((one) => one.isUncached === isUncached)) {
        startCase(name)
        const response = await client.request(recorded)
        bodies[name] = response.body.toString()
        const expected = status === 304 ? 200 : status
        const count = results === undefined ? undefined : JSON.parse(bodies[name]).count
        if (response.status !== expected || count !== results) {
          throw new Error(
            `${name} returned ${response.status} and ${count} results:\n${bodies[name]}`,
          )
        }
      }
      startCase("end")
      await sleep(backgroundMillis)
      client.close()
      await service.stop()
    }
    if (failures.length > 0) {
      throw new Error(`Statements failed:\n${failures.join("\n")}`)
    }
    return { key, statements: listStatements(), bodies }
  } finally {
    await postgres.stop()
  }
}
