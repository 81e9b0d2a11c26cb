/** Caches the accounts of keys after a lookup, so that most requests need no lookup (D2, API keys). */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { hash } from "node:crypto"
import { repeatInBackground } from "../../observability/BackgroundFibers.ts"
import { getMonotonicMillis } from "../../observability/MonotonicTime.ts"
import type { CurrentAccount } from "./Authentication.ts"

/** How long the result of a lookup may be reused, ms. A revoked key must be refused within a second (D2, API keys). */
export const apiKeyCacheTtlMillis = 500

const maxKeys = 10_000

/** The result of a key lookup. */
export interface ApiKeyLookupResult {
  readonly account: typeof CurrentAccount.Service
  /** Start of the lookup (monotonic clock, ms). */
  readonly asOf: number
}

/** Accounts by the SHA-256 of their key. Entries are deleted when they expire, even if no request follows. */
export class ApiKeyCache extends Context.Service<ApiKeyCache, {
  /** Returns the account of a key, or undefined if the last lookup of the key is too long ago. */
  readonly find: (key: string) => typeof CurrentAccount.Service | undefined
  /** `digest` is the hexadecimal SHA-256 of the key. */
  readonly add: (digest: string, key: ApiKeyLookupResult) => void
  readonly getSize: () => number
}>()("tickerline/accounts/ApiKeyCache") {
  static readonly layer = Layer.effect(
    ApiKeyCache,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const keys = new Map<string, ApiKeyLookupResult>()

      const isCurrent = ({ asOf }: ApiKeyLookupResult) => getMonotonicMillis(clock) - asOf < apiKeyCacheTtlMillis

      const deleteExpired = Effect.sync(() => {
        for (const [digest, key] of keys) if (!isCurrent(key)) keys.delete(digest)
      })
      yield* repeatInBackground(deleteExpired, Duration.millis(apiKeyCacheTtlMillis / 2))

      return ApiKeyCache.of({
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
