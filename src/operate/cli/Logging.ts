/**
 * Logs to standard error, and removes values from database errors. `LOG_FORMAT` sets the format, `LOG_LEVEL` the
 * minimum level.
 */
import { Config, Effect, Layer, Logger, References } from "effect"
import { hideValuesOfCause, hideValuesOfMessage } from "../../postgres/FailureText.ts"
import { IsProgressLogged } from "./terminal/ProgressDisplay.ts"
import { stderrCapabilities } from "./terminal/OutputCapabilities.ts"

const levels = { error: "Error", warning: "Warn", info: "Info", debug: "Debug" } as const

/** The minimum severity of the messages that are logged. */
export const LogLevelConfig = Config.Literals(["error", "warning", "info", "debug"], "LOG_LEVEL").pipe(
  Config.withDefault("info"),
  Config.map((level) => levels[level]),
)

/** The log format: `pretty` for people, `json` for programs. */
export const LogFormatConfig = Config.Literals(["pretty", "json"], "LOG_FORMAT").pipe(Config.withDefault("pretty"))

/** The logger that writes to standard error, configured by the settings. */
export const stderrLoggingLayer = Layer.unwrap(Effect.gen(function* () {
  const format = yield* LogFormatConfig
  const { hasColors: colors } = yield* stderrCapabilities
  const logger = format === "json" ? Logger.withConsoleError(Logger.formatJson) : Logger.consolePretty({ colors })
  return Logger.layer([
    Logger.make(({ cause, message, ...entry }) =>
      logger.log({ ...entry, cause: hideValuesOfCause(cause), message: hideValuesOfMessage(message) })
    ),
  ])
})).pipe(
  Layer.merge(Layer.succeed(Logger.LogToStderr, true)),
  Layer.merge(Layer.effect(IsProgressLogged, Effect.map(LogFormatConfig, (format) => format === "json"))),
  Layer.merge(Layer.effect(References.MinimumLogLevel, LogLevelConfig)),
)
