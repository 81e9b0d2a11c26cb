/** A Redis of a test's own, which it may kill, stop and start. */
import { Data, Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { connect } from "node:net"
import { candidatePaths, findFreePort, isExecutable } from "./Processes.ts"

const redisServer = candidatePaths("redis-server").find(isExecutable)

/** Without a Redis these tests are skipped, and say so; where one is required they fail. */
export const skipped = redisServer === undefined && (process.env["REQUIRE_REDIS"] ?? "") === ""
export const named = (name: string) => `${name}${skipped ? " (no redis-server on this machine)" : ""}`

class NoRedis extends Data.TaggedError("NoRedis")<{ readonly message: string }> {}

/** What a Redis answers to a command, as far as it comes in one piece. */
const command = (port: number, text: string) =>
  Effect.callback<string, NoRedis>((resume) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${text}\r\n`))
    socket.on("data", (data) => resume(Effect.succeed(data.toString("utf8"))))
    socket.on("error", ({ message }) => resume(Effect.fail(new NoRedis({ message }))))
    return Effect.sync(() => socket.destroy())
  })

/** A Redis of the test's own that keeps nothing, on one port of the loopback however often it is started. */
export const makeRedis = Effect.gen(function* () {
  const port = yield* findFreePort
  let server: ChildProcess | undefined

  const send = (signal: "SIGKILL" | "SIGSTOP" | "SIGCONT") => Effect.sync(() => void server?.kill(signal))

  const kill = Effect.callback<void>((resume) => {
    const running = server
    server = undefined
    if (running === undefined || running.exitCode !== null) return resume(Effect.void)
    running.once("exit", () => resume(Effect.void))
    running.kill("SIGKILL")
  })

  const starting = Effect.fnUntraced(function* (...more: ReadonlyArray<string>) {
    if (redisServer === undefined) return yield* new NoRedis({ message: "REQUIRE_REDIS: no redis-server on the PATH" })
    const options = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", ...more]
    server = spawn(redisServer, options, { stdio: "ignore" })
    yield* command(port, "PING").pipe(Effect.retry({ schedule: Schedule.spaced("10 millis"), times: 1000 }))
  })

  yield* Effect.addFinalizer(() => kill)
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    start: starting(),
    startWith: starting,
    kill,
    pause: send("SIGSTOP"),
    resume: send("SIGCONT"),
    command: (text: string) => command(port, text),
  }
})
