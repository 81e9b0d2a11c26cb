/**
 * The program's entry point: runs the command line, sets the exit code, and handles signals and a closed standard
 * output.
 * `operate/cli/preflight.js` runs before this module and checks the Node version and the installed dependencies.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Effect, Exit } from "effect"
import process from "node:process"
import { runCommandLine } from "./operate/cli/CommandLine.ts"
import { toExitCode } from "./operate/cli/ErrorReport.ts"
import { describeOutputError } from "./ingest/load/FileErrors.ts"

let isServing = false
const onServe = Effect.sync(() => {
  isServing = true
})

/**
 * The exit code after a signal: 128 plus the number of the first signal received, such as 130 for SIGINT, as is
 * customary in shells.
 */
let signalExitCode: number | undefined
process.once("SIGINT", () => signalExitCode ??= 130)
process.once("SIGTERM", () => signalExitCode ??= 143)
// The terminal was closed. Shuts down as for SIGTERM, which also stops the embedded PostgreSQL. The shell and the
// kernel may each send SIGHUP; without this listener, the second signal would kill the process during shutdown.
process.on("SIGHUP", () => {
  signalExitCode ??= 129
  process.emit("SIGTERM")
})

/** The exit code after a failed write to standard output. */
let outputExitCode: number | undefined

// EPIPE means that the program reading the output, such as `head`, has exited. `serve` keeps running; any other command
// stops.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (outputExitCode !== undefined) return
  const isReaderGone = error.code === "EPIPE"
  if (!isReaderGone) console.error(`tickerline: ${describeOutputError(error, { isServing })}`)
  outputExitCode = isReaderGone ? 141 : 1
  if (isServing) return
  // A write can fail after the command has succeeded and its exit code has been set to 0, so the exit code is replaced
  // here.
  process.exitCode = outputExitCode
  process.emit("SIGTERM")
})

// If standard error fails, there is nowhere left to report it. Without a listener, the failure would end the process.
process.stderr.on("error", () => undefined)

/** Returns the exit code. Stopping on a signal is a success for `serve`, but a failure for any other command. */
const getExitCode = (exit: Exit.Exit<unknown, unknown>) => {
  if (!isServing && outputExitCode !== undefined) return outputExitCode
  if (Exit.isSuccess(exit)) return 0
  if (!Cause.hasInterruptsOnly(exit.cause)) return toExitCode(exit.cause)
  return isServing ? 0 : signalExitCode ?? toExitCode(exit.cause)
}

NodeRuntime.runMain(Effect.provide(runCommandLine(onServe), NodeServices.layer), {
  disableErrorReporting: true,
  teardown: (exit, end) => end(getExitCode(exit)),
})
