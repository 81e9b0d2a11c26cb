/** The results of doctor's checks, and the function that runs a check. */
import { Cause, Config, Duration, Effect } from "effect"
import { summarizeError } from "../ErrorReport.ts"
import { toSettingProblems } from "../Settings.ts"

/** The severity of a finding. `skipped` means that the check does not apply here. */
export type DoctorFindingState = "ok" | "warning" | "failed" | "skipped"

/** The result of a check. */
export interface CheckResult {
  /** What was checked, if that is not the name of the check. */
  readonly check: string | undefined
  readonly state: DoctorFindingState
  /** What the check found. Contains no secrets. */
  readonly found: string
  /** How to correct the problem; only for warnings and failures. */
  readonly advice?: string
}

/** A result with the name under which it is printed. */
export interface DoctorFinding extends CheckResult {
  readonly check: string
}

/** Returns the result of a check that found no problem. */
export const passed = (found: string, check?: string): CheckResult => ({ check, state: "ok", found })
/** Returns the result of a check that does not apply here. */
export const skipped = (found: string, check?: string): CheckResult => ({ check, state: "skipped", found })

const makeProblem = (state: DoctorFindingState) => (found: string, advice: string, check?: string): CheckResult => ({
  check,
  state,
  found,
  advice,
})
/** Returns a problem that does not stop the service. */
export const warning = makeProblem("warning")
/** Returns a problem that stops the service or endangers its data. */
export const failed = makeProblem("failed")

/** Lists at most six names, and how many more there are. */
export const formatNames = (names: ReadonlyArray<string>) =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`

interface DoctorCheck<E, R> {
  readonly name: string
  /** Advice to give if the effect fails. */
  readonly advice?: string
  /** Time limit for the check, ten seconds by default. */
  readonly timeout?: Duration.Duration
  readonly effect: Effect.Effect<CheckResult | ReadonlyArray<CheckResult>, E, R>
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
          (problems) => problems.map(({ fix, problem }) => failed(problem, fix)),
        )
      }
      const found = summarizeError(error) ?? "the check ended with an unexpected error"
      return Effect.succeed([failed(found, advice)])
    }),
    Effect.map((results) => results.map((result) => ({ ...result, check: result.check ?? name }))),
  )
