/** The progress of a long operation, such as a load. */
import { Context } from "effect"

/**
 * The progress of an operation. The operation updates it, and `operate/cli/terminal/ProgressDisplay.ts` displays it.
 */
export class ProgressState {
  /** A description of the current step. */
  label = ""
  /** How much of `total` is done, in the same unit as `total`. Only the percentage is displayed. */
  done = 0
  /** The total amount of work, or undefined if it is not known, for example because the input is a pipe. */
  total: number | undefined
  /** The number of items processed. `unit` is the plural noun for them, such as `rows`. */
  count = 0
  unit = "rows"
  /** Hides the progress while the operation asks the user a question. */
  isHidden = false
}

/**
 * The progress of the current operation. A command without a progress display uses the default value, which nothing
 * reads.
 */
export const OperationProgress = Context.Reference<ProgressState>("tickerline/postgres/OperationProgress", {
  defaultValue: () => new ProgressState(),
})
