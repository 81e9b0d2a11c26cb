/** Measures one server with one case, mode and number of connections. */
import { authorizationHeaders, mapConcurrently, sendRequest } from "./httpClient.ts"
import { type BenchmarkCase, type Mode, requestTarget } from "./cases.ts"
import { runWrk, type WrkResult } from "./wrk.ts"
import { readCpu, readTreeCpu } from "./processStats.ts"
import { options } from "./options.ts"
import { runPgbench } from "./pgbench.ts"
import type { Measurement } from "./outcome.ts"
import type { Postgres } from "./postgres.ts"
import { sleep } from "./processes.ts"
import { checkCounters, readRequestCounters } from "./requestCounters.ts"
import { type RequestPlan, writeRequestPlan } from "./requestFiles.ts"
import { isTickerline, type Server } from "./servers/index.ts"

export interface Task {
  readonly of: BenchmarkCase
  readonly mode: Mode
  readonly connections: number
}

export interface Timer {
  readonly postgres: Postgres
  readonly key: string
  /** ETags of the popular responses. */
  readonly tags: ReadonlyArray<string>
  /** Average size of the verified bodies in bytes. */
  readonly bytes: (server: string, of: BenchmarkCase) => number
}

const plans = new Map<string, RequestPlan>()
/** Number of requests sent so far, by server, case and mode. */
const cursors = new Map<string, number>()

/**
 * Maximum number of requests in a plan, because wrk holds them in memory. After this many requests, a lineage may be
 * repeated: by then it is no longer in Tickerline's cache, which the request counters confirm.
 */
const maxRequests = 100_000

const planOf = (
  server: Server,
  { mode, of }: Task,
  tags: ReadonlyArray<string>,
) => {
  const writer = server.name === "postgraphile" ? "graphql" : "rest"
  const name = `${writer} ${of.name} ${mode}`
  const known = plans.get(name)
  if (known !== undefined) return known
  const some = { ...of, misses: of.misses.slice(0, maxRequests) }
  const made = { ...writeRequestPlan(writer, some, mode, server.write, tags), most: Infinity }
  plans.set(name, made)
  return made
}

/** Sends each request three times: the second fills the query cache, and the third fills the response cache. */
const warm = async ({ port }: Server, of: BenchmarkCase, key: string) => {
  for (const _ of [1, 2, 3]) {
    await mapConcurrently(
      of.popular,
      (parameters) => sendRequest(port, requestTarget(of, parameters), authorizationHeaders(key)),
    )
  }
}

/** Fails if responses are much shorter than the verified ones, because they were cut off, or if a 304 has a body. */
const checkSize = ({ mode }: Task, perResponse: number, verified: number) => {
  const wrong = mode === "304" ? perResponse > 1500 : perResponse < 0.8 * verified
  if (wrong) {
    throw new Error(
      `a response has ${perResponse.toFixed(0)} bytes, but the verified ones have ${verified.toFixed(0)}`,
    )
  }
}

/** Sends requests until the server has answered enough of them: V8 compiles functions only after many calls. */
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

/** Time for the requests that the load generator left unfinished, in milliseconds. */
const settling = 250

/** Returns a function that fails if the requests since this call were not counted as those of the task. */
const watchCounters = async ({ metricsPort }: Server, task: Task) => {
  if (metricsPort === undefined) return () => Promise.resolve()
  const read = () => sleep(settling).then(() => readRequestCounters(metricsPort))
  const before = await read()
  return async (requests: number) => checkCounters(before, await read(), { ...task, requests })
}

export const measureServer = async (
  server: Server,
  task: Task,
  timer: Timer,
  seconds = options.seconds,
): Promise<Measurement> => {
  const { connections, mode, of } = task
  const plan = planOf(server, task, timer.tags)
  if (mode !== "miss" && isTickerline(server.name)) {
    await warm(server, of, timer.key)
  }
  const place = `${server.pid} ${of.name} ${mode}`
  const send = async (seconds: number, connections: number) => {
    const sent = await runWrk({ port: server.port, plan, cursor: cursors.get(place) ?? 0, connections, seconds })
    cursors.set(place, sent.cursor)
    return sent
  }
  if ((cursors.get(place) ?? 0) < options.warmupRequests) await warmUp(send, connections)
  const checkWay = await watchCounters(server, task)
  await server.readDelay()
  const before = [readCpu(server.pid), readTreeCpu(timer.postgres.pid)] as const
  const found = await send(seconds, connections)
  const after = [readCpu(server.pid), readTreeCpu(timer.postgres.pid)] as const
  const delay = await server.readDelay()
  await checkWay(found.requests)
  checkSize(task, found.bytesPerResponse, timer.bytes(server.name, of))
  return {
    ...found,
    service: (after[0] - before[0]) / found.requests,
    database: (after[1] - before[1]) / found.requests,
    delayP999: delay.p999,
    delayMax: delay.max,
  }
}

export const measurePgbench = async (
  { connections, of }: Task,
  { postgres }: Timer,
): Promise<Measurement> => {
  const before = readTreeCpu(postgres.pid)
  const { perSecond, requests } = await runPgbench(
    postgres,
    of.name,
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
