/** Classifies PostgreSQL errors by their SQLSTATE code. */
import { Predicate } from "effect"
import { SqlError } from "effect/sql"
import { describeSqlError } from "./FailureText.ts"

const reasonOf = (error: unknown) => SqlError.isSqlError(error) ? error.reason : undefined

const hasSqlState = (error: unknown, pattern: RegExp) => {
  const cause = reasonOf(error)?.cause
  return Predicate.hasProperty(cause, "code") && pattern.test(String(cause.code))
}

/** Another session held a lock for longer than `lock_timeout`. */
export const isLockTimeout = (error: unknown) => reasonOf(error)?._tag === "LockTimeoutError"

/** The statement waited for a lock for too long, or PostgreSQL aborted it to resolve a deadlock. */
export const isLockError = (error: unknown) => isLockTimeout(error) || reasonOf(error)?._tag === "DeadlockError"

/** The statement ran for longer than `statement_timeout`. */
export const isStatementTimeout = (error: unknown) => reasonOf(error)?._tag === "StatementTimeoutError"

/** A standby canceled the query, which had delayed WAL replay for longer than `max_standby_streaming_delay` allows. */
export const isRecoveryConflict = (error: unknown) => reasonOf(error)?._tag === "SerializationError"

/** The connection ended or could not be opened, because of a shutdown, a startup, or too many clients. */
export const isConnectionLost = (error: unknown) => {
  const reason = reasonOf(error)
  return reason?._tag === "ConnectionError" || reason?.operation === "connect" ||
    hasSqlState(error, /^(57P0[1-5]|53300)$/)
}

/** The server rejected the password. PgBouncer sends no SQLSTATE for that. */
export const isPasswordRejected = (error: unknown) =>
  reasonOf(error)?.operation === "connect" &&
  (hasSqlState(error, /^28P01$/) ||
    (SqlError.isSqlError(error) && /authentication failed/.test(describeSqlError(error))))

/** The server lacks disk space, memory or another resource, but still accepts connections. */
export const isOutOfResources = (error: unknown) => hasSqlState(error, /^53[124]/)

/** The server or the role is read-only, as a standby is. */
export const isReadOnly = (error: unknown) => hasSqlState(error, /^25006$/)

/** A table, function, schema or other object already exists. */
export const isDuplicateObject = (error: unknown) => hasSqlState(error, /^(42P0[67]|42710|42723)$/)

/** The server's disk is full. */
export const isDiskFull = (error: unknown) => hasSqlState(error, /^53100$/)

/** A row violates a check constraint, or fits no partition of its table. */
export const isCheckViolation = (error: unknown) => hasSqlState(error, /^23514$/)

/** A trigger rejected a change because of some other row's state: for example, the account has been erased. */
export const isStateWrong = (error: unknown) => hasSqlState(error, /^55000$/)
