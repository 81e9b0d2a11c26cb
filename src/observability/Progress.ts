/** Progress of a long operation, such as a load. */
import { Context } from "effect"

/** The operation updates this state, and `cli/terminal/ProgressDisplay.ts` reads it. */
export interface ProgressState {
  /** The current step. */
  label: string
  /** Completed part of `total`, in the same unit as `total`. Only the percentage is shown. */
  done: number
  /** Undefined if unknown, for example because the input is a pipe. */
  total: number | undefined
  /** Number of processed items. `unit` names the items in the plural, such as `rows`. */
  count: number
  unit: string
  /** Whether the progress is not shown, because the operation asks a question. */
  isHidden?: boolean
}

export const makeInitialProgress = (): ProgressState => ({
  label: "",
  done: 0,
  total: undefined,
  count: 0,
  unit: "rows",
})

/** The progress of the current operation. Commands without a progress display use the default, which nobody reads. */
export const OperationProgress = Context.Reference<ProgressState>("tickerline/observability/OperationProgress", {
  defaultValue: makeInitialProgress,
})
