/** What a check found, and the bounds within which every check stays. */
import { Cause, Duration, Effect } from "effect"
import { summarizeError } from "../ErrorReport.ts"

export type FindingState = "ok" | "warning" | "failed" | "skipped"

export interface Finding {
  readonly check: string
  readonly state: FindingState
  /** What is so; never a secret. */
  readonly found: string
  /** What to do, where something is to be done. */
  readonly advice?: string
}

export const passed = (check: string, found: string): Finding => ({ check, state: "ok", found })
export const skipped = (check: string, found: string): Finding => ({ check, state: "skipped", found })
export const warned = (check: string, found: string, advice: string): Finding => ({
  check,
  state: "warning",
  found,
  advice,
})
export const failed = (check: string, found: string, advice: string): Finding => ({
  check,
  state: "failed",
  found,
  advice,
})

/** One line of the checklist, or several. */
export interface DoctorCheck<E, R> {
  readonly name: string
  /** What to do where it fails by itself. */
  readonly advice?: string
  /** How long it may take; ten seconds by default. */
  readonly timeout?: Duration.Duration
  readonly effect: Effect.Effect<Finding | ReadonlyArray<Finding>, E, R>
}

const usual = Duration.seconds(10)

/** A check that fails or hangs is itself a finding: the others are told all the same. */
export const runCheck = <E, R>(
  { advice = "Mend that, and look again.", effect: look, name, timeout: patience = usual }: DoctorCheck<E, R>,
): Effect.Effect<ReadonlyArray<Finding>, never, R> =>
  look.pipe(
    Effect.map((found) => "state" in found ? [found] : found),
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () =>
        Effect.succeed([
          failed(name, `no answer within ${Duration.toSeconds(patience)} seconds`, "See whether it is overloaded."),
        ]),
    }),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeed([
        failed(name, summarizeError(Cause.squash(cause)) ?? "it could not be looked at", advice),
      ])
    ),
  )
