/**
 * Runs a mixed load at 70% of the peak rate for half an hour (RELIABILITY.md). `SOAK_MINUTES` sets a different
 * duration.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { writeFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { requestOverWire } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { startCommandProcess } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { holdFault } from "../support/Pauses.ts"

const minutes = Number(process.env["SOAK_MINUTES"] ?? "30")
const connections = 32

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

/**
 * Returns the path of the request with index `at`. Half of the requests repeat a few paths, and the other half read
 * 29,550 pages.
 */
const pathAt = (at: number) => {
  const repeated = SteadyClients.mixedRequestPaths[at % SteadyClients.mixedRequestPaths.length] ?? ""
  const [page, limit] = [(at * 31) % 197 + 1, (at * 17) % 100 + 1]
  const table = ["gap-stats", "screener", "news"][at % 3] ?? ""
  return at % 2 === 0 ? repeated : `/v1/${table}?page=${page}&limit=${limit}`
}

interface Minute {
  readonly requests: number
  readonly p50: number
  readonly p99: number
  /** Memory in MiB, as reported by the service's metrics. */
  readonly memory: number
  readonly waiting: number
}

const expected = new Set([200, 404, 409, 422])

/** Creates a client that sends requests over a limited number of connections and measures the responses. */
const makeClient = (port: number, key: string) => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const unexpected = new Map<string, number>()
  let [at, receivedCount] = [0, 0]
  let times: Array<number> = []
  const sendNext = (onDone: () => void) => {
    const began = performance.now()
    const done = (name: string) => {
      if (name !== "") unexpected.set(name, (unexpected.get(name) ?? 0) + 1)
      receivedCount += 1
      times.push(performance.now() - began)
      onDone()
    }
    const options = { agent, port, host: "127.0.0.1", path: pathAt(at++), headers: { "X-API-Key": key } }
    const outgoing = request(options, (response) => {
      const { statusCode: status = 0 } = response
      response.resume().on("end", () => done(expected.has(status) ? "" : String(status)))
    })
    outgoing.on("error", (error) => done(error.message)).end()
  }
  const takeStatistics = () => {
    const sorted = times.toSorted((left, right) => left - right)
    times = []
    const quantile = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0
    return { requests: sorted.length, p50: quantile(0.5), p99: quantile(0.99) }
  }
  return { agent, sendNext, receivedCount: () => receivedCount, takeStatistics, unexpected }
}

type Client = ReturnType<typeof makeClient>

/** Sends requests as fast as possible for `seconds` seconds. Returns the number of responses per second. */
const measurePeak = ({ receivedCount, sendNext }: Client, seconds: number) =>
  Effect.callback<number>((resume) => {
    const before = receivedCount()
    const until = performance.now() + seconds * 1000
    let running = connections
    const next = () => {
      if (performance.now() < until) return sendNext(next)
      running -= 1
      if (running === 0) resume(Effect.succeed((receivedCount() - before) / seconds))
    }
    for (let connection = 0; connection < connections; connection++) next()
  })

/** Sends requests at a fixed rate, regardless of how long the responses take. Returns a function that stops sending. */
const sendAtRate = ({ sendNext }: Client, rate: number) => {
  const began = performance.now()
  let sentCount = 0
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1000) * rate
    while (sentCount < due) {
      sentCount += 1
      sendNext(() => {})
    }
  }, 5)
  return () => clearInterval(timer)
}

/** Returns the slope of the regression line through values measured one minute apart. */
const computeSlope = (points: ReadonlyArray<number>) => {
  const middle = (points.length - 1) / 2
  const mean = points.reduce((sum, point) => sum + point, 0) / points.length
  const above = points.reduce((sum, point, at) => sum + (at - middle) * (point - mean), 0)
  return above / points.reduce((sum, _, at) => sum + (at - middle) ** 2, 0)
}

