/** Servers in the comparison: how each is started, and which cases it is measured with. */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { sendRequest } from "../httpClient.ts"
import { type Case, cases, type Mode, requestTarget } from "../cases.ts"
import { options } from "../options.ts"
import { dataFolder } from "../postgres.ts"
import { freePort, type ProgramOptions, type RunningProgram, startProgram, waitUntil } from "../processes.ts"
import { type RequestWriter, writeRestRequest } from "../requests.ts"
import * as PostGraphile from "./queries.ts"

export const serverNames = [
  "tickerline",
  "tickerline-deno",
  "fastify",
  "express",
  "floor",
  "floor-headers",
  "postgraphile",
] as const
export type ServerName = typeof serverNames[number]

export const serverTitles: Readonly<Record<ServerName | "pgbench", string>> = {
  tickerline: "Tickerline on Node",
  "tickerline-deno": "Tickerline on Deno",
  fastify: "Fastify + pg",
  express: "Express + pg",
  floor: "node:http from memory",
  "floor-headers": "node:http, all headers",
  postgraphile: "PostGraphile",
  pgbench: "pgbench",
}

export interface Server extends RunningProgram {
  readonly name: ServerName
  readonly port: number
  readonly write: RequestWriter
}

export interface ServerEnvironment {
  readonly databaseUrl: string
  readonly key: string
  /** Port of Tickerline, for servers that replay its responses. */
  readonly origin: number
}

export const isTickerline = (name: string) => name.startsWith("tickerline")
export const isFloor = (name: string) => name.startsWith("floor")

/** Servers without a cache spend the same on a hit as on a miss, so one of them is enough for hits. */
export const isMeasured = (
  name: ServerName | "pgbench",
  benchCase: Case,
  mode: Mode,
  connections: number,
) => {
  const isMain = benchCase.name === "runners-10" || benchCase.name === "runners-100"
  if (isTickerline(name)) {
    return name === "tickerline" || connections === 32 || mode === "hit"
  }
  if (isFloor(name)) return isMain && (mode === "304" || mode === "hit")
  if (mode === "304") return false
  if (name === "fastify") return true
  if (mode === "hit" || (connections !== 32 && name !== "pgbench")) {
    return false
  }
  return name !== "postgraphile" || PostGraphile.isExpressible(benchCase)
}

/** Path of the program itself, because the npm wrapper does not forward signals. */
const deno = () => {
  const path = `${join(options.tickerline, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`
  const args = ["eval", "console.log(Deno.execPath())"]
  return execFileSync("deno", args, {
    encoding: "utf8",
    cwd: options.tickerline,
    env: { ...process.env, PATH: path },
  }).trim()
}

/** Arguments of the project's start command, from the given word on. */
const started = (file: string, commands: "scripts" | "tasks", from: number): ReadonlyArray<string> => {
  const project = JSON.parse(readFileSync(join(options.tickerline, file), "utf8"))
  return String(project[commands].start).split(" ").slice(from)
}

const tickerline = (program: string, args: ReadonlyArray<string>): ProgramOptions => ({
  program,
  args,
  cwd: options.tickerline,
  env: { RATE_LIMIT_ULTIMATE: "1000000000" },
})

const rival = (
  file: string,
  env: Readonly<Record<string, string>> = {},
): ProgramOptions => ({
  program: process.execPath,
  args: [join(import.meta.dirname, file)],
  env: { NODE_ENV: "production", ...env },
})

/** Paths of all popular requests, for servers that replay Tickerline's responses. */
const popularFile = () => {
  const [folder, file] = [
    join(dataFolder, "requests"),
    join(dataFolder, "requests/popular"),
  ]
  mkdirSync(folder, { recursive: true })
  const shown = cases.filter((benchCase) => isMeasured("floor", benchCase, "hit", 32))
  writeFileSync(
    file,
    shown.flatMap((benchCase) => benchCase.popular.map((asked) => requestTarget(benchCase, asked))).join(
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

const commandOf: Readonly<Record<ServerName, (environment: ServerEnvironment) => ProgramOptions>> = {
  tickerline: () => tickerline(process.execPath, started("package.json", "scripts", 1)),
  "tickerline-deno": () => tickerline(deno(), started("deno.json", "tasks", 2)),
  fastify: () => rival("fastify.ts"),
  express: () => rival("express.ts"),
  floor: (environment) => floor(environment, "few"),
  "floor-headers": (environment) => floor(environment, "all"),
  postgraphile: () => rival("postgraphile.ts"),
}

/** Starts a server and waits until it is ready. */
export const startServer = async (
  name: ServerName,
  environment: ServerEnvironment,
): Promise<Server> => {
  const [port, log] = [await freePort(), join(dataFolder, `${name}.log`)]
  const command = commandOf[name](environment)
  const env = {
    ...command.env,
    PORT: String(port),
    DATABASE_URL: environment.databaseUrl,
  }
  const running = await startProgram({ ...command, env }, log)
  await waitUntil(serverTitles[name], running, log, async () => {
    const { status } = await sendRequest(
      port,
      isTickerline(name) ? "/health/live" : "/nothing",
    )
    return !isTickerline(name) || status === 200
  })
  return {
    ...running,
    name,
    port,
    write: name === "postgraphile" ? PostGraphile.writeGraphqlRequest : writeRestRequest(environment.key),
  }
}
