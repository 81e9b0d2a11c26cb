/** How a job is declared, in the room whose work it is; `Server.ts` lists them. */
import type { Duration, Effect, Option } from "effect"
import type { Statement } from "effect/sql"

export interface JobLease {
  /** Of this process, the same for all of its jobs. */
  readonly holder: string
  /** By this process's own clock; what is no statement asks it before it acts, for a process may have been stopped. */
  readonly isHeld: () => boolean
  /** A condition for statements that only the holder may make. */
  readonly holderCondition: Statement.Fragment
}

/** For so long the job is left to others, which may reach what this process does not. */
export type ReleaseDuration = Duration.Duration

/** Interrupted when the lease is lost. */
export type JobRun = Effect.Effect<ReleaseDuration | void, { readonly message: string }>

export interface Job<E, R> {
  /** Of its lease and in its measures: lower case, with hyphens. */
  readonly name: string
  /** From the end of a run to the beginning of the next; one that failed is repeated sooner. */
  readonly every: Duration.Duration
  /** Made once, at the start; none where settings do not want this process to do it. */
  readonly prepare: (lease: JobLease) => Effect.Effect<Option.Option<JobRun>, E, R>
}
