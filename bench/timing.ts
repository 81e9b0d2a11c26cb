/** One timing: a server, a case, a way to ask and a number of connections. */
import { sendRequest, mapConcurrently, authHeaders } from "./ask.ts"
import { type Case, type Mode, requestTarget } from "./cases.ts"
import { runWrk } from "./load.ts"
import { cpuMicroseconds, cpuMicrosecondsWithChildren } from "./measure.ts"
import { options } from "./options.ts"
import { runPgbench } from "./pgbench.ts"
import type { Postgres } from "./postgres.ts"
import { type RequestPlan, writePlan } from "./requests.ts"
import { isTickerline, type Server } from "./servers/index.ts"

export interface TimingFigures {
  readonly perSecond: number
  /** Milliseconds; pgbench tells only the average. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  readonly max: number | undefined
  /** Microseconds of processor a request. */
  readonly service: number | undefined
  readonly database: number
  /** What the generator took of a core. */
  readonly generator: number | undefined
}

export interface TimingTask {
  readonly of: Case
  readonly mode: Mode
  readonly connections: number
}

export interface Timer {
  readonly postgres: Postgres
  readonly key: string
  /** The tags of the popular answers. */
  readonly tags: ReadonlyArray<string>
  /** How many bytes a body has on average, as it was verified. */
  readonly bytes: (server: string, of: Case) => number
}

const plans = new Map<string, RequestPlan>()
const cursors = new Map<string, number>()

const planOf = (
  server: Server,
  { mode, of }: TimingTask,
  tags: ReadonlyArray<string>,
) => {
  const writer = server.name === "postgraphile" ? "graphql" : "rest"
  const name = `${writer} ${of.name} ${mode}`
  const known = plans.get(name)
  if (known !== undefined) return known
  const made = writePlan(writer, of, mode, server.write, tags)
  plans.set(name, made)
  return made
}

/** Thrice: answers are kept from the second time on, and repeated without a detour from the third. */
const warm = async ({ port }: Server, of: Case, key: string) => {
  for (const _ of [1, 2, 3]) {
    await mapConcurrently(
      of.popular,
      (asked) => sendRequest(port, requestTarget(of, asked), authHeaders(key)),
    )
  }
}

/** Between a cut answer and a whole one; the head is in neither. */
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
  const { connections, mode, of } = task
  const plan = planOf(server, task, timer.tags)
  if (mode !== "miss" && isTickerline(server.name)) {
    await warm(server, of, timer.key)
  }
  const place = `${server.pid} ${of.name} ${mode}`
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
  // Code is made fast while it runs, so the first time it runs for longer.
  await sent(cursors.has(place) ? options.warmup : 5 * options.warmup)
  const before = [cpuMicroseconds(server.pid), cpuMicrosecondsWithChildren(timer.postgres.pid)] as const
  const found = await sent(seconds)
  const after = [cpuMicroseconds(server.pid), cpuMicrosecondsWithChildren(timer.postgres.pid)] as const
  checkSize(task, found.bytesPerResponse, timer.bytes(server.name, of))
  return {
    ...found,
    service: (after[0] - before[0]) / found.requests,
    database: (after[1] - before[1]) / found.requests,
  }
}

export const timePgbench = async (
  { connections, of }: TimingTask,
  { postgres }: Timer,
): Promise<TimingFigures> => {
  const before = cpuMicrosecondsWithChildren(postgres.pid)
  const { perSecond, requests } = await runPgbench(
    postgres,
    of.name,
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
