/**
 * Limits how many effects run concurrently, in total and per partition, so that one slow endpoint does not block the
 * others (§7.2, §8: database load). docs/decisions/0140-reader.md explains why this is not Effect's
 * `PartitionedSemaphore`.
 */
import { Duration, Effect, Function } from "effect"
import { forkUntraced } from "../metrics/BackgroundFibers.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { LinkedList, ListItem } from "./LinkedList.ts"

interface BulkheadOptions<Permit, E> {
  /**
   * The permits to hand out. A permit can be any object, such as a connection. The most recently released permit is
   * taken first.
   */
  readonly permits: ReadonlyArray<Permit>
  /**
   * How many permits one partition may hold. The default is all but a fifth, so that at least one remains for other
   * partitions.
   */
  readonly maxPerPartition?: number
  /**
   * Whether a caller fails immediately, instead of waiting, when its partition already has as many holders and waiters
   * as it may hold permits.
   */
  readonly isFullRefused?: boolean
  /** Maximum time to wait for a permit. */
  readonly timeout: Duration.Duration
  /** Creates the error for a caller whose wait timed out or was refused. */
  readonly onTimeout: (isPartitionFull: boolean) => E
  /**
   * Called before a released permit passes to the next caller. Returns false if the other free permits should be taken
   * before this one.
   */
  readonly onRelease?: (permit: Permit) => boolean
}

/**
 * Returns how many permits a partition may hold by default. A single permit cannot be divided, so partitions take turns
 * using it.
 */
const getDefaultShare = (permits: number) => permits === 1 ? 1 : permits - Math.max(1, Math.floor(permits / 5))

/**
 * If there are more partitions than this, idle ones are discarded, because there may be a partition for every customer.
 */
const maxIdlePartitions = 100

/** A group of effects that share a limit, such as all reads for one endpoint. */
export class BulkheadPartition<Permit extends object, E> extends ListItem<BulkheadPartition<Permit, E>> {
  readonly maxPermits: number
  /** Maximum time to wait for a permit, in milliseconds. */
  readonly timeoutMillis: number
  readonly waiters = new LinkedList<Claim<Permit, E>>()
  waiterCount = 0
  permitsInUse = 0

  constructor(maxPermits: number, timeoutMillis: number) {
    super()
    this.maxPermits = maxPermits
    this.timeoutMillis = timeoutMillis
  }

  isFull() {
    return this.permitsInUse >= this.maxPermits
  }
}

/** A caller's request for a permit. The caller holds a permit, waits for one, or does neither. */
class Claim<Permit extends object, E> extends ListItem<Claim<Permit, E>> {
  /** Undefined until the caller takes or waits for a permit. */
  partition: BulkheadPartition<Permit, E> | undefined
  permit: Permit | undefined
  /** When the wait times out, in monotonic milliseconds. */
  deadline = Infinity
  #result: Effect.Effect<Permit, E> | undefined
  #resume: (result: Effect.Effect<Permit, E>) => void = Function.constVoid

  /** Ends the wait with a result, even if the caller has not called `wait` yet. */
  settle(result: Effect.Effect<Permit, E>) {
    this.#result = result
    this.#resume(result)
  }

