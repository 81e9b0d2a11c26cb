/**
 * The entry point. Runs the command line, sets the exit code, and handles signals and a closed standard output.
 * `operate/cli/preflight.js` runs first and checks Node and the dependencies.
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

/** The exit code after a signal: 128 plus the number of the first signal, as shells expect. */
let signalExitCode: number | undefined
process.once("SIGINT", () => signalExitCode ??= 130)
process.once("SIGTERM", () => signalExitCode ??= 143)
// The terminal was closed. Stops as for SIGTERM, so that the embedded PostgreSQL stops too. The shell and the kernel
// may each send the signal; without a listener, the second one would kill the process while it stops.
process.on("SIGHUP", () => {
  signalExitCode ??= 129
  process.emit("SIGTERM")
})

/** The exit code after a failed write to standard output. */
let outputExitCode: number | undefined

// EPIPE: the program that reads the output, such as `head`, has exited. The service continues; any other command stops.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (outputExitCode !== undefined) return
  const isReaderGone = error.code === "EPIPE"
  if (!isReaderGone) console.error(`tickerline: ${describeOutputError(error, isServing)}`)
  outputExitCode = isReaderGone ? 141 : 1
  if (isServing) return
  // For a command that had already succeeded when its last write failed.
  process.exitCode = outputExitCode
  process.emit("SIGTERM")
})

// There is nowhere left to report this failure. Without a listener, it would end the process.
process.stderr.on("error", () => undefined)

/** A signal is the normal way to stop the service, but an error for any other command. */
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
