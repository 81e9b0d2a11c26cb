/** Programs as their users start them, each a process of its own that never outlives the test. */
import { Data, Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { accessSync, constants } from "node:fs"
import { connect, createServer } from "node:net"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { settings } from "./Through.ts"

export const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")

export const isProgram = (path: string) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Every place at which the PATH may have a program of this name. */
export const placesOf = (name: string) =>
  (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name))

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
export const compiled = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url))

const launch = (command: string, args: ReadonlyArray<string>, environment: Environment): Running => {
  const child = spawn(command, args, {
    cwd: root,
    // Nothing of the environment of the tests decides what the program does.
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const said = { out: "", err: "" }
  child.stdout.on("data", (chunk) => said.out += String(chunk))
  child.stderr.on("data", (chunk) => said.err += String(chunk))
  const { promise, resolve } = Promise.withResolvers<Ended>()
  child.once("error", (error) => said.err += error.message)
  child.once("close", (code) => resolve({ code, ...said }))
  return { child, said, ended: promise }
}

export const startProgram = (command: string, args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(command, args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

/** A command of the service's own. */
export const start = (args: ReadonlyArray<string>, environment: Environment) =>
  startProgram(process.execPath, ["src/main.ts", ...args], { NODE_COMPILE_CACHE: compiled, ...settings(environment) })

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

/** Both outputs, as far as they have come. */
export const saidBy = ({ said }: Running) => `${said.out}${said.err}`

class NotSaid extends Data.TaggedError("NotSaid")<{ readonly message: string }> {}

/** Until it says so, on either output; one that ended before fails with what it said. */
export const saying = (running: Running, words: RegExp) =>
  Effect.suspend(() => {
    const text = saidBy(running)
    return words.test(text)
      ? Effect.succeed(running.said.out)
      : Effect.fail(new NotSaid({ message: `${words} was not said, but:\n${text}` }))
  }).pipe(
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 4500, while: () => running.child.exitCode === null }),
  )

/** Bytes on a socket, and what comes back until the server closes it. */
export const talk = (port: number, bytes: string) =>
  Effect.callback<string, Error>((resume) => {
    const socket = connect(port, "127.0.0.1")
    let text = ""
    socket.on("data", (chunk) => text += String(chunk))
    socket.on("error", (error) => resume(Effect.fail(error)))
    socket.on("close", () => resume(Effect.succeed(text)))
    socket.write(bytes, "latin1")
    return Effect.sync(() => socket.destroy())
  })
