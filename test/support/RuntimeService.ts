/** Starts the service as a separate process on Node or Deno, for programs that do not use Vitest. */
import { Effect } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

/**
 * Returns the path of the Deno executable. The `deno` command in the npm package is a wrapper that does not forward
 * signals.
 */
const findDeno = () =>
  process.versions["deno"] === undefined
    ? execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()
    : process.execPath

/**
 * Returns the home folder given by `SERVICE_HOME`, whose sample data several programs can share, or else a new folder.
 */
export const openServiceHome = async () => {
  const shared = process.env["SERVICE_HOME"]
  if (shared !== undefined) return { home: shared, close: async () => {} }
  const home = await mkdtemp(join(tmpdir(), "tickerline-home-"))
  return { home, close: () => rm(home, { recursive: true, force: true }) }
}

/** A running service process. */
export interface RuntimeService {
  readonly key: string
  /** The scheme, address and port, such as `http://127.0.0.1:8080`. */
  readonly origin: string
  /** The URL of the example request that the service prints. */
  readonly exampleUrl: string
  /** Stops the process with SIGTERM. Resolves to its exit code, or to null if a signal killed the process. */
  readonly stop: () => Promise<number | null>
}

/** Starts the service on the runtime `node` or `deno` with additional settings. Resolves when the service is ready. */
export const startServiceOnRuntime = async (
  runtime: string,
  home: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<RuntimeService> => {
  const [program, ...args] = runtime === "deno"
    ? [findDeno(), "run", "--allow-all", "src/main.ts"]
    : ["node", "src/main.ts"]
  const port = String(await Effect.runPromise(chooseFreePort))
  const service = spawn(program ?? "node", [...args, "serve"], {
    cwd: root,
    env: { ...process.env, PORT: port, TICKERLINE_HOME: home, ...settings },
    stdio: ["ignore", "pipe", "inherit"],
  })
  const ended = new Promise<number | null>((resolve) => service.on("exit", resolve))
  // Uses `process.kill`, because after `service.kill`, Deno would report the signal instead of the exit code.
  const terminate = () => {
    if (service.pid !== undefined && service.exitCode === null) process.kill(service.pid, "SIGTERM")
  }
  // Also runs after an uncaught exception. Otherwise, the service would keep running with standard error open.
  process.on("exit", terminate)
  const stop = () => {
    terminate()
    return ended
  }
  return await new Promise((resolve, reject) => {
    let output = ""
    service.stdout.on("data", (chunk: Buffer) => {
      output += chunk
      const [, exampleUrl] = /Bearer \$\(cat [^"]+\)" "(\S+)"/.exec(output) ?? []
      if (exampleUrl !== undefined) {
        const key = readFileSync(join(home, "demo-key"), "utf8").trim()
        resolve({ key, origin: `http://127.0.0.1:${port}`, exampleUrl, stop })
      }
    })
    void ended.then((code) => reject(new Error(`The service ended with ${code} before it was ready.`)))
  })
}
