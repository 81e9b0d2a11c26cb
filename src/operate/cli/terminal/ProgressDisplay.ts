/**
 * Shows the progress of a long operation. On a terminal, redraws a single line; otherwise, prints a new line every ten
 * seconds.
 */
import { Clock, Console, Context, Duration, Effect, Schedule } from "effect"
import process from "node:process"
import { OperationProgress, ProgressState } from "../../../postgres/metrics/OperationProgress.ts"
import { addProgressSample, formatProgressLine, formatProgressParts, type ProgressSample } from "./ProgressLine.ts"
import { type OutputCapabilities, stderrCapabilities } from "./OutputCapabilities.ts"
import { escapeTerminalLine } from "./TerminalText.ts"

/** How long an operation must run before its progress is shown. */
const initialDelay = Duration.millis(400)
const redrawInterval = Duration.millis(100)
const lineInterval = Duration.seconds(10)

const clearLine = "\r\u001b[K"

/**
 * Whether progress is written as log entries. This is necessary with `LOG_FORMAT=json`, because standard error must
 * then contain only logs.
 */
export const IsProgressLogged = Context.Reference<boolean>("tickerline/operate/IsProgressLogged", {
  defaultValue: () => false,
})

/** Starts measuring progress. Returns an effect that returns the current label and figures. */
const makeMeasurement = (state: ProgressState) =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    let samples: ReadonlyArray<ProgressSample> = [{ at: start, done: 0, count: 0 }]
    let label = state.label
    return Effect.map(Clock.currentTimeMillis, (at) => {
      const { count, done } = state
      samples = addProgressSample(label === state.label ? samples : [], { at, done, count })
      label = state.label
      return { label: escapeTerminalLine(label), figures: formatProgressParts(state, samples, at - start) }
    })
  })

/** Returns an effect that formats the current progress as one line that fits the screen. */
const makeLine = (state: ProgressState, screen: OutputCapabilities) =>
  Effect.map(makeMeasurement(state), (measure) =>
    Effect.map(measure, ({ figures, label }) => {
      const style = { columns: Math.min(200, screen.columns()) - 1, unicode: screen.hasUnicode }
      return formatProgressLine(label, figures, style)
    }))

const repeatEveryInterval = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.repeat(effect, Schedule.spaced(lineInterval)).pipe(Effect.delay(lineInterval))

const logProgress = (state: ProgressState) =>
  Effect.gen(function* () {
    const measure = yield* makeMeasurement(state)
    yield* repeatEveryInterval(
      Effect.flatMap(measure, ({ figures, label }) =>
        Effect.logInfo([label, figures.map((text) => text.trim()).join(", ")].join(": "))),
    )
  })

const redrawProgress = (state: ProgressState, screen: OutputCapabilities) =>
  Effect.gen(function* () {
    const nextLine = yield* makeLine(state, screen)
    const draw = Effect.map(nextLine, (line) => state.isHidden || process.stderr.write(`${clearLine}${line}`))
    yield* Effect.repeat(draw, Schedule.spaced(redrawInterval)).pipe(Effect.delay(initialDelay))
  })

const printProgress = (state: ProgressState, screen: OutputCapabilities) =>
  Effect.gen(function* () {
    const nextLine = yield* makeLine(state, screen)
    yield* repeatEveryInterval(Effect.flatMap(nextLine, Console.error))
  })

/**
 * Creates a console that erases the progress line before printing. The next redraw shows the progress line below the
 * printed output.
 */
const makeClearingConsole = (console: Console.Console): Console.Console => {
  const clear = () => process.stderr.write(clearLine)
  return {
    ...console,
    error: (...values) => {
      clear()
      console.error(...values)
    },
    log: (...values) => {
      clear()
      console.log(...values)
    },
  }
}

/** Runs an effect that asks the user a question, and hides the progress line until the user has answered. */
export const whileProgressHidden = <A, E, R>(question: Effect.Effect<A, E, R>) =>
  Effect.flatMap(OperationProgress, (progress) => {
    const setHidden = (isHidden: boolean) =>
      Effect.map(stderrCapabilities, ({ canRedraw }) => {
        progress.isHidden = isHidden
        if (isHidden && canRedraw) process.stderr.write(clearLine)
      })
    return Effect.ensuring(Effect.andThen(setHidden(true), question), setHidden(false))
  })

/**
 * Runs an effect, and displays or logs the progress that the effect reports to `OperationProgress`. On a terminal, one
 * line is redrawn, erased before any other output, and erased at the end. The display stops with the effect.
 */
export const withProgressDisplay = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const screen = yield* stderrCapabilities
    const state = new ProgressState()
    const reportingWork = Effect.provideService(work, OperationProgress, state)
    if (yield* IsProgressLogged) {
      yield* Effect.forkScoped(logProgress(state))
      return yield* reportingWork
    }
    if (!screen.canRedraw) {
      yield* Effect.forkScoped(printProgress(state, screen))
      return yield* reportingWork
    }
    yield* Effect.addFinalizer(() => Effect.sync(() => process.stderr.write(clearLine)))
    yield* Effect.forkScoped(redrawProgress(state, screen))
    const console = makeClearingConsole(yield* Console.Console)
    return yield* Effect.provideService(reportingWork, Console.Console, console)
  }).pipe(Effect.scoped)
