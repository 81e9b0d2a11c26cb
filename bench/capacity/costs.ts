/**
 * `npm run costs`: measures CPU time, database work, bytes and Redis commands per request, the inputs of SCALING.md.
 * CPU times hardly depend on other load, so a busy machine gives valid figures.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { authHeaders, sendRequest } from "../httpClient.ts"
import { type Case, type Mode, runners100Small, runners10Small } from "../cases.ts"
import { type LoadResult, runWrk } from "../load.ts"
import { cpuMicroseconds, cpuMicrosecondsWithChildren, memoryOf } from "../processUsage.ts"
import { options } from "../options.ts"
import { query } from "../postgres.ts"
import { makeCleanup, sleep } from "../processes.ts"
import { median } from "../report.ts"
import { type RequestWriter, writePlan, writeRestRequest } from "../requests.ts"
import {
  type BenchEnvironment,
  type Service,
  startEnvironment,
  startRedis,
  startService,
  warmCache,
} from "./environment.ts"

interface Taken {
  /** CPU time per request in microseconds: service and PostgreSQL. */
  readonly service: number
  readonly database: number
  readonly redis: number
  /** Bytes per request: response with headers, and WAL. */
  readonly bytes: number
  readonly wal: number
  /** 8 KiB pages that PostgreSQL accessed. */
  readonly pages: number
  readonly redisCommands: number
  readonly perSecond: number
}

interface Asked {
  readonly name: string
  readonly benchCase: Case
  readonly mode: Mode
  readonly write: RequestWriter
  readonly expect?: number
}

const counters = async ({ url }: BenchEnvironment) => {
  const [row] = await query(
    url,
    `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal, (blks_hit + blks_read)::float8 as pages
     from pg_stat_database where datname = current_database()`,
  )
  return { wal: Number(row?.["wal"]), pages: Number(row?.["pages"]) }
}

const cursors = new Map<string, number>()

