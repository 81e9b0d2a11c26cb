/** The servers that are compared: how each is started, and which cases it is measured with. */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { sendRequest } from "../httpClient.ts"
import { type BenchmarkCase, cases, type Mode, requestTarget } from "../cases.ts"
import type { EventLoopDelay } from "../eventLoop.ts"
import { options } from "../options.ts"
import { dataFolder } from "../postgres.ts"
import { type Command, findFreePort, type Running, startInBackground, waitUntil } from "../processes.ts"
import { formatRestRequest, type RequestFormatter } from "../requestFiles.ts"
import { type ServerName, serverTitles } from "./names.ts"
import * as PostGraphile from "./graphqlQueries.ts"

/** A running server. */
export interface Server extends Running {
  readonly name: ServerName
  readonly port: number
  /** Port of `/metrics`; undefined for servers other than Tickerline. */
  readonly metricsPort: number | undefined
  /** Formats the requests to this server. */
  readonly write: RequestFormatter
  /** Returns the delay of the server's event loop since the last call. */
  readonly readDelay: () => Promise<EventLoopDelay>
}

/** What a server needs to start. */
export interface ServerEnvironment {
  readonly databaseUrl: string
  readonly key: string
  /** Port of Tickerline, from which servers fetch the responses that they send from memory. */
  readonly origin: number
}

/** Whether the server is Tickerline, with any settings. */
export const isTickerline = (name: string) => name.startsWith("tickerline")
const hasTickerlineSql = (name: string) => name === "fastify-our-sql" || name === "fastify-postgres-js"
const isCompressing = (name: string) => name.endsWith("-gzip")
/** Whether the server is `node:http` alone. */
export const isFloor = (name: string) => name.startsWith("floor")
const isLineage = ({ name }: BenchmarkCase) => name.startsWith("lineage")

/** Whether the server sends stored responses of Tickerline, and so has only those to popular requests. */
export const isFromMemory = (name: string, benchmarkCase: BenchmarkCase) =>
  isFloor(name) || (name === "effect" && !isLineage(benchmarkCase))

/** Whether the server fetches responses of Tickerline when it starts. */
export const needsOrigin = (name: string) => isFloor(name) || name === "effect"

/**
 * Whether the server is measured. A server without a cache takes as long for popular requests as for others, so Fastify
 * is the only such server that is measured with them.
 */
export const isMeasured = (
  name: ServerName | "pgbench",
  benchmarkCase: BenchmarkCase,
  mode: Mode,
  connections: number,
) => {
  const isMain = benchmarkCase.name === "runners-10" || benchmarkCase.name === "runners-100"
  if (name === "tickerline-lineage") return isLineage(benchmarkCase) && mode === "miss"
  if (isTickerline(name)) {
    return name === "tickerline" || connections === 32 || mode === "hit"
  }
  if (benchmarkCase.isOwn === true) return false
  if (isCompressing(name) || benchmarkCase.isCompressed) return isCompressing(name) && benchmarkCase.isCompressed
  if (hasTickerlineSql(name)) {
    return (isMain || benchmarkCase.name === "runners-0") && mode === "miss" && connections === 32
  }
  if (name === "effect") return connections === 32 && (isLineage(benchmarkCase) || (isMain && mode === "hit"))
  if (isFloor(name)) return isMain && (mode === "304" || mode === "hit")
  if (mode === "304") return false
  if (name === "fastify") return true
  if (mode === "hit" || (connections !== 32 && name !== "pgbench")) {
    return false
  }
  return name !== "postgraphile" || PostGraphile.canExpress(benchmarkCase)
}

/** Whether the server is measured with a mode of the case. */
export const isMeasuredWith = (name: ServerName | "pgbench", benchmarkCase: BenchmarkCase) =>
  benchmarkCase.modes.some((mode) => isMeasured(name, benchmarkCase, mode, 32))

/** Returns the path of the Deno binary, because the npm package's command does not forward signals. */
const findDeno = () => {
  const path = `${join(options.tickerline, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`
  const args = ["eval", "console.log(Deno.execPath())"]
  return execFileSync("deno", args, {
    encoding: "utf8",
    cwd: options.tickerline,
    env: { ...process.env, PATH: path },
  }).trim()
}

/** Returns the words after the given one in the project's start command. */
const readStartArguments = (file: string, commands: "scripts" | "tasks", word: string): ReadonlyArray<string> => {
  const project = JSON.parse(readFileSync(join(options.tickerline, file), "utf8"))
  const words = String(project[commands].start).split(" ")
  return words.slice(words.indexOf(word) + 1)
}

