/** Starts the service, PostgreSQL and Redis for the measurements in this folder. */
import { join } from "node:path"
import process from "node:process"
import { authHeaders, headerOf, mapConcurrently, sendRequest } from "../httpClient.ts"
import { type Case, requestTarget, runners10Small } from "../cases.ts"
import { prepareDatabases } from "../data.ts"
import { options } from "../options.ts"
import { dataFolder, type Postgres, startPostgres } from "../postgres.ts"
import { freePort, type RunningProgram, runProgram, startProgram, waitUntil } from "../processes.ts"

export interface BenchEnvironment {
  readonly postgres: Postgres
  readonly url: string
  readonly key: string
  readonly end: () => Promise<void>
}

export const startEnvironment = async (): Promise<BenchEnvironment> => {
  const postgres = await startPostgres()
  try {
    const keys = await prepareDatabases(postgres, ["bench_small"])
    return { postgres, url: postgres.url("bench_small"), key: keys.bench_small, end: postgres.stop }
  } catch (error) {
    await postgres.stop()
    throw error
  }
}

export interface Service extends RunningProgram {
  readonly port: number
}

/** Starts the service like `npm start`. */
export const startService = async (
  name: string,
  url: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Service> => {
  const [port, log] = [await freePort(), join(dataFolder, `${name}.log`)]
  const running = await startProgram({
    program: process.execPath,
    args: ["--max-semi-space-size=16", "src/main.ts", "serve"],
    cwd: options.tickerline,
    env: { RATE_LIMIT_ULTIMATE: "1000000000", PORT: String(port), DATABASE_URL: url, ...env },
  }, log)
  await waitUntil(name, running, log, async () => (await sendRequest(port, "/health/live")).status === 200)
  return { ...running, port }
}

export interface Redis extends RunningProgram {
  readonly url: string
  /** Number of commands processed. */
  readonly commands: () => Promise<number>
}

export const startRedis = async (): Promise<Redis> => {
  const [port, log] = [await freePort(), join(dataFolder, "redis.log")]
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
  const running = await startProgram({ program: "redis-server", args, cwd: dataFolder }, log)
  const cli = (...words: ReadonlyArray<string>) =>
    runProgram({ program: "redis-cli", args: ["-p", String(port), ...words] })
  await waitUntil("Redis", running, log, async () => (await cli("ping")).startsWith("PONG"))
  return {
    ...running,
    url: `redis://127.0.0.1:${port}`,
    commands: async () => Number(/^total_commands_processed:(\d+)/m.exec(await cli("info", "stats"))?.[1] ?? 0),
  }
}

/** Sends each popular request three times, to fill the cache and reach the fast path. Returns the ETags. */
export const warmCache = async (port: number, key: string, benchCase: Case = runners10Small) => {
  let tags: ReadonlyArray<string> = []
  for (const _ of [1, 2, 3]) {
    const answers = await mapConcurrently(
      benchCase.popular,
      (parameters) => sendRequest(port, requestTarget(benchCase, parameters), authHeaders(key)),
    )
    tags = answers.map((answer) => headerOf(answer, "etag") ?? "")
  }
  return tags
}
