/**
 * Reports errors on standard error. An error that the user can correct is reported in a sentence; a defect is reported
 * with its full cause.
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
import { findNearestName, formatNameSuggestion } from "../../contract/rules/NameSuggestions.ts"
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

/** Summarizes an error in one line. Returns undefined if the error has no message. */
export const summarizeError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return summarizeSqlError(error)
  if (isFileError(error)) return `${error.reason.pathOrDescriptor}: ${formatFileErrorReason(error)}.`
  return Predicate.hasProperty(error, "message") ? String(error.message) : undefined
}

/** Error codes reported by systems that do not support `SO_REUSEPORT`. */
const reusePortUnsupported = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOPROTOOPT", "EINVAL"])

/** The host and port settings of the metrics server and the admin API. */
const extraServers = [
  { host: "METRICS_HOST", port: "METRICS_PORT" },
  { host: "ADMIN_HOST", port: "ADMIN_PORT" },
]

/**
 * Returns the address that a server could not listen on (`failedHost` and `failedPort`), and the names of the settings
 * that determine it (`host` and `port`). The error does not say which of the servers has failed. It is the metrics
 * server or the admin API if the port in the error is theirs. If the error has no port, because the host name is wrong,
 * it is the server that is enabled and has this host. Otherwise, it is the API.
 */
