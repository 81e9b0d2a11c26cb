/**
 * `npm run machines`: compares the throughput of one and two services with the same small CPU limit. PostgreSQL, Redis
 * and the load generator use the remaining CPU time, so that the services are the bottleneck.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Case, runners10Small } from "../cases.ts"
import { runWrk } from "../load.ts"
import { cpuMicroseconds, cpuMicrosecondsWithChildren } from "../processUsage.ts"
import { options } from "../options.ts"
import { type Cleanups, makeCleanup } from "../processes.ts"
import { median } from "../report.ts"
import { writePlan, writeRestRequest } from "../requests.ts"
import { makeRandom, makeZipf } from "../symbols.ts"
import { type CpuQuota, createCpuQuota } from "./cpuQuota.ts"
import {
  type BenchEnvironment,
  type Service,
  startEnvironment,
  startRedis,
  startService,
  warmCache,
} from "./environment.ts"

/** A case with 50 % repeated requests, drawn by Zipf's law. */
const mixed: Case = (() => {
  const order = makeZipf(runners10Small.popular.length, runners10Small.misses.length, makeRandom(11))
  const misses = runners10Small.misses.flatMap((miss, at) => [miss, runners10Small.popular[order[at] ?? 0] ?? {}])
  return { ...runners10Small, name: "runners-10-mixed", misses }
})()

const asked = [
  { name: "hits", benchCase: runners10Small, mode: "hit" },
  { name: "half of them hits", benchCase: mixed, mode: "miss" },
  { name: "misses", benchCase: runners10Small, mode: "miss" },
] as const

interface Measured {
  readonly machines: number
  readonly perSecond: number
  /** CPU time per request in microseconds. */
  readonly service: number
  readonly database: number
  /** CPU usage of the load generators, in cores. */
  readonly generator: number
  readonly p99: number
  /** Fraction of the service's scheduling periods that were throttled. */
  readonly throttled: number
}

interface Machine {
  readonly service: Service
  readonly share: CpuQuota
}

const cursors = new Map<string, number>()

const measure = async (
  { key, postgres }: BenchEnvironment,
  machines: ReadonlyArray<Machine>,
  what: typeof asked[number],
): Promise<Measured> => {
  const plan = writePlan("machines", what.benchCase, what.mode, writeRestRequest(key), [])
  const send = (seconds: number) =>
    Promise.all(machines.map(async ({ service: { port } }) => {
      const cursor = cursors.get(`${port} ${what.name}`) ?? 0
      const sent = await runWrk({ port, plan, cursor, connections: 16, seconds })
      cursors.set(`${port} ${what.name}`, sent.cursor)
      return sent
    }))
  const cpu = () => machines.reduce((sum, { service: { pid } }) => sum + cpuMicroseconds(pid), 0)
  await send(options.warmup)
  machines.forEach(({ share }) => share.throttled())
  const [own, database] = [cpu(), cpuMicrosecondsWithChildren(postgres.pid)]
  const sent = await send(options.seconds)
  const total = (name: "generator" | "perSecond" | "requests") => sent.reduce((sum, one) => sum + one[name], 0)
  return {
    machines: machines.length,
    perSecond: total("perSecond"),
    service: (cpu() - own) / total("requests"),
    database: (cpuMicrosecondsWithChildren(postgres.pid) - database) / total("requests"),
    generator: total("generator"),
    p99: Math.max(...sent.map(({ p99 }) => p99)),
    throttled: machines.reduce((sum, { share }) => sum + share.throttled(), 0) / machines.length,
  }
}

/** Starts a service without a CPU limit, warms it up, and then applies the limit. */
const startMachine = async (
  name: string,
  environment: BenchEnvironment,
  env: Readonly<Record<string, string>>,
  ends: Cleanups,
) => {
  const service = await startService(name, environment.url, env)
  let made: CpuQuota | undefined
  // The limit applies after the warm-up. A control group can be removed only when it is empty.
  ends.push(async () => {
    await service.stop()
    made?.remove()
  })
  await warmCache(service.port, environment.key)
  const plan = writePlan("machines", runners10Small, "miss", writeRestRequest(environment.key), [])
  let cursor = 0
  for (let second = 0; cursor < 20_000 && second < 30; second += options.warmup) {
    cursor = (await runWrk({ port: service.port, plan, cursor, connections: 16, seconds: options.warmup })).cursor
  }
  cursors.set(`${service.port} misses`, cursor)
  const confined = made = createCpuQuota(name, options.share)
  confined.add(service.pid)
  return { service, share: confined }
}

