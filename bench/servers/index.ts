/** The servers that are compared: how each server is started, and which cases it is measured with. */
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
  /** The port of `/metrics`. Undefined for all servers other than Tickerline. */
  readonly metricsPort: number | undefined
  /** Formats requests for this server. */
  readonly write: RequestFormatter
  /** Returns the server's event loop delay since the last call. */
  readonly readDelay: () => Promise<EventLoopDelay>
}

/** The environment in which a server is started. */
export interface ServerEnvironment {
  readonly databaseUrl: string
  readonly key: string
  /** The port of the Tickerline server that provides the responses for servers that send stored responses. */
  readonly origin: number
}

/** Returns whether the server is Tickerline, with any settings. */
export const isTickerline = (name: string) => name.startsWith("tickerline")
const hasTickerlineSql = (name: string) => name === "fastify-our-sql" || name === "fastify-postgres-js"
const isCompressing = (name: string) => name.endsWith("-gzip")
/** Returns whether the server is plain `node:http`, the upper bound for Node servers. */
export const isFloor = (name: string) => name.startsWith("floor")
const isLineage = ({ name }: BenchmarkCase) => name.startsWith("lineage")

/**
 * Returns whether the server sends stored Tickerline responses for this case. Such a server only has responses to
 * popular requests.
 */
export const isFromMemory = (name: string, benchmarkCase: BenchmarkCase) =>
  isFloor(name) || (name === "effect" && !isLineage(benchmarkCase))

/** Returns whether the server fetches Tickerline responses at startup. */
export const needsOrigin = (name: string) => isFloor(name) || name === "effect"

/**
 * Returns whether the server is measured with the given combination. A server without a cache takes equally long for
 * popular requests and other requests, so of these servers only Fastify is measured with popular requests.
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

/** Returns whether the server is measured with any mode of the case. */
export const isMeasuredWith = (name: ServerName | "pgbench", benchmarkCase: BenchmarkCase) =>
  benchmarkCase.modes.some((mode) => isMeasured(name, benchmarkCase, mode, 32))

/**
 * Returns the path of the Deno binary. The command of the npm package is not used, because it does not forward signals.
 */
const findDeno = () => {
  const path = `${join(options.tickerline, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`
  const args = ["eval", "console.log(Deno.execPath())"]
  return execFileSync("deno", args, {
    encoding: "utf8",
    cwd: options.tickerline,
    env: { ...process.env, PATH: path },
  }).trim()
}

/** Returns the arguments that follow the given word in the project's start command. */
const readStartArguments = (file: string, commands: "scripts" | "tasks", word: string): ReadonlyArray<string> => {
  const project = JSON.parse(readFileSync(join(options.tickerline, file), "utf8"))
  const words = String(project[commands].start).split(" ")
  return words.slice(words.indexOf(word) + 1)
}

/**
 * A module that is loaded into each server. On SIGUSR2, it writes the event loop delay to the file `EVENT_LOOP_FILE`.
 */
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

/** Enough memory for all ticker changes. They do not fit into the default cache size. */
const enoughForChanges = { CACHE_MEGABYTES: "512" }

const rival = (
  file: string,
  env: Readonly<Record<string, string>> = {},
): Command => ({
  program: process.execPath,
  args: ["--import", watcher, join(import.meta.dirname, file)],
  env: { NODE_ENV: "production", ...env },
})

/** Writes the paths of all popular requests to a file, for the servers that send stored Tickerline responses. */
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

/**
 * Starts a server and waits until it responds. For `tickerline-lineage`, also waits until all ticker changes are in
 * memory.
 */
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
