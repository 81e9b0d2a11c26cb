/**
 * Describes failures in logs, traces and messages. For a failed statement it gives PostgreSQL's reason, but no values.
 */
import { Cause, Predicate } from "effect"
import { SqlError } from "effect/sql"

/**
 * SQLSTATEs whose messages quote values or parts of the statement: invalid data, syntax errors, errors raised in
 * functions.
 */
const quotesValues = /^(?:22|42601|42602|44|P0)/

/**
 * Returns PostgreSQL's own message, such as `permission denied for table usage`, without the text that the driver adds.
 * Replaces quoted values with an ellipsis and omits the details, because both may be secret or personal.
 */
export const describeSqlError = (error: SqlError.SqlError) => {
  const { cause } = error.reason
  if (!Predicate.hasProperty(cause, "message") || cause.message === "") {
    // A socket error that combines several, one per address, has no message, only a code.
    return Predicate.hasProperty(cause, "code") ? String(cause.code) : error.message
  }
  const message = String(cause.message)
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  // Replaces everything from the first quote to the last, because a value may itself contain quotes.
  return quotesValues.test(code) ? message.replace(/"[\s\S]*"/, '"…"') : message
}

/** Returns the reason for any failure: PostgreSQL's own for a failed statement, otherwise the error's message. */
export const describeFailure = (error: unknown): string =>
  SqlError.isSqlError(error)
    ? describeSqlError(error)
    // API errors have their message in the field `error`.
    : Predicate.hasProperty(error, "error")
    ? describeFailure(error.error)
    : Predicate.hasProperty(error, "message") && error.message !== ""
    ? String(error.message)
    : String(error)

const isCausedBySql = (error: unknown): boolean =>
  SqlError.isSqlError(error) || (Predicate.isError(error) && isCausedBySql(error.cause))

/** Returns the lines of a stack trace without the message above them. */
const getCallers = ({ stack = "" }: Error) => stack.split("\n").filter((line) => /^\s+at /.test(line)).join("\n")

/**
 * Replaces a database error, or an error caused by one, with an error that has only the reason. Returns others
 * unchanged.
 */
const hideValues = (error: unknown): unknown => {
  if (!Predicate.isError(error) || !isCausedBySql(error)) return error
  const cause = SqlError.isSqlError(error) ? undefined : hideValues(error.cause)
  const name = SqlError.isSqlError(error) ? "PostgreSQL" : error.name
  const shown = new Error(describeFailure(error), { ...(cause !== undefined && { cause }) })
  return Object.assign(shown, { name, stack: `${name}: ${shown.message}\n${getCallers(error)}` })
}

/** Applies `hideValues` to each error in a cause, which is then safe to print. */
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