  /** Waits for the permit. Fails if the wait times out. */
  wait() {
    return Effect.callback<Permit, E>((resume) => {
      if (this.#result === undefined) this.#resume = resume
      else resume(this.#result)
    })
  }
}

/**
 * Hands out permits to callers. Callers in the same partition wait in order of arrival, and the partitions take turns.
 * A released permit passes to the next caller synchronously, at a cost that does not depend on the number of callers.
 */
class Bulkhead<Permit extends object, E> {
  readonly #free: Array<Permit>
  readonly #size: number
  readonly #maxPerPartition: number
  readonly #isFullRefused: boolean
  readonly #timeoutMillis: number
  readonly #onTimeout: (isPartitionFull: boolean) => E
  readonly #onRelease: (permit: Permit) => boolean
  readonly #now: () => number
  readonly #partitions = new Map<string, BulkheadPartition<Permit, E>>()
  /**
   * A queue of partitions that may take the next permit. The permit goes to the first waiter of the first partition. A
   * partition at its limit is not in the queue, because it must wait for one of its own permits.
   */
  readonly #turns = new LinkedList<BulkheadPartition<Permit, E>>()
  #waiterCount = 0
  #wakeTimer: (() => void) | undefined

  constructor({ onTimeout, permits, timeout, ...options }: BulkheadOptions<Permit, E>, now: () => number) {
    this.#free = permits.toReversed()
    this.#size = permits.length
    this.#maxPerPartition = options.maxPerPartition ?? getDefaultShare(permits.length)
    this.#isFullRefused = options.isFullRefused ?? false
    this.#timeoutMillis = Duration.toMillis(timeout)
    this.#onTimeout = onTimeout
    this.#onRelease = options.onRelease ?? Function.constTrue
    this.#now = now
  }

  readonly permitsInUse = () => this.#size - this.#free.length
  readonly waiterCount = () => this.#waiterCount

  /** Creates a partition that may hold all permits and whose callers wait without a time limit. */
  readonly makeUnlimitedPartition = () => new BulkheadPartition<Permit, E>(this.#size, Infinity)

  /** Runs an effect while holding one of the partition's permits. */
  readonly use = <A, Failure, R>(
    partition: string | BulkheadPartition<Permit, E>,
    run: (permit: Permit) => Effect.Effect<A, Failure, R>,
  ): Effect.Effect<A, E | Failure, R> =>
    Effect.suspend(() => {
      const claim = new Claim<Permit, E>()
      return Effect.onExit(
        // The permit is taken inside `onExit`, where its release is certain. The fiber could be interrupted between two
        // separate effects.
        Effect.suspend((): Effect.Effect<A, E | Failure, R> => {
          const permit = this.#begin(claim, partition)
          return permit === undefined ? Effect.flatMap(claim.wait(), run) : run(permit)
        }),
        () => {
          this.#end(claim)
          return Effect.void
        },
      )
    })

  readonly withPermit =
    (partition: string) => <A, Failure, R>(effect: Effect.Effect<A, Failure, R>): Effect.Effect<A, E | Failure, R> =>
      this.use(partition, () => effect)

  /** Takes a permit and holds it until the scope closes. */
  readonly acquireScoped = (partition: string | BulkheadPartition<Permit, E>) =>
    Effect.suspend(() => {
      const claim = new Claim<Permit, E>()
      const end = Effect.sync(() => this.#end(claim))
      return Effect.andThen(
        Effect.addFinalizer(() => end),
        Effect.onError(
          Effect.suspend((): Effect.Effect<Permit, E> => {
            const permit = this.#begin(claim, partition)
            return permit === undefined ? claim.wait() : Effect.succeed(permit)
          }),
          () => end,
        ),
      )
    })

  #findPartition(name: string) {
    const found = this.#partitions.get(name)
    if (found !== undefined) return found
    if (this.#partitions.size >= maxIdlePartitions) {
      for (const [idle, { permitsInUse, waiters }] of this.#partitions) {
        if (permitsInUse === 0 && waiters.first === undefined) this.#partitions.delete(idle)
      }
    }
    const partition = new BulkheadPartition<Permit, E>(this.#maxPerPartition, this.#timeoutMillis)
    this.#partitions.set(name, partition)
    return partition
  }

  #give(claim: Claim<Permit, E>, partition: BulkheadPartition<Permit, E>, permit: Permit) {
    claim.permit = permit
    partition.permitsInUse += 1
  }

  /**
   * Takes a free permit, or starts waiting for one. This is synchronous, so no other caller can change or discard the
   * partition in between. A new caller never overtakes a waiting one: while a permit is free, only callers in full
   * partitions wait.
   */
  #begin(claim: Claim<Permit, E>, name: string | BulkheadPartition<Permit, E>) {
    const partition = typeof name === "string" ? this.#findPartition(name) : name
    claim.partition = partition
    const permit = partition.isFull() ? undefined : this.#free.pop()
    if (permit === undefined) this.#wait(claim, partition)
    else this.#give(claim, partition, permit)
    return permit
  }

  /** Adds a caller to its partition's queue, or fails the claim immediately if the caller may not wait. */
  #wait(claim: Claim<Permit, E>, partition: BulkheadPartition<Permit, E>) {
    if (this.#isFullRefused && partition.permitsInUse + partition.waiterCount >= partition.maxPermits) {
      return claim.settle(Effect.fail(this.#onTimeout(true)))
    }
    if (partition.timeoutMillis <= 0) return claim.settle(Effect.fail(this.#onTimeout(partition.isFull())))
    partition.waiters.append(claim)
    partition.waiterCount += 1
    this.#waiterCount += 1
    this.#updateTurn(partition)
    if (partition.timeoutMillis === Infinity) return
    claim.deadline = this.#now() + partition.timeoutMillis
    // The fiber that ends expired waits sleeps until there is a waiter.
    const wake = this.#wakeTimer
    this.#wakeTimer = undefined
    wake?.()
  }

  #removeWaiter(claim: Claim<Permit, E>, partition: BulkheadPartition<Permit, E>) {
    partition.waiters.remove(claim)
    partition.waiterCount -= 1
    this.#waiterCount -= 1
    this.#updateTurn(partition)
  }

  /** Adds a partition to the queue if it has a waiter that may take a permit, and removes it otherwise. */
  #updateTurn(partition: BulkheadPartition<Permit, E>) {
    const isWaiting = partition.waiters.first !== undefined && !partition.isFull()
    if (isWaiting === partition.isListed) return
    if (isWaiting) this.#turns.append(partition)
    else this.#turns.remove(partition)
  }

  /** Ends a claim. Passes the permit to the next caller, or stops waiting for one. */
  #end(claim: Claim<Permit, E>) {
    const { partition, permit } = claim
    if (partition === undefined) return
    if (claim.isListed) return this.#removeWaiter(claim, partition)
    if (permit === undefined) return
    const isPreferred = this.#onRelease(permit)
    claim.permit = undefined
    partition.permitsInUse -= 1
    this.#updateTurn(partition)
    const nextPartition = this.#turns.first
    const next = nextPartition?.waiters.first
    if (nextPartition === undefined || next === undefined) {
      if (isPreferred) this.#free.push(permit)
      else this.#free.unshift(permit)
      return
    }
    // If the partition has more waiters, it goes to the end of the queue.
    this.#turns.remove(nextPartition)
    this.#give(next, nextPartition, permit)
    this.#removeWaiter(next, nextPartition)
    next.settle(Effect.succeed(permit))
  }

  readonly #waitForWaiter = Effect.callback<void>((resume) => {
    this.#wakeTimer = () => resume(Effect.yieldNow)
  })

