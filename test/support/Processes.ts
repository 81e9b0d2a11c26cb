/** Programs as their users start them, each a process of its own that never outlives the test. */
import { Data, Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { accessSync, constants } from "node:fs"
import { connect, createServer } from "node:net"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { poolableSettings } from "./PoolerMode.ts"

export const projectRoot = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")

export const isExecutable = (path: string) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Every place at which the PATH may have a program of this name. */
export const candidatePaths = (name: string) =>
  (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name))

export type Environment = Readonly<Record<string, string>>

export interface EndedProcess {
  /** `null`: it did not end by itself. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface RunningProcess {
  readonly child: ChildProcess
  readonly output: { out: string; err: string }
  readonly ended: Promise<EndedProcess>
}

/** What Node compiled for one start is there for the next; it starts in two thirds of the time. */
export const compileCacheFolder = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url))

const launch = (command: string, args: ReadonlyArray<string>, environment: Environment): RunningProcess => {
  const child = spawn(command, args, {
    cwd: projectRoot,
    // Nothing of the environment of the tests decides what the program does.
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const said = { out: "", err: "" }
  child.stdout.on("data", (chunk) => said.out += String(chunk))
  child.stderr.on("data", (chunk) => said.err += String(chunk))
  const { promise, resolve } = Promise.withResolvers<EndedProcess>()
  child.once("error", (error) => said.err += error.message)
  child.once("close", (code) => resolve({ code, ...said }))
  return { child, output: said, ended: promise }
}

export const startProgram = (command: string, args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(command, args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

/** A command of the service's own. */
export const startCommandProcess = (args: ReadonlyArray<string>, environment: Environment) =>
  startProgram(process.execPath, ["src/main.ts", ...args], {
    NODE_COMPILE_CACHE: compileCacheFolder,
    ...poolableSettings(environment),
  })

/** To its end; one that does not end within ninety seconds is killed and has no code. */
export const runCommandProcess = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.scoped(
    Effect.flatMap(startCommandProcess(args, environment), ({ ended, output: said }) =>
      Effect.timeoutOrElse(
        Effect.promise(() => ended),
        {
          duration: "90 seconds",
          orElse: () => Effect.succeed<EndedProcess>({ code: null, ...said }),
        },
      )),
  )

export const endProcess = ({ child, ended }: RunningProcess, signal: NodeJS.Signals) =>
  Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => ended))

/** Nothing listens there, and nothing is told so by accident. */
export const findFreePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

/** Both outputs, as far as they have come. */
export const combinedOutput = ({ output: said }: RunningProcess) => `${said.out}${said.err}`

class NotSaid extends Data.TaggedError("NotSaid")<{ readonly message: string }> {}

/** Until it says so, on either output; one that ended before fails with what it said. */
export const waitForOutput = (running: RunningProcess, words: RegExp) =>
  Effect.suspend(() => {
    const text = combinedOutput(running)
    return words.test(text)
      ? Effect.succeed(running.output.out)
      : Effect.fail(new NotSaid({ message: `${words} was not said, but:\n${text}` }))
  }).pipe(
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 4500, while: () => running.child.exitCode === null }),
  )

/** Bytes on a socket, and what comes back until the server closes it. */
export const exchangeText = (port: number, bytes: string) =>
  Effect.callback<string, Error>((resume) => {
    const socket = connect(port, "127.0.0.1")
    let text = ""
    socket.on("data", (chunk) => text += String(chunk))
    socket.on("error", (error) => resume(Effect.fail(error)))
    socket.on("close", () => resume(Effect.succeed(text)))
    socket.write(bytes, "latin1")
    return Effect.sync(() => socket.destroy())
  })
