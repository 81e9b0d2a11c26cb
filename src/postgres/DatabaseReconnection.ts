import { Cause, Effect, Schedule } from "effect"
import { SqlError } from "effect/sql"
import { describeSqlError } from "./FailureText.ts"
import { isConnectionLost } from "./SqlState.ts"

/** Retries every two seconds for five minutes, which is longer than PostgreSQL or its host usually takes to restart. */
const reconnectionSchedule = Schedule.spaced("2 seconds").pipe(Schedule.upTo({ duration: "5 minutes" }))

/**
 * Retries an effect that loses its connection to PostgreSQL, so that a database restart does not abort a run that takes
 * hours. The effect must be idempotent, because its last commit may have succeeded.
 */
export const retryLostConnection = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  let isReported = false
  return effect.pipe(
    // When the connection is lost, rolling back the transaction also fails. That failure is a defect, and would prevent
    // the retry.
    Effect.catchCause((cause): Effect.Effect<never, E | SqlError.SqlError> => {
      const error = Cause.squash(cause)
      return SqlError.isSqlError(error) && isConnectionLost(error) ? Effect.fail(error) : Effect.failCause(cause)
    }),
    Effect.tapError((error) => {
      if (isReported || !SqlError.isSqlError(error) || !isConnectionLost(error)) return Effect.void
      isReported = true
      return Effect.logWarning(`Waiting until PostgreSQL accepts connections again: ${describeSqlError(error)}`)
    }),
    Effect.retry({ schedule: reconnectionSchedule, while: isConnectionLost }),
  )
}
