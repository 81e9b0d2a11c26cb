/**
 * Reports errors on standard error: in one sentence if the user can correct the error, with the full cause for a
 * defect.
 */
import { Cause, Config, Console, Effect, FileSystem, Layer, Option, PlatformError, Predicate, Stdio } from "effect"
import { CliError, CliOutput, type HelpDoc } from "effect/cli"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { accessSync } from "node:fs"
import { TickerlineHomeConfig } from "../../postgres/embedded/EmbeddedPostgres.ts"
import { diskFullAdvice } from "../../postgres/embedded/ChildProcess.ts"
import { isConnectionLost, isDiskFull } from "../../postgres/SqlState.ts"
import { describeSqlError, hideValuesOfCause } from "../../postgres/FailureText.ts"
import { findNearestName, formatNameSuggestion } from "../../contract/rules/Suggestions.ts"
import { describeOutputError, describeReadError, formatFileErrorReason } from "../../ingest/load/FileErrors.ts"
import { formatSettingProblems, readSettingText, toSettingProblems } from "./Settings.ts"
import { stderrCapabilities } from "./terminal/OutputCapabilities.ts"
import { escapeTerminalLines } from "./terminal/TerminalText.ts"

const getText = (error: unknown, name: string) => Predicate.hasProperty(error, name) ? String(error[name]) : undefined

const summarizeSqlError = (error: SqlError.SqlError) =>
  error.reason.operation === "connect"
    ? "DATABASE_URL: no connection (expected postgres://user:password@host:port/database of a running server): " +
      describeSqlError(error)
    : `PostgreSQL: ${describeSqlError(error)}`

const isFileError = (error: unknown): error is PlatformError.PlatformError & { reason: PlatformError.SystemError } =>
  PlatformError.isPlatformError(error) && error.reason._tag !== "BadArgument" && error.reason.module === "FileSystem"

/** Summarizes an error in one line. Returns undefined if the value has no message. */
export const summarizeError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return summarizeSqlError(error)
  if (isFileError(error)) return `${error.reason.pathOrDescriptor}: ${formatFileErrorReason(error)}.`
  return Predicate.hasProperty(error, "message") ? String(error.message) : undefined
}

/** Error codes on systems that do not support `SO_REUSEPORT`. */
const reusePortUnsupported = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOPROTOOPT", "EINVAL"])

/** Settings of the servers besides the API's own. */
const extraServers = [
  { host: "METRICS_HOST", port: "METRICS_PORT" },
  { host: "ADMIN_HOST", port: "ADMIN_PORT" },
]

