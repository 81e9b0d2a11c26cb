/** The only real-time pauses that tests may use. `test/README.md` gives the reason for each. */
import { type Duration, Effect } from "effect"

/** Keeps up a fault whose duration is part of its definition, such as a table that is locked for five seconds. */
export const holdFault = (length: Duration.Input) => Effect.sleep(length)

/** Paces the clients and writers in a workload. */
export const paceWorkload = (pause: Duration.Input) => Effect.sleep(pause)

/**
 * Waits for the documented second after which the service must not serve older data. Waiting for the new response
 * instead would hide a response that comes too late.
 */
export const waitUntilOldDataExpires = Effect.sleep("1 second")

/**
 * Fails if the wait takes longer than `limit`, the time after which the statement would end by itself. Completing
 * within the limit proves that the statement was canceled.
 */
export const waitAtMost = <A, E, R>(wait: Effect.Effect<A, E, R>, limit: Duration.Input) => Effect.timeout(wait, limit)
