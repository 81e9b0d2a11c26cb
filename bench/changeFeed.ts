/**
 * `npm run feed` writes 10,000 changes per second, in transactions of 1 to 2,000 changes, while 100 clients follow the
 * change stream. It prints the delay between the commit of a change and its receipt, and the service's memory usage.
 */
import { spawn } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import { createInterface } from "node:readline"
import pg from "pg"
import { runServiceCommand } from "./databases.ts"
import { options } from "./options.ts"
import { query, startPostgres } from "./postgres.ts"
import { makeCleanup, sleep } from "./processes.ts"
import { readCpu, readMemory } from "./processStats.ts"
import { startServer } from "./servers/index.ts"
import { makeRandomGenerator } from "./symbols.ts"

const { clients, rate: changesPerSecond, seconds } = options
const reportSeconds = 10

/** The numbers of rows per transaction. One is chosen at random for each transaction. */
const sizes = [1, 10, 100, 500, 1_000, 2_000]

/** A report that `changeFeedClients.ts` prints every second. */
interface ClientReport {
  /** The number of streams opened since the start. `ended` is the number of streams that have ended. */
  readonly opened: number
  readonly ended: number
  /**
   * The number of bytes received since the start by the client that received the fewest. `most` is the number for the
   * client that received the most.
   */
  readonly least: number
  readonly most: number
  /** The median delay of the changes received in the last second, in milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/**
 * Writes changes until stopped: one transaction inserts the rows for a new symbol, and the next updates each of those
 * rows. `sizes` are the numbers of rows from which one is chosen for each symbol. `written` counts the changes and the
 * transactions so far, and `stop` resolves when the last one has been committed.
 */
const startWriter = async (url: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const chance = makeRandomGenerator(7)
  const began = performance.now()
  const written = { changes: 0, transactions: 0 }
  const state = { isStopped: false }
  /** Writes at the configured rate, by sleeping whenever more changes than due have been written. */
  const write = async () => {
    for (let number = 0; !state.isStopped; number += 1) {
      const size = sizes[Math.floor(chance() * sizes.length)] ?? 1
      const ticker = `F${number}`
      await client.query(
        `insert into historical_float_pro (ticker, filed_at, outstanding_shares, is_adr, last_updated)
          select $1, date '2000-01-01' + day, 1, false, '2026-01-01' from generate_series(1, $2) as day`,
        [ticker, size],
      )
      await client.query("update historical_float_pro set outstanding_shares = 2 where ticker = $1", [ticker])
      written.changes += 2 * size
      written.transactions += 2
      const ahead = written.changes / changesPerSecond * 1000 - (performance.now() - began)
      if (ahead > 0) await sleep(ahead)
    }
    await client.end()
  }
  const done = write()
  return {
    written,
    stop: async () => {
      state.isStopped = true
      await done
    },
  }
}

/**
 * Starts all clients of the feed in a single separate process. It prints one line of JSON at a time, each with what the
 * clients have received since the last line. `reports` collects these lines.
 */
const startClients = (port: number, key: string) => {
  const child = spawn(process.execPath, [
    join(import.meta.dirname, "changeFeedClients.ts"),
    `${port}`,
    key,
    `${clients}`,
  ], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const reports: Array<ClientReport> = []
  createInterface({ input: child.stdout }).on("line", (line) => reports.push(JSON.parse(line)))
  const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()))
  return {
    reports,
    stop: async () => {
      child.kill("SIGTERM")
      await ended
    },
  }
}

const { cleanUp, cleanupSteps } = makeCleanup()
try {
  const postgres = await startPostgres({ folder: "feed" })
  cleanupSteps.push(postgres.stop)
  const url = postgres.url("feed")
  await query(postgres.url("postgres"), "drop database if exists feed with (force)")
  await query(postgres.url("postgres"), "create database feed")
  await runServiceCommand(url, "migrate")
  const key = (await runServiceCommand(url, "keys", "create", "--account", "bench", "--tier", "ultimate")).trim()
  process.env["MAX_STREAMS_PER_ACCOUNT"] = String(clients)
  const server = await startServer("tickerline", { databaseUrl: url, key, origin: 0 })
  cleanupSteps.push(() => server.stop())
  const { reports, stop: stopClients } = startClients(server.port, key)
  cleanupSteps.push(stopClients)
  while ((reports.at(-1)?.opened ?? 0) < clients) await sleep(100)
  const writer = await startWriter(url)

  console.log("seconds  changes/s  MB/s sent  delay p50  p99  max (ms)  memory  CPU of the service")
  let [changes, bytes, cpu] = [0, 0, readCpu(server.pid)]
  for (let second = reportSeconds; second <= seconds; second += reportSeconds) {
    const from = reports.length
    await sleep(reportSeconds * 1000)
    const recent = reports.slice(from)
    const worst = (name: "p50" | "p99" | "max") => Math.max(...recent.map((report) => report[name]))
    const sent = (recent.at(-1)?.most ?? 0) * clients
    const used = readCpu(server.pid)
    const columns = [
      second,
      Math.round((writer.written.changes - changes) / reportSeconds),
      Math.round((sent - bytes) / reportSeconds / 1e6),
      worst("p50"),
      worst("p99"),
      worst("max"),
      `${Math.round(readMemory(server.pid).now)} MiB`,
      `${Math.round((used - cpu) / reportSeconds / 10_000)} %`,
    ]
    console.log(columns.join("  "))
    changes = writer.written.changes
    bytes = sent
    cpu = used
  }
  await writer.stop()
  // All clients have received everything once their byte counts are equal and no longer increase.
  const isComplete = () => {
    const [before, last] = reports.slice(-2)
    return before !== undefined && last !== undefined && last.least === last.most && last.most === before.most
  }
  while (!isComplete() && (reports.at(-1)?.ended ?? 0) === 0) await sleep(500)
  const { ended = 0, least = 0, most = 0 } = reports.at(-1) ?? {}
  const { changes: count, transactions } = writer.written
  console.log(
    `${count} changes in ${transactions} transactions; ${ended} streams ended, ${least} to ${most} bytes each`,
  )
} finally {
  await cleanUp()
}
