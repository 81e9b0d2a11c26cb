/** Tests that a signal stops the service and its embedded PostgreSQL, whichever program started the service. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Schedule } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { createConnection } from "node:net"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { projectRoot } from "../../support/Processes.ts"

// @module-tag slow

/**
 * The path of the Deno executable. The `deno` command of the npm package is a wrapper that does not forward signals.
 */
const deno = execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()

/** Provides one embedded database for all cases, because the first start takes longest. */
class Home
  extends Context.Service<Home, { readonly folder: string; readonly scripts: string }>()("test/operate/cli/Home") {
  static readonly layer = Layer.effect(
    Home,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const scripts = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-scripts-" })
      // Starts npm the way a shell-script supervisor does.
      yield* fs.writeFileString(`${scripts}/start`, "#!/bin/sh\nexec npm start\n", { mode: 0o755 })
      return { folder: yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-signals-" }), scripts }
    }),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/** Returns the process ID of the embedded PostgreSQL server, if it is running. */
const readPostgresPid = (home: string) => {
  try {
    return Number(readFileSync(`${home}/postgres/cluster/data/postmaster.pid`, "utf8").split("\n")[0])
  } catch {
    return undefined
  }
}

/** Returns whether a program listens on the port. */
const isPortOpen = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = createConnection(port, "127.0.0.1")
    const end = (isOpen: boolean) => {
      socket.destroy()
      resume(Effect.succeed(isOpen))
    }
    socket.once("connect", () => end(true)).once("error", () => end(false))
  })

const killIfRunning = (pid: number | undefined, signal: NodeJS.Signals) => {
  try {
    if (pid !== undefined) process.kill(pid, signal)
  } catch {
    // The process has already exited.
  }
}

/** Waits until the readiness check of the service returns `isReady`. */
const waitUntilReady = (port: number, isReady: boolean) =>
  Effect.tryPromise(() => fetch(`http://127.0.0.1:${port}/health/ready`).then(({ ok }) => ok)).pipe(
    Effect.orElseSucceed(() => undefined),
    Effect.repeat({ until: (ok) => ok === isReady, schedule: Schedule.spaced("50 millis") }),
  )

/** Starts a program in its own process group and waits until the service responds. */
const startGroup = Effect.fnUntraced(function* (
  command: string,
  args: ReadonlyArray<string>,
  home: string,
  settings: Readonly<Record<string, string>> = {},
) {
  const port = yield* chooseFreePort
  const { child, exitCode } = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const started = spawn(command, args, {
        cwd: projectRoot,
        env: {
          PATH: process.env["PATH"],
          HOME: process.env["HOME"],
          PORT: String(port),
          TICKERLINE_HOME: home,
          ...settings,
        },
        stdio: "ignore",
        detached: true,
      })
      return {
        child: started,
        exitCode: new Promise<number | null>((resolve) => started.once("exit", (code) => resolve(code))),
      }
    }),
    // Kills the process group. This has an effect only if the test fails.
    ({ child: { pid } }) =>
      Effect.sync(() => {
        if (pid !== undefined) killIfRunning(-pid, "SIGKILL")
        killIfRunning(readPostgresPid(home), "SIGQUIT")
      }),
  )
  const endsEarly = Effect.flatMap(
    Effect.promise(() => exitCode),
    (code) => Effect.die(`${command} ended with exit code ${code} before the service was ready`),
  )
  yield* Effect.raceFirst(waitUntilReady(port, true), endsEarly)
  return { pid: child.pid ?? 0, exitCode: Effect.promise(() => exitCode), port }
})

/** Returns whether any process of the group is running, or has ended but was not yet removed from the process table. */
const hasProcesses = (group: number) => {
  try {
    return process.kill(-group, 0)
  } catch {
    return false
  }
}

/**
 * Waits until neither the service nor its PostgreSQL server is running. An open port alone does not show that the
 * service is running, because another program may have taken the port since.
 */
const waitUntilEnded = (group: number, port: number, home: string) =>
  Effect.repeat(
    Effect.map(
      isPortOpen(port),
      (isOpen) => (isOpen && hasProcesses(group)) || readPostgresPid(home) !== undefined,
    ),
    { until: (isRunning) => !isRunning, schedule: Schedule.spaced("50 millis") },
  )

/** All supported ways to start the service. */
const starters = [
  { name: "npm start", command: "npm", args: ["start"] },
  { name: "npm run tickerline -- serve", command: "npm", args: ["run", "tickerline", "--", "serve"] },
  { name: "npm run dev", command: "npm", args: ["run", "dev"] },
  { name: "src/operate/cli/tickerline serve", command: "src/operate/cli/tickerline", args: ["serve"] },
  { name: "a shell script with npm start", command: "start", args: [] },
  { name: "deno task start", command: deno, args: ["task", "start"] },
  { name: "deno task tickerline serve", command: deno, args: ["task", "tickerline", "serve"] },
]

layer(Home.layer, { excludeTestServices: true, timeout: "120 seconds" })("A signal", (it) => {
  it.effect.each(starters)(
    "SIGTERM to the process of `$name` alone ends the service and its PostgreSQL (operations/deployment)",
    ({ args, command }) =>
      Effect.gen(function* () {
        const { folder, scripts } = yield* Home
        const program = command === "start" ? `${scripts}/start` : command
        const { exitCode, pid, port } = yield* startGroup(program, args, folder)
        process.kill(pid, "SIGTERM")
        assert.strictEqual(yield* exitCode, 0)
        yield* waitUntilEnded(pid, port, folder)
      }).pipe(Effect.scoped),
  )

  // systemd signals every process of a unit, and npm and Deno forward the signals that they receive, so one process can
  // get a signal twice. When a terminal closes, both the shell and the kernel send SIGHUP.
  it.effect.each([
    { name: "npm start", command: "npm", args: ["start"], signal: "SIGTERM" as const, code: 0 },
    { name: "npm start", command: "npm", args: ["start"], signal: "SIGINT" as const, code: 0 },
    { name: "npm start", command: "npm", args: ["start"], signal: "SIGHUP" as const, code: null },
    { name: "deno task start", command: deno, args: ["task", "start"], signal: "SIGTERM" as const, code: 0 },
    { name: "deno task start", command: deno, args: ["task", "start"], signal: "SIGHUP" as const, code: 0 },
  ])(
    "$signal to every process of `$name`, twice, ends both in order (operations/deployment)",
    ({ args, code, command, signal }) =>
      Effect.gen(function* () {
        const { folder } = yield* Home
        const { exitCode, pid, port } = yield* startGroup(command, args, folder, { SHUTDOWN_DELAY: "2 seconds" })
        process.kill(-pid, signal)
        yield* waitUntilReady(port, false)
        process.kill(-pid, signal)
        assert.strictEqual(yield* exitCode, code)
        // Even if the service exits abruptly, PostgreSQL must not keep running.
        yield* waitUntilEnded(pid, port, folder)
      }).pipe(Effect.scoped),
  )
})
