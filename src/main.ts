/** The command line. Results go to standard output, everything else to standard error; it exits with 0, 1 or 2. */
import process from "node:process"
import "./preflight.js"

// Imported once it is known that the dependencies are there.
const NodeRuntime = await import("@effect/platform-node/NodeRuntime")
const NodeServices = await import("@effect/platform-node/NodeServices")
const { Cause, Effect, Exit } = await import("effect")
const Commands = await import("./Commands.ts")
const { exitCode } = await import("./Explain.ts")

/** A service that is told to stop has done its work; any other command has not. */
let serving = false
const begun = Effect.sync(() => {
  serving = true
})

/** 128 and the number of the signal that interrupted the command, as shells expect. */
let interruptedWith: number | undefined
process.once("SIGINT", () => interruptedWith ??= 130)
process.once("SIGTERM", () => interruptedWith ??= 143)

const exitStatus = (cause: Parameters<typeof exitCode>[0]) => {
  if (!Cause.hasInterruptsOnly(cause)) return exitCode(cause)
  return serving ? 0 : interruptedWith ?? exitCode(cause)
}

Commands.run(begun).pipe(
  Effect.provide(NodeServices.layer),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, end) => end(Exit.isSuccess(exit) ? 0 : exitStatus(exit.cause)),
    }),
)