const columns = ["perSecond", "service", "database", "generator", "p99", "throttled"] as const

type Found = Measured & { readonly counted: string; readonly asked: string }

const both = async (
  outer: Cleanups,
  environment: BenchEnvironment,
  counted: string,
  env: Readonly<Record<string, string>> = {},
) => {
  const machines: Array<Machine> = []
  const found: Array<Found> = []
  const { end, ends } = makeCleanup(outer)
  try {
    for (const name of ["machine-1", "machine-2"]) {
      machines.push(await startMachine(name, environment, env, ends))
    }
    for (const what of asked) {
      const rounds: ReadonlyArray<Array<Measured>> = [[], []]
      for (let round = 0; round < options.rounds; round += 1) {
        // Alternate, so that machine noise affects both.
        for (const count of [1, 2]) {
          const measured = await measure(environment, machines.slice(0, count), what)
          console.log(`${what.name}, ${counted}, ${count}: ${measured.perSecond.toFixed(0)} a second`)
          rounds[count - 1]?.push(measured)
        }
      }
      for (const [at, some] of rounds.entries()) {
        const medians = Object.fromEntries(columns.map((name) => [name, median(some.map((one) => one[name]))]))
        const { database = 0, generator = 0, p99 = 0, perSecond = 0, service = 0, throttled = 0 } = medians
        found.push({
          counted,
          asked: what.name,
          machines: at + 1,
          perSecond,
          service,
          database,
          generator,
          p99,
          throttled,
        })
      }
    }
  } finally {
    await end()
  }
  return found
}

const table = (found: ReadonlyArray<Found>) => {
  const rows = found.map((one, at) => {
    const before = found[at - 1]
    const times = one.machines === 2 && before !== undefined ? (one.perSecond / before.perSecond).toFixed(2) : ""
    const [rate, ...cpu] = [one.perSecond, one.service, one.database].map((value) => value.toFixed(0))
    const rest = [one.generator.toFixed(2), one.p99.toFixed(1), `${(100 * one.throttled).toFixed(0)} %`]
    return `| ${[one.asked, one.counted, one.machines, rate, times, ...cpu, ...rest].join(" | ")} |`
  })
  const head = ["requests", "counted", "machines", "a second", "times one", "service, µs", "PostgreSQL, µs"]
  return [
    `Each machine is ${options.share} of a core; medians of ${options.rounds} rounds of ${options.seconds} s over 16`,
    `connections each. CPU times are those of a request. ${new Date().toISOString()}\n`,
    `| ${[...head, "generators, cores", "p99, ms", "throttled"].join(" | ")} |`,
    `| ${"--- | ".repeat(2)}${"--: | ".repeat(7)}--: |`,
    ...rows,
    "",
  ].join("\n")
}

const main = async () => {
  const { end, ends } = makeCleanup()
  try {
    const environment = await startEnvironment()
    ends.push(environment.end)
    const redis = await startRedis()
    ends.push(() => redis.stop())
    const found = [
      ...(await both(ends, environment, "without Redis")),
      ...(await both(ends, environment, "in Redis", { REDIS_URL: redis.url })),
    ]
    const folder = join(import.meta.dirname, "../results")
    mkdirSync(folder, { recursive: true })
    const file = join(folder, `machines-${new Date().toISOString().slice(0, 16).replaceAll(":", "-")}`)
    writeFileSync(`${file}.md`, table(found))
    writeFileSync(`${file}.json`, `${JSON.stringify(found, null, 2)}\n`)
    console.log(table(found))
  } finally {
    await end()
  }
}

await main()
