/** Counters, and metrics whose value is computed by a callback whenever Prometheus scrapes them. */
import { Effect, Function, Metric } from "effect"

interface CallbackMetric {
  readonly name: string
  readonly description: string
  readonly attributes?: Readonly<Record<string, string>>
  readonly read: () => number
}

const register = <State>(
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

/** Creates a counter whose value only increases. */
export const makeCounter = (name: string, description: string, attributes?: Readonly<Record<string, string>>) =>
  Metric.counter(name, { description, incremental: true, ...(attributes && { attributes }) })

/** Initializes counters to 0 at startup. Otherwise `rate()` would miss the first increment. */
export const initializeCounters = (...counters: ReadonlyArray<Metric.Metric<number, unknown>>) =>
  Effect.forEach(counters, (counter) => Metric.update(counter, 0), { discard: true })

/** Registers a gauge that is removed when the scope closes. */
export const registerGauge = ({ name, read, ...options }: CallbackMetric) =>
  Effect.asVoid(register(Metric.gauge(name, options), (value) => ({ value }), read))

/** Registers a counter that is removed when the scope closes. The callback's value must never decrease. */
export const registerCounter = ({ name, read, ...options }: CallbackMetric) =>
  Effect.asVoid(
    register(Metric.counter(name, { ...options, incremental: true }), (count) => ({ count, incremental: true }), read),
  )
