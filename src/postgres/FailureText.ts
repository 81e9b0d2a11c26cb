/** Describes failures in logs, traces and messages: a failed statement by PostgreSQL's reason, but without values. */
import { Cause, Predicate } from "effect"
import { SqlError } from "effect/sql"

/** SQLSTATEs whose messages quote values or parts of the statement: wrong data, wrong syntax, errors of functions. */
const quotesValues = /^(?:22|42601|42602|44|P0)/

/**
 * Returns PostgreSQL's own message, such as `permission denied for table usage`, without the text that the driver adds.
 * Replaces quoted values by an ellipsis and leaves out the details, because both may be secret or personal.
 */
export const describeSqlError = (error: SqlError.SqlError) => {
  const { cause } = error.reason
  if (!Predicate.hasProperty(cause, "message") || cause.message === "") {
    // A socket error has only a code if it stands for several.
    return Predicate.hasProperty(cause, "code") ? String(cause.code) : error.message
  }
  const message = String(cause.message)
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  // From the first to the last quote, because a value may contain quotes.
  return quotesValues.test(code) ? message.replace(/"[\s\S]*"/, '"…"') : message
}

/** Returns the reason of any failure: for a failed statement that of PostgreSQL, otherwise the message. */
export const describeFailure = (error: unknown): string =>
  SqlError.isSqlError(error)
    ? describeSqlError(error)
    // An error of the API has its message inside.
    : Predicate.hasProperty(error, "error")
    ? describeFailure(error.error)
    : Predicate.hasProperty(error, "message") && error.message !== ""
    ? String(error.message)
    : String(error)

const isCausedBySql = (error: unknown): boolean =>
  SqlError.isSqlError(error) || (Predicate.isError(error) && isCausedBySql(error.cause))

/** Returns the lines of a stack trace without the message before them. */
const getCallers = ({ stack = "" }: Error) => stack.split("\n").filter((line) => /^\s+at /.test(line)).join("\n")

/** Replaces a database error, or one that it caused, by an error with the reason. Other errors stay as they are. */
const hideValues = (error: unknown): unknown => {
  if (!Predicate.isError(error) || !isCausedBySql(error)) return error
  const cause = SqlError.isSqlError(error) ? undefined : hideValues(error.cause)
  const name = SqlError.isSqlError(error) ? "PostgreSQL" : error.name
  const shown = new Error(describeFailure(error), { ...(cause !== undefined && { cause }) })
  return Object.assign(shown, { name, stack: `${name}: ${shown.message}\n${getCallers(error)}` })
}

/** Replaces the database errors of a cause as `hideValues` does, for whoever prints the cause. */
export const hideValuesOfCause = (cause: Cause.Cause<unknown>): Cause.Cause<unknown> =>
  Cause.fromReasons(
    cause.reasons.map((reason) =>
      Cause.isFailReason(reason)
        ? Cause.makeFailReason(hideValues(reason.error))
        : Cause.isDieReason(reason)
        ? Cause.makeDieReason(hideValues(reason.defect))
        : reason
    ),
  )

/** Replaces the database errors in a logged value as `hideValues` does. */
export const hideValuesOfMessage = (message: unknown): unknown =>
  Array.isArray(message)
    ? message.map(hideValuesOfMessage)
    : Cause.isCause(message)
    ? hideValuesOfCause(message)
    : hideValues(message)
