/**
 * D18: what a process knows of an account's running minute, and the permits of it that it has at hand. Who asks seldom
 * gets permits one by one, and nothing lies by for later. Who asks often gets as many as half a second needs, and fewer
 * the fewer are left; so none is idle at one process for long while another refuses. What other processes took
 * meanwhile is known after half a second at the latest.
 */
import { Data, type Deferred } from "effect"
import type { Share, Wish } from "./RateLimitStore.ts"

/** How long what was seen of a window is believed, in milliseconds; from half of it on it is looked at again. */
export const believed = 500

export class CounterAway extends Data.TaggedError("CounterAway")<{ readonly message: string }> {}

/** What is known of an account's window, on the clock that nobody sets. */
export interface Lease {
  readonly account_id: string
  limit: number
  window: string
  /** Permits at hand. */
  held: number
  /** What nobody had when it was looked at; below zero where another process has a higher limit. */
  left: number
  endsAt: number
  seenAt: number
  /** How many were used since. */
  taken: number
  /** What was asked for beyond the requests that waited. */
  ahead: number
  /** Requests that wait for permits. */
  waiting: number
  /** To be given back. */
  back: number
  /** Open while PostgreSQL is asked. */
  look: Deferred.Deferred<void, CounterAway> | undefined
}

export const unseen = (account_id: string, limit: number): Lease => ({
  account_id,
  limit,
  window: "",
  held: 0,
  left: 0,
  endsAt: -Infinity,
  seenAt: -Infinity,
  taken: 0,
  ahead: 0,
  waiting: 0,
  back: 0,
  look: undefined,
})

/** Which request of the window it is, above the limit where it is refused; and milliseconds to the window's end. */
export type Told = readonly [count: number, endsIn: number]

/** The answer to a request, where what is known suffices for one. */
export const take = (lease: Lease, limit: number, now: number): Told | undefined => {
  if (lease.limit !== limit || now >= lease.endsAt || now - lease.seenAt >= believed) return undefined
  const remaining = lease.left + lease.held
  if (lease.held > 0 && remaining > 0) {
    lease.held -= 1
    lease.taken += 1
    return [limit - remaining + 1, lease.endsAt - now]
  }
  return lease.left > 0 ? undefined : [limit + 1, lease.endsAt - now]
}

/** How many of the next half second's requests are still to be provided for, if they are as many as just now. */
const expected = ({ held, seenAt, taken }: Lease, now: number) =>
  taken < 2 ? 0 : Math.max(0, Math.ceil(taken * believed / Math.max(now - seenAt, 10)) - held)

export const isRunningOut = ({ ahead, held, left, seenAt }: Lease, now: number) =>
  now - seenAt >= believed / 2 || (left > 0 && held * 4 < ahead)

/** From the time before it was asked on, so that a window ends here no later than there. */
export const learn = (lease: Lease, { ends_in, given, used, window }: Share, asked: number) => {
  lease.held = given + (lease.window === window ? lease.held : 0)
  lease.window = window
  lease.left = lease.limit - used
  lease.endsAt = asked + ends_in
  lease.seenAt = asked
  lease.taken = 0
}

export const wishOf = (lease: Lease, asked: number): Wish => {
  const { account_id, back, endsAt, held, limit, waiting, window } = lease
  lease.ahead = expected(lease, asked)
  lease.back = 0
  // A window that ends takes along what is at hand, unless others have made it longer.
  const needed = Math.max(0, waiting - (asked < endsAt ? held : 0))
  return { account_id, limit, needed, ahead: lease.ahead, back, window }
}
