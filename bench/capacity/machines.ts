/**
 * `npm run machines` compares two services with one. Each service is limited to a small share of a core, so that
 * neither PostgreSQL nor the load generator is the bottleneck.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type BenchmarkCase, runners10Small } from "../cases.ts"
import { runWrk } from "../wrk.ts"
import { readCpu, readTreeCpu } from "../processStats.ts"
import { options } from "../options.ts"
import { type CleanupSteps, makeCleanup } from "../processes.ts"
import { median } from "../statistics.ts"
import { formatRestRequest, writeRequestPlan } from "../requestFiles.ts"
import { makeRandomGenerator, makeZipfNumbers } from "../symbols.ts"
import { type CpuQuota, createCpuQuota } from "./cpuQuota.ts"
import { fillCaches, type Service, startService, startTestbed, type Testbed } from "./services.ts"

/** A case in which new and popular requests alternate. The popular requests follow a Zipf distribution. */
const mixed: BenchmarkCase = (() => {
  const order = makeZipfNumbers(runners10Small.popular.length, runners10Small.misses.length, makeRandomGenerator(11))
  const misses = runners10Small.misses.flatMap((miss, at) => [miss, runners10Small.popular[order[at] ?? 0] ?? {}])
  return { ...runners10Small, name: "runners-10-mixed", misses }
})()

const scenarios = [
  { name: "hits", benchmarkCase: runners10Small, mode: "hit" },
  { name: "half of them hits", benchmarkCase: mixed, mode: "miss" },
  { name: "misses", benchmarkCase: runners10Small, mode: "miss" },
] as const

interface Measured {
  readonly machines: number
  readonly perSecond: number
  /** The CPU time of all services per request, in microseconds. */
  readonly service: number
  /** The CPU time of PostgreSQL per request, in microseconds. */
  readonly database: number
  /** The CPU usage of the load generators, in cores. */
  readonly generator: number
  /** The 99th percentile of the latency, in milliseconds. With several machines, the highest of their values. */
  readonly p99: number
  /** The share of the scheduling periods in which a service exhausted its CPU quota. */
  readonly throttled: number
}

interface Machine {
  readonly service: Service
  readonly quota: CpuQuota
}

/**
 * The number of requests of each scenario that a service has received so far. It ensures that a `miss` is never sent to
 * the same service twice.
 */
const cursors = new Map<string, number>()

/** Measures a scenario on all the given machines at the same time, with one load generator per machine. */
const measure = async (
  { key, postgres }: Testbed,
  machines: ReadonlyArray<Machine>,
  scenario: typeof scenarios[number],
): Promise<Measured> => {
  const plan = writeRequestPlan("machines", scenario.benchmarkCase, scenario.mode, formatRestRequest(key), [])
  const send = (seconds: number) =>
    Promise.all(machines.map(async ({ service: { port } }) => {
      const cursor = cursors.get(`${port} ${scenario.name}`) ?? 0
      const sent = await runWrk({ port, plan, cursor, connections: 16, seconds })
      cursors.set(`${port} ${scenario.name}`, sent.cursor)
      return sent
    }))
  const cpu = () => machines.reduce((sum, { service: { pid } }) => sum + readCpu(pid), 0)
  await send(options.warmup)
  // Resets the throttling statistics, so that the next call covers only the measurement.
  machines.forEach(({ quota }) => quota.throttled())
  const [service, database] = [cpu(), readTreeCpu(postgres.pid)]
  const sent = await send(options.seconds)
  const total = (name: "generator" | "perSecond" | "requests") => sent.reduce((sum, one) => sum + one[name], 0)
  return {
    machines: machines.length,
    perSecond: total("perSecond"),
    service: (cpu() - service) / total("requests"),
    database: (readTreeCpu(postgres.pid) - database) / total("requests"),
    generator: total("generator"),
    p99: Math.max(...sent.map(({ p99 }) => p99)),
    throttled: machines.reduce((sum, { quota }) => sum + quota.throttled(), 0) / machines.length,
  }
}

/**
 * Starts a service and sets its CPU quota after the warm-up, because V8 would take long to optimize the code under the
 * quota.
 */
