/**
 * `npm run first-load` loads the archives that `edgar_archives.py` created in `--folder`, while a client sends requests
 * at a constant rate. It prints the latency before, during, and after the load.
 */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import process from "node:process"
import { createInterface } from "node:readline"
import { runServiceCommand } from "./databases.ts"
import { authorizationHeaders, sendRequest } from "./httpClient.ts"
import { options } from "./options.ts"
import { query, startPostgres } from "./postgres.ts"
import { findFreePort, makeCleanup, sleep } from "./processes.ts"
import { readCpu, readMemory, readTreeCpu } from "./processStats.ts"
import { startServer } from "./servers/index.ts"
import { makeRandomGenerator } from "./symbols.ts"

const { folder, rate: requestsPerSecond, seconds: reportSeconds } = options

const endpoints = ["news", "registrations", "float-outstanding", "historical-float-pro", "screener"]

/** Starts a stub for the SEC's server. It serves the ticker list, but no other document. */
const startSecStub = async () => {
  const path = "/files/company_tickers_exchange.json"
  const list = readFileSync(join(folder, path))
  const port = await findFreePort()
  const server = createServer((request, response) => {
    if (request.url === path) response.end(list)
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  const { data } = JSON.parse(list.toString()) as { data: ReadonlyArray<readonly [number, string, string]> }
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    symbols: data.map(([, , symbol]) => symbol),
    stop: () => void server.close(),
  }
}

/**
 * Sends requests at a constant rate, regardless of how long the responses take. Latency is measured from the time at
 * which a request was due, so a stalled client does not hide a stall of the service.
 */
const startClient = (port: number, key: string, symbols: ReadonlyArray<string>) => {
  const chance = makeRandomGenerator(3)
  const choose = (values: ReadonlyArray<string>) => values[Math.floor(chance() * values.length)] ?? ""
  const began = performance.now()
  let [times, failures, sent]: [Array<number>, number, number] = [[], 0, 0]
  const send = async (due: number) => {
    const path = `/v1/${choose(endpoints)}?ticker=${choose(symbols)}`
    const { status } = await sendRequest(port, path, authorizationHeaders(key)).catch(() => ({ status: 0 }))
    times.push(performance.now() - due)
    if (status !== 200) failures += 1
  }
  const timer = setInterval(() => {
    for (; sent < (performance.now() - began) / 1000 * requestsPerSecond; sent += 1) {
      void send(began + sent / requestsPerSecond * 1000)
    }
  }, 2)
  return {
    /** Formats the latencies and failures since the last call. */
    report: () => {
      const sorted = times.toSorted((a, b) => a - b)
      const quantile = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(1)
      const text = `p50 ${quantile(0.5)} ms  p99 ${quantile(0.99)} ms  max ${quantile(0.999999)} ms  ` +
        `${times.length} requests, ${failures} failed`
      times = []
      failures = 0
      return text
    },
    stop: () => clearInterval(timer),
  }
}

const { cleanUp, cleanupSteps } = makeCleanup()
try {
  const postgres = await startPostgres({ folder: "first-load" })
  cleanupSteps.push(postgres.stop)
  const url = postgres.url("first_load")
  await query(postgres.url("postgres"), "drop database if exists first_load with (force)")
  await query(postgres.url("postgres"), "create database first_load")
  await runServiceCommand(url, "migrate")
  const key = (await runServiceCommand(url, "keys", "create", "--account", "bench", "--tier", "ultimate")).trim()
  const sec = await startSecStub()
  cleanupSteps.push(sec.stop)
  const service = await startServer("tickerline", { databaseUrl: url, key, origin: 0 })
  cleanupSteps.push(() => service.stop())
  const client = startClient(service.port, key, sec.symbols)
  cleanupSteps.push(client.stop)
  await sleep(10_000)
  console.log(`empty tables: ${client.report()}`)

  const [began, cpuOfPostgres] = [performance.now(), readTreeCpu(postgres.pid)]
  const command = ["ingest", "edgar", "--all", "--archives", folder, "--only"]
  const datasets = "news,registrations,float_outstanding,historical_float_pro,screener"
  const load = spawn(process.execPath, ["src/main.ts", ...command, datasets], {
    cwd: options.tickerline,
    env: {
      ...process.env,
      DATABASE_URL: url,
      EDGAR_BASE_URL: sec.baseUrl,
      EDGAR_USER_AGENT: "Bench bench@acme.example",
    },
    stdio: ["ignore", "pipe", "pipe"],
  })
  cleanupSteps.push(() => void load.kill("SIGINT"))
  createInterface({ input: load.stdout }).on("line", (line) => console.log(line))
  let [last, cpu, memory] = ["", 0, 0]
  createInterface({ input: load.stderr }).on("line", (line) => last = line)
  const ended = new Promise<void>((resolve) => load.on("exit", () => resolve()))
  const state = { isEnded: false }
  void ended.then(() => state.isEnded = true)
  let reportedAt = began
  while (!state.isEnded) {
    await Promise.race([ended, sleep(500)])
    if (!state.isEnded && load.pid !== undefined) {
      cpu = readCpu(load.pid)
      memory = Math.max(memory, readMemory(load.pid).most)
    }
    if (state.isEnded || performance.now() - reportedAt >= reportSeconds * 1000) {
      reportedAt = performance.now()
      console.log(`${((reportedAt - began) / 1000).toFixed(0)} s: ${client.report()}; ${last}`)
    }
  }
  const seconds = (used: number) => `${(used / 1e6).toFixed(0)} CPU s`
  console.log(
    `The load took ${((performance.now() - began) / 1000).toFixed(0)} s and ended with ${load.exitCode}. It used ` +
      `${seconds(cpu)} and at most ${Math.round(memory)} MiB, PostgreSQL ${
        seconds(readTreeCpu(postgres.pid) - cpuOfPostgres)
      }.`,
  )
  for (let report = 0; report < 3; report += 1) {
    await sleep(reportSeconds * 1000)
    console.log(`after the load: ${client.report()}`)
  }
} finally {
  await cleanUp()
}
