/** Shows the progress of long work: one line that is redrawn on a terminal, otherwise a line every ten seconds. */
import { Clock, Console, Context, Duration, Effect, Schedule } from "effect"
import process from "node:process"
import {
  addSample,
  computeFigures,
  formatProgressLine,
  makeIdleProgress,
  Progress,
  type ProgressSample,
  type ProgressState,
} from "../../observability/Progress.ts"
import { type Screen, stderrScreen } from "./Screen.ts"
import { escapeLine } from "./Text.ts"

/** Work that is done sooner shows nothing. */
const patience = Duration.millis(400)
const frame = Duration.millis(100)
const logged = Duration.seconds(10)

const clear = "\r\u001b[K"

/** Whether progress is written as log entries, so that standard error holds nothing else. */
export const LogsProgress = Context.Reference<boolean>("tickerline/terminal/Watch/ToLog", { defaultValue: () => false })

/** What is being done, and the figures of this moment. */
const measured = (state: ProgressState) =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    let samples: ReadonlyArray<ProgressSample> = [{ at: start, done: 0, count: 0 }]
    let label = state.label
    return Effect.map(Clock.currentTimeMillis, (at) => {
      const { count, done } = state
      samples = addSample(label === state.label ? samples : [], { at, done, count })
      label = state.label
      return { label: escapeLine(label), figures: computeFigures(state, samples, at - start) }
    })
  })

const lines = (state: ProgressState, screen: Screen) =>
  Effect.map(measured(state), (measure) =>
    Effect.map(measure, ({ figures, label }) => {
      const look = { columns: Math.min(200, screen.columns()) - 1, unicode: screen.unicode, paint: screen.paint }
      return formatProgressLine(label, figures, look)
    }))

const everyTenSeconds = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.repeat(effect, Schedule.spaced(logged)).pipe(Effect.delay(logged))

const entries = (state: ProgressState) =>
  Effect.gen(function* () {
    const measure = yield* measured(state)
    yield* everyTenSeconds(
      Effect.flatMap(measure, ({ figures, label }) =>
        Effect.logInfo([label, figures.texts.map((text) => text.trim()).join(", ")].join(": "))),
    )
  })

const drawn = (state: ProgressState, screen: Screen) =>
  Effect.gen(function* () {
    const next = yield* lines(state, screen)
    const draw = Effect.map(next, (text) => process.stderr.write(`${clear}${text}`))
    yield* Effect.repeat(draw, Schedule.spaced(frame)).pipe(Effect.delay(patience))
  })

const told = (state: ProgressState, screen: Screen) =>
  Effect.gen(function* () {
    const next = yield* lines(state, screen)
    yield* everyTenSeconds(Effect.flatMap(next, Console.error))
  })

/** Whatever else is said takes the line's place; the line comes back below it. */
const aside = (console: Console.Console): Console.Console => {
  const away = () => process.stderr.write(clear)
  return {
    ...console,
    error: (...said) => {
      away()
      console.error(...said)
    },
    log: (...said) => {
      away()
      console.log(...said)
    },
  }
}

/** The line is gone when the work ends, however it ends. Work within watched work notes where the outer one looks. */
export const withProgressDisplay = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const screen = yield* stderrScreen
    const state = makeIdleProgress()
    const noting = Effect.provideService(work, Progress, state)
    if (yield* LogsProgress) {
      yield* Effect.forkScoped(entries(state))
      return yield* noting
    }
    if (!screen.canRedraw) {
      yield* Effect.forkScoped(told(state, screen))
      return yield* noting
    }
    yield* Effect.addFinalizer(() => Effect.sync(() => process.stderr.write(clear)))
    yield* Effect.forkScoped(drawn(state, screen))
    return yield* Effect.provideService(noting, Console.Console, aside(yield* Console.Console))
  }).pipe(Effect.scoped)
