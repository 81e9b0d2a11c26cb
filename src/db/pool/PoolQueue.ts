/**
 * A first-in, first-out queue in front of a connection pool (§7.2, §8: database load).
 * docs/decisions/0020-pool-queue.md explains why it is not Effect's `PartitionedSemaphore`.
 */
import { type Duration, Effect, Function } from "effect"
import { makeDeadlineScheduler } from "../Deadlines.ts"

interface Waiter {
  readonly partition: string
  readonly grant: () => void
}

interface PoolQueueOptions<E> {
  readonly permits: number
  /** Default: four fifths of the permits, so that one slow endpoint does not block the others. */
  readonly maxPerPartition?: number
  readonly timeout: Duration.Duration
  /** Makes the error for a caller that timed out. */
  readonly onTimeout: (isPartitionFull: boolean) => E
}

/**
 * Limits how many effects run at once, in total and per partition. Callers wait in arrival order.
 * A released permit goes to the next waiter synchronously, so its connection never idles while a response is encoded.
 */
export const makePoolQueue = Effect.fnUntraced(function* <E>(
  { onTimeout, permits, timeout, ...options }: PoolQueueOptions<E>,
) {
  const deadlines = yield* makeDeadlineScheduler(timeout)
  const maxPerPartition = options.maxPerPartition ?? permits - Math.floor(permits / 5)
  const waiters = new Set<Waiter>()
  const inUse = new Map<string, number>()
  let available = permits

  const isPartitionFull = (partition: string) => (inUse.get(partition) ?? 0) >= maxPerPartition
  const canTake = (partition: string) => available > 0 && !isPartitionFull(partition)
  const addToPartition = (partition: string, change: 1 | -1) => {
    const count = (inUse.get(partition) ?? 0) + change
    available -= change
    if (count === 0) inUse.delete(partition)
    else inUse.set(partition, count)
  }

  const release = (partition: string) =>
    Effect.sync(() => {
      addToPartition(partition, -1)
      for (const waiter of waiters) {
        if (!canTake(waiter.partition)) continue
        addToPartition(waiter.partition, 1)
        waiters.delete(waiter)
        waiter.grant()
        return
      }
    })

  type Restore = <A, Failure, R>(effect: Effect.Effect<A, Failure, R>) => Effect.Effect<A, Failure, R>

  const take = (partition: string) => {
    if (!canTake(partition)) return false
    addToPartition(partition, 1)
    return true
  }

  /** Waits for a permit. Only the wait itself is interruptible, so that no granted permit is lost. */
  const waitForPermit = (partition: string, restore: Restore): Effect.Effect<void, E> =>
    Effect.suspend(() => {
      let isGranted = false
      let end: (result: Effect.Effect<void, E>) => void = Function.constVoid
      const waiter: Waiter = {
        partition,
        grant: () => {
          isGranted = true
          deadlines.remove(expire)
          end(Effect.void)
        },
      }
      const expire = () => {
        waiters.delete(waiter)
        end(Effect.fail(onTimeout(isPartitionFull(partition))))
      }
      const wait = Effect.callback<void, E>((resume) => {
        end = resume
        waiters.add(waiter)
        deadlines.add(expire)
      })
      return Effect.onError(restore(wait), () => {
        if (isGranted) return release(partition)
        waiters.delete(waiter)
        deadlines.remove(expire)
        return Effect.void
      })
    })

  const withPermit = (partition: string) => <A, Failure, R>(effect: Effect.Effect<A, Failure, R>) =>
    Effect.uninterruptibleMask<A, E | Failure, R>((restore) => {
      const run = Effect.onExit(restore(effect), () => release(partition))
      return take(partition) ? run : Effect.flatMap(waitForPermit(partition, restore), () => run)
    })

  /** Holds a permit until the scope closes. */
  const acquireScoped = (partition: string) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.andThen(
        take(partition) ? Effect.void : waitForPermit(partition, restore),
        Effect.addFinalizer(() => release(partition)),
      )
    )

  return { withPermit, acquireScoped, permitsInUse: () => permits - available, waiterCount: () => waiters.size }
})
