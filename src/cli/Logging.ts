/** Logs to standard error. `LOG_FORMAT` sets the format, `LOG_LEVEL` the minimum level. */
import { Config, Effect, Layer, Logger, References } from "effect"
import { IsProgressLogged } from "./terminal/ProgressDisplay.ts"
import { stderrCapabilities } from "./terminal/OutputCapabilities.ts"

const levels = { error: "Error", warning: "Warn", info: "Info", debug: "Debug" } as const

export const LogLevelConfig = Config.Literals(["error", "warning", "info", "debug"], "LOG_LEVEL").pipe(
  Config.withDefault("info"),
  Config.map((level) => levels[level]),
)

export const LogFormatConfig = Config.Literals(["pretty", "json"], "LOG_FORMAT").pipe(Config.withDefault("pretty"))

export const stderrLoggingLayer = Layer.unwrap(Effect.gen(function* () {
  const format = yield* LogFormatConfig
  const { hasColors: colors } = yield* stderrCapabilities
  return Logger.layer([
    format === "json" ? Logger.withConsoleError(Logger.formatJson) : Logger.consolePretty({ colors }),
  ])
})).pipe(
  Layer.merge(Layer.succeed(Logger.LogToStderr, true)),
  Layer.merge(Layer.effect(IsProgressLogged, Effect.map(LogFormatConfig, (format) => format === "json"))),
  Layer.merge(Layer.effect(References.MinimumLogLevel, LogLevelConfig)),
)
