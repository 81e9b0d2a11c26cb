/**
 * Runs background jobs, each in one process at a time. Every process competes for the leases of its jobs. If the
 * process that holds a lease dies, stops or is cut off, another process takes over within seconds.
 */
import { DateTime, Duration, Effect, Latch, Layer, Metric, Option, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { HealthProbe } from "../health/HealthProbe.ts"
import { describeFailure } from "../FailureText.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { addForkedFinalizer, forkUntraced } from "../metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerGauge } from "../metrics/CallbackMetrics.ts"
import type { Job, JobReleaseDuration, JobRun } from "./Job.ts"
import { doublingSchedule } from "./RetryDelay.ts"
import { jobLeaseHolderTtlMillis, jobLeaseRenewalInterval, makeJobLeaseStatements } from "./JobLease.ts"

/** The state of a job in this process. Times are monotonic milliseconds. */
class JobState {
  readonly name: string
  readonly every: Duration.Duration
  leaseExpiresAt = -Infinity
  /** This process does not try to take the lease before this time. */
  releasedUntil = -Infinity
  /** The latch is open while this process holds the lease, as of the last renewal. */
  readonly leaseLatch = Latch.makeUnsafe()

  constructor(name: string, every: Duration.Duration) {
    this.name = name
    this.every = every
  }
}

const dropLease = (job: JobState) => {
  job.leaseExpiresAt = -Infinity
  job.leaseLatch.closeUnsafe()
}

const handleLostLease = (job: JobState) =>
  Effect.suspend(() => {
    dropLease(job)
    return Effect.logWarning(`This process no longer runs the job ${job.name}.`)
  })

/** Returns the delays after consecutive failures: from 5 seconds up to one minute, but never longer than `every`. */
export const makeJobRetrySchedule = (every: Duration.Duration) =>
  doublingSchedule("5 seconds", Duration.min(every, Duration.minutes(1)))

const makeFailureCounter = (job: string) =>
  makeCounter("tickerline_job_failures_total", "Failed runs of a job; each is retried.", { job })

/**
 * Returns the loop that runs a job while this process holds the job's lease. After a successful run, the loop waits for
 * the job's interval; after a failed one, for the delay of its retry schedule. If the lease expires during a run, the
 * run is interrupted. `release` frees the lease for other processes.
 *
 * Another fiber takes and renews the leases. It stores in `job` until when the lease is held (`leaseExpiresAt`), and
 * keeps the latch `leaseLatch` open while it is.
 */
const makeJobLoop = Effect.fnUntraced(function* (job: JobState, run: JobRun, release: Effect.Effect<void>) {
  const now = yield* makeMonotonicClock
  const { every, name } = job
  const failureCount = makeFailureCounter(name)
  yield* initializeCounters(failureCount)
  let lastRunSeconds = 0
  yield* registerGauge({
    name: "tickerline_job_held",
    description: "1 if this process runs the job, else 0.",
    attributes: { job: name },
    read: () => now() < job.leaseExpiresAt ? 1 : 0,
  })
  yield* registerGauge({
    name: "tickerline_job_last_run_timestamp_seconds",
    description: "Unix time at which this process last completed the job; 0 if never.",
    attributes: { job: name },
    read: () => lastRunSeconds,
  })

  const retrySchedule = makeJobRetrySchedule(every).pipe(Schedule.tap(({ duration, input }) => {
    const message = `The job ${name} failed and will be retried in ${Duration.format(duration)}`
    return Effect.andThen(Metric.update(failureCount, 1), Effect.logWarning(`${message}: ${describeFailure(input)}`))
  }))

  /** Releases the lease if the run asked for that. Returns the pause before the next run. */
  const onSuccess = Effect.fnUntraced(function* (releaseFor: JobReleaseDuration | void) {
    lastRunSeconds = DateTime.toEpochMillis(yield* DateTime.now) / 1000
    if (releaseFor !== undefined && !Duration.isZero(releaseFor)) {
      job.releasedUntil = now() + Duration.toMillis(releaseFor)
      dropLease(job)
      yield* release
    }
    return every
  })

  /** Completes when the lease expires. Each renewal postpones the expiry. */
  const leaseExpiry: Effect.Effect<void> = Effect.suspend(() => {
    const remaining = job.leaseExpiresAt - now()
    return remaining > 0 ? Effect.andThen(Effect.sleep(remaining), leaseExpiry) : Effect.void
  })

  /**
   * Runs the job once. Returns the pause before the next run. There is none if the lease was lost, because the loop
   * then waits for the lease.
   */
  const runOnce = run.pipe(
    Effect.flatMap(onSuccess),
    // A defect is retried like any other failure. It must not end the loop.
    Effect.catchDefect((defect) => Effect.fail(defect)),
    // If a renewal hangs, the latch is still open when the lease expires. `handleLostLease` closes the latch, so that
    // the loop does not start another run.
    Effect.raceFirst(Effect.as(Effect.andThen(leaseExpiry, handleLostLease(job)), Duration.zero)),
  )
  return Effect.andThen(job.leaseLatch.await, runOnce).pipe(
    Effect.retry(retrySchedule),
    Effect.orDie,
    Effect.flatMap(Effect.sleep),
    Effect.forever,
  )
})

