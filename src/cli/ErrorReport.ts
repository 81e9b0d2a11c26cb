/** Reports errors on standard error: one sentence if the user can correct the error, the full cause for a defect. */
import { Cause, Config, Console, Effect, Layer, Option, Predicate, Stdio } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { isConnectionLost } from "../db/SqlState.ts"
import { findNearestName } from "../rules/Suggestions.ts"
import { formatSettingProblems, readSettingText, toSettingProblems } from "./Settings.ts"
import { stderrCapabilities } from "./terminal/OutputCapabilities.ts"
import { escapeTerminalLines } from "./terminal/TerminalText.ts"

const getText = (error: unknown, name: string) => Predicate.hasProperty(error, name) ? String(error[name]) : undefined

/** Returns the error's message, or its code if the message is empty, as in some socket errors. */
const getReason = (error: unknown) =>
  [getText(error, "message"), getText(error, "code")].find((text) => text !== undefined && text !== "") ?? String(error)

/** Summarizes a database error by its cause, because the `SqlError`'s own message names only the operation. */
const summarizeSqlError = ({ reason }: SqlError.SqlError) =>
  reason.operation === "connect"
    ? "DATABASE_URL: no connection (expected postgres://user:password@host:port/database of a running server): " +
      getReason(reason.cause)
    : `PostgreSQL: ${getReason(reason.cause)}`

/** Summarizes an error in one line. Returns undefined for a value without a message. */
export const summarizeError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return summarizeSqlError(error)
  return Predicate.hasProperty(error, "message") ? String(error.message) : undefined
}

/** Error codes returned by systems that do not support `SO_REUSEPORT`. */
const reusePortUnsupported = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOPROTOOPT", "EINVAL"])

/** Returns the address on which the API or the metrics server cannot listen, and the names of the settings for it. */
const findFailedSocket = Effect.fnUntraced(function* (cause: unknown) {
  const values = yield* Effect.forEach(["HOST", "METRICS_HOST", "METRICS_PORT"], readSettingText)
  const [host, metricsHost, metricsPort] = values.map(Option.getOrUndefined)
  const [failedHost, failedPort] = [getText(cause, "address") ?? getText(cause, "hostname"), getText(cause, "port")]
  const isMetrics = failedPort === undefined
    ? failedHost !== undefined && failedHost === metricsHost && failedHost !== host
    : failedPort === metricsPort
  return isMetrics
    ? { host: "METRICS_HOST", port: "METRICS_PORT", failedHost: failedHost ?? metricsHost, failedPort }
    : { host: "HOST", port: "PORT", failedHost: failedHost ?? host, failedPort: failedPort ?? "8080" }
})

/** Explains why the service cannot listen, and names the setting to change. */
export const describeListenError = Effect.fnUntraced(function* ({ cause }: HttpServerError.ServeError) {
  const { failedHost = "127.0.0.1", failedPort = "", host, port } = yield* findFailedSocket(cause)
  const code = getText(cause, "code") ?? ""
  const reusesPort = yield* Effect.orElseSucceed(Config.Boolean("REUSE_PORT"), () => false)
  if (code === "EADDRINUSE") {
    const nextPort = Number(failedPort) < 65_535 ? Number(failedPort) + 1 : 8080
    return `${port} is ${failedPort}, but another program already uses that port on ${failedHost} (${code}). ` +
      `End that program (lsof -i :${failedPort} finds it), or set ${port} to a free port, for example ` +
      `${port}=${nextPort}.`
  }
  if (code === "EACCES" || code === "EPERM") {
    return `${port} is ${failedPort}, but this user may not listen on that port (${code}). Ports below 1024 need ` +
      `special permission. Set ${port} to 1024 or higher, or give the process the capability CAP_NET_BIND_SERVICE.`
  }
  if (reusesPort && reusePortUnsupported.has(code)) {
    return `REUSE_PORT is set, but this system cannot share a port among processes (${code}); Linux can. Unset it, ` +
      "and give each process its own PORT behind a load balancer."
  }
  const reason = code === "" ? getText(cause, "message") ?? String(cause) : code
  return `${host} is "${failedHost}", which is not an address of this machine (${reason}). Set it to one, for ` +
    `example ${host}=127.0.0.1 for this machine only, or ${host}=0.0.0.0 for all of its addresses.`
})

