/** Results of doctor checks, and the function that runs a check. */
import { Cause, Config, Duration, Effect } from "effect"
import { summarizeError } from "../ErrorReport.ts"
import { toSettingProblems } from "../Settings.ts"

export type DoctorFindingState = "ok" | "warning" | "failed" | "skipped"

export interface DoctorFinding {
  readonly check: string
  readonly state: DoctorFindingState
  /** The result of the check. Contains no secrets. */
  readonly found: string
  /** How to correct the problem. Present for warnings and failures. */
  readonly advice?: string
}

export const passed = (check: string, found: string): DoctorFinding => ({ check, state: "ok", found })
export const skipped = (check: string, found: string): DoctorFinding => ({ check, state: "skipped", found })
export const warning = (check: string, found: string, advice: string): DoctorFinding => ({
  check,
  state: "warning",
  found,
  advice,
})
export const failed = (check: string, found: string, advice: string): DoctorFinding => ({
  check,
  state: "failed",
  found,
  advice,
})

interface DoctorCheck<E, R> {
  readonly name: string
  /** Advice to give if the effect fails. */
  readonly advice?: string
  /** Maximum duration of the check, ten seconds by default. */
  readonly timeout?: Duration.Duration
  readonly effect: Effect.Effect<DoctorFinding | ReadonlyArray<DoctorFinding>, E, R>
}

const defaultTimeout = Duration.seconds(10)

/** Runs a check. An error or a timeout becomes a finding, so that the other checks still run. */
export const runDoctorCheck = <E, R>(
  { advice = "Correct this, then run doctor again.", effect, name, timeout = defaultTimeout }: DoctorCheck<E, R>,
): Effect.Effect<ReadonlyArray<DoctorFinding>, never, R> =>
  effect.pipe(
    Effect.map((found) => "state" in found ? [found] : found),
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        Effect.succeed([
          failed(
            name,
            `no answer within ${Duration.toSeconds(timeout)} seconds`,
            "Find out whether the server is overloaded or unreachable.",
          ),
        ]),
    }),
    Effect.catchCause((cause) => {
      const error = Cause.squash(cause)
      if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
      if (error instanceof Config.ConfigError) {
        return Effect.map(
          toSettingProblems(error),
          (problems) => problems.map(({ fix, problem }) => failed(name, problem, fix)),
        )
      }
      const found = summarizeError(error) ?? "the check ended with an unexpected error"
      return Effect.succeed([failed(name, found, advice)])
    }),
  )