const findFailedSocket = Effect.fnUntraced(function* (cause: unknown) {
  const apiHost = Option.getOrUndefined(yield* readSettingText("HOST"))
  // Depending on the failed system call, the error has the host in `address` or in `hostname`.
  const [failedHost, failedPort] = [getText(cause, "address") ?? getText(cause, "hostname"), getText(cause, "port")]
  /** Returns whether the failed server is this one: the metrics server or the admin API (`extraServers`). */
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

/**
 * Explains why a server cannot listen on its port, and which setting to change: the port is in use, requires special
 * permission, or cannot be shared on this system, or the host is not an address of this machine.
 */
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

/** Returns the database error that is the error itself or its cause, or undefined if neither is a database error. */
const findSqlError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return error
  const cause = Predicate.hasProperty(error, "cause") ? error.cause : undefined
  return SqlError.isSqlError(cause) ? cause : undefined
}

/** How many lines at the end of PostgreSQL's log are searched for the reason why a connection was lost. */
const logLines = 50

const readEmbeddedLog = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* TickerlineHomeConfig}/postgres/postgres.log`
  return { file, tail: (yield* fs.readFileString(file)).split("\n").slice(-logLines).join("\n") }
})

/**
 * Explains why the embedded PostgreSQL closed the connection. For an external server, whose log cannot be read, returns
 * `summary`.
 */
const describeLostConnection = Effect.fnUntraced(function* (summary: string | undefined) {
  const isExternal = Option.isSome(yield* readSettingText("DATABASE_URL"))
  const log = isExternal ? Option.none() : yield* Effect.option(readEmbeddedLog)
  if (Option.isNone(log)) return summary
  return /No space left/.test(log.value.tail)
    ? `The embedded PostgreSQL stopped, because ${diskFullAdvice}.`
    : `${summary}. The log of the embedded PostgreSQL gives the reason: ${log.value.file}`
})

/** Describes an error, including any settings that caused it. Returns undefined if the error has no message. */
const describeError = (error: unknown): Effect.Effect<string | undefined, never, FileSystem.FileSystem> => {
  if (error instanceof Config.ConfigError) return Effect.map(toSettingProblems(error), formatSettingProblems)
  if (error instanceof HttpServerError.ServeError) return describeListenError(error)
  const sqlError = findSqlError(error)
  const summary = summarizeError(error)
  if (isConnectionLost(sqlError) && sqlError?.reason.operation !== "connect") return describeLostConnection(summary)
  return Effect.succeed(isDiskFull(sqlError) ? `${summary}. Free some disk space and try again.` : summary)
}

/** Returns whether the error is a failed write to standard output. `main.ts` reports such errors. */
const isReportedOutputError = (error: unknown) =>
  error instanceof PlatformError.PlatformError && error.reason.module === "Stdio" && error.reason.method === "stdout"

/**
 * Returns whether `console.log` failed, which happens only on Deno. Unlike file errors, such an error does not name a
 * system call.
 */
const isConsoleError = (error: unknown): error is NodeJS.ErrnoException =>
  Predicate.isError(error) && getText(error, "code")?.startsWith("E") === true &&
  !Predicate.hasProperty(error, "syscall")

/**
 * Prints on standard error why a command failed. An error of the user or of the environment is described in a sentence.
 * A defect is printed with its stack trace, without the values in database errors.
 */
export const reportCommandFailure = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  // Usage errors are reported by Effect's command-line library.
  if (CliError.isCliError(error) || isReportedOutputError(error) || Cause.hasInterruptsOnly(cause)) return
  // The environment is to blame for a lost connection and for a full disk of the database, so these are reported as
  // errors even if Effect has recorded them as defects. If PostgreSQL stops, for example, the rollback fails with a
  // defect, which hides the original error.
  const sqlError = findSqlError(error)
  const hasLostConnection = cause.reasons.some((reason) => Cause.isDieReason(reason) && isConnectionLost(reason.defect))
  const isDefect = Cause.hasDies(cause) && !hasLostConnection && !isConnectionLost(sqlError) && !isDiskFull(sqlError)
  // On Deno, a failed `console.log` is a defect, too. Again, the environment is to blame.
  const description = isDefect
    ? isConsoleError(error) ? describeOutputError(error, { isServing: false }) : undefined
    : yield* describeError(error)
  const { paint } = yield* stderrCapabilities
  yield* Console.error(
    description === undefined
      ? Cause.pretty(hideValuesOfCause(cause))
      : `${paint("red", "tickerline:")} ${escapeTerminalLines(description)}`,
  )
})

/** Returns the exit code for a failed command: 2 for a usage error, 1 for any other failure. */
export const toExitCode = (cause: Cause.Cause<unknown>) => CliError.isCliError(Cause.squash(cause)) ? 2 : 1

type InvalidInvocation = Extract<CliOutput.Presenter.Event, { readonly _tag: "InvalidInvocation" }>

/**
 * Matches the words that Effect puts before the reason for an invalid value. They are redundant, because the message
 * already begins with "Expected".
 */
const repeatedWords = /^Schema validation failed: (?:Expected )?/

/** The error messages that Effect produces for invalid values of `Flag.Int` and `Argument.Int`. */
const numberReasons = new Set(["Expected a string representing a finite number", "Expected an integer"])

/**
 * Explains why a path cannot be used, including the operating system's reason, which Effect's own message leaves out.
 */
const findPathError = (path: string) => {
  try {
    accessSync(path)
    return undefined
  } catch (error) {
    return Predicate.isError(error) ? describeReadError(path, error) : undefined
  }
}

/** Explains what is wrong with a value. Returns undefined if Effect's own message is clear enough. */
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
 * Adds a suggestion to an error if Effect has none. Effect tolerates only two wrong letters and ignores common
 * prefixes. Also removes redundant words from Effect's messages.
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

/**
 * Shortens the help text to the usage line and one example, so that the error message remains visible on the screen.
 * For an unknown command, lists the subcommands instead of an example.
 */
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

/** Removes the global flags from the help of subcommands. The help of `tickerline` itself keeps them. */
const omitGlobalFlags = (helpDoc: HelpDoc.HelpDoc): HelpDoc.HelpDoc => {
  const { commandPath = [], globalFlags: _, ...rest } = helpDoc
  return commandPath.length < 2 ? helpDoc : { ...rest, commandPath }
}

/**
 * Prints requested help on standard output, and help that accompanies an error on standard error. After a usage error,
 * the help is shortened, and the messages are improved with what the user may have meant.
 */
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
