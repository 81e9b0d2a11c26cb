/**
 * The current version of each dataset (D17, caching), polled from the primary every 250 ms over a connection outside
 * the pool. A version expires 900 ms after the poll that read it. While no current version is available, neither caches
 * nor replicas are used.
 */
import { PgClient } from "@effect/sql-pg"
import { Config, Context, Data, Deferred, Duration, Effect, Layer, Metric, Schema, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import {
  makeDatasetVersionReader,
  makeServerPoll,
  serverPollTimeout,
  type ServerState,
  serverStateTtlMillis,
} from "./ServerState.ts"
import { makeTransactionLedgerPoll, type TransactionLedgerState } from "./TransactionLedgerState.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { ReadRouter } from "../replicas/ReadRouter.ts"
import { DirectConnectionConfig } from "../pool/ConnectionSettings.ts"
import { repeatInBackground } from "../metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerCounter, registerGauge } from "../metrics/CallbackMetrics.ts"
import { describeFailure } from "../FailureText.ts"

/**
 * Half of `CACHE_MEGABYTES`, in bytes. The ticker changes in memory may use up to this much. Cached results and cached
 * responses each add this much to the memory that they share. 0 disables caching.
 */
export const HalfCacheBytesConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })),
  "CACHE_MEGABYTES",
).pipe(Config.withDefault(64), Config.map((megabytes) => Math.max(1, megabytes * 524_288)))

const pollInterval = Duration.millis(250)

/** If no poll succeeds for longer than this, `/health/ready` reports that caching is off. */
const maxGapMillis = Duration.toMillis(Duration.seconds(3))

const failedPolls = makeCounter(
  "tickerline_cache_versions_unknown_total",
  "Failed polls of the dataset versions. Without versions, every response comes from the database.",
)

/** The polled server is a replica instead of the primary. Its versions may be outdated, so they are ignored. */
class NoPrimary extends Data.TaggedError("NoPrimary")<{ readonly message: string }> {}

/**
 * Creates the service that knows the current versions of all tables. A background fiber polls the primary four times a
 * second, on a connection of its own, and passes the result on to the replicas. A poll reads the transaction ledger
 * (`ledger`) and the server's state with the version of each table (`state`). All functions return what the latest
 * successful poll has found.
 */
const makeDatasetVersions = Effect.gen(function* () {
  const now = yield* makeMonotonicClock
  const { config } = yield* DirectConnectionConfig
  const sql = yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 })
  const readLedger = makeTransactionLedgerPoll(sql)
  const readState = makeServerPoll(sql)
  const readRouter = yield* ReadRouter
  yield* initializeCounters(failedPolls)
  const scope = yield* Effect.scope
  let state: ServerState | undefined
  let ledger: TransactionLedgerState | undefined
  /** Completes with the next successful poll. Each poll that succeeds replaces it with a new one. */
  let polled = Deferred.makeUnsafe<void>()
  let isFailing = false

  /** The tables whose metrics have been registered. */
  const registered = new Set<string>()
  const registerMetrics = Effect.fnUntraced(function* (dataset: string) {
    registered.add(dataset)
    yield* registerCounter({
      name: "tickerline_dataset_changes_total",
      description: "Committed changes of a dataset since its creation.",
      attributes: { dataset },
      read: () => state?.datasets.get(dataset)?.changes ?? 0,
    })
    yield* registerGauge({
      name: "tickerline_dataset_changed_timestamp_seconds",
      description: "Time of the last change of a dataset, in seconds since 1970; 0 if it never changed.",
      attributes: { dataset },
      read: () => state?.datasets.get(dataset)?.changed_at ?? 0,
    })
  }, Scope.provide(scope))

  const poll = Effect.gen(function* () {
    // The ledger must be read before the versions. A replica with these versions then has all changes up to the
    // ledger's `settled` timestamp.
    const polledLedger = yield* readLedger(ledger)
    const polledState = yield* readState
    if (polledState.is_replica) return yield* new NoPrimary({ message: "DATABASE_URL leads to a replica." })
    ledger = polledLedger
    state = polledState
    // A table is added to the metrics when a poll finds it for the first time, for example after a migration.
    const newDatasets = Array.from(polledState.datasets.keys()).filter((dataset) => !registered.has(dataset))
    yield* Effect.forEach(newDatasets, registerMetrics)
    isFailing = false
    Deferred.doneUnsafe(polled, Effect.void)
    polled = Deferred.makeUnsafe()
    yield* readRouter.pollReplicas(polledState)
  })

  const reportFailure = Effect.fnUntraced(function* (error: unknown) {
    yield* Metric.update(failedPolls, 1)
    if (!isFailing) yield* Effect.logWarning(`The dataset versions cannot be read: ${describeFailure(error)}`)
    isFailing = true
  })

  const tryPoll = Effect.catch(Effect.timeout(poll, serverPollTimeout), reportFailure)
  yield* tryPoll
  yield* repeatInBackground(tryPoll, pollInterval)

  const isYounger = (ageMillis: number) => state !== undefined && now() - state.polledAt <= ageMillis

  /**
   * Returns a function that returns the combined version of several tables. The version is a string that changes with
   * every committed write to any of the tables. It is undefined while the versions are not available.
   */
  const watchTables = (tables: ReadonlyArray<string>) => {
    const combine = makeDatasetVersionReader(tables)
    return () => state !== undefined && isYounger(serverStateTtlMillis) ? combine(state) : undefined
  }

  /** Returns when any of the tables last changed, in Unix seconds, or undefined if none has ever changed. */
  const getLastChange = (tables: ReadonlyArray<string>) => {
    const times = tables.flatMap((table) => state?.datasets.get(table)?.changed_at ?? [])
    return times.length === 0 ? undefined : Math.max(...times)
  }
  return {
    watchTables,
    getLastChange,
    /**
     * Returns the most recently polled state of the transaction ledger, or undefined before the first successful poll.
     */
    getLedger: () => ledger,
    /**
     * Returns the id of PostgreSQL's timeline, which changes with every failover, or undefined if it has not been
     * polled yet.
     */
    getTimeline: () => state?.timeline ?? undefined,
    /** Completes after the next successful poll. If polls fail, it waits until one succeeds. */
    nextPoll: Effect.suspend(() => Deferred.await(polled)),
    /** Returns whether a poll has succeeded within the last three seconds. */
    isPolling: () => isYounger(maxGapMillis),
  }
})

/** The most recently polled dataset versions. */
export class DatasetVersions extends Context.Service<DatasetVersions, Effect.Success<typeof makeDatasetVersions>>()(
  "tickerline/postgres/DatasetVersions",
) {
  static readonly layer = Layer.effect(DatasetVersions, makeDatasetVersions).pipe(Layer.provide(Reactivity.layer))
}
