/**
 * Limits how long operations take. One fiber serves all operations, because one timer each would cost almost as much as
 * a short query.
 */
import { Duration, Effect } from "effect"
import { forkUntraced } from "../observability/BackgroundFibers.ts"
import { makeMonotonicClock } from "../observability/MonotonicTime.ts"

/** Returns `add` and `remove`. Each added function is called once `limit` has passed, unless it is removed first. */
export const makeDeadlineScheduler = Effect.fnUntraced(function* (limit: Duration.Duration) {
  const now = yield* makeMonotonicClock
  const limitMillis = Duration.toMillis(limit)
  /** When each function was added, in monotonic milliseconds, oldest first. */
  const pending = new Map<() => void, number>()
  let wake: (() => void) | undefined

  const waitForFirst = Effect.callback<void>((resume) => {
    wake = () => resume(Effect.yieldNow)
  })
  const expire = Effect.suspend(() => {
    for (const [onExpiry, addedAt] of pending) {
      const remaining = addedAt + limitMillis - now()
      if (remaining > 0) return Effect.sleep(remaining)
      pending.delete(onExpiry)
      onExpiry()
    }
    return waitForFirst
  })
  yield* forkUntraced(Effect.forever(expire))

  return {
    add: (onExpiry: () => void) => {
      const addedAt = now()
      pending.set(onExpiry, addedAt)
      const start = wake
      wake = undefined
      start?.()
      return addedAt
    },
    remove: (onExpiry: () => void) => {
      pending.delete(onExpiry)
    },
  }
})
