/** Runs commands in this process, which takes less time than starting `src/main.ts`. */
import { NodeServices } from "@effect/platform-node"
import { ConfigProvider, Console, Effect, Exit, Layer, Stdio } from "effect"
import { format } from "node:util"
import * as CommandLine from "../../src/operate/cli/CommandLine.ts"
import { toExitCode } from "../../src/operate/cli/ErrorReport.ts"
import type { EndedProcess, Environment } from "./Processes.ts"

/**
 * Runs a command without the environment variables of the tests. The exit code is null if the command takes more than
 * ninety seconds.
 */
export const runCommandInProcess = (
  args: ReadonlyArray<string>,
  environment: Environment,
  stdio: Partial<Omit<Stdio.Stdio, "args">> = {},
) =>
  Effect.promise(async (signal): Promise<EndedProcess> => {
    const output = { out: "", err: "" }
    const out = (...words: ReadonlyArray<unknown>) => void (output.out += `${format(...words)}\n`)
    const err = (...words: ReadonlyArray<unknown>) => void (output.err += `${format(...words)}\n`)
    const written = { ...console, log: out, info: out, debug: out, error: err, warn: err, trace: err }
    // Uses a new runtime, which shares no layers, clock or context with the test.
    const exit = await Effect.runPromiseExit(
      CommandLine.runCommandLine().pipe(
        Effect.timeoutOption("90 seconds"),
        Effect.provideService(Console.Console, written),
        Effect.provide(
          Layer.mergeAll(
            NodeServices.layer,
            Stdio.layerTest({ ...stdio, args: Effect.succeed(args) }),
            ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment })),
          ),
        ),
      ),
      { signal },
    )
    return { code: Exit.isFailure(exit) ? toExitCode(exit.cause) : exit.value._tag === "None" ? null : 0, ...output }
  })
