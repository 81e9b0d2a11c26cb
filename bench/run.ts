/** `npm run bench` compares the servers (see README.md). */
import process from "node:process"
import { cases, type Mode } from "./cases.ts"
import { prepareBenchmarkDatabases } from "./databases.ts"
import { compareTableSizes, measureMemory } from "./memoryAndTableSize.ts"
import { options } from "./options.ts"
import { startPostgres } from "./postgres.ts"
import type { Result } from "./outcome.ts"
import { writeBenchmarkReport } from "./report.ts"
import { checkRequirements } from "./requirements.ts"
import {
  isFloor,
  isMeasured,
  isMeasuredWith,
  type Server,
  serverNames,
  serverTitles,
  startServer,
} from "./servers/index.ts"
import { type Measurement, measurePgbench, measureServer, type Task, type Timer } from "./measurement.ts"
import { readETags, verifySameResponses } from "./verify.ts"

/** Fails if an option names something that does not exist, because nothing would be measured. */
const checkNames = (option: string, named: ReadonlyArray<string> = [], known: ReadonlyArray<string>) => {
  const unknown = named.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new Error(`--${option}: ${unknown.join(", ")} is none of ${known.join(", ")}`)
}

checkNames("servers", options.servers, Object.keys(serverTitles))
checkNames("only", options.only, [
  ...cases.flatMap(({ modes, name }) => [name, ...modes.map((mode) => `${name}:${mode}`)]),
  "memory",
  "growth",
])

const wanted = (name: string, mode?: Mode) =>
  options.only === undefined || options.only.includes(name) ||
  options.only.includes(`${name}:${mode}`)

const isChosen = (name: string) => options.servers === undefined || options.servers.includes(name)

const connectionsOf = (name: string) =>
  (name === "runners-10" ? [1, 32, 256] : [32]).filter((count) => options.connections?.includes(count) ?? true)

const tasks: ReadonlyArray<Task> = cases.flatMap((of) =>
  of.modes.filter((mode) => wanted(of.name, mode)).flatMap((mode) =>
    connectionsOf(of.name).map((connections) => ({ of, mode, connections }))
  )
)
const chosen = cases.filter((of) => tasks.some((task) => task.of === of))

/** Programs to stop at the end, in reverse order. */
const running: Array<{ readonly stop: () => Promise<void> }> = []
let stopping: Promise<void> | undefined
const stopAll = () =>
  stopping ??= running.toReversed().reduce(
    (before, { stop }) => before.then(stop),
    Promise.resolve(),
  )

const interrupted = () => void stopAll().finally(() => process.exit(130))
process.once("SIGINT", interrupted).once("SIGTERM", interrupted)

const formatFigures = (figures: Measurement) => {
  const { database, p99, perSecond, service } = figures
  const cpu = [service, database].map((value) => value?.toFixed(0) ?? "–").join(
    " + ",
  )
  return `${perSecond.toFixed(0).padStart(7)}/s  p99 ${p99?.toFixed(1) ?? "–"} ms  CPU ${cpu} µs`
}

/** Measures every server once per round, so that other load on the machine affects all servers equally. */
const measureAll = async (
  servers: ReadonlyArray<Server>,
  timer: Timer,
): Promise<ReadonlyArray<Result>> => {
  const contenders = [
    ...servers,
    ...(isChosen("pgbench") ? ["pgbench" as const] : []),
  ]
  const results = tasks.flatMap((task) =>
    contenders.flatMap((server) => {
      const name = server === "pgbench" ? server : server.name
      if (!isMeasured(name, task.of, task.mode, task.connections)) return []
      if (task.mode === "304" && timer.tags.length === 0) return []
      const rounds: Array<Measurement> = []
      const failures: Array<string> = []
      const result = {
        server: name,
        case: task.of.name,
        mode: task.mode,
        connections: task.connections,
        rounds,
        failures,
      }
      const once = () => server === "pgbench" ? measurePgbench(task, timer) : measureServer(server, task, timer)
      return [{ result, once }]
    })
  )
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const { once, result } of results) {
      const what = `${round}/${options.rounds} ${result.case} ${result.mode} ${result.connections} ${result.server}`
      await once().then((figures) => {
        result.rounds.push(figures)
        console.log(`${what.padEnd(52)}${formatFigures(figures)}`)
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
  const keys = await prepareBenchmarkDatabases(postgres)
  const servers: Array<Server> = []
  for (const name of tasks.length === 0 ? [] : serverNames) {
    const origin = servers.find(({ name }) => name === "tickerline")?.port ?? 0
    const isNeeded = isChosen(name) && chosen.some((of) => isMeasuredWith(name, of))
    if (!isNeeded || (isFloor(name) && origin === 0)) continue
    const server = await startServer(name, {
      databaseUrl: postgres.url("bench"),
      key: keys.bench,
      origin,
    })
    running.push(server)
    servers.push(server)
    console.log(`${name} listens on port ${server.port}`)
  }
  const { bytes, notes } = await verifySameResponses(chosen, servers, keys.bench)
  console.log(
    `The bodies of ${chosen.map(({ name }) => name).join(", ")} are the same`,
  )
  const task304 = tasks.find(({ mode }) => mode === "304")
  const tags = task304 === undefined ? [] : await readETags(servers, task304.of, keys.bench)
  const unsupported = task304 !== undefined && tags.length === 0
    ? ["304: not supported, because responses have no ETag."]
    : []
  const results = await measureAll(servers, {
    postgres,
    key: keys.bench,
    tags,
    bytes: (server, of) => bytes.get(`${server} ${of.name}`) ?? 0,
  })
  for (const server of servers.toReversed()) await server.stop()
  const isWanted = (extra: string) => !options.quick && (options.only?.includes(extra) ?? true)
  const growth = isWanted("growth") && !options.skipGrowth ? await compareTableSizes(postgres, keys) : []
  const memory = isWanted("memory") && !options.skipMemory ? await measureMemory(postgres, keys) : undefined
  const { file, goals, text } = await writeBenchmarkReport({
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
