/**
 * `npm run costs` measures the CPU time, network traffic, and WAL of a single request. The results are inputs for
 * SCALING.md. The machine may be busy during the measurement, because CPU times hardly depend on other load.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { makeTokenBucketRequester } from "../../src/accounts/limits/TokenBucketStore.ts"
import { authorizationHeaders, sendRequest } from "../httpClient.ts"
import { type BenchmarkCase, type Mode, runners100Small, runners10Small } from "../cases.ts"
import { runWrk, type WrkResult } from "../wrk.ts"
import { readCpu, readMemory, readTreeCpu } from "../processStats.ts"
import { options } from "../options.ts"
import { query } from "../postgres.ts"
import { makeCleanup, sleep } from "../processes.ts"
import { median } from "../statistics.ts"
import { formatRestRequest, type RequestFormatter, writeRequestPlan } from "../requestFiles.ts"
import { fillCaches, type Service, startService, startTestbed, type Testbed } from "./services.ts"

interface RequestCosts {
  /** The service's CPU time per request, in microseconds. */
  readonly service: number
  /** The CPU time of all PostgreSQL processes per request, in microseconds. */
  readonly database: number
  /** The size of the response in bytes, including headers. */
  readonly bytes: number
  /** The amount of WAL written per request, in bytes. */
  readonly wal: number
  /** The number of 8 KiB pages that PostgreSQL read per request, from its own cache or from the operating system. */
  readonly pages: number
  /** Requests per second. */
  readonly perSecond: number
}

interface Scenario {
  readonly name: string
  readonly benchmarkCase: BenchmarkCase
  readonly mode: Mode
  readonly write: RequestFormatter
  /** The status that every response must have. Defaults to 200. */
  readonly expect?: number
}

/** Reads how much WAL PostgreSQL has written in total, and how many pages it has read. */
const readCounters = async ({ url }: Testbed) => {
  const [row] = await query(
    url,
    `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal, (blks_hit + blks_read)::float8 as pages
     from pg_stat_database where datname = current_database()`,
  )
  return { wal: Number(row?.["wal"]), pages: Number(row?.["pages"]) }
}

/**
 * The number of requests of each plan that a service has received so far. It ensures that a `miss` is never sent to the
 * same service twice.
 */
const cursors = new Map<string, number>()

/** Measures a scenario in several rounds, and returns the median of each metric. */
const measureCosts = async (
  testbed: Testbed,
  service: Service,
  scenario: Scenario,
  tags: ReadonlyArray<string>,
): Promise<RequestCosts> => {
  const plan = writeRequestPlan(`costs-${scenario.name}`, scenario.benchmarkCase, scenario.mode, scenario.write, tags)
  const send = async (seconds: number): Promise<WrkResult> => {
    const place = `${service.pid} ${scenario.benchmarkCase.name} ${scenario.mode}`
    const cursor = cursors.get(place) ?? 0
    const { expect } = scenario
    const sent = await runWrk({
      port: service.port,
      plan,
      cursor,
      connections: 32,
      seconds,
      ...(expect === undefined ? {} : { expect }),
    })
    cursors.set(place, sent.cursor)
    return sent
  }
  // The warm-up is measured in requests, not seconds, because V8 optimizes a function after a certain number of calls.
  let before = 0
  for (let second = 0; before < 10_000 && second < 20; second += options.warmup) {
    before += (await send(options.warmup)).requests
  }
  const readTotals = async () => ({
    service: readCpu(service.pid),
    database: readTreeCpu(testbed.postgres.pid),
    ...(await readCounters(testbed)),
  })
  const rounds: Array<RequestCosts> = []
  while (rounds.length < options.rounds) {
    const before = await readTotals()
    const sent = await send(options.seconds)
    // Gives the service time to write its usage rows.
    await sleep(600)
    const after = await readTotals()
    const perRequest = (name: keyof typeof before) => (after[name] - before[name]) / sent.requests
    rounds.push({
      service: perRequest("service"),
      database: perRequest("database"),
      wal: perRequest("wal"),
      pages: perRequest("pages"),
      bytes: sent.bytesPerResponse,
      perSecond: sent.perSecond,
    })
  }
  const medianOf = (name: keyof RequestCosts) => median(rounds.map((one) => one[name]))
  return {
    service: medianOf("service"),
    database: medianOf("database"),
    bytes: medianOf("bytes"),
    wal: medianOf("wal"),
    pages: medianOf("pages"),
    perSecond: medianOf("perSecond"),
  }
}

/**
 * Measures the CPU time of an idle service and of its PostgreSQL server, in microseconds per second. Returns the lowest
 * of three measurements, because autovacuum may run during some of them.
 */
const measureIdle = async ({ postgres }: Testbed, { pid }: Service) => {
  let lowest = { service: Infinity, database: Infinity }
  for (const _ of [1, 2, 3]) {
    const before = [readCpu(pid), readTreeCpu(postgres.pid)] as const
    await sleep(10_000)
    const [service, database] = [(readCpu(pid) - before[0]) / 10, (readTreeCpu(postgres.pid) - before[1]) / 10]
    if (database < lowest.database) lowest = { service, database }
  }
  return lowest
}

