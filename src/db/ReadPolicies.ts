/** How long a database read may wait and run, when it is retried, and what its failures become (§7.2, §8). */
import { Config, type Context, Duration, Effect, Fiber, Metric, Schedule, Schema } from "effect"
import { SqlError } from "effect/sql"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { makeMonotonicClock } from "../observability/MonotonicTime.ts"
import { makeDeadlineScheduler } from "./Deadlines.ts"
import { describeSqlError, isConnectionLost, isLockError, isStatementTimeout } from "./SqlState.ts"

/** Maximum wait for a pool connection. */
export const poolTimeout = Config.Duration("DATABASE_POOL_TIMEOUT").pipe(Config.withDefault(Duration.seconds(5)))

/** Time limit for a read, in case the server stops responding. A working server ends a statement after 30 seconds. */
export const readTimeout = Duration.seconds(36)

/** Retries once, two seconds after a lock timeout or a deadlock (§7.2). */
export const lockRetrySchedule = Schedule.spaced("2 seconds").pipe(Schedule.upTo({ times: 1 }))

/** Retries after a lost connection. The delay lets the pool discard the connections that the server has closed. */
export const connectionRetrySchedule = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 3 }))

/**
 * If a read loses its connection after this many milliseconds, it is not retried: a pooler probably dropped it after a
 * long wait in the pooler's queue, and a retry would wait there again.
 */
const maxConnectionRetryAge = Duration.toMillis(Duration.seconds(4))

export const makeRetryCounter = (why: "locked" | "lost" | "replica" | "conflict") =>
  Metric.counter("tickerline_database_retries_total", {
    description: "Retried reads, by cause: a lock or a deadlock, a lost connection, a lost replica, or a conflict " +
      "with a replica's recovery.",
    attributes: { why },
    incremental: true,
  })

const lockRetries = makeRetryCounter("locked")
const connectionRetries = makeRetryCounter("lost")
export const retryCounters = [lockRetries, connectionRetries]

export const makeDataRefreshingError = () =>
  new DataRefreshing({ error: { message: "Data is being refreshed. Retry in a few seconds." } })

export const makePoolTimeoutError = () =>
  new DatabasePoolTimeout({
    error: { message: "Database connections are temporarily saturated. Retry in a few seconds." },
  })

export type DatabaseReadError = SqlError.SqlError | Schema.SchemaError

/** A read whose database errors have not been converted to API errors yet. */
export type DatabaseRead<A, R> = Effect.Effect<A, DatabaseReadError | DataRefreshing | DatabasePoolTimeout, R>

const isReadFailure = (error: unknown): error is DatabaseReadError =>
  SqlError.isSqlError(error) || Schema.isSchemaError(error)

/** Converts the error of a read: to a 503 response if a later retry may succeed, otherwise to a defect. */
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

const withRetry = ({ counter, schedule, when }: RetryPolicy) => <A, E, R>(query: Effect.Effect<A, E, R>) =>
  // Starts the schedule only after a failure, because starting it would slow down every successful read.
  Effect.catchIf(query, when, (error) => {
    let next: Effect.Effect<A, E, R> = Effect.fail(error)
    const attempt = Effect.suspend(() => {
      const current = next
      next = query
      return current
    })
    return Effect.andThen(Metric.update(counter, 1), Effect.retry(attempt, { while: when, schedule }))
  })

const retryLocked = withRetry({ counter: lockRetries, schedule: lockRetrySchedule, when: isLockError })

/** Makes the function that runs a read with all policies except `poolTimeout`, which the pool's queue applies. */
export const makeReadPolicies = Effect.gen(function* () {
  const now = yield* makeMonotonicClock
  const caps = yield* makeDeadlineScheduler(readTimeout)

  const retryLostConnection = <A, E, R>(query: Effect.Effect<A, E, R>, startedAt: number) =>
    withRetry({
      counter: connectionRetries,
      schedule: connectionRetrySchedule,
      when: (error) => isConnectionLost(error) && now() - startedAt < maxConnectionRetryAge,
    })(query)

  const withQueryCap = <A, E, R>(query: Effect.Effect<A, E, R>) =>
    Effect.contextWith((context: Context.Context<R>) =>
      Effect.callback<A, E | DataRefreshing>((resume) => {
        const end = () => resume(Effect.andThen(Fiber.interrupt(reading), Effect.fail(makeDataRefreshingError())))
        const startedAt = caps.add(end)
        const reading = Effect.runForkWith(context)(retryLostConnection(query, startedAt))
        reading.addObserver((exit) => {
          caps.remove(end)
          resume(exit)
        })
        return Fiber.interrupt(reading)
      })
    )

  return <A, R>(read: DatabaseRead<A, R>) =>
    withQueryCap(read).pipe(
      retryLocked,
      Effect.catch((error) => isReadFailure(error) ? toApiError(error) : Effect.fail(error)),
    )
})
