/** How far long work has come: what the work notes, and the line that is made of it. */
import { Context } from "effect"
import { displayWidth, padEnd, padStart, truncate } from "../cli/terminal/Text.ts"

/** Written by the work as it goes on, and read by whoever shows it. */
export interface ProgressState {
  /** What is being done. */
  label: string
  /** Of `total`, in units of the work's own; only their share is shown. */
  done: number
  /** Unknown for a pipe. */
  total: number | undefined
  /** What people count, such as rows. */
  count: number
  unit: string
}

export const makeIdleProgress = (): ProgressState => ({ label: "", done: 0, total: undefined, count: 0, unit: "rows" })

/** Where work notes how far it is; nobody looks unless it is watched (`Watch.ts`). */
export const Progress = Context.Reference<ProgressState>("tickerline/terminal/Progress", {
  defaultValue: makeIdleProgress,
})

/** The state at a moment, in milliseconds. */
export interface ProgressSample {
  readonly at: number
  readonly done: number
  readonly count: number
}

/** Long enough that a batch more or less does not show, short enough to notice that the disk has become slow. */
const window = 15_000

/** The samples of the last seconds, and this one; work that began anew forgets what was before. */
export const addSample = (
  samples: ReadonlyArray<ProgressSample>,
  sample: ProgressSample,
): ReadonlyArray<ProgressSample> => {
  const last = samples.at(-1)
  if (last !== undefined && (sample.done < last.done || sample.count < last.count)) return [sample]
  return [...samples.filter(({ at }, index) => at >= sample.at - window || index === samples.length - 1), sample]
}

const perSecond = (samples: ReadonlyArray<ProgressSample>, of: "done" | "count") => {
  const [first, last] = [samples[0], samples.at(-1)]
  if (first === undefined || last === undefined || last.at - first.at < 500) return undefined
  return (last[of] - first[of]) / ((last.at - first.at) / 1000)
}

/** `0:07`, `1:02:03`. */
export const formatClock = (seconds: number) => {
  const whole = Math.max(0, Math.round(seconds))
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60]
  const tail = String(whole % 60).padStart(2, "0")
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`
}

const number = (value: number) => Math.round(value).toLocaleString("en")

export interface ProgressFigures {
  /** From 0 to 1. */
  readonly share: number | undefined
  readonly texts: ReadonlyArray<string>
}

/** What is known, in the order in which it matters. */
export const computeFigures = (
  state: ProgressState,
  samples: ReadonlyArray<ProgressSample>,
  elapsed: number,
): ProgressFigures => {
  const share = state.total === undefined || state.total <= 0 ? undefined : Math.min(1, state.done / state.total)
  const [speed, rate] = [perSecond(samples, "done"), perSecond(samples, "count")]
  const left = state.total === undefined || share === 1 || speed === undefined || speed <= 0
    ? undefined
    : (state.total - state.done) / speed
  return {
    share,
    texts: [
      ...(share === undefined ? [] : [padStart(`${Math.floor(share * 100)}%`, 4)]),
      left === undefined ? `${formatClock(elapsed / 1000)} so far` : `${formatClock(left)} left`,
      ...(state.count === 0 ? [] : [`${number(state.count)} ${state.unit}`]),
      ...(rate === undefined || rate <= 0 ? [] : [`${number(rate)} ${state.unit}/s`]),
    ],
  }
}

const widestBar = 30
const leastBar = 8
const widestLabel = 32

export interface ProgressLineStyle {
  /** One less than the terminal has: the last one would begin a new line. */
  readonly columns: number
  readonly unicode: boolean
  readonly paint: (style: "cyan" | "dim", text: string) => string
}

/** What does not fit is left out, from the end; the line is never wider than `columns`. */
export const formatProgressLine = (
  label: string,
  { share, texts }: ProgressFigures,
  { columns, paint, unicode }: ProgressLineStyle,
) => {
  const name = truncate(label, Math.min(widestLabel, columns), unicode ? "…" : "~")
  const shown: Array<string> = []
  let width = displayWidth(name)
  for (const text of texts) {
    if (width + 2 + displayWidth(text) > columns) break
    shown.push(text)
    width += 2 + displayWidth(text)
  }
  const room = Math.min(widestBar, columns - width - 2)
  if (share === undefined || room < leastBar) return [name, ...shown].join("  ")
  const full = Math.floor(room * share)
  const [done, open] = unicode ? ["━", "─"] : ["#", "-"]
  const bar = `${paint("cyan", done.repeat(full))}${paint("dim", open.repeat(room - full))}`
  return [padEnd(name, 0), bar, ...shown].join("  ")
}
