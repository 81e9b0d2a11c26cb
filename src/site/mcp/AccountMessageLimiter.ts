/**
 * Limits the number of MCP messages in progress per account, so that many messages from one account do not delay other
 * accounts.
 */
import { Effect, Semaphore } from "effect"

/** The maximum number of an account's messages that the process handles concurrently. */
const maxRunning = 8

/** The maximum number of an account's messages in the process, including those that are waiting. */
export const maxMessagesPerAccount = 64

/** The messages of one account: `held` counts those in the process, and `running` limits those being handled. */
interface AccountSlots {
  readonly running: Semaphore.Semaphore
  held: number
}

/** Permission for one message of an account to be in the process. It is held until the message has been answered. */
export interface MessageSlot {
  /** Runs an effect as soon as fewer than `maxRunning` messages of the account are being handled. */
  readonly run: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/**
 * Returns a function that reserves a slot for each message. Of each account, up to 64 messages may hold a slot, and up
 * to 8 of these run at a time; the others wait. Further messages are refused. A message holds its slot until it has
 * been answered, but runs only within the slot's `run`.
 */
export const makeAccountMessageLimiter = () => {
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

  /** Reserves one of the account's slots while `use` runs. If no slot is free, runs `refuse` instead. */
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
          // Yields first, so that requests from other accounts that have arrived in the meantime are not delayed.
          use({ run: (effect) => running.withPermit(Effect.andThen(Effect.yieldNow, effect)) }),
        (slots) => release(account_id, slots),
      )
    })
}
