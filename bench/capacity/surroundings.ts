/** The service and its PostgreSQL, for both measurements in this folder. */
import { join } from "node:path"
import process from "node:process"
import { ask, askAll, bearer, headerOf } from "../ask.ts"
import { type Case, runners10Small, targetOf } from "../cases.ts"
import { prepareData } from "../data.ts"
import { options } from "../options.ts"
import { home, type Postgres, startPostgres } from "../postgres.ts"
import { freePort, type Running, start, until } from "../processes.ts"

export interface Surroundings {
  readonly postgres: Postgres
  readonly url: string
  readonly key: string
  readonly end: () => Promise<void>
}

export const surroundings = async (): Promise<Surroundings> => {
  const postgres = await startPostgres()
  try {
    const keys = await prepareData(postgres, ["bench_small"])
    return { postgres, url: postgres.url("bench_small"), key: keys.bench_small, end: postgres.stop }
  } catch (error) {
    await postgres.stop()
    throw error
  }
}

export interface Service extends Running {
  readonly port: number
}

/** As `npm start` starts it. */
export const startService = async (
  name: string,
  url: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Service> => {
  const [port, log] = [await freePort(), join(home, `${name}.log`)]
  const running = await start({
    program: process.execPath,
    args: ["--max-semi-space-size=16", "src/main.ts", "serve"],
    cwd: options.tickerline,
    env: { RATE_LIMIT_ULTIMATE: "1000000000", PORT: String(port), DATABASE_URL: url, ...env },
  }, log)
  await until(name, running, log, async () => (await ask(port, "/health/live")).status === 200)
  return { ...running, port }
}

/** Requests everything three times, so that the response cache answers afterwards. Returns the tags. */
export const warm = async (port: number, key: string, of: Case = runners10Small) => {
  let tags: ReadonlyArray<string> = []
  for (const _ of [1, 2, 3]) {
    const answers = await askAll(of.popular, (asked) => ask(port, targetOf(of, asked), bearer(key)))
    tags = answers.map((answer) => headerOf(answer, "etag") ?? "")
  }
  return tags
}