/** Returns the address on which a server could not listen, and the names of the settings for it. */
const findFailedSocket = Effect.fnUntraced(function* (cause: unknown) {
  const apiHost = Option.getOrUndefined(yield* readSettingText("HOST"))
  const [failedHost, failedPort] = [getText(cause, "address") ?? getText(cause, "hostname"), getText(cause, "port")]
  const hasFailed = Effect.fnUntraced(function* ({ host, port }: (typeof extraServers)[number]) {
    const [hostValue, portValue] = yield* Effect.all([readSettingText(host), readSettingText(port)])
    return failedPort === undefined
      ? failedHost !== undefined && failedHost !== apiHost && Option.isSome(portValue) &&
        Option.contains(hostValue, failedHost)
      : Option.contains(portValue, failedPort)
  })
  const [extra] = yield* Effect.filter(extraServers, hasFailed)
  if (extra === undefined) {
    return { host: "HOST", port: "PORT", failedHost: failedHost ?? apiHost, failedPort: failedPort ?? "8080" }
  }
  return { ...extra, failedHost: failedHost ?? Option.getOrUndefined(yield* readSettingText(extra.host)), failedPort }
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

/** Finds the database error behind an error, or returns undefined if there is none. */
const findSqlError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return error
  const cause = Predicate.hasProperty(error, "cause") ? error.cause : undefined
  return SqlError.isSqlError(cause) ? cause : undefined
}

/** How many lines at the end of PostgreSQL's log are searched for the reason of a lost connection. */
const logLines = 50

const readEmbeddedLog = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* TickerlineHomeConfig}/postgres/postgres.log`
  return { file, tail: (yield* fs.readFileString(file)).split("\n").slice(-logLines).join("\n") }
})

/** Explains why the embedded PostgreSQL closed the connection. (The log of an external server cannot be read.) */
const describeLostConnection = Effect.fnUntraced(function* (summary: string | undefined) {
  const isExternal = Option.isSome(yield* readSettingText("DATABASE_URL"))
  const log = isExternal ? Option.none() : yield* Effect.option(readEmbeddedLog)
  if (Option.isNone(log)) return summary
  return /No space left/.test(log.value.tail)
    ? `The embedded PostgreSQL stopped, because ${diskFullAdvice}.`
    : `${summary}. The log of the embedded PostgreSQL gives the reason: ${log.value.file}`
})

/** Describes an error, and names the settings that caused it, if any. Undefined for a value without a message. */
const describeError = (error: unknown): Effect.Effect<string | undefined, never, FileSystem.FileSystem> => {
  if (error instanceof Config.ConfigError) return Effect.map(toSettingProblems(error), formatSettingProblems)
  if (error instanceof HttpServerError.ServeError) return describeListenError(error)
  const sqlError = findSqlError(error)
  const summary = summarizeError(error)
  if (isConnectionLost(sqlError) && sqlError?.reason.operation !== "connect") return describeLostConnection(summary)
  return Effect.succeed(isDiskFull(sqlError) ? `${summary}. Free some disk space and try again.` : summary)
}

/** Whether writing to standard output failed, which `main.ts` reports. */
const isReportedOutputError = (error: unknown) =>
  error instanceof PlatformError.PlatformError && error.reason.module === "Stdio" && error.reason.method === "stdout"

/** Whether `console.log` failed, which happens only on Deno. File errors, in contrast, name a system call. */
const isConsoleError = (error: unknown): error is NodeJS.ErrnoException =>
  Predicate.isError(error) && getText(error, "code")?.startsWith("E") === true &&
  !Predicate.hasProperty(error, "syscall")

/** Reports on standard error that a command failed. */
export const reportCommandFailure = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  // Effect's command line reports usage errors itself.
  if (CliError.isCliError(error) || isReportedOutputError(error) || Cause.hasInterruptsOnly(cause)) return
  // If PostgreSQL stops, rolling back fails with a defect, and the original error is lost in it. Only that error is
  // reported.
  const sqlError = findSqlError(error)
  const hasLostConnection = cause.reasons.some((reason) => Cause.isDieReason(reason) && isConnectionLost(reason.defect))
  const isDefect = Cause.hasDies(cause) && !hasLostConnection && !isConnectionLost(sqlError) && !isDiskFull(sqlError)
  const description = isDefect
    ? isConsoleError(error) ? describeOutputError(error, false) : undefined
    : yield* describeError(error)
  const { paint } = yield* stderrCapabilities
  yield* Console.error(
    description === undefined
      ? Cause.pretty(hideValuesOfCause(cause))
      : `${paint("red", "tickerline:")} ${escapeTerminalLines(description)}`,
  )
})

/** Returns the exit code of a failed command: 2 for a usage error, 1 for any other failure. */
export const toExitCode = (cause: Cause.Cause<unknown>) => CliError.isCliError(Cause.squash(cause)) ? 2 : 1

type InvalidInvocation = Extract<CliOutput.Presenter.Event, { readonly _tag: "InvalidInvocation" }>

/**
 * Words that Effect puts before the reason for an invalid value, although the message already begins with "Expected".
 */
const repeatedWords = /^Schema validation failed: (?:Expected )?/

/** The reasons that Effect gives for invalid values of `Flag.Int` and `Argument.Int`. */
const numberReasons = new Set(["Expected a string representing a finite number", "Expected an integer"])

/** Explains why a path cannot be used. Effect's own message does not include the system's reason. */
const findPathError = (path: string) => {
  try {
    accessSync(path)
    return undefined
  } catch (error) {
    return Predicate.isError(error) ? describeReadError(path, error) : undefined
  }
}

/** Returns what is wrong with a value, or undefined if Effect's own message is clear enough. */
const explainInvalidValue = ({ expected, value }: CliError.InvalidValue) => {
  if (expected.startsWith("Invalid key=value format")) return "Write NAME=VALUE, such as limit=10."
  if (numberReasons.has(expected)) return "Expected a whole number"
  if (expected.startsWith("Failed to check path existence")) return findPathError(value)
  if (repeatedWords.test(expected)) {
    const rule = expected.replace(repeatedWords, "")
    return rule.startsWith("must ") ? `It ${rule}` : `Expected ${rule}`
  }
  const choices = Array.from(expected.matchAll(/"([^"]+)"/g), ([, choice = ""]) => choice)
  const suggestion = formatNameSuggestion(value, choices)
  return suggestion === "" ? undefined : `Expected: ${expected}.${suggestion}`
}

/**
 * Adds a suggestion to an error for which Effect has none, because Effect tolerates only two wrong letters and ignores
 * common prefixes. Also removes words that Effect repeats.
 */
const improveError = ({ helpDoc }: InvalidInvocation) =>
(
  error: CliError.NonShowHelpErrors,
): CliError.NonShowHelpErrors => {
  if (error._tag === "InvalidValue") {
    const reason = explainInvalidValue(error)
    if (reason === undefined) return error
    const name = error.kind === "flag" ? `flag --${error.option}` : `argument <${error.option}>`
    return new CliError.ValidationError({ message: `Invalid value for ${name}: "${error.value}". ${reason}` })
  }
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

/** Shortens the help to the usage and one example, so that the error stays on the screen. */
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

/** Removes the flags that every command has, except from the help of `tickerline` itself. */
const omitGlobalFlags = (helpDoc: HelpDoc.HelpDoc): HelpDoc.HelpDoc => {
  const { commandPath = [], globalFlags: _, ...rest } = helpDoc
  return commandPath.length < 2 ? helpDoc : { ...rest, commandPath }
}

/** Prints help that was requested on standard output, and help that accompanies an error on standard error. */
export const helpPresenterLayer = Layer.unwrap(Effect.map(
  Stdio.Stdio,
  (stdio) =>
    CliOutput.layerPresenter({
      present: (event) => {
        if (event._tag === "Version" || (event._tag === "Help" && event.reason === "Requested")) {
          return CliOutput.defaultPresenter.present(
            event._tag === "Help" ? { ...event, helpDoc: omitGlobalFlags(event.helpDoc) } : event,
          )
        }
        return Effect.gen(function* () {
          const { hasColors: colors } = yield* stderrCapabilities
          const { formatErrors, formatHelpDoc } = CliOutput.defaultFormatter({ colors })
          if (event._tag === "Help") return yield* Console.error(formatHelpDoc(event.helpDoc))
          yield* Console.error(formatHelpDoc(shortenHelp(event)).trim())
          yield* Console.error(formatErrors(event.errors.map(improveError(event))))
          yield* Console.error(`\nFor details, run: ${event.commandPath.join(" ")} --help`)
        }).pipe(Effect.provideService(Stdio.Stdio, stdio))
      },
    }),
))