/** Returns the loop that renews this process's leases and takes free leases. */
const makeLeaseLoop = Effect.fnUntraced(function* (
  { declare, take }: Pick<ReturnType<typeof makeJobLeaseStatements>, "declare" | "take">,
  jobs: ReadonlyArray<JobState>,
) {
  const now = yield* makeMonotonicClock
  let [areDeclared, isFailing] = [false, false]

  /**
   * Renews the leases, and opens or closes each job's latch according to whether this process now holds the job's
   * lease.
   */
  const renew = Effect.gen(function* () {
    if (!areDeclared) yield* declare(jobs.map(({ name }) => name))
    areDeclared = true
    const requestedAt = now()
    const candidates = jobs.filter(({ releasedUntil }) => releasedUntil <= requestedAt)
    const held = yield* take(candidates.map(({ name }) => name))
    isFailing = false
    for (const job of candidates) {
      // The job may have released the lease on purpose while the statement ran. In that case, do not take it back.
      if (job.releasedUntil > now()) continue
      if (held.includes(job.name)) {
        if (!job.leaseLatch.isOpen()) yield* Effect.logInfo(`This process now runs the job ${job.name}.`)
        job.leaseExpiresAt = requestedAt + jobLeaseHolderTtlMillis
        job.leaseLatch.openUnsafe()
      } else if (job.leaseLatch.isOpen()) yield* handleLostLease(job)
    }
  })

  /** Logs only the first of several consecutive failures. Gives up the leases that have expired without a renewal. */
  const onFailure = Effect.fnUntraced(function* (error: unknown) {
    if (!isFailing) yield* Effect.logWarning(`Job leases cannot be renewed: ${describeFailure(error)}`)
    isFailing = true
    const expired = jobs.filter((job) => job.leaseLatch.isOpen() && now() >= job.leaseExpiresAt)
    yield* Effect.forEach(expired, handleLostLease, { discard: true })
  })

  return Effect.repeat(
    Effect.catch(Effect.timeout(renew, "3 seconds"), onFailure),
    Schedule.spaced(jobLeaseRenewalInterval),
  )
})

/**
 * Runs the jobs whose leases this process obtains. Competes for the leases until the layer closes, then releases all of
 * them in one statement. A job whose `prepare` returns `None` is disabled and has no lease.
 */
export const jobRunnerLayer = <E, R>(jobs: ReadonlyArray<Job<E, R>>) =>
  Layer.effectDiscard(Effect.gen(function* () {
    const { sql } = yield* HealthProbe
    const context = yield* Effect.context<R>()
    const now = yield* makeMonotonicClock
    const holder = SecureRandom.uuidV4Unsafe()
    const { holderCondition, release, ...statements } = makeJobLeaseStatements(sql, holder)
    const states: Array<JobState> = []
    const tryRelease = (names: ReadonlyArray<string>) => Effect.ignore(Effect.timeout(release(names), "2 seconds"))

    // Finalizers run in reverse order, so this one runs last: after the runs have stopped, the jobs' own finalizers
    // have completed, and renewals have stopped.
    yield* addForkedFinalizer(Effect.suspend(() => tryRelease(states.map(({ name }) => name))))
    // The loop that takes leases must not start before all jobs are prepared, so it waits for this latch. It is forked
    // before the jobs nevertheless, because its finalizer must run after theirs.
    const allPrepared = yield* Latch.make()
    const leaseLoop = yield* makeLeaseLoop(statements, states)
    yield* forkUntraced(Effect.andThen(allPrepared.await, leaseLoop))

    const loops: Array<Effect.Effect<never>> = []
    for (const { every, name, prepare } of jobs) {
      const state = new JobState(name, every)
      const run = yield* prepare({
        holder,
        isHeld: () => now() < state.leaseExpiresAt,
        holderCondition: holderCondition(name),
      })
      if (Option.isNone(run)) continue
      loops.push(yield* makeJobLoop(state, Effect.provide(run.value, context), tryRelease([name])))
      states.push(state)
    }
    if (states.length === 0) return
    yield* Effect.forEach(loops, forkUntraced, { discard: true })
    yield* allPrepared.open
  }))
