/** Progress of a long operation, such as a load. */
import { Context } from "effect"

/** The operation updates this state, and `operate/cli/terminal/ProgressDisplay.ts` reads it. */
export class ProgressState {
  /** The current step. */
  label = ""
  /** Completed part of `total`, in the same unit as `total`. Only the percentage is shown. */
  done = 0
  /** Undefined if unknown, for example because the input is a pipe. */
  total: number | undefined
  /** Number of processed items. `unit` names the items in the plural, such as `rows`. */
  count = 0
  unit = "rows"
  /** Whether the progress is not shown, because the operation asks a question. */
  isHidden = false
}

/** The progress of the current operation. Commands without a progress display use the default, which nobody reads. */
export const OperationProgress = Context.Reference<ProgressState>("tickerline/postgres/OperationProgress", {
  defaultValue: () => new ProgressState(),
})
