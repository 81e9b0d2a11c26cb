/** Remembers the accounts of recently looked-up keys, so that most requests need no lookup (D2, API keys). */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { hash } from "node:crypto"
import { repeatInBackground } from "../../observability/BackgroundFibers.ts"
import { getMonotonicMillis } from "../../observability/MonotonicTime.ts"
import type { Account } from "./Authentication.ts"

/** How long a key lookup may be reused, ms. A revoked key is refused within one second (D2, API keys). */
export const keyTtlMillis = 500

const maxKeys = 10_000

/** The result of a key lookup. */
export interface RecentKey {
  readonly account: typeof Account.Service
  /** Start of the lookup, monotonic milliseconds. */
  readonly asOf: number
}

/** Accounts by the SHA-256 of their key. Entries are deleted when they expire, even if no request follows. */
export class RecentKeys extends Context.Service<RecentKeys, {
  /** Returns the account of a key; undefined if the key was not looked up recently. */
  readonly find: (key: string) => typeof Account.Service | undefined
  /** `digest` is the key's SHA-256, hexadecimal. */
  readonly add: (digest: string, key: RecentKey) => void
  readonly getSize: () => number
}>()("tickerline/accounts/RecentKeys") {
  static readonly layer = Layer.effect(
    RecentKeys,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const keys = new Map<string, RecentKey>()

      const isCurrent = ({ asOf }: RecentKey) => getMonotonicMillis(clock) - asOf < keyTtlMillis

      const deleteExpired = Effect.sync(() => {
        for (const [digest, key] of keys) if (!isCurrent(key)) keys.delete(digest)
      })
      yield* repeatInBackground(deleteExpired, Duration.millis(keyTtlMillis / 2))

      return RecentKeys.of({
        find: (key) => {
          if (key === "" || keys.size === 0) return undefined
          const found = keys.get(hash("sha256", key, "hex"))
          return found !== undefined && isCurrent(found) ? found.account : undefined
        },
        add: (digest, key) => {
          if (keys.size >= maxKeys) keys.clear()
          keys.set(digest, key)
        },
        getSize: () => keys.size,
      })
    }),
  )
}
