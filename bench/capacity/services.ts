/** Starts PostgreSQL and the services that `costs.ts`, `machines.ts`, and `../growth/usage.ts` measure. */
import { join } from "node:path"
import process from "node:process"
import { authorizationHeaders, getHeader, mapConcurrently, sendRequest } from "../httpClient.ts"
import { type BenchmarkCase, requestTarget, runners10Small } from "../cases.ts"
import { prepareBenchmarkDatabases } from "../databases.ts"
import { options } from "../options.ts"
import { dataFolder, type Postgres, startPostgres } from "../postgres.ts"
import { findFreePort, type Running, startInBackground, waitUntil } from "../processes.ts"

/** A PostgreSQL server with the database `bench_small`, and an API key for services that use it. */
export interface Testbed {
  readonly postgres: Postgres
  readonly url: string
  readonly key: string
  readonly end: () => Promise<void>
}

/** Starts PostgreSQL, and fills `bench_small` unless that was done before. */
export const startTestbed = async (): Promise<Testbed> => {
  const postgres = await startPostgres()
  try {
    const keys = await prepareBenchmarkDatabases(postgres, ["bench_small"])
    return { postgres, url: postgres.url("bench_small"), key: keys.bench_small, end: postgres.stop }
  } catch (error) {
    await postgres.stop()
    throw error
  }
}

/** A running service process. */
export interface Service extends Running {
  readonly port: number
}

/**
 * Starts a service with the command that `npm start` runs, and waits until the service is ready.
 *
 * @param name the base name of the log file
 * @param env settings for the service, in addition to a rate limit that is never reached
 * @param folder the checkout that contains the service
 */
export const startService = async (
  name: string,
  url: string,
  env: Readonly<Record<string, string>> = {},
  folder = options.tickerline,
): Promise<Service> => {
  const [port, log] = [await findFreePort(), join(dataFolder, `${name}.log`)]
  const running = await startInBackground({
    program: process.execPath,
    args: ["--max-semi-space-size=16", "src/main.ts", "serve"],
    cwd: folder,
    env: { RATE_LIMIT_ULTIMATE: "1000000000", PORT: String(port), DATABASE_URL: url, ...env },
  }, log)
  await waitUntil(name, running, log, async () => (await sendRequest(port, "/health/live")).status === 200)
  return { ...running, port }
}

/**
 * Sends all popular requests three times, so that the response cache contains all their responses. Returns the ETags of
 * the responses.
 */
export const fillCaches = async (port: number, key: string, benchmarkCase: BenchmarkCase = runners10Small) => {
  let tags: ReadonlyArray<string> = []
  for (const _ of [1, 2, 3]) {
    const responses = await mapConcurrently(
      benchmarkCase.popular,
      (parameters) => sendRequest(port, requestTarget(benchmarkCase, parameters), authorizationHeaders(key)),
    )
    tags = responses.map((response) => getHeader(response, "etag") ?? "")
  }
  return tags
}