const startMachine = async (
  name: string,
  testbed: Testbed,
  cleanupSteps: CleanupSteps,
) => {
  const service = await startService(name, testbed.url)
  let quota: CpuQuota | undefined
  // This step is registered before the long warm-up, so that an interruption stops the service. The service stops
  // first, because a control group can be removed only when it contains no process.
  cleanupSteps.push(async () => {
    await service.stop()
    quota?.remove()
  })
  await fillCaches(service.port, testbed.key)
  const plan = writeRequestPlan("machines", runners10Small, "miss", formatRestRequest(testbed.key), [])
  let cursor = 0
  for (let second = 0; cursor < 20_000 && second < 30; second += options.warmup) {
    cursor = (await runWrk({ port: service.port, plan, cursor, connections: 16, seconds: options.warmup })).cursor
  }
  cursors.set(`${service.port} misses`, cursor)
  const created = quota = createCpuQuota(name, options.share)
  created.add(service.pid)
  return { service, quota: created }
}

const columns = ["perSecond", "service", "database", "generator", "p99", "throttled"] as const

type ScenarioResult = Measured & { readonly scenario: string }

/**
 * Measures each scenario on one machine and on two machines, which are services with a CPU quota on this computer.
 * Returns for each scenario the medians over all rounds, first with one machine, then with two. Stops the machines at
 * the end.
 */
const measureScenarios = async (outer: CleanupSteps, testbed: Testbed) => {
  const machines: Array<Machine> = []
  const found: Array<ScenarioResult> = []
  const { cleanUp, cleanupSteps } = makeCleanup(outer)
  try {
    for (const name of ["machine-1", "machine-2"]) {
      machines.push(await startMachine(name, testbed, cleanupSteps))
    }
    for (const scenario of scenarios) {
      // The measurements with one machine, and those with two.
      const rounds: ReadonlyArray<Array<Measured>> = [[], []]
      for (let round = 0; round < options.rounds; round += 1) {
        // Measurements with one and with two machines alternate, so that other load on the computer affects both
        // equally.
        for (const count of [1, 2]) {
          const measured = await measure(testbed, machines.slice(0, count), scenario)
          console.log(`${scenario.name}, ${count}: ${measured.perSecond.toFixed(0)} per second`)
          rounds[count - 1]?.push(measured)
        }
      }
      for (const [at, some] of rounds.entries()) {
        const medians = Object.fromEntries(columns.map((name) => [name, median(some.map((one) => one[name]))]))
        const { database = 0, generator = 0, p99 = 0, perSecond = 0, service = 0, throttled = 0 } = medians
        found.push({
          scenario: scenario.name,
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
    await cleanUp()
  }
  return found
}

/**
 * Formats the results as a Markdown table. `times one` is the request rate of two machines divided by the rate of one,
 * which is the result before it in `found`.
 */
const formatReport = (found: ReadonlyArray<ScenarioResult>) => {
  const rows = found.map((one, at) => {
    const before = found[at - 1]
    const times = one.machines === 2 && before !== undefined ? (one.perSecond / before.perSecond).toFixed(2) : ""
    const [rate, ...cpu] = [one.perSecond, one.service, one.database].map((value) => value.toFixed(0))
    const rest = [one.generator.toFixed(2), one.p99.toFixed(1), `${(100 * one.throttled).toFixed(0)}%`]
    return `| ${[one.scenario, one.machines, rate, times, ...cpu, ...rest].join(" | ")} |`
  })
  const head = ["requests", "machines", "per second", "times one", "service, µs", "PostgreSQL, µs"]
  return [
    `Each machine has ${options.share} of a core; medians of ${options.rounds} rounds of ${options.seconds} s over 16`,
    `connections each. CPU times are per request. ${new Date().toISOString()}\n`,
    `| ${[...head, "generators, cores", "p99, ms", "throttled"].join(" | ")} |`,
    `| --- | ${"--: | ".repeat(7)}--: |`,
    ...rows,
    "",
  ].join("\n")
}

const main = async () => {
  const { cleanUp, cleanupSteps } = makeCleanup()
  try {
    const testbed = await startTestbed()
    cleanupSteps.push(testbed.end)
    const found = await measureScenarios(cleanupSteps, testbed)
    const folder = join(import.meta.dirname, "../results")
    mkdirSync(folder, { recursive: true })
    const file = join(folder, `machines-${new Date().toISOString().slice(0, 16).replaceAll(":", "-")}`)
    writeFileSync(`${file}.md`, formatReport(found))
    writeFileSync(`${file}.json`, `${JSON.stringify(found, null, 2)}\n`)
    console.log(formatReport(found))
  } finally {
    await cleanUp()
  }
}

await main()
