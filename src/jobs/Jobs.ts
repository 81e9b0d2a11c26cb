/**
 * What one process does for all (README, jobs). Each process asks for the leases of the jobs it could do; who gets one
 * does the job, and another takes over within seconds when that one died, was stopped or was cut off.
 */
import { Effect, Fiber, Latch, Layer, Option, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { HealthProbe } from "../db/health/HealthProbe.ts"
import type { Job } from "./Job.ts"
import { holderTtl, makeLeaseStatements, renewalInterval } from "./JobLease.ts"
import { dropLease, holdsLease, type JobState, makeJobState, runJob } from "./JobRunner.ts"

/** Renews the leases of all posts, and takes those that nobody has. */
const keeper = (
  { declare, take }: Pick<ReturnType<typeof makeLeaseStatements>, "declare" | "take">,
  posts: ReadonlyArray<JobState>,
) => {
  let [declared, away] = [false, false]

  const lose = (post: JobState) =>
    Effect.suspend(() => {
      dropLease(post)
      return Effect.logWarning(`The job ${post.name} is not this process's any more.`)
    })

  const turn = Effect.gen(function* () {
    if (!declared) yield* declare(posts.map(({ name }) => name))
    declared = true
    const asked = performance.now()
    const wanted = posts.filter(({ restsUntil }) => restsUntil <= asked)
    const mine = yield* take(wanted.map(({ name }) => name))
    away = false
    for (const post of wanted) {
      if (mine.includes(post.name)) {
        if (!post.mine.isOpen()) yield* Effect.logInfo(`The job ${post.name} is this process's now.`)
        post.until = asked + holderTtl
        post.mine.openUnsafe()
      } else if (post.mine.isOpen()) yield* lose(post)
    }
  })

  const failed = Effect.fnUntraced(function* (error: { readonly message: string }) {
    if (!away) yield* Effect.logWarning(`The leases of jobs cannot be renewed: ${error.message}`)
    away = true
    yield* Effect.forEach(posts.filter((post) => post.mine.isOpen() && !holdsLease(post)), lose, { discard: true })
  })

  return Effect.repeat(Effect.catch(Effect.timeout(turn, "3 seconds"), failed), Schedule.spaced(renewalInterval))
}

/** Takes part in the jobs for as long as the layer lives; at its end they are others' at once. */
export const jobsLayer = <E, R>(jobs: ReadonlyArray<Job<E, R>>) =>
  Layer.effectDiscard(Effect.gen(function* () {
    const { sql } = yield* HealthProbe
    const holder = SecureRandom.uuidV4Unsafe()
    const { held, release, ...asked } = makeLeaseStatements(sql, holder)
    const posts: Array<JobState> = []
    const give = (names: ReadonlyArray<string>) => Effect.ignore(Effect.timeout(release(names), "2 seconds"))

    // What is begun here ends in the other order: runs, what jobs have to finish, renewing, and then the leases.
    // In a fiber of its own, where timeouts work although the scope's fiber is no longer interruptible.
    const giveAll = Effect.suspend(() => give(posts.map(({ name }) => name)))
    yield* Effect.addFinalizer(() => Effect.flatMap(Effect.forkDetach(giveAll), Fiber.await))
    const all = yield* Latch.make()
    const keep = Effect.andThen(all.await, keeper(asked, posts))
    yield* Effect.forkScoped(Effect.withTracerEnabled(keep, false))

    const work: Array<Effect.Effect<never>> = []
    for (const { every, prepare: make, name } of jobs) {
      const one = makeJobState(name, every)
      const run = yield* make({ holder, isHeld: () => holdsLease(one), holderCondition: held(name) })
      if (Option.isNone(run)) continue
      work.push(yield* runJob(one, run.value, give([name])))
      posts.push(one)
    }
    if (posts.length === 0) return
    yield* Effect.forEach(work, (one) => Effect.forkScoped(Effect.withTracerEnabled(one, false)), { discard: true })
    yield* all.open
  }))
