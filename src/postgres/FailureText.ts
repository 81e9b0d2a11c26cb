/**
 * Describes failures in logs, traces and messages. For a failed statement, the description contains PostgreSQL's reason
 * but no values.
 */
import { Cause, Predicate } from "effect"
import { SqlError } from "effect/sql"

/**
 * SQLSTATEs of errors whose messages may quote values or parts of the statement: invalid data, syntax errors, and
 * errors raised in functions.
 */
const quotesValues = /^(?:22|42601|42602|44|P0)/

/**
 * Returns PostgreSQL's own message, such as `permission denied for table usage`, without the text that the driver adds.
 * Replaces quoted values with an ellipsis and omits the error details, because they may contain secrets or personal
 * data.
 */
export const describeSqlError = (error: SqlError.SqlError) => {
  const { cause } = error.reason
  if (!Predicate.hasProperty(cause, "message") || cause.message === "") {
    // A socket error that combines several errors, one per address, has a code but no message.
    return Predicate.hasProperty(cause, "code") ? String(cause.code) : error.message
  }
  const message = String(cause.message)
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  // Replaces everything between the first and the last quote, because a value may itself contain quotes.
  return quotesValues.test(code) ? message.replace(/"[\s\S]*"/, '"…"') : message
}

/** Returns the reason for a failure: PostgreSQL's message for a failed statement, otherwise the error's own message. */
export const describeFailure = (error: unknown): string =>
  SqlError.isSqlError(error)
    ? describeSqlError(error)
    // API errors store their message in the `error` field.
    : Predicate.hasProperty(error, "error")
    ? describeFailure(error.error)
    : Predicate.hasProperty(error, "message") && error.message !== ""
    ? String(error.message)
    : String(error)

const isCausedBySql = (error: unknown): boolean =>
  SqlError.isSqlError(error) || (Predicate.isError(error) && isCausedBySql(error.cause))

/** Returns the lines of a stack trace that list the callers, without the message above them. */
const getCallers = ({ stack = "" }: Error) => stack.split("\n").filter((line) => /^\s+at /.test(line)).join("\n")

/**
 * Replaces a database error, or an error caused by one, with an error that contains only the reason. Returns any other
 * error unchanged.
 */
const hideValues = (error: unknown): unknown => {
  if (!Predicate.isError(error) || !isCausedBySql(error)) return error
  const cause = SqlError.isSqlError(error) ? undefined : hideValues(error.cause)
  const name = SqlError.isSqlError(error) ? "PostgreSQL" : error.name
  const shown = new Error(describeFailure(error), { ...(cause !== undefined && { cause }) })
  return Object.assign(shown, { name, stack: `${name}: ${shown.message}\n${getCallers(error)}` })
}

/** Applies `hideValues` to every error in a cause, so that the cause is safe to print. */
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

/** Applies `hideValues` to a logged value. */
export const hideValuesOfMessage = (message: unknown): unknown =>
  Array.isArray(message)
    ? message.map(hideValuesOfMessage)
    : Cause.isCause(message)
    ? hideValuesOfCause(message)
    : hideValues(message)
