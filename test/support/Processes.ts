/** The program as its users run it: a process of its own. */
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

export type Environment = Readonly<Record<string, string>>

export interface Ended {
  /** `null`: it did not end by itself. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface Running {
  readonly child: ChildProcess
  readonly said: { out: string; err: string }
  readonly ended: Promise<Ended>
}

/** What Node compiled for one start is there for the next; it starts in two thirds of the time. */
const compiled = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url))

const launch = (args: ReadonlyArray<string>, environment: Environment): Running => {
  const child = spawn(process.execPath, ["src/main.ts", ...args], {
    cwd: root,
    // Nothing of the environment of the tests decides what the command does.
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_COMPILE_CACHE: compiled, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const said = { out: "", err: "" }
  child.stdout.on("data", (chunk) => said.out += String(chunk))
  child.stderr.on("data", (chunk) => said.err += String(chunk))
  const { promise, resolve } = Promise.withResolvers<Ended>()
  child.once("close", (code) => resolve({ code, ...said }))
  return { child, said, ended: promise }
}

/** The real command, as a process of its own; it never outlives the test. */
export const start = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

/** To its end; one that does not end within ninety seconds is killed and has no code. */
export const run = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.scoped(
    Effect.flatMap(start(args, environment), ({ ended, said }) =>
      Effect.timeoutOrElse(Effect.promise(() => ended), {
        duration: "90 seconds",
        orElse: () => Effect.succeed<Ended>({ code: null, ...said }),
      })),
  )

export const end = ({ child, ended }: Running, signal: NodeJS.Signals) =>
  Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => ended))

/** Nothing listens there, and nothing is told so by accident. */
export const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})
