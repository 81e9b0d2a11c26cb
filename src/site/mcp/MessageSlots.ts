/** Limits how many messages of one account are in progress, so that a flood of them does not delay other accounts. */
import { Effect, Semaphore } from "effect"

/** Maximum number of messages of an account that the process handles at once. */
const maxRunning = 8

/** Maximum number of messages of an account that the process holds, both running and waiting. */
export const maxMessagesPerAccount = 64

interface AccountSlots {
  readonly running: Semaphore.Semaphore
  held: number
}

/** A message's place among the messages of its account. */
export interface MessageSlot {
  /** Runs an effect once fewer than `maxRunning` messages of the account are being handled. */
  readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Creates the slots of all accounts. */
export const makeMessageSlots = () => {
  const accounts = new Map<number, AccountSlots>()

  const take = (account_id: number) => {
    const slots = accounts.get(account_id) ?? { running: Semaphore.makeUnsafe(maxRunning), held: 0 }
    accounts.set(account_id, slots)
    slots.held += 1
    return slots
  }

  const release = (account_id: number, slots: AccountSlots) =>
    Effect.sync(() => {
      slots.held -= 1
      if (slots.held === 0) accounts.delete(account_id)
    })

  /** Holds a slot of the account while `use` runs. Runs `refuse` instead if the account has no slot left. */
  return <A, E, R>(
    account_id: number,
    use: (slot: MessageSlot) => Effect.Effect<A, E, R>,
    refuse: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      if ((accounts.get(account_id)?.held ?? 0) >= maxMessagesPerAccount) return refuse
      return Effect.acquireUseRelease(
        Effect.sync(() => take(account_id)),
        ({ running }) =>
          // Yields first, so that requests of other accounts that have arrived in the meantime are not delayed.
          use({ run: (effect) => running.withPermit(Effect.andThen(Effect.yieldNow, effect)) }),
        (slots) => release(account_id, slots),
      )
    })
}