/** A module that makes a server write the delay of its event loop to the file `EVENT_LOOP_FILE` on SIGUSR2. */
const watcher = join(import.meta.dirname, "../eventLoopPreload.ts")

const tickerline = (
  program: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
): Command => ({
  program,
  args,
  cwd: options.tickerline,
  env: { RATE_LIMIT_ULTIMATE: "1000000000", ...env },
})

const nodeArguments = () => ["--import", watcher, ...readStartArguments("package.json", "scripts", "node")]

/** Enough memory for all ticker changes. With the default, they do not fit. */
const enoughForChanges = { CACHE_MEGABYTES: "512" }

const rival = (
  file: string,
  env: Readonly<Record<string, string>> = {},
): Command => ({
  program: process.execPath,
  args: ["--import", watcher, join(import.meta.dirname, file)],
  env: { NODE_ENV: "production", ...env },
})

/** Writes a file with the paths of all popular requests, for the servers that send responses of Tickerline. */
const writePopularFile = () => {
  const [folder, file] = [
    join(dataFolder, "requests"),
    join(dataFolder, "requests/popular"),
  ]
  mkdirSync(folder, { recursive: true })
  const shown = cases.filter((one) => isMeasured("effect", one, "hit", 32))
  writeFileSync(
    file,
    shown.flatMap((one) => one.popular.map((parameters) => requestTarget(one, parameters))).join(
      "\n",
    ),
  )
  return file
}

const fromMemory = (file: string, { key, origin }: ServerEnvironment, env: Readonly<Record<string, string>> = {}) =>
  rival(file, { KEY: key, PORT_OF_ORIGIN: String(origin), FILE: writePopularFile(), ...env })

const commandOf: Readonly<Record<ServerName, (environment: ServerEnvironment) => Command>> = {
  tickerline: () => tickerline(process.execPath, nodeArguments()),
  "tickerline-deno": () => {
    const args = readStartArguments("deno.json", "tasks", "run")
    return tickerline(findDeno(), ["run", "--preload", watcher, ...args])
  },
  "tickerline-lineage": () => tickerline(process.execPath, nodeArguments(), enoughForChanges),
  fastify: () => rival("fastify.ts"),
  "fastify-our-sql": () => rival("fastify.ts", { SQL: "tickerline" }),
  "fastify-postgres-js": () => rival("fastify.ts", { SQL: "tickerline", DRIVER: "postgres" }),
  "fastify-gzip": () => rival("fastify.ts", { COMPRESS: "gzip" }),
  express: () => rival("express.ts"),
  "express-gzip": () => rival("express.ts", { COMPRESS: "gzip" }),
  effect: (environment) => fromMemory("effect.ts", environment),
  floor: (environment) => fromMemory("floor.ts", environment),
  "floor-headers": (environment) => fromMemory("floor.ts", environment, { HEADERS: "all" }),
  postgraphile: () => rival("postgraphile.ts"),
}

/** Starts a server, and waits until it responds. `tickerline-lineage` must also have all ticker changes in memory. */
export const startServer = async (
  name: ServerName,
  environment: ServerEnvironment,
): Promise<Server> => {
  const [port, log] = [await findFreePort(), join(dataFolder, `${name}.log`)]
  const delayFile = join(dataFolder, `${name}.delay`)
  const metricsPort = isTickerline(name) ? await findFreePort() : undefined
  const command = commandOf[name](environment)
  const env = {
    ...command.env,
    ...(metricsPort === undefined ? {} : { METRICS_PORT: String(metricsPort) }),
    PORT: String(port),
    DATABASE_URL: environment.databaseUrl,
    EVENT_LOOP_FILE: delayFile,
  }
  const running = await startInBackground({ ...command, env }, log)
  await waitUntil(serverTitles[name], running, log, async () => {
    const { status } = await sendRequest(
      port,
      isTickerline(name) ? "/health/live" : "/nothing",
    )
    if (name !== "tickerline-lineage" || metricsPort === undefined) return !isTickerline(name) || status === 200
    const { body } = await sendRequest(metricsPort, "/metrics")
    return /^tickerline_lineage_index_used(\{.*\})? 1$/m.test(body.toString())
  })
  return {
    ...running,
    name,
    port,
    metricsPort,
    readDelay: async () => {
      rmSync(delayFile, { force: true })
      process.kill(running.pid, "SIGUSR2")
      await waitUntil(serverTitles[name], running, log, async () => existsSync(delayFile))
      return JSON.parse(readFileSync(delayFile, "utf8"))
    },
    write: name === "postgraphile" ? PostGraphile.formatGraphQLRequest : formatRestRequest(environment.key),
  }
}
