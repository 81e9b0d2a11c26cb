/** `npm run bench` compares Tickerline with other servers (see README.md). */
import process from "node:process"
import { cases, type Mode } from "./cases.ts"
import { prepareBenchmarkDatabases } from "./databases.ts"
import { compareTableSizes, measureMemory } from "./memoryAndTableSize.ts"
import { options } from "./options.ts"
import { startPostgres } from "./postgres.ts"
import { sleep } from "./processes.ts"
import { describeLoad, isBusy, watchMachine } from "./machineLoad.ts"
import type { Result, Round, ServerMeasurement } from "./outcome.ts"
import { writeBenchmarkReport } from "./report.ts"
import { checkRequirements } from "./requirements.ts"
import { isMeasured, isMeasuredWith, needsOrigin, type Server, startServer } from "./servers/index.ts"
import { serverNames, serverTitles } from "./servers/names.ts"
import { type MeasurementContext, measurePgbench, measureServer, type Task } from "./measurement.ts"
import { readETags, verifySameResponses } from "./verify.ts"

/** Fails if an option lists an unknown name, because nothing would be measured for it. */
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

const tasks: ReadonlyArray<Task> = cases.flatMap((benchmarkCase) =>
  benchmarkCase.modes.filter((mode) => wanted(benchmarkCase.name, mode)).flatMap((mode) =>
    connectionsOf(benchmarkCase.name).map((connections) => ({ benchmarkCase, mode, connections }))
  )
)
const chosen = cases.filter((benchmarkCase) => tasks.some((task) => task.benchmarkCase === benchmarkCase))

/** The programs to stop at the end, in reverse order. */
const running: Array<{ readonly stop: () => Promise<void> }> = []
let stopping: Promise<void> | undefined
const stopAll = () =>
  stopping ??= running.toReversed().reduce(
    (before, { stop }) => before.then(stop),
    Promise.resolve(),
  )

const interrupted = () => void stopAll().finally(() => process.exit(130))
process.once("SIGINT", interrupted).once("SIGTERM", interrupted)

const formatFigures = (figures: ServerMeasurement) => {
  const { database, delayMax, p99, p999, perSecond, service } = figures
  const cpu = [service, database].map((value) => value?.toFixed(0) ?? "–").join(
    " + ",
  )
  return `${perSecond.toFixed(0).padStart(7)}/s  p99 ${p99?.toFixed(1) ?? "–"} ms  p99.9 ${
    p999?.toFixed(1) ?? "–"
  } ms  ` +
    `loop ${delayMax?.toFixed(1) ?? "–"} ms  CPU ${cpu} µs`
}

/** A server that a task is measured with, and its results so far. */
interface Contender {
  readonly result: Result & { readonly rounds: Array<Round>; readonly failures: Array<string> }
  readonly measureOnce: () => Promise<ServerMeasurement>
}

/**
 * Returns whether this is a Tickerline server that all rivals are compared with. These servers are measured immediately
 * before each rival.
 */
const isOwn = (name: string) => name === "tickerline" || name === "tickerline-lineage"

/** Returns the servers that a task is measured with. */
const makeContenders = (
  task: Task,
  servers: ReadonlyArray<Server>,
  context: MeasurementContext,
): ReadonlyArray<Contender> =>
  [...servers, ...(isChosen("pgbench") ? ["pgbench" as const] : [])].flatMap((server) => {
    const name = server === "pgbench" ? server : server.name
    if (!isMeasured(name, task.benchmarkCase, task.mode, task.connections)) return []
    if (task.mode === "304" && context.tags.length === 0) return []
    const { benchmarkCase, connections, mode } = task
    return [{
      result: { server: name, case: benchmarkCase.name, mode, connections, rounds: [], failures: [] },
      measureOnce: () => server === "pgbench" ? measurePgbench(task, context) : measureServer(server, task, context),
    }]
  })

/**
 * Measures a server once, and adds the measurement or the error to the server's result. Returns undefined if the
 * measurement failed.
 */
const measureRound = async (round: number, { measureOnce, result }: Contender, beside: Round["beside"]) => {
  const what = `${round}/${options.rounds} ${result.case} ${result.mode} ${result.connections} ${result.server}`
  try {
    const figures = await measureOnce()
    result.rounds.push({ ...figures, beside })
    console.log(`${what.padEnd(52)}${formatFigures(figures)}`)
    return figures
  } catch (error) {
    result.failures.push(String(error))
    console.error(`FAILED: ${what}: ${String(error)}`)
    return undefined
  }
}

