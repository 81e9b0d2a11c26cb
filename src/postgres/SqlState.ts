/** Classifies PostgreSQL errors by their SQLSTATE code. */
import { Predicate } from "effect"
import { SqlError } from "effect/sql"
import { describeSqlError } from "./FailureText.ts"

const reasonOf = (error: unknown) => SqlError.isSqlError(error) ? error.reason : undefined

const hasSqlState = (error: unknown, pattern: RegExp) => {
  const cause = reasonOf(error)?.cause
  return Predicate.hasProperty(cause, "code") && pattern.test(String(cause.code))
}

/** Returns whether the error means that another session held a lock for longer than `lock_timeout`. */
export const isLockTimeout = (error: unknown) => reasonOf(error)?._tag === "LockTimeoutError"

/**
 * Returns whether the error means that the statement waited too long for a lock or was aborted to resolve a deadlock.
 */
export const isLockError = (error: unknown) => isLockTimeout(error) || reasonOf(error)?._tag === "DeadlockError"

/** Returns whether the error means that the statement ran for longer than `statement_timeout`. */
export const isStatementTimeout = (error: unknown) => reasonOf(error)?._tag === "StatementTimeoutError"

/**
 * Returns whether the error means that a standby canceled the query, because the query delayed WAL replay for longer
 * than `max_standby_streaming_delay`.
 */
export const isRecoveryConflict = (error: unknown) => reasonOf(error)?._tag === "SerializationError"

/**
 * Returns whether the error means that the connection ended or could not be opened, because the server is shutting
 * down, is starting up, or has too many clients.
 */
export const isConnectionLost = (error: unknown) => {
  const reason = reasonOf(error)
  return reason?._tag === "ConnectionError" || reason?.operation === "connect" ||
    hasSqlState(error, /^(57P0[1-5]|53300)$/)
}

/** Returns whether the error means that the server rejected the password. PgBouncer sends no SQLSTATE in that case. */
export const isPasswordRejected = (error: unknown) =>
  reasonOf(error)?.operation === "connect" &&
  (hasSqlState(error, /^28P01$/) ||
    (SqlError.isSqlError(error) && /authentication failed/.test(describeSqlError(error))))

/**
 * Returns whether the error means that the server has run out of disk space, memory or another resource but still
 * accepts connections.
 */
export const isOutOfResources = (error: unknown) => hasSqlState(error, /^53[124]/)

/** Returns whether the error means that the server or the role is read-only. A standby, for example, is read-only. */
export const isReadOnly = (error: unknown) => hasSqlState(error, /^25006$/)

/** Returns whether the error means that a table, function, schema or other object already exists. */
export const isDuplicateObject = (error: unknown) => hasSqlState(error, /^(42P0[67]|42710|42723)$/)

/** Returns whether the error means that the server's disk is full. */
export const isDiskFull = (error: unknown) => hasSqlState(error, /^53100$/)

/** Returns whether the error means that a row violates a check constraint or fits into no partition of its table. */
export const isCheckViolation = (error: unknown) => hasSqlState(error, /^23514$/)

/**
 * Returns whether the error means that a trigger rejected a change because of the state of another row, such as an
 * account that has been erased.
 */
export const isInvalidObjectState = (error: unknown) => hasSqlState(error, /^55000$/)
