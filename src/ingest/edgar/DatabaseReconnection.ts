import { Effect, Schedule } from "effect"
import { describeSqlError, isConnectionLost } from "../../db/SqlState.ts"
import { SqlError } from "effect/sql"

/** Every two seconds for five minutes, which is longer than PostgreSQL or its host usually needs to restart. */
const reconnectionSchedule = Schedule.spaced("2 seconds").pipe(Schedule.upTo({ duration: "5 minutes" }))

/**
 * Repeats an effect if its connection to PostgreSQL is lost, so that a restart of the database does not end a run of
 * hours. The effect must be idempotent, because its last commit may have succeeded.
 */
export const retryLostConnection = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  let isReported = false
  return effect.pipe(
    Effect.tapError((error) => {
      if (isReported || !SqlError.isSqlError(error) || !isConnectionLost(error)) return Effect.void
      isReported = true
      return Effect.logWarning(`Waiting until PostgreSQL accepts connections again: ${describeSqlError(error)}`)
    }),
    Effect.retry({ schedule: reconnectionSchedule, while: isConnectionLost }),
  )
}
