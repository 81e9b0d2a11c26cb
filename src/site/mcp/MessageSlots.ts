/** Limits the messages of one account that are in progress, so that a flood of them does not delay other accounts. */
import { Effect, Semaphore } from "effect"

/** Messages of one account that the process answers at once. */
const maxRunning = 8

/** Messages of one account whose body the process holds: those that it answers, and those that wait. */
export const maxMessagesPerAccount = 64

interface AccountSlots {
  readonly running: Semaphore.Semaphore
  held: number
}

export interface MessageSlot {
  /** Waits until fewer than `maxRunning` messages of the account are being answered. */
  readonly run: <A, E, R>(answer: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

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
          // Requests of others that have arrived in the meantime go first.
          use({ run: (answer) => running.withPermit(Effect.andThen(Effect.yieldNow, answer)) }),
        (slots) => release(account_id, slots),
      )
    })
}