const take = async (
  environment: BenchEnvironment,
  service: Service,
  redis: Awaited<ReturnType<typeof startRedis>> | undefined,
  asked: Asked,
  tags: ReadonlyArray<string>,
): Promise<Taken> => {
  const plan = writePlan(`costs-${asked.name}`, asked.benchCase, asked.mode, asked.write, tags)
  const send = async (seconds: number): Promise<LoadResult> => {
    const place = `${service.pid} ${asked.benchCase.name} ${asked.mode}`
    const cursor = cursors.get(place) ?? 0
    const { expect } = asked
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
  // V8 optimizes code by the number of runs, not by their duration.
  let before = 0
  for (let second = 0; before < 10_000 && second < 20; second += options.warmup) {
    before += (await send(options.warmup)).requests
  }
  const now = async () => ({
    service: cpuMicroseconds(service.pid),
    database: cpuMicrosecondsWithChildren(environment.postgres.pid),
    redis: redis === undefined ? 0 : cpuMicroseconds(redis.pid),
    redisCommands: (await redis?.commands()) ?? 0,
    ...(await counters(environment)),
  })
  const rounds: Array<Taken> = []
  while (rounds.length < options.rounds) {
    const before = await now()
    const sent = await send(options.seconds)
    // Waits until usage is written.
    await sleep(600)
    const after = await now()
    const each = (name: keyof typeof before) => (after[name] - before[name]) / sent.requests
    rounds.push({
      service: each("service"),
      database: each("database"),
      redis: each("redis"),
      redisCommands: each("redisCommands"),
      wal: each("wal"),
      pages: each("pages"),
      bytes: sent.bytesPerResponse,
      perSecond: sent.perSecond,
    })
  }
  const middle = (name: keyof Taken) => median(rounds.map((one) => one[name]))
  return {
    service: middle("service"),
    database: middle("database"),
    redis: middle("redis"),
    bytes: middle("bytes"),
    wal: middle("wal"),
    pages: middle("pages"),
    redisCommands: middle("redisCommands"),
    perSecond: middle("perSecond"),
  }
}

/** CPU time of idle processes, in microseconds per second. */
const idle = async ({ postgres }: BenchEnvironment, { pid }: Service) => {
  const before = [cpuMicroseconds(pid), cpuMicrosecondsWithChildren(postgres.pid)] as const
  await sleep(10_000)
  return {
    service: (cpuMicroseconds(pid) - before[0]) / 10,
    database: (cpuMicrosecondsWithChildren(postgres.pid) - before[1]) / 10,
  }
}

/** CPU time per row of an export of 50,000 rows. */
const whole = async ({ key, postgres }: BenchEnvironment, { pid, port }: Service) => {
  const before = [cpuMicroseconds(pid), cpuMicrosecondsWithChildren(postgres.pid)] as const
  let [rows, bytes] = [0, 0]
  for (const _ of [1, 2, 3]) {
    const { body, status } = await sendRequest(port, "/v1/intraday-runners?limit=all&format=ndjson", authHeaders(key))
    if (status !== 200) throw new Error(`a whole list is ${status}: ${body.toString().slice(0, 500)}`)
    rows += body.toString().split("\n").length - 1
    bytes += body.length
  }
  return {
    service: (cpuMicroseconds(pid) - before[0]) / rows,
    database: (cpuMicrosecondsWithChildren(postgres.pid) - before[1]) / rows,
    bytes: bytes / rows,
  }
}

const connections = async ({ url }: BenchEnvironment) =>
  Number(
    (await query(url, `select count(*) from pg_stat_activity where application_name like 'tickerline%'`))[0]?.["count"],
  )

const nobody: RequestWriter = (benchCase, asked, tag) =>
  writeRestRequest("")(benchCase, asked, tag).replace(/Authorization: .*\r\n/, "")

const compressed = (write: RequestWriter): RequestWriter => (benchCase, asked, tag) =>
  write(benchCase, asked, tag).replace("Accept: ", "Accept-Encoding: gzip\r\nAccept: ")

const main = async () => {
  const { end, ends } = makeCleanup()
  const environment = await startEnvironment()
  ends.push(environment.end)
  try {
    const write = writeRestRequest(environment.key)
    const service = await startService("costs", environment.url)
    ends.push(service.stop)
    const tags = await warmCache(service.port, environment.key)
    const found: Record<string, unknown> = {}
    const tell = (name: string, value: object) => {
      found[name] = value
      const shown = Object.entries(value).map(([what, number]) => `${what} ${Number(number).toFixed(2)}`)
      console.log(`${name.padEnd(22)} ${shown.join("  ")}`)
    }
    tell("idle", await idle(environment, service))
    const asked: ReadonlyArray<Asked> = [
      { name: "miss", benchCase: runners10Small, mode: "miss", write },
      { name: "miss100", benchCase: runners100Small, mode: "miss", write },
      { name: "hit", benchCase: runners10Small, mode: "hit", write },
      { name: "unchanged", benchCase: runners10Small, mode: "304", write },
      { name: "compressed", benchCase: runners10Small, mode: "miss", write: compressed(write) },
      { name: "unauthorized", benchCase: runners10Small, mode: "hit", write: nobody, expect: 401 },
    ]
    for (const one of asked) tell(one.name, await take(environment, service, undefined, one, tags))
    tell("whole", await whole(environment, service))
    tell("process", { connections: await connections(environment), ...memoryOf(service.pid) })
    await service.stop()
    const redis = await startRedis()
    ends.push(redis.stop)
    const shared = await startService("costs-redis", environment.url, { REDIS_URL: redis.url })
    ends.push(shared.stop)
    await warmCache(shared.port, environment.key)
    for (const one of asked.filter(({ name }) => name === "miss" || name === "hit")) {
      tell(`${one.name} with Redis`, await take(environment, shared, redis, one, tags))
    }
    await shared.stop()
    const strict = await startService("costs-limited", environment.url, {
      REDIS_URL: redis.url,
      RATE_LIMIT_ULTIMATE: "1",
    })
    ends.push(strict.stop)
    await sendRequest(strict.port, "/v1/intraday-runners", authHeaders(environment.key))
    await sendRequest(strict.port, "/v1/intraday-runners", authHeaders(environment.key))
    const limited: Asked = { name: "limited", benchCase: runners10Small, mode: "hit", write, expect: 429 }
    tell("limited", await take(environment, strict, redis, limited, tags))
    const file = join(
      import.meta.dirname,
      `../results/costs-${new Date().toISOString().slice(0, 16).replaceAll(":", "-")}`,
    )
    mkdirSync(join(import.meta.dirname, "../results"), { recursive: true })
    writeFileSync(`${file}.json`, `${JSON.stringify({ date: new Date().toISOString(), ...found }, null, 2)}\n`)
  } finally {
    await end()
  }
}

await main()
