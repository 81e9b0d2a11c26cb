/** Progress of a long operation, such as a load. */
import { Context } from "effect"

/** The operation updates this state, and `operate/cli/terminal/ProgressDisplay.ts` reads it. */
export class ProgressState {
  /** The current step. */
  label = ""
  /** The completed part of `total`, in the same unit. Only the percentage is shown. */
  done = 0
  /** Undefined if unknown, for example because the input is a pipe. */
  total: number | undefined
  /** How many items have been processed. `unit` is their name in the plural, such as `rows`. */
  count = 0
  unit = "rows"
  /** Hides the display while the operation asks the user a question. */
  isHidden = false
}

/**
 * The progress of the current operation. Commands without a progress display use the default value, which nothing
 * reads.
 */
export const OperationProgress = Context.Reference<ProgressState>("tickerline/postgres/OperationProgress", {
  defaultValue: () => new ProgressState(),
})