const computeMedianP99 = (minutes: ReadonlyArray<Minute>) =>
  minutes.map(({ p99 }) => p99).toSorted((left, right) => left - right)[Math.floor(minutes.length / 2)] ?? 0

const report = (peak: number, seen: ReadonlyArray<Minute>, unexpected: number) => [
  `# Mixed load for ${seen.length} minutes at 70% of the peak`,
  "",
  `Peak over ${connections} connections of one Node client: ${Math.round(peak)} requests/s. Sent: ${
    seen.reduce((sum, { requests }) => sum + requests, 0)
  } requests, ${Math.round(peak * 0.7)} per second. Unexpected responses: ${unexpected}.`,
  "",
  "| Minute | requests | p50 ms | p99 ms | memory MiB | usage rows waiting |",
  "| --: | --: | --: | --: | --: | --: |",
  ...seen.map(({ memory, p50, p99, requests, waiting }, at) =>
    `| ${at + 1} | ${requests} | ${p50.toFixed(2)} | ${p99.toFixed(2)} | ${memory.toFixed(0)} | ${waiting} |`
  ),
  "",
]

layer(database, { excludeTestServices: true, timeout: "2 hours" })("Load", (it) => {
  it.effect("causes no unexpected response, and keeps memory and p99 stable, for half an hour at 70% of the peak (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { url } = yield* DedicatedPostgres
      const { account_id, key } = yield* CustomerUsage.createCustomer("soak", { tier: "ultimate" })
      const [port, metrics] = [yield* chooseFreePort, yield* chooseFreePort]
      yield* startCommandProcess(["serve"], {
        DATABASE_URL: url,
        PORT: String(port),
        METRICS_PORT: String(metrics),
        RATE_LIMIT_ULTIMATE: "1000000000",
        NODE_OPTIONS: "--max-semi-space-size=16",
      })
      yield* Effect.retry(requestOverWire(port, "/health/ready", ""), {
        schedule: Schedule.spaced("100 millis"),
        times: 200,
      })
      const measure = (text: string, name: string) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1] ?? NaN)

      const client = makeClient(port, key)
      yield* Effect.addFinalizer(() => Effect.sync(() => client.agent.destroy()))
      yield* measurePeak(client, 10)
      const peak = yield* measurePeak(client, 20)
      client.takeStatistics()

      const stop = yield* Effect.acquireRelease(
        Effect.sync(() => sendAtRate(client, peak * 0.7)),
        (stop) => Effect.sync(stop),
      )
      const seen: Array<Minute> = []
      for (let minute = 0; minute < minutes; minute++) {
        yield* holdFault("1 minute")
        const { text } = yield* requestOverWire(metrics, "/metrics", "")
        const memory = measure(text, "process_resident_memory_bytes") / (1 << 20)
        seen.push({ ...client.takeStatistics(), memory, waiting: measure(text, "tickerline_usage_rows_waiting") })
      }
      stop()
      const unexpected = Array.from(client.unexpected.values()).reduce((sum, count) => sum + count, 0)
      const file = process.env["FAULTS_SEEN"]?.replace(/\.jsonl$/, ".md")
      if (file !== undefined) writeFileSync(file, report(peak, seen, unexpected).join("\n"))

      assert.deepStrictEqual(Object.fromEntries(client.unexpected), {})
      const settled = seen.slice(Math.floor(seen.length / 3))
      assert.isBelow(computeSlope(settled.map(({ memory }) => memory)), 1, "MiB per minute")
      assert.isBelow(
        computeMedianP99(settled),
        Math.max(20, 2 * computeMedianP99(seen.slice(0, Math.ceil(seen.length / 3)))),
      )
      yield* CustomerUsage.retryUntil(
        CustomerUsage.countRecordedRequests(account_id),
        (rows) => rows >= client.receivedCount(),
      )
      assert.strictEqual(yield* CustomerUsage.countRecordedRequests(account_id), client.receivedCount())
    }))
})
