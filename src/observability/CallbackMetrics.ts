/** Measures that are read when somebody asks for them, from where they stand anyway. */
import { Effect, Function, Metric } from "effect"

interface Measure {
  readonly name: string
  readonly description: string
  readonly attributes?: Readonly<Record<string, string>>
  readonly read: () => number
}

const registered = <State>(
  metric: Metric.Metric<number, State>,
  state: (value: number) => State,
  read: () => number,
) =>
  Effect.acquireRelease(
    Effect.map(Effect.context<never>(), (context) =>
      Metric.registerUnsafe(metric, context, {
        get: () => state(read()),
        update: Function.constVoid,
        modify: Function.constVoid,
      })),
    ({ remove }) => Effect.sync(remove),
  )

/** Counters that are pushed, shown from the start on: what was never seen at 0 is never seen to begin. */
export const initializeCounters = (...counters: ReadonlyArray<Metric.Metric<number, unknown>>) =>
  Effect.forEach(counters, (counter) => Metric.update(counter, 0), { discard: true })

/** What goes up and down; for as long as the scope lives. */
export const registerGauge = ({ name, read, ...about }: Measure) =>
  Effect.asVoid(registered(Metric.gauge(name, about), (value) => ({ value }), read))

/** What only goes up, such as a time that was used; for as long as the scope lives. */
export const registerCounter = ({ name, read, ...about }: Measure) =>
  Effect.asVoid(
    registered(Metric.counter(name, { ...about, incremental: true }), (count) => ({ count, incremental: true }), read),
  )
