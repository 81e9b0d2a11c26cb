/** Measures one server for a combination of case, mode, and number of connections. */
import { authorizationHeaders, mapConcurrently, sendRequest } from "./httpClient.ts"
import { type BenchmarkCase, type Mode, requestTarget } from "./cases.ts"
import { runWrk, type WrkResult } from "./wrk.ts"
import { readCpu, readTreeCpu } from "./processStats.ts"
import { options } from "./options.ts"
import { runPgbench } from "./pgbench.ts"
import type { ServerMeasurement } from "./outcome.ts"
import type { Postgres } from "./postgres.ts"
import { sleep } from "./processes.ts"
import { checkCounters, readRequestCounters } from "./requestCounters.ts"
import { type RequestPlan, writeRequestPlan } from "./requestFiles.ts"
import { isTickerline, type Server } from "./servers/index.ts"

/** A combination of case, mode, and number of connections, which is measured for every server. */
export interface Task {
  readonly benchmarkCase: BenchmarkCase
  readonly mode: Mode
  readonly connections: number
}

/** Data that all measurements share. */
export interface MeasurementContext {
  readonly postgres: Postgres
  readonly key: string
  /** The ETags of the popular responses. */
  readonly tags: ReadonlyArray<string>
  /** Returns the average size of the verified response bodies, in bytes. */
  readonly bytes: (server: string, benchmarkCase: BenchmarkCase) => number
}

const plans = new Map<string, RequestPlan>()
/** The number of requests sent so far, by process, case, and mode. */
const cursors = new Map<string, number>()

/**
 * The maximum number of requests in a plan. It is limited because wrk holds the plan in memory. When all requests have
 * been sent, the same lineages are requested again. By that time, Tickerline's cache no longer contains them, which the
 * request counters confirm.
 */
const maxRequests = 100_000

/** Returns the request plan for a task. On first use, writes the requests to files. */
const getPlan = (
  server: Server,
  { benchmarkCase, mode }: Task,
  tags: ReadonlyArray<string>,
) => {
  const writer = server.name === "postgraphile" ? "graphql" : "rest"
  const name = `${writer} ${benchmarkCase.name} ${mode}`
  const known = plans.get(name)
  if (known !== undefined) return known
  const limited = { ...benchmarkCase, misses: benchmarkCase.misses.slice(0, maxRequests) }
  const plan = { ...writeRequestPlan(writer, limited, mode, server.write, tags), most: Infinity }
  plans.set(name, plan)
  return plan
}

/**
 * Sends each request three times: the second time fills the query cache, and the third time fills the response cache.
 */
const fillCaches = async ({ port }: Server, benchmarkCase: BenchmarkCase, key: string) => {
  for (const _ of [1, 2, 3]) {
    await mapConcurrently(
      benchmarkCase.popular,
      (parameters) => sendRequest(port, requestTarget(benchmarkCase, parameters), authorizationHeaders(key)),
    )
  }
}

/**
 * Fails if the responses are much shorter than the verified ones, which suggests truncation, or if a 304 response has a
 * body.
 */
const checkSize = ({ mode }: Task, perResponse: number, verified: number) => {
  const wrong = mode === "304" ? perResponse > 1500 : perResponse < 0.8 * verified
  if (wrong) {
    throw new Error(
      `a response has ${perResponse.toFixed(0)} bytes, but the verified ones have ${verified.toFixed(0)}`,
    )
  }
}

/**
 * Sends requests until the server has served the configured number. The warm-up is needed because V8 compiles functions
 * only after many calls.
 */
const warmUp = async (
  send: (seconds: number, connections: number) => Promise<WrkResult>,
  connections: number,
) => {
  let { cursor, perSecond } = await send(1, connections)
  while (cursor < options.warmupRequests) {
    const missing = options.warmupRequests - cursor
    ;({ cursor, perSecond } = await send(Math.ceil(missing / perSecond), 32))
  }
}

/** The time in milliseconds that the server has to complete requests that the load generator abandoned. */
const unfinishedMillis = 250

/**
 * Reads the service's request counters. Returns a function that fails unless the service has counted exactly the
 * requests sent since.
 */
const watchCounters = async ({ metricsPort }: Server, task: Task) => {
  if (metricsPort === undefined) return () => Promise.resolve()
  const read = () => sleep(unfinishedMillis).then(() => readRequestCounters(metricsPort))
  const before = await read()
  return async (requests: number) => checkCounters(before, await read(), { ...task, requests })
}

/** Warms up the server if necessary, and then measures it for the given number of seconds. */
export const measureServer = async (
  server: Server,
  task: Task,
  context: MeasurementContext,
  seconds = options.seconds,
): Promise<ServerMeasurement> => {
  const { benchmarkCase, connections, mode } = task
  const plan = getPlan(server, task, context.tags)
  if (mode !== "miss" && isTickerline(server.name)) {
    await fillCaches(server, benchmarkCase, context.key)
  }
  const place = `${server.pid} ${benchmarkCase.name} ${mode}`
  const send = async (seconds: number, connections: number) => {
    const sent = await runWrk({ port: server.port, plan, cursor: cursors.get(place) ?? 0, connections, seconds })
    cursors.set(place, sent.cursor)
    return sent
  }
  if ((cursors.get(place) ?? 0) < options.warmupRequests) await warmUp(send, connections)
  const checkCounted = await watchCounters(server, task)
  await server.readDelay()
  const before = [readCpu(server.pid), readTreeCpu(context.postgres.pid)] as const
  const found = await send(seconds, connections)
  const after = [readCpu(server.pid), readTreeCpu(context.postgres.pid)] as const
  const delay = await server.readDelay()
  await checkCounted(found.requests)
  checkSize(task, found.bytesPerResponse, context.bytes(server.name, benchmarkCase))
  return {
    ...found,
    service: (after[0] - before[0]) / found.requests,
    database: (after[1] - before[1]) / found.requests,
    delayP999: delay.p999,
    delayMax: delay.max,
  }
}

/**
 * Measures the SQL statement of the case with pgbench. pgbench does not report latency percentiles, only the average.
 */
export const measurePgbench = async (
  { benchmarkCase, connections }: Task,
  { postgres }: MeasurementContext,
): Promise<ServerMeasurement> => {
  const before = readTreeCpu(postgres.pid)
  const { perSecond, requests } = await runPgbench(
    postgres,
    benchmarkCase.name,
    connections,
    Math.ceil(options.seconds),
  )
  const database = (readTreeCpu(postgres.pid) - before) / requests
  return {
    perSecond,
    p50: undefined,
    p99: undefined,
    p999: undefined,
    max: undefined,
    service: undefined,
    database,
    generator: undefined,
    delayP999: undefined,
    delayMax: undefined,
  }
}
