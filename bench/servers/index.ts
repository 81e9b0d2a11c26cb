/** The servers that are compared: how each is started, and which cases it is measured with. */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { sendRequest } from "../httpClient.ts"
import { type BenchmarkCase, cases, type Mode, requestTarget } from "../cases.ts"
import { options } from "../options.ts"
import { dataFolder } from "../postgres.ts"
import { type Command, findFreePort, type Running, startInBackground, waitUntil } from "../processes.ts"
import { formatRestRequest, type RequestFormatter } from "../requestFiles.ts"
import * as PostGraphile from "./graphqlQueries.ts"

export const serverNames = [
  "tickerline",
  "tickerline-deno",
  "tickerline-lineage",
  "fastify",
  "fastify-our-sql",
  "fastify-postgres-js",
  "fastify-gzip",
  "express",
  "express-gzip",
  "floor",
  "floor-headers",
  "postgraphile",
] as const
export type ServerName = typeof serverNames[number]

export const serverTitles: Readonly<Record<ServerName | "pgbench", string>> = {
  tickerline: "Tickerline on Node",
  "tickerline-deno": "Tickerline on Deno",
  "tickerline-lineage": "Tickerline, all changes in memory",
  fastify: "Fastify + pg",
  "fastify-our-sql": "Fastify + pg, our SQL",
  "fastify-postgres-js": "Fastify + postgres.js, our SQL",
  "fastify-gzip": "Fastify + pg + @fastify/compress",
  express: "Express + pg",
  "express-gzip": "Express + pg + compression",
  floor: "node:http from memory",
  "floor-headers": "node:http, all headers",
  postgraphile: "PostGraphile",
  pgbench: "pgbench",
}

export interface Server extends Running {
  readonly name: ServerName
  readonly port: number
  /** Port of `/metrics`; undefined for servers other than Tickerline. */
  readonly metricsPort: number | undefined
  readonly write: RequestFormatter
}

export interface ServerEnvironment {
  readonly databaseUrl: string
  readonly key: string
  /** Port of Tickerline, from which the servers `floor` fetch the responses that they send. */
  readonly origin: number
}

export const isTickerline = (name: string) => name.startsWith("tickerline")
const hasTickerlineSql = (name: string) => name === "fastify-our-sql" || name === "fastify-postgres-js"
const isCompressing = (name: string) => name.endsWith("-gzip")
export const isFloor = (name: string) => name.startsWith("floor")

/** Whether the server is measured. Without a cache, popular requests take as long, so only Fastify is measured then. */
export const isMeasured = (
  name: ServerName | "pgbench",
  of: BenchmarkCase,
  mode: Mode,
  connections: number,
) => {
  const isMain = of.name === "runners-10" || of.name === "runners-100"
  if (name === "tickerline-lineage") return of.name.startsWith("lineage") && mode === "miss"
  if (isTickerline(name)) {
    return name === "tickerline" || connections === 32 || mode === "hit"
  }
  if (of.isOwn === true) return false
  if (isCompressing(name) || of.isCompressed) return isCompressing(name) && of.isCompressed
  if (hasTickerlineSql(name)) return (isMain || of.name === "runners-0") && mode === "miss" && connections === 32
  if (isFloor(name)) return isMain && (mode === "304" || mode === "hit")
  if (mode === "304") return false
  if (name === "fastify") return true
  if (mode === "hit" || (connections !== 32 && name !== "pgbench")) {
    return false
  }
  return name !== "postgraphile" || PostGraphile.canExpress(of)
}

/** Whether the server is measured with a mode of the case. */
export const isMeasuredWith = (name: ServerName | "pgbench", of: BenchmarkCase) =>
  of.modes.some((mode) => isMeasured(name, of, mode, 32))

/** Returns the path of the Deno binary, because the npm package's command does not forward signals. */
const deno = () => {
  const path = `${join(options.tickerline, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`
  const args = ["eval", "console.log(Deno.execPath())"]
  return execFileSync("deno", args, {
    encoding: "utf8",
    cwd: options.tickerline,
    env: { ...process.env, PATH: path },
  }).trim()
}

/** Returns the words of the project's start command, beginning with the given one. */
const started = (file: string, commands: "scripts" | "tasks", from: number): ReadonlyArray<string> => {
  const project = JSON.parse(readFileSync(join(options.tickerline, file), "utf8"))
  return String(project[commands].start).split(" ").slice(from)
}

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

const nodeArguments = () => started("package.json", "scripts", 1)

/** Enough for all ticker changes. With the default, there are too many to keep them in memory. */
const enoughForChanges = { CACHE_MEGABYTES: "512" }

const rival = (
  file: string,
  env: Readonly<Record<string, string>> = {},
): Command => ({
  program: process.execPath,
  args: [join(import.meta.dirname, file)],
  env: { NODE_ENV: "production", ...env },
})

/** Writes a file with the paths of all popular requests, for the servers `floor`. */
const popularFile = () => {
  const [folder, file] = [
    join(dataFolder, "requests"),
    join(dataFolder, "requests/popular"),
  ]
  mkdirSync(folder, { recursive: true })
  const shown = cases.filter((of) => isMeasured("floor", of, "hit", 32))
  writeFileSync(
    file,
    shown.flatMap((of) => of.popular.map((parameters) => requestTarget(of, parameters))).join(
      "\n",
    ),
  )
  return file
}

const floor = ({ key, origin }: ServerEnvironment, headers: string) =>
  rival("floor.ts", {
    KEY: key,
    PORT_OF_ORIGIN: String(origin),
    HEADERS: headers,
    FILE: popularFile(),
  })

const commandOf: Readonly<Record<ServerName, (environment: ServerEnvironment) => Command>> = {
  tickerline: () => tickerline(process.execPath, nodeArguments()),
  "tickerline-deno": () => tickerline(deno(), started("deno.json", "tasks", 2)),
  "tickerline-lineage": () => tickerline(process.execPath, nodeArguments(), enoughForChanges),
  fastify: () => rival("fastify.ts"),
  "fastify-our-sql": () => rival("fastify.ts", { SQL: "tickerline" }),
  "fastify-postgres-js": () => rival("fastify.ts", { SQL: "tickerline", DRIVER: "postgres" }),
  "fastify-gzip": () => rival("fastify.ts", { COMPRESS: "gzip" }),
  express: () => rival("express.ts"),
  "express-gzip": () => rival("express.ts", { COMPRESS: "gzip" }),
  floor: (environment) => floor(environment, "few"),
  "floor-headers": (environment) => floor(environment, "all"),
  postgraphile: () => rival("postgraphile.ts"),
}

/** Starts a server and waits until it answers. */
export const startServer = async (
  name: ServerName,
  environment: ServerEnvironment,
): Promise<Server> => {
  const [port, log] = [await findFreePort(), join(dataFolder, `${name}.log`)]
  const metricsPort = isTickerline(name) ? await findFreePort() : undefined
  const command = commandOf[name](environment)
  const env = {
    ...command.env,
    ...(metricsPort === undefined ? {} : { METRICS_PORT: String(metricsPort) }),
    PORT: String(port),
    DATABASE_URL: environment.databaseUrl,
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
    write: name === "postgraphile" ? PostGraphile.formatGraphQLRequest : formatRestRequest(environment.key),
  }
}
