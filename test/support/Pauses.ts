/** The only pauses by the clock of the machine in tests. `test/README.md` gives the reasons for them. */
import { type Duration, Effect } from "effect"

/** Lets a fault last that has a length by definition, such as a table that is locked for five seconds. */
export const holdFault = (length: Duration.Input) => Effect.sleep(length)

/** Paces the clients and writers of a workload. */
export const paceWorkload = (pause: Duration.Input) => Effect.sleep(pause)

/** Waits for the documented second after which nothing older may be served. A condition would hide what comes late. */
export const waitUntilOldDataExpires = Effect.sleep("1 second")

/**
 * Fails if the wait takes longer than the limit: the time after which a statement ends by itself. Shows that it was
 * cancelled.
 */
export const waitAtMost = <A, E, R>(wait: Effect.Effect<A, E, R>, limit: Duration.Input) => Effect.timeout(wait, limit)
