/** The command line. Results go to standard output, everything else to standard error. `preflight.js` runs first. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Effect, Exit } from "effect"
import process from "node:process"
import * as Commands from "./cli/CommandLine.ts"
import { toExitCode } from "./cli/ErrorReport.ts"

/** A service that is told to stop has done its work; any other command has not. */
let serving = false
const begun = Effect.sync(() => {
  serving = true
})

/** 128 and the number of the signal that interrupted the command, as shells expect. */
let interruptedWith: number | undefined
process.once("SIGINT", () => interruptedWith ??= 130)
process.once("SIGTERM", () => interruptedWith ??= 143)

// Whoever reads the output has left, as `head` does. A service serves on; another command ends as if interrupted.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error
  if (serving) return
  interruptedWith ??= 141
  process.kill(process.pid, "SIGTERM")
})

const exitStatus = (cause: Cause.Cause<unknown>) => {
  if (!Cause.hasInterruptsOnly(cause)) return toExitCode(cause)
  return serving ? 0 : interruptedWith ?? toExitCode(cause)
}

Commands.runCommandLine(begun).pipe(
  Effect.provide(NodeServices.layer),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, end) => end(Exit.isSuccess(exit) ? 0 : exitStatus(exit.cause)),
    }),
)
