/** The interface of a background job. Each module declares its own jobs, and `Server.ts` lists them all. */
import type { Duration, Effect, Option } from "effect"
import type { Statement } from "effect/sql"

/** This process's lease on a job. Only one process holds the lease and runs the job at a time. */
export interface JobLease {
  /** Identifies this process in the `leases` table. It is the same for all jobs of the process. */
  readonly holder: string
  /**
   * Returns whether the lease is still valid by this process's clock. Check it before any side effect outside the
   * database.
   */
  readonly isHeld: () => boolean
  /** An SQL condition that is true only while this process holds the lease. */
  readonly holderCondition: Statement.Fragment
}

/**
 * How long this process leaves the job to other processes, for example because it cannot reach a server that the job
 * needs.
 */
export type JobReleaseDuration = Duration.Duration

/** A single run of a job. It is interrupted if the lease is lost. */
export type JobRun<R = never> = Effect.Effect<JobReleaseDuration | void, { readonly message: string }, R>

/** A background job. `E` is the error type of `prepare`; `R` is the context that `prepare` and the runs require. */
export interface Job<E, R> {
  /** The job's name, in lower case with hyphens. It identifies the lease and labels metrics. */
  readonly name: string
  /** The pause between runs. After a failed run, the pause is at most one minute. */
  readonly every: Duration.Duration
  /** Called once at startup. Returns `None` if this process must not run the job because of its settings. */
  readonly prepare: (lease: JobLease) => Effect.Effect<Option.Option<JobRun<R>>, E, R>
}
