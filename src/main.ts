/** The command line. Results go to standard output, everything else to standard error; it exits with 0, 1 or 2. */
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

Commands.run(begun).pipe(
  Effect.provide(NodeServices.layer),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, end) =>
        end(
          Exit.isSuccess(exit) || (serving && Cause.hasInterruptsOnly(exit.cause)) ? 0 : exitCode(exit.cause),
        ),
    }),
)
