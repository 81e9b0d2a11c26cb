/**
 * How long a read may wait and run, when it is retried, and which API error its failure becomes (§7.2, §8). These
 * limits are enforced by the service's own clock. PostgreSQL's limits (`sessionSettings`) are only a second line of
 * defense.
 */
import { Config, Duration, Effect, Metric, Schedule, Schema } from "effect"
import { SqlError } from "effect/sql"
import { DatabasePoolTimeout, type DataRefreshing, makeDataRefreshingError } from "../contract/rules/ApiErrors.ts"
import { describeSqlError } from "./FailureText.ts"
import { makeMonotonicClock } from "./metrics/MonotonicTime.ts"
import { isConnectionLost, isLockError, isStatementTimeout } from "./SqlState.ts"

/** Maximum time that a request waits for a connection from the pool. */
export const poolTimeout = Config.Duration("DATABASE_POOL_TIMEOUT").pipe(Config.withDefault(Duration.seconds(5)))

/** Maximum time that a read may hold a connection from the pool. */
export const readTimeout = Duration.seconds(30)

/**
 * Maximum time to open a cursor or fetch rows from it. This limit matters only if the server stops responding: a
 * responsive server cancels every statement after 30 seconds.
 */
export const cursorTimeout = Duration.seconds(36)

/** Time after which an idle connection of the pool is closed. */
export const idleConnectionTimeout = Duration.seconds(60)

/** Retries once, two seconds after a lock timeout or deadlock (§7.2). */
export const lockRetrySchedule = Schedule.spaced("2 seconds").pipe(Schedule.upTo({ times: 1 }))

/**
 * Retries three times after a lost connection. The delay gives the server time to start accepting connections again.
 */
export const connectionRetrySchedule = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 3 }))

/**
 * A read that loses its connection is retried only if it started less than this long ago. If a connection is lost
 * later, a pooler probably dropped it after a long wait in the pooler's queue, and a retry would wait there again.
 */
export const maxConnectionRetryAge = Duration.seconds(4)

/**
 * Creates a counter of retried reads, labeled with the reason for the retry: a lock, a lost connection, a failed
 * replica, or a conflict with recovery on a standby.
 */
export const makeRetryCounter = (why: "locked" | "lost" | "replica" | "conflict") =>
  Metric.counter("tickerline_database_retries_total", {
    description: "Retried reads, by cause: a lock or a deadlock, a lost connection, a lost replica, or a conflict " +
      "with a replica's recovery.",
    attributes: { why },
    incremental: true,
  })

const lockRetries = makeRetryCounter("locked")
const connectionRetries = makeRetryCounter("lost")
/** The counters that this file increments. They must be initialized to 0 at startup. */
export const retriedReadCounters = [lockRetries, connectionRetries]

/** Creates the error for a request that waited too long for a connection. */
export const makePoolTimeoutError = () =>
  new DatabasePoolTimeout({
    error: { message: "Database connections are temporarily saturated. Retry in a few seconds." },
  })

/** Why a read failed: PostgreSQL's error, or a row that could not be decoded. */
export type DatabaseReadError = SqlError.SqlError | Schema.SchemaError

const isReadFailure = (error: unknown): error is DatabaseReadError =>
  SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Maps a failed read to a 503 response if a later retry may succeed, and to a defect otherwise. */
export const toApiError = (error: DatabaseReadError): Effect.Effect<never, DataRefreshing | DatabasePoolTimeout> =>
  isLockError(error) || isStatementTimeout(error)
    ? Effect.fail(makeDataRefreshingError())
    : SqlError.isSqlError(error) && isConnectionLost(error)
    ? Effect.andThen(
      Effect.logWarning(`The database cannot be reached: ${describeSqlError(error)}`),
      Effect.fail(makePoolTimeoutError()),
    )
    : Effect.die(error)

interface RetryPolicy {
  readonly counter: ReturnType<typeof makeRetryCounter>
  readonly schedule: Schedule.Schedule<unknown>
  readonly when: (error: unknown) => boolean
}

const withRetry = <A, E, R>({ counter, schedule, when }: RetryPolicy, attempt: Effect.Effect<A, E, R>) =>
  // Starting the schedule takes time, so it is started only after a failure. A successful attempt does not pay for it.
  Effect.catchIf(attempt, when, (error) =>
    Effect.andThen(
      Metric.update(counter, 1),
      Effect.retry(startWith(Effect.fail(error), attempt), { while: when, schedule }),
    ))

/** Returns an effect that runs `first` the first time and `others` every time after that. */
const startWith = <A, E, R>(first: Effect.Effect<A, E, R>, others: Effect.Effect<A, E, R>) => {
  let next = first
  return Effect.suspend(() => {
    const current = next
    next = others
    return current
  })
}

const maxRetryAgeMillis = Duration.toMillis(maxConnectionRetryAge)

/**
 * Creates the function that retries a failed read (the effect `attempt`) and converts its errors to API errors. A read
 * that loses its connection is retried up to three times, and a read that fails because of a lock once, two seconds
 * later. After the lock retry, a lost connection is retried again. Other errors are not retried.
 *
 * `withRetry` runs an effect again after the errors that `when` accepts, with the delays of `schedule`. `startWith`
 * returns an effect that is `first` when it runs for the first time, and `others` whenever it is run again.
 */
export const makeReadPolicies = Effect.map(makeMonotonicClock, (now) => {
  const retryLostConnection = <A, E, R>(startedAt: number, attempt: Effect.Effect<A, E, R>) =>
    withRetry({
      counter: connectionRetries,
      schedule: connectionRetrySchedule,
      when: (error) => isConnectionLost(error) && now() - startedAt < maxRetryAgeMillis,
    }, attempt)

  /**
   * Handles a failure of the first attempt, which began at `startedAt` and failed with `error`. Retries are set up only
   * here, so a successful attempt costs no more than an `Effect.catch`.
   */
  const recover = <A, R>(
    attempt: Effect.Effect<A, DatabaseReadError | DataRefreshing | DatabasePoolTimeout, R>,
    error: DatabaseReadError | DataRefreshing | DatabasePoolTimeout,
    startedAt: number,
  ) => {
    // The first attempt has already failed, so the retry logic starts with its error instead of running it again.
    // `firstRun` and `laterRuns` are what the lock retry repeats; each includes its own retries of lost connections.
    const firstRun = retryLostConnection(startedAt, startWith(Effect.fail(error), attempt))
    const laterRuns = Effect.suspend(() => retryLostConnection(now(), attempt))
    return withRetry(
      { counter: lockRetries, schedule: lockRetrySchedule, when: isLockError },
      startWith(firstRun, laterRuns),
    ).pipe(Effect.catch((failure) => isReadFailure(failure) ? toApiError(failure) : Effect.fail(failure)))
  }

  return <A, R>(attempt: Effect.Effect<A, DatabaseReadError | DataRefreshing | DatabasePoolTimeout, R>) =>
    Effect.suspend(() => {
      const startedAt = now()
      return Effect.catch(attempt, (error) => recover(attempt, error, startedAt))
    })
})
