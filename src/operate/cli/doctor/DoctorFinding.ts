/** The results of `doctor`'s checks, and the function that runs a check. */
import { Cause, Config, Duration, Effect } from "effect"
import { summarizeError } from "../ErrorReport.ts"
import { toSettingProblems } from "../Settings.ts"

/** The state of a finding. `skipped` means that the check does not apply to this installation. */
export type DoctorFindingState = "ok" | "warning" | "failed" | "skipped"

/** The result of a check. */
export interface CheckResult {
  /** The label of the result, if it differs from the name of the check. */
  readonly check: string | undefined
  readonly state: DoctorFindingState
  /** What the check found. Must not contain secrets. */
  readonly found: string
  /** How to correct the problem. Present only for warnings and failures. */
  readonly advice?: string
}

/** The result of a check, with the label under which it is printed. */
export interface DoctorFinding extends CheckResult {
  readonly check: string
}

/** Creates the result of a check that found no problem. */
export const passed = (found: string, check?: string): CheckResult => ({ check, state: "ok", found })
/** Creates the result of a check that does not apply to this installation. */
export const skipped = (found: string, check?: string): CheckResult => ({ check, state: "skipped", found })

const makeProblem = (state: DoctorFindingState) => (found: string, advice: string, check?: string): CheckResult => ({
  check,
  state,
  found,
  advice,
})
/** Creates the result of a check that found a problem, but one that does not prevent the service from running. */
export const warning = makeProblem("warning")
/** Creates the result of a check that found a problem that prevents the service from running or endangers its data. */
export const failed = makeProblem("failed")

/** Lists up to six names, followed by the number of remaining names. */
export const formatNames = (names: ReadonlyArray<string>) =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`

interface DoctorCheck<E, R> {
  readonly name: string
  /** The advice to print if the effect fails. */
  readonly advice?: string
  /** The time limit for the check. Defaults to ten seconds. */
  readonly timeout?: Duration.Duration
  readonly effect: Effect.Effect<CheckResult | ReadonlyArray<CheckResult>, E, R>
}

const defaultTimeout = Duration.seconds(10)

/**
 * Runs a check, and returns its findings, labeled with the check's name unless they have another label. An error or a
 * timeout is reported as a finding, so that the remaining checks still run: an invalid setting with what is wrong with
 * it, and any other error with the check's `advice`.
 */
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
      // The user has pressed Ctrl-C, so the remaining checks must not run either.
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
