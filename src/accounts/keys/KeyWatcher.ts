/**
 * Repeatedly checks the keys of open streams and exports, so that they end within a second after their key is revoked
 * (D2, API keys).
 */
import { Context, Duration, Effect, Latch, Layer } from "effect"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"
import type { CurrentAccount } from "../../contract/Authentication.ts"
import { makeAccountsByKeyReader } from "./KeyLookup.ts"

type Account = typeof CurrentAccount.Service

const checkInterval = Duration.millis(500)

interface WatchedKey {
  readonly keyId: number
  readonly onCheck: (current: Account | undefined) => void
}

/**
 * Builds the watcher of the keys with which streams and exports were opened. Twice a second, it reads all of these keys
 * with one statement, and tells each stream and export the current state of its account (`onCheck`).
 */
const makeKeyWatcher = Effect.gen(function* () {
  const readKeysInUse = yield* makeAccountsByKeyReader
  const watched = new Set<WatchedKey>()
  const hasWatched = yield* Latch.make()

  /** Checks all watched keys with one statement. */
  const checkKeys = Effect.gen(function* () {
    yield* hasWatched.await
    const checked = Array.from(watched)
    const accounts = yield* readKeysInUse(Array.from(new Set(checked.map(({ keyId }) => keyId))))
    for (const { keyId, onCheck } of checked) onCheck(accounts.get(keyId))
  }).pipe(Effect.ignore, Effect.catchDefect(logDefectAsInternalError))
  yield* repeatInBackground(checkKeys, checkInterval)

  const add = (key: WatchedKey) => {
    watched.add(key)
    hasWatched.openUnsafe()
    return key
  }
  const remove = (key: WatchedKey) => {
    watched.delete(key)
    if (watched.size === 0) hasWatched.closeUnsafe()
  }
  return {
    /**
     * Calls `onCheck` twice a second until the scope closes. Its argument is the account of the key as it is now, or
     * undefined if the key has been revoked or disabled or has expired. Does not call it while the database is
     * unreachable.
     */
    watch: ({ key_id: keyId }: Account, onCheck: WatchedKey["onCheck"]) =>
      Effect.asVoid(Effect.acquireRelease(
        Effect.sync(() => add({ keyId, onCheck })),
        (key) => Effect.sync(() => remove(key)),
      )),
  }
})

/** Watches the keys of open streams and exports. */
export class KeyWatcher extends Context.Service<KeyWatcher, Effect.Success<typeof makeKeyWatcher>>()(
  "tickerline/accounts/KeyWatcher",
) {
  static readonly layer = Layer.effect(KeyWatcher, makeKeyWatcher)
}