/**
 * Measures all tasks. In every round, each rival is measured immediately after the Tickerline servers, so that they run
 * under the same conditions: a server's rate varies much more between rounds than the ratio of two servers that are
 * measured in succession. In the same way, requests for the runners of a company with thirteen symbols are compared
 * with requests for a single symbol (`runners-10`).
 */
const measureAll = async (
  servers: ReadonlyArray<Server>,
  context: MeasurementContext,
): Promise<ReadonlyArray<Result>> => {
  const groups = tasks.map((task) => ({ task, contenders: makeContenders(task, servers, context) }))
  const symbol = groups.find(({ task: { benchmarkCase, connections, mode } }) =>
    benchmarkCase.name === "runners-10" && mode === "miss" && connections === 32
  )
  // A block consists of servers to measure. The `own` servers are measured first, and then the `rivals` that are
  // compared with them.
  const blocks = groups.flatMap(({ contenders, task }) => {
    const own = contenders.filter(({ result }) => isOwn(result.server))
    const rivals = contenders.filter(({ result }) => !isOwn(result.server))
    const compared = task.benchmarkCase.isOwn === true
      ? [{ own: symbol?.contenders.filter(({ result }) => isOwn(result.server)) ?? [], rivals: own }]
      : []
    return [
      ...compared,
      ...rivals.map((rival) => ({ own, rivals: [rival] })),
      ...(rivals.length === 0 ? [{ own, rivals }] : []),
    ]
  })
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const { own, rivals } of blocks) {
      const beside: Record<string, ServerMeasurement> = {}
      for (const one of own) {
        const figures = await measureRound(round, one, {})
        if (figures !== undefined) beside[one.result.server] = figures
      }
      for (const rival of rivals) await measureRound(round, rival, beside)
    }
  }
  return groups.flatMap(({ contenders }) => contenders.map(({ result }) => result))
}

/**
 * Starts PostgreSQL, fills the databases, starts the chosen servers, checks that they send the same bodies, measures
 * them, and writes the report. The growth of the database and the memory of servers that are started for it are
 * measured last, after the compared servers have stopped, so that the measurements do not disturb each other. `running`
 * holds all programs that were started. They are stopped even after a failure.
 */
const main = async () => {
  await checkRequirements()
  const readLoad = watchMachine()
  await sleep(1000)
  const atStart = readLoad()
  if (isBusy(atStart)) console.warn(describeLoad(atStart))
  const postgres = await startPostgres()
  running.push(postgres)
  const keys = await prepareBenchmarkDatabases(postgres)
  const servers: Array<Server> = []
  for (const name of tasks.length === 0 ? [] : serverNames) {
    // Some servers fetch Tickerline's responses from its port when they start, and send these. Tickerline is the first
    // of `serverNames`, so it has been started before.
    const origin = servers.find(({ name }) => name === "tickerline")?.port ?? 0
    const isNeeded = isChosen(name) && chosen.some((benchmarkCase) => isMeasuredWith(name, benchmarkCase))
    if (!isNeeded || (needsOrigin(name) && origin === 0)) continue
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
  const tags = task304 === undefined ? [] : await readETags(servers, task304.benchmarkCase, keys.bench)
  const unsupported = task304 !== undefined && tags.length === 0
    ? ["304: not supported, because responses have no ETag."]
    : []
  const results = await measureAll(servers, {
    postgres,
    key: keys.bench,
    tags,
    bytes: (server, benchmarkCase) => bytes.get(`${server} ${benchmarkCase.name}`) ?? 0,
  })
  for (const server of servers.toReversed()) await server.stop()
  const isWanted = (extra: string) => !options.quick && (options.only?.includes(extra) ?? true)
  const growth = isWanted("growth") && !options.skipGrowth ? await compareTableSizes(postgres, keys) : []
  const memory = isWanted("memory") && !options.skipMemory ? await measureMemory(postgres, keys) : undefined
  const { file, goals, text } = await writeBenchmarkReport({
    load: readLoad(),
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
