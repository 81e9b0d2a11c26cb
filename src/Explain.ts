/** What a command says of its failure: a line for what a person can mend, the cause in full for what is our mistake. */
import { Cause, Config, Console, Effect, Predicate, Schema, SchemaIssue } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"

const describe = SchemaIssue.makeFormatterStandardSchemaV1()

/** `PORT: Expected a string representing a finite number` */
const ofSetting = ({ cause, message }: Config.ConfigError) =>
  Schema.isSchemaError(cause)
    ? describe(cause.issue).issues.map((issue) => `${(issue.path ?? []).join("_")}: ${issue.message}`).join("; ")
    : message

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

const ofSocket = ({ cause }: HttpServerError.ServeError) =>
  Predicate.hasProperty(cause, "code") && cause.code === "EADDRINUSE"
    ? `PORT: ${why(cause)}: the port is in use by another program; expected a free one`
    : `HOST: ${why(cause)}; expected an address of this machine`

const inOneLine = (error: unknown) => {
  if (error instanceof Config.ConfigError) return `configuration: ${ofSetting(error)}`
  if (SqlError.isSqlError(error)) return ofDatabase(error)
  if (error instanceof HttpServerError.ServeError) return ofSocket(error)
  return Predicate.hasProperty(error, "message") ? String(error.message) : undefined
}

/** A transaction whose server went away cannot be rolled back either, which Effect takes for a defect. */
const isLost = (error: unknown) => SqlError.isSqlError(error) && error.reason._tag === "ConnectionError"

export const explain = (cause: Cause.Cause<unknown>) => {
  const error = Cause.squash(cause)
  // The command line says itself what is wrong with its arguments.
  if (CliError.isCliError(error) || Cause.hasInterruptsOnly(cause)) return Effect.void
  const line = Cause.hasDies(cause) && !isLost(error) ? undefined : inOneLine(error)
  return Console.error(line === undefined ? Cause.pretty(cause) : `tickerline: ${line}`)
}

/** Help that nobody asked for is no result: it goes where errors go. */
export const presenter = CliOutput.layerPresenter({
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? Effect.gen(function* () {
        const formatter = yield* CliOutput.Formatter
        yield* Console.error(formatter.formatHelpDoc(event.helpDoc))
        yield* Console.error(formatter.formatErrors(event.errors))
      })
      : CliOutput.defaultPresenter.present(event),
})
