/**
 * D2: the accounts of keys that were looked up within the last half second, so that the fast path can ask without a
 * fiber. Keys are remembered by their SHA-256 and dropped after half a second, whether or not another request comes.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { hash } from "node:crypto"
import type { Account } from "../accounts/keys/Authentication.ts"

type Who = typeof Account.Service

/** A revocation is seen within a second, by every instance: what the table said is believed for half of one. */
export const keyTtlMillis = 500

/** What the table said of a key, and when it was asked, in milliseconds of the monotonic clock. */
export interface RecentKey {
  readonly account: Who
  readonly asOf: number
}

const maxKeys = 10_000

/** Milliseconds of the monotonic clock. */
export const getMonotonicMillis = (clock: Clock.Clock) => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

export class RecentKeys extends Context.Service<RecentKeys, {
  readonly find: (key: string) => Who | undefined
  /** Remembers the account of a key by the key's SHA-256, hexadecimal. */
  readonly note: (digest: string, known: RecentKey) => void
  /** How many keys are remembered. */
  readonly size: () => number
}>()("tickerline/account/RecentKeys") {
  static readonly layer = Layer.effect(
    RecentKeys,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const keys = new Map<string, RecentKey>()

      const isCurrent = ({ asOf }: RecentKey) => getMonotonicMillis(clock) - asOf < keyTtlMillis

      const expire = Effect.sync(() => {
        for (const [digest, known] of keys) if (!isCurrent(known)) keys.delete(digest)
      })
      yield* Effect.forkScoped(
        Effect.withTracerEnabled(Effect.forever(Effect.delay(expire, Duration.millis(keyTtlMillis / 2))), false),
      )

      return {
        find: (key) => {
          if (key === "" || keys.size === 0) return undefined
          const known = keys.get(hash("sha256", key, "hex"))
          return known !== undefined && isCurrent(known) ? known.account : undefined
        },
        note: (digest, known) => {
          if (keys.size >= maxKeys) keys.clear()
          keys.set(digest, known)
        },
        size: () => keys.size,
      }
    }),
  )
}
