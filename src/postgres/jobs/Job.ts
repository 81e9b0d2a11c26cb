/** The declaration of a background job. Each module declares its own jobs, and `Server.ts` lists them all. */
import type { Duration, Effect, Option } from "effect"
import type { Statement } from "effect/sql"

/** This process's claim to a job, so that only one process runs it at a time. */
export interface JobLease {
  /** Identifies this process in the `leases` table. All jobs of a process have the same holder. */
  readonly holder: string
  /** Whether the lease is still valid by this process's clock. Check it before any side effect outside the database. */
  readonly isHeld: () => boolean
  /** SQL condition that is true only while this process holds the lease. */
  readonly holderCondition: Statement.Fragment
}

/** How long this process leaves the job to others, for example because it cannot reach a server that the job needs. */
export type JobReleaseDuration = Duration.Duration

/** One run of a job. It is interrupted when the lease is lost. */
export type JobRun<R = never> = Effect.Effect<JobReleaseDuration | void, { readonly message: string }, R>

/** A background job. `E` and `R` are the errors and requirements of its preparation and runs. */
export interface Job<E, R> {
  /** The name, in lower case with hyphens. It identifies the lease, and labels metrics. */
  readonly name: string
  /** Pause between runs. After a failed run, the pause is at most a minute. */
  readonly every: Duration.Duration
  /** Called once at startup. Returns `None` if the settings exclude this process from the job. */
  readonly prepare: (lease: JobLease) => Effect.Effect<Option.Option<JobRun<R>>, E, R>
}
