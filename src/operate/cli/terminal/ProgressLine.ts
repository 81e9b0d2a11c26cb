/** Formats progress as a line of text: label, percentage, remaining time, count, and speed. */
import type { ProgressState } from "../../../postgres/metrics/OperationProgress.ts"
import { getDisplayWidth, padStartToWidth, truncateToWidth } from "./TerminalText.ts"

/** The progress at one point in time. Samples are used to compute the speed. */
export interface ProgressSample {
  /** The time in milliseconds since 1970. */
  readonly at: number
  readonly done: number
  readonly count: number
}

/** The period over which the displayed speed is averaged. It is short enough to reveal a slowdown. */
const speedMillis = 15_000

/**
 * The period over which the speed for the remaining-time estimate is averaged. It is longer, because some steps pause
 * while a batch is written.
 */
const estimateMillis = 120_000

/**
 * Adds a sample and drops outdated samples. If `done` or `count` has decreased, a new step has begun, and all earlier
 * samples are dropped.
 */
export const addProgressSample = (
  samples: ReadonlyArray<ProgressSample>,
  sample: ProgressSample,
): ReadonlyArray<ProgressSample> => {
  const last = samples.at(-1)
  if (last !== undefined && (sample.done < last.done || sample.count < last.count)) return [sample]
  return [
    ...samples.filter(({ at }, index) => at >= sample.at - estimateMillis || index === samples.length - 1),
    sample,
  ]
}

/** Returns the average speed per second over the last `millis` milliseconds. */
const computeSpeed = (samples: ReadonlyArray<ProgressSample>, of: "done" | "count", millis: number) => {
  const last = samples.at(-1)
  const first = samples.find(({ at }, index) => at >= (last?.at ?? 0) - millis || index === samples.length - 2)
  if (first === undefined || last === undefined || last.at - first.at < 500) return undefined
  return (last[of] - first[of]) / ((last.at - first.at) / 1000)
}

/** Formats a duration as `0:07` or `1:02:03`. */
const formatClock = (seconds: number) => {
  const total = Math.max(0, Math.round(seconds))
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60]
  const tail = String(total % 60).padStart(2, "0")
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`
}

const formatNumber = (value: number) => Math.round(value).toLocaleString("en")

/**
 * Formats the percentage, remaining time, count, and speed, with the most important first. `elapsed` is the time since
 * the start in milliseconds. It is shown instead of the remaining time if that is unknown.
 *
 * The percentage and the remaining time depend on how much of the work is done (`done` of `total`, such as bytes of a
 * file). The count and its speed are of something else that is more interesting to people (`count`, such as rows).
 */
export const formatProgressParts = (
  state: ProgressState,
  samples: ReadonlyArray<ProgressSample>,
  elapsed: number,
): ReadonlyArray<string> => {
  const share = state.total === undefined || state.total <= 0 ? undefined : Math.min(1, state.done / state.total)
  const [speed, rate] = [
    computeSpeed(samples, "done", estimateMillis),
    computeSpeed(samples, "count", speedMillis),
  ]
  const left = state.total === undefined || share === 1 || speed === undefined || speed <= 0
    ? undefined
    : (state.total - state.done) / speed
  return [
    ...(share === undefined ? [] : [padStartToWidth(`${Math.floor(share * 100)}%`, 4)]),
    left === undefined ? `${formatClock(elapsed / 1000)} so far` : `${formatClock(left)} left`,
    ...(state.count === 0 ? [] : [`${formatNumber(state.count)} ${state.unit}`]),
    ...(rate === undefined || rate <= 0 ? [] : [`${formatNumber(rate)} ${state.unit}/s`]),
  ]
}

const maxLabelWidth = 32

/**
 * Formats a line that is at most `columns` wide. Parts that do not fit are left out, least important first. `columns`
 * should be one less than the width of the terminal, because text in the last column starts a new line.
 */
export const formatProgressLine = (
  label: string,
  parts: ReadonlyArray<string>,
  { columns, unicode }: { readonly columns: number; readonly unicode: boolean },
) => {
  const shown = [truncateToWidth(label, Math.min(maxLabelWidth, columns), unicode ? "…" : "~")]
  for (const part of parts) {
    if (getDisplayWidth([...shown, part].join("  ")) > columns) break
    shown.push(part)
  }
  return shown.join("  ")
}
