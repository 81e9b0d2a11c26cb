/** Runs the benchmark (`npm run bench`, see README.md). */
import process from "node:process"
import { cases, type Mode } from "./cases.ts"
import { prepareDatabases } from "./data.ts"
import { measureGrowth, measureMemory } from "./memoryAndGrowth.ts"
import { options } from "./options.ts"
import { startPostgres } from "./postgres.ts"
import { type TimingResult, writeReport } from "./report.ts"
import { checkRequirements } from "./requirements.ts"
import { isFloor, isMeasured, type Server, serverNames, startServer } from "./servers/index.ts"
import { timePgbench, type Timer, timeServer, type TimingFigures, type TimingTask } from "./timing.ts"
import { fetchEtags, verifyResponses } from "./verify.ts"

const wanted = (name: string, mode?: Mode) =>
  options.only === undefined || options.only.includes(name) ||
  options.only.includes(`${name}:${mode}`)

const isChosen = (name: string) => options.servers === undefined || options.servers.includes(name)

const connectionsOf = (name: string) =>
  (name === "runners-10" ? [1, 32, 256] : [32]).filter((count) => options.connections?.includes(count) ?? true)

const tasks: ReadonlyArray<TimingTask> = cases.flatMap((benchCase) =>
  benchCase.modes.filter((mode) => wanted(benchCase.name, mode)).flatMap((mode) =>
    connectionsOf(benchCase.name).map((connections) => ({ benchCase, mode, connections }))
  )
)
const chosen = cases.filter((benchCase) => tasks.some((task) => task.benchCase === benchCase))

/** Running servers, stopped in reverse order. */
const running: Array<{ readonly stop: () => Promise<void> }> = []
let stopping: Promise<void> | undefined
const stopAll = () =>
  stopping ??= running.toReversed().reduce(
    (before, { stop }) => before.then(stop),
    Promise.resolve(),
  )

const interrupted = () => void stopAll().finally(() => process.exit(130))
process.once("SIGINT", interrupted).once("SIGTERM", interrupted)

const said = (figures: TimingFigures) => {
  const { database, p99, perSecond, service } = figures
  const cpu = [service, database].map((value) => value?.toFixed(0) ?? "–").join(
    " + ",
  )
  return `${perSecond.toFixed(0).padStart(7)}/s  p99 ${p99?.toFixed(1) ?? "–"} ms  CPU ${cpu} µs`
}

/** Measures all servers in turn within a round, so that machine noise affects all of them. */
const measureAll = async (
  servers: ReadonlyArray<Server>,
  timer: Timer,
): Promise<ReadonlyArray<TimingResult>> => {
  const contenders = [
    ...servers,
    ...(isChosen("pgbench") ? ["pgbench" as const] : []),
  ]
  const results = tasks.flatMap((task) =>
    contenders.flatMap((server) => {
      const name = server === "pgbench" ? server : server.name
      if (!isMeasured(name, task.benchCase, task.mode, task.connections)) return []
      if (task.mode === "304" && timer.tags.length === 0) return []
      const rounds: Array<TimingFigures> = []
      const failures: Array<string> = []
      const result = {
        server: name,
        case: task.benchCase.name,
        mode: task.mode,
        connections: task.connections,
        rounds,
        failures,
      }
      const once = () => server === "pgbench" ? timePgbench(task, timer) : timeServer(server, task, timer)
      return [{ result, once }]
    })
  )
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const { once, result } of results) {
      const what = `${round}/${options.rounds} ${result.case} ${result.mode} ${result.connections} ${result.server}`
      await once().then((figures) => {
        result.rounds.push(figures)
        console.log(`${what.padEnd(52)}${said(figures)}`)
      }, (error: unknown) => {
        result.failures.push(String(error))
        console.error(`FAILED: ${what}: ${String(error)}`)
      })
    }
  }
  return results.map(({ result }) => result)
}

const main = async () => {
  await checkRequirements()
  const postgres = await startPostgres()
  running.push(postgres)
  const keys = await prepareDatabases(postgres)
  const servers: Array<Server> = []
  for (const name of tasks.length === 0 ? [] : serverNames) {
    const origin = servers.find(({ name }) => name === "tickerline")?.port ?? 0
    if (!isChosen(name) || (isFloor(name) && origin === 0)) continue
    const server = await startServer(name, {
      databaseUrl: postgres.url("bench"),
      key: keys.bench,
      origin,
    })
    running.push(server)
    servers.push(server)
    console.log(`${name} answers on port ${server.port}`)
  }
  const { bytes, notes } = await verifyResponses(chosen, servers, keys.bench)
  console.log(
    `The bodies of ${chosen.map(({ name }) => name).join(", ")} are the same`,
  )
  const asked304 = tasks.find(({ mode }) => mode === "304")
  const tags = asked304 === undefined ? [] : await fetchEtags(servers, asked304.benchCase, keys.bench)
  const unsupported = asked304 !== undefined && tags.length === 0 ? ["304: not supported, no answer has an ETag."] : []
  const results = await measureAll(servers, {
    postgres,
    key: keys.bench,
    tags,
    bytes: (server, benchCase) => bytes.get(`${server} ${benchCase.name}`) ?? 0,
  })
  for (const server of servers.toReversed()) await server.stop()
  const growth = options.growth ? await measureGrowth(postgres, keys) : []
  const memory = options.memory ? await measureMemory(postgres, keys) : undefined
  const { file, goals, text } = await writeReport({
    results,
    notes: [...notes, ...unsupported],
    memory,
    growth,
  })
  console.log(options.only === undefined ? goals : text)
  console.log(`\n${file}.md`)
  if (results.some(({ failures }) => failures.length > 0)) process.exitCode = 1
}

try {
  await main()
} finally {
  await stopAll()
}