/** Describes an error, and names the settings that caused it, if any. Undefined for a value without a message. */
const describeError = (error: unknown): Effect.Effect<string | undefined> => {
  if (error instanceof Config.ConfigError) return Effect.map(toSettingProblems(error), formatSettingProblems)
  if (error instanceof HttpServerError.ServeError) return describeListenError(error)
  return Effect.succeed(summarizeError(error))
}

/** Reports the failure of a command on standard error. */
export const reportCommandFailure = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  // Effect's command line reports usage errors itself.
  if (CliError.isCliError(error) || Cause.hasInterruptsOnly(cause)) return
  // If the connection is lost, the rollback fails with a defect. Only the lost connection is reported.
  const isDefect = Cause.hasDies(cause) && !isConnectionLost(error)
  const description = isDefect ? undefined : yield* describeError(error)
  const { paint } = yield* stderrCapabilities
  yield* Console.error(
    description === undefined
      ? Cause.pretty(cause)
      : `${paint("red", "tickerline:")} ${escapeTerminalLines(description)}`,
  )
})

/** Returns the command's exit code: 2 for a usage error, 1 for any other failure. */
export const toExitCode = (cause: Cause.Cause<unknown>) => CliError.isCliError(Cause.squash(cause)) ? 2 : 1

type InvalidInvocation = Extract<CliOutput.Presenter.Event, { readonly _tag: "InvalidInvocation" }>

/**
 * Adds a suggestion to an error if Effect has none. Effect tolerates only two wrong letters and ignores common
 * prefixes.
 */
const addSuggestions = ({ helpDoc }: InvalidInvocation) =>
(
  error: CliError.NonShowHelpErrors,
): CliError.NonShowHelpErrors => {
  if (error._tag === "UnknownSubcommand" && error.suggestions.length === 0) {
    const names = (helpDoc.subcommands ?? []).flatMap(({ commands }) => commands.map(({ name }) => name))
    const { parent, subcommand } = error
    const suggestions = Option.toArray(findNearestName(subcommand, names))
    return new CliError.UnknownSubcommand({ subcommand, suggestions, ...(parent !== undefined && { parent }) })
  }
  if (error._tag === "UnrecognizedOption" && error.suggestions.length === 0) {
    const names = [...helpDoc.flags, ...(helpDoc.globalFlags ?? [])].map(({ name }) => `--${name}`)
    const { command, option } = error
    const suggestions = Option.toArray(findNearestName(option, names))
    return new CliError.UnrecognizedOption({ option, suggestions, ...(command !== undefined && { command }) })
  }
  return error
}

/** Shortens the help to the usage and an example, so that the error stays on the screen. */
const shortenHelp = ({ commandPath, errors, helpDoc }: InvalidInvocation) => {
  const isUnknownCommand = errors.some(({ _tag }) => _tag === "UnknownSubcommand")
  return {
    usage: helpDoc.usage,
    description: "",
    annotations: helpDoc.annotations,
    flags: [],
    ...(isUnknownCommand && helpDoc.subcommands !== undefined && { subcommands: helpDoc.subcommands }),
    ...(!isUnknownCommand && helpDoc.examples !== undefined && { examples: helpDoc.examples.slice(0, 1) }),
    ...(commandPath.length > 0 && { commandPath }),
  }
}

/** Prints requested help on standard output, and help that accompanies an error on standard error. */
export const helpPresenterLayer = Layer.unwrap(Effect.map(
  Stdio.Stdio,
  (stdio) =>
    CliOutput.layerPresenter({
      present: (event) => {
        if (event._tag === "Version" || (event._tag === "Help" && event.reason === "Requested")) {
          return CliOutput.defaultPresenter.present(event)
        }
        return Effect.gen(function* () {
          const { hasColors: colors } = yield* stderrCapabilities
          const { formatErrors, formatHelpDoc } = CliOutput.defaultFormatter({ colors })
          if (event._tag === "Help") return yield* Console.error(formatHelpDoc(event.helpDoc))
          yield* Console.error(formatHelpDoc(shortenHelp(event)).trim())
          yield* Console.error(formatErrors(event.errors.map(addSuggestions(event))))
          yield* Console.error(`\nFor details, run: ${event.commandPath.join(" ")} --help`)
        }).pipe(Effect.provideService(Stdio.Stdio, stdio))
      },
    }),
))
