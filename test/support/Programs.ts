/** Programs as their users start them, each a process of its own that never outlives the test. */
import { Data, Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { connect, createServer } from "node:net"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")

type Environment = Readonly<Record<string, string>>

export interface Running {
  readonly child: ChildProcess
  /** Both outputs, as far as they have come. */
  readonly said: () => string
  readonly ended: Promise<number | null>
}

const launch = (program: string, args: ReadonlyArray<string>, environment: Environment): Running => {
  const child = spawn(program, args, {
    cwd: root,
    // Nothing of the environment of the tests decides what the program does.
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  let said = ""
  for (const output of [child.stdout, child.stderr]) output.on("data", (chunk) => said += String(chunk))
  const { promise, resolve } = Promise.withResolvers<number | null>()
  child.once("error", (error) => said += error.message)
  child.once("close", resolve)
  return { child, said: () => said, ended: promise }
}

export const start = (program: string, args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(program, args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

class NotSaid extends Data.TaggedError("NotSaid")<{ readonly message: string }> {}

/** Until it says so; one that ended before fails with what it said. */
export const saying = ({ child, said }: Running, words: RegExp) =>
  Effect.suspend(() =>
    words.test(said())
      ? Effect.succeed(said())
      : Effect.fail(new NotSaid({ message: `${words} was not said, but:\n${said()}` }))
  ).pipe(Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 3000, while: () => child.exitCode === null }))

/** Its exit code, after the signal. */
export const end = ({ child, ended }: Running, signal: NodeJS.Signals) =>
  Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => ended))

export const freePort = Effect.callback<number>((resume) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

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