/** Measures the cost per row of an export of 50,000 rows: CPU time in microseconds, and bytes. */
const measureExport = async ({ key, postgres }: Testbed, { pid, port }: Service) => {
  const before = [readCpu(pid), readTreeCpu(postgres.pid)] as const
  let [rows, bytes] = [0, 0]
  for (const _ of [1, 2, 3]) {
    const { body, status } = await sendRequest(
      port,
      "/v1/intraday-runners?limit=all&format=ndjson",
      authorizationHeaders(key),
    )
    if (status !== 200) throw new Error(`the export failed with ${status}: ${body.toString().slice(0, 500)}`)
    rows += body.toString().split("\n").length - 1
    bytes += body.length
  }
  return {
    service: (readCpu(pid) - before[0]) / rows,
    database: (readTreeCpu(postgres.pid) - before[1]) / rows,
    bytes: bytes / rows,
  }
}

/**
 * Measures the PostgreSQL CPU time for synchronizing one account's token bucket, in microseconds. Sends batches of a
 * hundred accounts, as the service does.
 */
const measureBuckets = ({ postgres, url }: Testbed) =>
  Effect.gen(function* () {
    const synchronize = yield* makeTokenBucketRequester
    const accounts = Array.from({ length: 1_000 }, (_, index) => -1 - index)
    const batches = Array.from({ length: 10 }, (_, index) => accounts.slice(index * 100, (index + 1) * 100))
    const synchronizeAll = Effect.forEach(
      batches,
      (batch) =>
        synchronize(batch.map((account_id) => ({ account_id, limit: 1e9, needed: 1, prefetch: 4, returned: 1 }))),
    )
    yield* synchronizeAll
    const before = readTreeCpu(postgres.pid)
    yield* Effect.repeat(synchronizeAll, { times: 49 })
    return { database: (readTreeCpu(postgres.pid) - before) / 50 / accounts.length }
  }).pipe(
    Effect.provide(PgClient.layer({ url: Redacted.make(url) })),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.runPromise,
  )

const countConnections = async ({ url }: Testbed) =>
  Number(
    (await query(url, `select count(*) from pg_stat_activity where application_name like 'tickerline%'`))[0]?.["count"],
  )

/** Formats requests without an API key. */
const formatWithoutKey: RequestFormatter = (benchmarkCase, parameters, tag) =>
  formatRestRequest("")(benchmarkCase, parameters, tag).replace(/Authorization: .*\r\n/, "")

/** Formats requests that accept gzip compression. */
const withCompression = (write: RequestFormatter): RequestFormatter => (benchmarkCase, parameters, tag) =>
  write(benchmarkCase, parameters, tag).replace("Accept: ", "Accept-Encoding: gzip\r\nAccept: ")

/**
 * Measures what each kind of request costs, and writes the costs to a JSON file, by name: a cache miss, a cache hit, a
 * 304 response, and so on. Some are not requests: an idle service, the synchronization of rate limits (`buckets`), an
 * export (`whole`), and the connections and memory of a process. The service for requests above the rate limit is a
 * second one.
 */
const main = async () => {
  const { cleanUp, cleanupSteps } = makeCleanup()
  const testbed = await startTestbed()
  cleanupSteps.push(testbed.end)
  try {
    const write = formatRestRequest(testbed.key)
    const service = await startService("costs", testbed.url)
    cleanupSteps.push(service.stop)
    const tags = await fillCaches(service.port, testbed.key)
    const costs: Record<string, unknown> = {}
    const record = (name: string, value: object) => {
      costs[name] = value
      const shown = Object.entries(value).map(([what, number]) => `${what} ${Number(number).toFixed(2)}`)
      console.log(`${name.padEnd(22)} ${shown.join("  ")}`)
    }
    record("idle", await measureIdle(testbed, service))
    const scenarios: ReadonlyArray<Scenario> = [
      { name: "miss", benchmarkCase: runners10Small, mode: "miss", write },
      { name: "miss100", benchmarkCase: runners100Small, mode: "miss", write },
      { name: "hit", benchmarkCase: runners10Small, mode: "hit", write },
      { name: "unchanged", benchmarkCase: runners10Small, mode: "304", write },
      { name: "compressed", benchmarkCase: runners10Small, mode: "miss", write: withCompression(write) },
      { name: "unauthorized", benchmarkCase: runners10Small, mode: "hit", write: formatWithoutKey, expect: 401 },
    ]
    for (const one of scenarios) record(one.name, await measureCosts(testbed, service, one, tags))
    record("buckets", await measureBuckets(testbed))
    record("whole", await measureExport(testbed, service))
    record("process", { connections: await countConnections(testbed), ...readMemory(service.pid) })
    await service.stop()
    const strict = await startService("costs-limited", testbed.url, { RATE_LIMIT_ULTIMATE: "1" })
    cleanupSteps.push(strict.stop)
    // These two requests exhaust the rate limit, so every later request gets a 429 response.
    await sendRequest(strict.port, "/v1/intraday-runners", authorizationHeaders(testbed.key))
    await sendRequest(strict.port, "/v1/intraday-runners", authorizationHeaders(testbed.key))
    const limited: Scenario = { name: "limited", benchmarkCase: runners10Small, mode: "hit", write, expect: 429 }
    record("limited", await measureCosts(testbed, strict, limited, tags))
    const file = join(
      import.meta.dirname,
      `../results/costs-${new Date().toISOString().slice(0, 16).replaceAll(":", "-")}`,
    )
    mkdirSync(join(import.meta.dirname, "../results"), { recursive: true })
    writeFileSync(`${file}.json`, `${JSON.stringify({ date: new Date().toISOString(), ...costs }, null, 2)}\n`)
  } finally {
    await cleanUp()
  }
}

await main()
