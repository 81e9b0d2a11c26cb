/** What a command says of its failure: a line for what a person can mend, the cause in full for what is our mistake. */
import { Cause, Config, Console, Effect, Layer, Option, Predicate, Stdio } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { isConnectionLost } from "../db/SqlState.ts"
import { describeListenError } from "./ListenErrors.ts"
import { findNearestName } from "../rules/Suggestions.ts"
import { formatSettingProblems, toSettingProblems } from "./SettingErrors.ts"
import { stderrScreen } from "./terminal/Screen.ts"
import { escapeLines } from "./terminal/Text.ts"

/** Errors of sockets may have a code and nothing else. */
const why = (error: unknown) => {
  const said = ["message", "code"].map((key) => Predicate.hasProperty(error, key) ? String(error[key]) : "")
  return said.find((text) => text !== "") ?? String(error)
}

/** The driver says what failed; its cause says why. */
const ofDatabase = ({ reason }: SqlError.SqlError) =>
  reason.operation === "connect"
    ? "DATABASE_URL: no connection (expected postgres://user:password@host:port/database of a running server): " +
      why(reason.cause)
    : `PostgreSQL: ${why(reason.cause)}`

export const summarizeError = (error: unknown) => {
  if (SqlError.isSqlError(error)) return ofDatabase(error)
  return Predicate.hasProperty(error, "message") ? String(error.message) : undefined
}

/** As `inOneLine`, for errors whose message needs the settings. */
const inWords = (error: unknown): Effect.Effect<string | undefined> => {
  if (error instanceof Config.ConfigError) return Effect.map(toSettingProblems(error), formatSettingProblems)
  if (error instanceof HttpServerError.ServeError) return describeListenError(error)
  return Effect.succeed(summarizeError(error))
}

/** Standard error is a terminal or not, whatever standard output is. */
const formatter = Effect.map(stderrScreen, ({ colors }) => CliOutput.defaultFormatter({ colors }))

export const reportFailure = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  // The command line says itself what is wrong with its arguments.
  if (CliError.isCliError(error) || Cause.hasInterruptsOnly(cause)) return
  // A transaction whose server went away cannot be rolled back either, which Effect takes for a defect.
  const line = Cause.hasDies(cause) && !isConnectionLost(error) ? undefined : yield* inWords(error)
  const { paint } = yield* stderrScreen
  yield* Console.error(
    line === undefined ? Cause.pretty(cause) : `${paint("red", "tickerline:")} ${escapeLines(line)}`,
  )
})

/** 1: refused or failed; 2: not understood, and so not begun. */
export const toExitCode = (cause: Cause.Cause<unknown>) => CliError.isCliError(Cause.squash(cause)) ? 2 : 1

type Invalid = Extract<CliOutput.Presenter.Event, { readonly _tag: "InvalidInvocation" }>

/** Effect's own suggestion differs by two letters at most, and does not know beginnings. */
const suggested = ({ helpDoc }: Invalid) => (error: CliError.NonShowHelpErrors): CliError.NonShowHelpErrors => {
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

/** How it is used, by an example; everything would push what is wrong off the screen. */
const inBrief = ({ commandPath, errors, helpDoc }: Invalid) => {
  const lost = errors.some(({ _tag }) => _tag === "UnknownSubcommand")
  return {
    usage: helpDoc.usage,
    description: "",
    annotations: helpDoc.annotations,
    flags: [],
    ...(lost && helpDoc.subcommands !== undefined && { subcommands: helpDoc.subcommands }),
    ...(!lost && helpDoc.examples !== undefined && { examples: helpDoc.examples.slice(0, 1) }),
    ...(commandPath.length > 0 && { commandPath }),
  }
}

/** Help that nobody asked for is no result: it goes where errors go. */
export const helpPresenterLayer = Layer.unwrap(Effect.map(
  Stdio.Stdio,
  (stdio) =>
    CliOutput.layerPresenter({
      present: (event) => {
        if (event._tag === "Version" || (event._tag === "Help" && event.reason === "Requested")) {
          return CliOutput.defaultPresenter.present(event)
        }
        return Effect.gen(function* () {
          const { formatErrors, formatHelpDoc } = yield* formatter
          if (event._tag === "Help") return yield* Console.error(formatHelpDoc(event.helpDoc))
          yield* Console.error(formatHelpDoc(inBrief(event)).trim())
          yield* Console.error(formatErrors(event.errors.map(suggested(event))))
          yield* Console.error(`\n\`${event.commandPath.join(" ")} --help\` tells more.`)
        }).pipe(Effect.provideService(Stdio.Stdio, stdio))
      },
    }),
))
