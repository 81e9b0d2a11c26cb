/** Times one server with one case, mode and number of connections. */
import { authHeaders, mapConcurrently, sendRequest } from "./httpClient.ts"
import { type Case, type Mode, requestTarget } from "./cases.ts"
import { runWrk } from "./load.ts"
import { cpuMicroseconds, cpuMicrosecondsWithChildren } from "./processUsage.ts"
import { options } from "./options.ts"
import { runPgbench } from "./pgbench.ts"
import type { Postgres } from "./postgres.ts"
import { type RequestPlan, writePlan } from "./requests.ts"
import { isTickerline, type Server } from "./servers/index.ts"

export interface TimingFigures {
  readonly perSecond: number
  /** Milliseconds. pgbench reports only the average. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly max: number | undefined
  /** CPU time per request in microseconds. */
  readonly service: number | undefined
  readonly database: number
  /** CPU usage of the load generator, in cores. */
  readonly generator: number | undefined
}

export interface TimingTask {
  readonly benchCase: Case
  readonly mode: Mode
  readonly connections: number
}

export interface Timer {
  readonly postgres: Postgres
  readonly key: string
  /** ETags of the popular responses. */
  readonly tags: ReadonlyArray<string>
  /** Verified average body size in bytes. */
  readonly bytes: (server: string, benchCase: Case) => number
}

const plans = new Map<string, RequestPlan>()
const cursors = new Map<string, number>()

const planOf = (
  server: Server,
  { mode, benchCase }: TimingTask,
  tags: ReadonlyArray<string>,
) => {
  const writer = server.name === "postgraphile" ? "graphql" : "rest"
  const name = `${writer} ${benchCase.name} ${mode}`
  const known = plans.get(name)
  if (known !== undefined) return known
  const made = writePlan(writer, benchCase, mode, server.write, tags)
  plans.set(name, made)
  return made
}

/** Sends each popular request three times: the second fills the cache, the third uses the fast path. */
const warm = async ({ port }: Server, benchCase: Case, key: string) => {
  for (const _ of [1, 2, 3]) {
    await mapConcurrently(
      benchCase.popular,
      (parameters) => sendRequest(port, requestTarget(benchCase, parameters), authHeaders(key)),
    )
  }
}

/** Throws if responses are truncated. The verified size excludes headers. */
const checkSize = ({ mode }: TimingTask, perResponse: number, verified: number) => {
  const wrong = mode === "304" ? perResponse > 1500 : perResponse < 0.8 * verified
  if (wrong) {
    throw new Error(
      `${perResponse.toFixed(0)} bytes a response, but ${verified.toFixed(0)} were verified`,
    )
  }
}

export const timeServer = async (
  server: Server,
  task: TimingTask,
  timer: Timer,
  seconds = options.seconds,
): Promise<TimingFigures> => {
  const { connections, mode, benchCase } = task
  const plan = planOf(server, task, timer.tags)
  if (mode !== "miss" && isTickerline(server.name)) {
    await warm(server, benchCase, timer.key)
  }
  const place = `${server.pid} ${benchCase.name} ${mode}`
  const sent = async (duration: number) => {
    const cursor = cursors.get(place) ?? 0
    const sent = await runWrk({
      port: server.port,
      plan,
      cursor,
      connections,
      seconds: duration,
    })
    cursors.set(place, sent.cursor)
    return sent
  }
  // The first warm-up is longer, for JIT compilation.
  await sent(cursors.has(place) ? options.warmup : 5 * options.warmup)
  const before = [cpuMicroseconds(server.pid), cpuMicrosecondsWithChildren(timer.postgres.pid)] as const
  const found = await sent(seconds)
  const after = [cpuMicroseconds(server.pid), cpuMicrosecondsWithChildren(timer.postgres.pid)] as const
  checkSize(task, found.bytesPerResponse, timer.bytes(server.name, benchCase))
  return {
    ...found,
    service: (after[0] - before[0]) / found.requests,
    database: (after[1] - before[1]) / found.requests,
  }
}

export const timePgbench = async (
  { connections, benchCase }: TimingTask,
  { postgres }: Timer,
): Promise<TimingFigures> => {
  const before = cpuMicrosecondsWithChildren(postgres.pid)
  const { perSecond, requests } = await runPgbench(
    postgres,
    benchCase.name,
    connections,
    Math.ceil(options.seconds),
  )
  const database = (cpuMicrosecondsWithChildren(postgres.pid) - before) / requests
  return {
    perSecond,
    p50: undefined,
    p99: undefined,
    max: undefined,
    service: undefined,
    database,
    generator: undefined,
  }
}
