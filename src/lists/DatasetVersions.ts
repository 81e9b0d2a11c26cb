/**
 * D17: which version each dataset has, as the triggers of `dataset_versions` note them. The primary is looked at four
 * times a second over a connection of its own, which neither a burst of slow queries nor a proxy between can keep from
 * it, and believed for less than a second: where the answer stays away, nothing is known, and nothing is answered from
 * memory or from a replica.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Layer, Metric, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { makePoll, pollTimeout, type ServerState, stateTtl, versionOf } from "../db/replicas/ServerState.ts"
import { monotonicMillis } from "../db/MonotonicTime.ts"
import { ReadRouter } from "../db/replicas/ReadRouter.ts"
import { DirectConnection } from "../db/pool/Session.ts"
import { initializeCounters, registerCounter, registerGauge } from "../observability/CallbackMetrics.ts"

const every = Duration.millis(250)

/** When no version was read for this long, the cache is reported as idle, in milliseconds. */
const longestGap = Duration.toMillis(Duration.seconds(3))

const unknown = Metric.counter("tickerline_cache_versions_unknown_total", {
  description: "Times that the versions of the datasets could not be read; answers then come from the database.",
  incremental: true,
})

/** The versions of some tables. */
export interface TableVersions {
  /** Another text after every committed write to one of them; undefined while that is not known for certain. */
  readonly current: () => string | undefined
}

/** A server that takes over in a moment is still behind, and does not say how far. */
class NoPrimary extends Data.TaggedError("NoPrimary")<{ readonly message: string }> {}

export class DatasetVersions extends Context.Service<DatasetVersions, {
  readonly watchTables: (tables: ReadonlyArray<string>) => TableVersions
  /** Whether versions are being read. They may still be unknown for a moment, when one answer takes long. */
  readonly isPolling: () => boolean
}>()("tickerline/cache/Versions") {
  static readonly layer = Layer.effect(
    DatasetVersions,
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { config } = yield* DirectConnection
      const read = makePoll(yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 }))
      const replicas = yield* ReadRouter
      yield* initializeCounters(unknown)
      const scope = yield* Effect.scope
      let known: ServerState | undefined
      let away = false

      const measured = new Set<string>()
      const measure = Effect.fnUntraced(function* (dataset: string) {
        measured.add(dataset)
        yield* registerCounter({
          name: "tickerline_dataset_changes_total",
          description: "Committed changes of a dataset since it was made.",
          attributes: { dataset },
          read: () => known?.datasets.get(dataset)?.changes ?? 0,
        })
        yield* registerGauge({
          name: "tickerline_dataset_changed_timestamp_seconds",
          description: "When a dataset was changed last, in seconds since 1970; 0: never.",
          attributes: { dataset },
          read: () => known?.datasets.get(dataset)?.changed_at ?? 0,
        })
      }, Scope.provide(scope))

      const look = Effect.gen(function* () {
        const found = yield* read
        if (found.is_replica) return yield* new NoPrimary({ message: "DATABASE_URL leads to a replica." })
        known = found
        yield* Effect.forEach(Array.from(found.datasets.keys()).filter((dataset) => !measured.has(dataset)), measure)
        away = false
        yield* replicas.pollReplicas(found)
      })

      const failed = Effect.fnUntraced(function* (error: { readonly message: string }) {
        yield* Metric.update(unknown, 1)
        if (!away) yield* Effect.logWarning(`The versions of the datasets cannot be read: ${error.message}`)
        away = true
      })

      const tryToLook = Effect.catch(Effect.timeout(look, pollTimeout), failed)
      yield* tryToLook
      // Of no request, and four times a second: of no use among traces.
      yield* Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(Effect.delay(tryToLook, every)), false))

      const isYounger = (age: number) => known !== undefined && now() - known.polledAt <= age

      const of = (tables: ReadonlyArray<string>): TableVersions => {
        const join = versionOf(tables)
        return { current: () => known !== undefined && isYounger(stateTtl) ? join(known) : undefined }
      }
      return DatasetVersions.of({ watchTables: of, isPolling: () => isYounger(longestGap) })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
