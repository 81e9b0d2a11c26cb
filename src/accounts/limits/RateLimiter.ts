/**
 * D18: the permits that this process has at hand, of all accounts that it hears of. A request is answered from them at
 * once; PostgreSQL is asked beside the requests' way, for all accounts together, and in their way where there are none.
 */
import { Clock, Deferred, Duration, Effect, Queue } from "effect"
import {
  believed,
  CounterAway,
  isRunningOut,
  learn,
  type Lease,
  take,
  type Told,
  unseen,
  wishOf,
} from "./RateLimitLease.ts"
import { permits } from "./RateLimitStore.ts"

/** Longer than that PostgreSQL is not asked. */
const patience = Duration.seconds(1)

/** Longer than that a request does not wait: a connection into nothing takes its time even to be given up. */
const longest = Duration.millis(1_500)

/** How long it is left alone once it did not answer. */
const pause = Duration.seconds(1)

/** Windows that one statement looks at. */
const mostAtOnce = 100

/** Counts together with all processes; fails at once while PostgreSQL does not answer. */
export const make = Effect.gen(function* () {
  const ask = yield* permits
  const clock = yield* Clock.Clock
  const time = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const leases = new Map<string, Lease>()
  const queue = yield* Queue.unbounded<Lease>()
  let away: CounterAway | undefined

  const lookAt = (lease: Lease) => {
    if (lease.look !== undefined) return lease.look
    lease.look = Deferred.makeUnsafe<void, CounterAway>()
    Queue.offerUnsafe(queue, lease)
    return lease.look
  }

  const settle = (those: ReadonlyArray<Lease>, outcome: Effect.Effect<void, CounterAway>) => {
    for (const lease of those) {
      const { look } = lease
      lease.look = undefined
      if (look !== undefined) Deferred.doneUnsafe(look, outcome)
    }
  }

  /** A connection that was lost is noticed by asking, and made anew for asking again. */
  const lookAtAll = Effect.fnUntraced(function* (those: ReadonlyArray<Lease>) {
    const asked = time()
    const wishes = those.map((lease) => wishOf(lease, asked))
    const shares = yield* ask(wishes).pipe(Effect.retry({ times: 1 }), Effect.timeout(patience))
    const found = new Map(shares.map((share) => [share.account_id, share]))
    for (const lease of those) {
      const share = found.get(lease.account_id)
      if (share !== undefined) learn(lease, share, asked)
    }
  })

  const answered = Effect.fnUntraced(function* (those: ReadonlyArray<Lease>) {
    if (away !== undefined) yield* Effect.logInfo("PostgreSQL counts requests again.")
    away = undefined
    settle(those, Effect.void)
  })

  const noteAway = Effect.fnUntraced(function* (message: string) {
    const isNews = away === undefined
    const noted = new CounterAway({ message })
    away = noted
    if (isNews) yield* Effect.logWarning(`PostgreSQL does not count requests, so this process does: ${message}`)
    return noted
  })

  /** All are told at once that it is away, and nobody waits for it until it answers again. */
  const unanswered = Effect.fnUntraced(function* (those: ReadonlyArray<Lease>, message: string) {
    settle(those, Effect.fail(yield* noteAway(message)))
    yield* Effect.sleep(pause)
  })

  const worker = Effect.gen(function* () {
    const those = yield* Queue.takeBetween(queue, away === undefined ? 1 : 0, mostAtOnce)
    yield* lookAtAll(those).pipe(
      Effect.catchDefect((defect) => Effect.fail(new CounterAway({ message: String(defect) }))),
      Effect.matchEffect({
        onSuccess: () => answered(those),
        onFailure: ({ message }) => unanswered(those, message),
      }),
    )
  })

  /** What lies idle goes back, and what says nothing any more is forgotten. */
  const tidy = Effect.sync(() => {
    const now = time()
    for (const lease of leases.values()) {
      if (lease.look !== undefined || now - lease.seenAt < believed) continue
      if (lease.held > 0 && away === undefined) {
        lease.back = lease.held
        lease.held = 0
        lookAt(lease)
      } else if (now >= lease.endsAt) leases.delete(lease.account_id)
    }
  })

  const leaseOf = (account_id: string, limit: number) => {
    const known = leases.get(account_id)
    if (known !== undefined) return known
    const made = unseen(account_id, limit)
    leases.set(account_id, made)
    return made
  }

  const consume = (account_id: string, limit: number): Effect.Effect<Told, CounterAway> =>
    Effect.suspend(() => {
      const now = time()
      const lease = leaseOf(account_id, limit)
      const told = take(lease, limit, now)
      if (told !== undefined) {
        if (isRunningOut(lease, now)) lookAt(lease)
        return Effect.succeed(told)
      }
      lease.limit = limit
      const look = lookAt(lease)
      if (away !== undefined) return Effect.fail(away)
      lease.waiting += 1
      return Deferred.await(look).pipe(
        Effect.timeoutOrElse({ duration: longest, orElse: () => Effect.flip(noteAway("it does not answer")) }),
        Effect.ensuring(Effect.sync(() => lease.waiting -= 1)),
        Effect.andThen(consume(account_id, limit)),
      )
    })

  // The first request shall not wait for a connection; where there is none yet it is made later.
  yield* Effect.ignore(Effect.timeout(ask([]), "2 seconds"))
  const inBackground = (work: Effect.Effect<void>) =>
    Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(work), false))
  yield* inBackground(worker)
  yield* inBackground(Effect.delay(tidy, believed / 2))
  return { consume, isAway: () => away !== undefined }
})
