/** One job in this process: waits for its lease, runs, and runs again; ends a run whose lease is lost. */
import { DateTime, Duration, Effect, Latch, Metric } from "effect"
import { initializeCounters, registerGauge } from "../observability/CallbackMetrics.ts"
import type { JobRun, ReleaseDuration } from "./Job.ts"

export interface JobState {
  readonly name: string
  readonly every: Duration.Duration
  /** Until when this process goes by its lease, on the clock of `performance.now`. */
  until: number
  /** Until when it leaves it to others. */
  restsUntil: number
  /** Open while it has the lease, as far as it was told. */
  readonly mine: Latch.Latch
}

export const makeJobState = (name: string, every: Duration.Duration): JobState => ({
  name,
  every,
  until: -Infinity,
  restsUntil: -Infinity,
  mine: Latch.makeUnsafe(),
})

export const holdsLease = ({ until }: JobState) => performance.now() < until

/** From now on it is not this process's. */
export const dropLease = (post: JobState) => {
  post.until = -Infinity
  post.mine.closeUnsafe()
}

/** Ends when the lease does. */
const lost = (post: JobState): Effect.Effect<void> =>
  Effect.suspend(() =>
    holdsLease(post) ? Effect.andThen(Effect.sleep(post.until - performance.now()), lost(post)) : Effect.void
  )

const [soonest, latest] = [Duration.seconds(5), Duration.minutes(1)]

/** The wait after so many failures in a row. */
export const retryDelay = (every: Duration.Duration, failures: number) =>
  Duration.min(every, Duration.min(latest, Duration.times(soonest, 2 ** Math.min(failures - 1, 10))))

const runsFailed = (job: string) =>
  Metric.counter("tickerline_job_failures_total", {
    description: "Runs of a job that failed, and are repeated.",
    attributes: { job },
    incremental: true,
  })

/** Goes on for ever; `leave` gives the lease to others. */
export const runJob = Effect.fnUntraced(function* (post: JobState, run: JobRun, leave: Effect.Effect<void>) {
  const { every, name } = post
  const counted = runsFailed(name)
  yield* initializeCounters(counted)
  let [failures, lastRun] = [0, 0]
  yield* registerGauge({
    name: "tickerline_job_held",
    description: "Whether this process does the job.",
    attributes: { job: name },
    read: () => holdsLease(post) ? 1 : 0,
  })
  yield* registerGauge({
    name: "tickerline_job_last_run_timestamp_seconds",
    description: "When this process did the job last, in seconds since 1970; 0: never.",
    attributes: { job: name },
    read: () => lastRun,
  })

  const failed = Effect.fnUntraced(function* (words: string) {
    failures += 1
    const wait = retryDelay(every, failures)
    yield* Metric.update(counted, 1)
    yield* Effect.logWarning(`The job ${name} failed, and is repeated in ${Duration.format(wait)}: ${words}`)
    return wait
  })

  const ended = Effect.fnUntraced(function* (rest: ReleaseDuration | void) {
    failures = 0
    lastRun = DateTime.toEpochMillis(yield* DateTime.now) / 1000
    if (rest !== undefined && !Duration.isZero(rest)) {
      post.restsUntil = performance.now() + Duration.toMillis(rest)
      dropLease(post)
      yield* leave
    }
    return every
  })

  const once = run.pipe(
    Effect.flatMap(ended),
    Effect.catch(({ message }) => failed(message)),
    Effect.catchDefect((defect) => failed(String(defect))),
    Effect.raceFirst(Effect.as(lost(post), Duration.zero)),
  )
  return Effect.forever(Effect.andThen(post.mine.await, Effect.flatMap(once, Effect.sleep)))
})
