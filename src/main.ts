/** The command line. Results go to standard output, everything else to standard error; it exits with 0, 1 or 2. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Effect, Exit } from "effect"
import * as Commands from "./Commands.ts"
import { exitCode } from "./Explain.ts"

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
