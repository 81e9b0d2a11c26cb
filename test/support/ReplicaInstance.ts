/** Starts an instance that reads from two standbys, and reads the metrics that it reports about them. */
import { Effect, Metric, Schedule } from "effect"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import * as ServiceInstances from "./ServiceInstances.ts"
import { StandbyPair } from "./TwoStandbys.ts"

/** Repeats an effect until `holds` returns true. */
export const repeatUntilTrue = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  Effect.repeat(look, { until: holds, schedule: Schedule.spaced("20 millis") }).pipe(Effect.timeout("60 seconds"))

interface Named {
  readonly name: string
}

/**
 * Starts an instance of the service that reads from the standbys of `StandbyPair`, with further settings (`values`).
 * Returns its port, and functions that read its metrics about one standby: the number of reads sent to it (`reads`),
 * whether it is used (`used`, 1 or 0), and how many seconds it lags behind. `bothUsed` waits until both are used.
 */
export const startReplicaReader = Effect.fnUntraced(function* (values: Readonly<Record<string, string>> = {}) {
  const { first, second, urls } = yield* StandbyPair
  const metrics = yield* chooseFreePort
  const port = yield* ServiceInstances.startServiceInstance({
    DATABASE_READ_URLS: urls,
    METRICS_PORT: String(metrics),
    ...values,
  })
    .pipe(
      Effect.provideService(Metric.MetricRegistry, new Map()),
    )
  const scrape = Effect.map(
    ServiceInstances.requestOverWire(metrics, "/metrics", ""),
    ({ text }) =>
      new Map(
        text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
          const at = line.lastIndexOf(" ")
          return [line.slice(0, at), Number(line.slice(at + 1))]
        }),
      ),
  )
  /** Reads the metric `tickerline_replica_<name>` of each replica. */
  const readMetrics = (name: string, ...replicas: ReadonlyArray<Named>) =>
    Effect.map(
      scrape,
      (found) => replicas.map((replica) => found.get(`tickerline_replica_${name}{replica="${replica.name}"}`) ?? 0),
    )
  const makeReader = (name: string) => (replica: Named) =>
    Effect.map(readMetrics(name, replica), ([value = 0]) => value)
  const [reads, used, lag] = [makeReader("reads_total"), makeReader("used"), makeReader("lag_seconds")]
  /** The total number of reads sent to the two standbys. */
  const total = Effect.map(readMetrics("reads_total", first, second), ([one = 0, other = 0]) => one + other)
  const bothUsed = repeatUntilTrue(readMetrics("used", first, second), (values) => values.every((used) => used === 1))
  return { port, reads, used, lag, total, bothUsed }
})
