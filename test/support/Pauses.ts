/** The only pauses by the machine's clock in tests. `test/README.md` gives the reason for each. */
import { type Duration, Effect } from "effect"

/** Lets a fault last that has a length by definition, for example a table that is locked for five seconds. */
export const holdFault = (length: Duration.Input) => Effect.sleep(length)

/** Paces the clients and writers of a workload. */
export const paceWorkload = (pause: Duration.Input) => Effect.sleep(pause)

/**
 * Waits for the documented second after which nothing older may be served. Waiting for the new response instead would
 * hide one that comes too late.
 */
export const waitUntilOldDataExpires = Effect.sleep("1 second")

/**
 * Fails if the wait takes longer than the limit, which is the time after which the statement would end by itself. That
 * proves that it was cancelled.
 */
export const waitAtMost = <A, E, R>(wait: Effect.Effect<A, E, R>, limit: Duration.Input) => Effect.timeout(wait, limit)
