/** One timing: a server, a case, a way to ask and a number of connections. */
import { ask, askAll, bearer } from "./ask.ts"
import { type Case, type Mode, targetOf } from "./cases.ts"
import { load } from "./load.ts"
import { cpuOf, cpuOfFamily } from "./measure.ts"
import { options } from "./options.ts"
import { ceiling } from "./pgbench.ts"
import type { Postgres } from "./postgres.ts"
import { type Plan, writePlan } from "./requests.ts"
import { isTickerline, type Server } from "./servers/index.ts"

export interface Figures {
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

export interface Task {
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

const plans = new Map<string, Plan>()
const cursors = new Map<string, number>()

const planOf = (
  server: Server,
  { mode, of }: Task,
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
    await askAll(
      of.popular,
      (asked) => ask(port, targetOf(of, asked), bearer(key)),
    )
  }
}

/** Between a cut answer and a whole one; the head is in neither. */
const checkSize = ({ mode }: Task, perResponse: number, verified: number) => {
  const wrong = mode === "304" ? perResponse > 1500 : perResponse < 0.8 * verified
  if (wrong) {
    throw new Error(
      `${perResponse.toFixed(0)} bytes a response, but ${verified.toFixed(0)} were verified`,
    )
  }
}

export const time = async (
  server: Server,
  task: Task,
  timer: Timer,
  seconds = options.seconds,
): Promise<Figures> => {
  const { connections, mode, of } = task
  const plan = planOf(server, task, timer.tags)
  if (mode !== "miss" && isTickerline(server.name)) {
    await warm(server, of, timer.key)
  }
  const place = `${server.pid} ${of.name} ${mode}`
  const sent = async (duration: number) => {
    const cursor = cursors.get(place) ?? 0
    const sent = await load({
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
  const before = [cpuOf(server.pid), cpuOfFamily(timer.postgres.pid)] as const
  const found = await sent(seconds)
  const after = [cpuOf(server.pid), cpuOfFamily(timer.postgres.pid)] as const
  checkSize(task, found.bytesPerResponse, timer.bytes(server.name, of))
  return {
    ...found,
    service: (after[0] - before[0]) / found.requests,
    database: (after[1] - before[1]) / found.requests,
  }
}

export const timeCeiling = async (
  { connections, of }: Task,
  { postgres }: Timer,
): Promise<Figures> => {
  const before = cpuOfFamily(postgres.pid)
  const { perSecond, requests } = await ceiling(
    postgres,
    of.name,
    connections,
    Math.ceil(options.seconds),
  )
  const database = (cpuOfFamily(postgres.pid) - before) / requests
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