  /**
   * Ends all waits that have timed out. One fiber serves all callers, because a timer per caller would be expensive.
   */
  readonly expireWaiters = Effect.suspend(() => {
    const now = this.#now()
    let deadline = Infinity
    for (const partition of this.#partitions.values()) {
      let claim = partition.waiters.first
      while (claim !== undefined && claim.deadline <= now) {
        this.#removeWaiter(claim, partition)
        claim.settle(Effect.fail(this.#onTimeout(partition.isFull())))
        claim = partition.waiters.first
      }
      deadline = Math.min(deadline, claim?.deadline ?? Infinity)
    }
    return deadline === Infinity ? this.#waitForWaiter : Effect.sleep(deadline - now)
  })
}

/** Creates a bulkhead. Until the scope closes, a background fiber ends waits that time out. */
export const makeBulkhead = Effect.fnUntraced(function* <Permit extends object, E>(
  options: BulkheadOptions<Permit, E>,
) {
  const bulkhead = new Bulkhead(options, yield* makeMonotonicClock)
  yield* forkUntraced(Effect.forever(bulkhead.expireWaiters))
  return bulkhead
})

/** Creates permits without a resource behind them, for work that only needs a concurrency limit. */
export const makePermits = (count: number) => Array.from({ length: count }, () => ({}))
