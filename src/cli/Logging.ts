/** What the service and its commands log, on standard error: `LOG_FORMAT` and `LOG_LEVEL`. */
import { Config, Effect, Layer, Logger, References } from "effect"
import { errors } from "./terminal/Screen.ts"
import { ToLog } from "./terminal/ProgressDisplay.ts"

const levels = { error: "Error", warning: "Warn", info: "Info", debug: "Debug" } as const

export const Level = Config.Literals(["error", "warning", "info", "debug"], "LOG_LEVEL").pipe(
  Config.withDefault("info"),
  Config.map((level) => levels[level]),
)

export const Format = Config.Literals(["pretty", "json"], "LOG_FORMAT").pipe(Config.withDefault("pretty"))

export const layer = Layer.unwrap(Effect.gen(function* () {
  const format = yield* Format
  const { colors } = yield* errors
  return Logger.layer([
    format === "json" ? Logger.withConsoleError(Logger.formatJson) : Logger.consolePretty({ colors }),
  ])
})).pipe(
  Layer.merge(Layer.succeed(Logger.LogToStderr, true)),
  Layer.merge(Layer.effect(ToLog, Effect.map(Format, (format) => format === "json"))),
  Layer.merge(Layer.effect(References.MinimumLogLevel, Level)),
)
