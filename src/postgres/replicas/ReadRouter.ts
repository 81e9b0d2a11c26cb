/**
 * Routes reads to replicas. A replica is used if its last poll reported the same version of the requested tables as the
 * primary. The result is then at least as recent as that version and may be cached under it (D17, caching). If the
 * replica fails, the read runs on the primary instead.
 */
import { Config, Context, Effect, FiberHandle, Layer, Metric, Option, Redacted, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlError } from "effect/sql"
import { initializeCounters, registerCounter, registerGauge } from "../metrics/CallbackMetrics.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/ApiErrors.ts"
import { type DatabaseReadError, makeRetryCounter } from "../ReadTimeoutsAndRetries.ts"
import { findUrlFile } from "../pool/PasswordRotation.ts"
import { areTlsParametersValid, tlsParametersRule } from "../pool/DatabaseTls.ts"
import { isLockTimeout, isRecoveryConflict, isStatementTimeout } from "../SqlState.ts"
import {
  makeReplica,
  makeReplicationLagTracker,
  type Replica,
  type RequiredTableVersion,
  type SessionQuery,
} from "./Replica.ts"
import type { ServerState } from "../versions/ServerState.ts"

/** An effect that reads from the primary, used if no replica can run the query. */
type PrimaryRead<A, R> = Effect.Effect<A, DatabaseReadError | DataRefreshing | DatabasePoolTimeout, R>

const splitUrls = (text: string) => text.split(/[\s,]+/).filter((url) => url !== "")

/**
 * Returns a replica's name for metrics and logs: its host, port and database. Returns undefined if `url` is not a
 * PostgreSQL URL.
 */
const parseName = (url: string) => {
  try {
    const { hostname, password, pathname, port, protocol, username } = new URL(url)
    decodeURIComponent(`${username}:${password}`)
    return /^postgres(ql)?:$/.test(protocol) && hostname !== ""
      ? `${hostname}:${port === "" ? "5432" : port}${decodeURIComponent(pathname)}`
      : undefined
  } catch {
    return undefined
  }
}

/** The replicas' URLs. They are redacted before they are validated, so that error messages never contain a password. */
const RedactedUrls = Schema.Redacted(Schema.String).check(
  Schema.makeFilter((text) => splitUrls(Redacted.value(text)).every((url) => parseName(url) !== undefined), {
    message: "must be URLs, postgres://user:password@host:port/database, separated by spaces or commas",
  }, true),
  Schema.makeFilter((text) => splitUrls(Redacted.value(text)).every(areTlsParametersValid), {
    message: tlsParametersRule,
  }),
  Schema.makeFilter((text) => {
    const names = splitUrls(Redacted.value(text)).map(parseName)
    return new Set(names).size === names.length
  }, { message: "must name each server once" }),
)

/** The replicas to read from. There are none by default. */
export const ReplicaUrlsConfig = Config.schema(RedactedUrls, "DATABASE_READ_URLS").pipe(
  Config.map((text) =>
    splitUrls(Redacted.value(text)).map((url) => ({ name: parseName(url) ?? "", url: Redacted.make(url) }))
  ),
  Config.withDefault([]),
)

const conflictRetries = makeRetryCounter("conflict")
const replicaRetries = makeRetryCounter("replica")

/**
 * Returns whether the failed read may succeed on the primary. A lock timeout or statement timeout would also happen on
 * the primary.
 */
const isReplicaFailure = (error: unknown): error is SqlError.SqlError =>
  SqlError.isSqlError(error) && !isLockTimeout(error) && !isStatementTimeout(error)

/**
 * Registers a replica's metrics, with its name as a label. `read` returns a metric's current value, and is called for
 * each scrape.
 */
const registerMetrics = Effect.fnUntraced(function* (replica: Replica) {
  const attributes = { replica: replica.name }
  yield* registerGauge({
    name: "tickerline_replica_lag_seconds",
    description: "How long the replica has been behind the primary, according to the polls of the service.",
    attributes,
    read: () => replica.lag() / 1000,
  })
  yield* registerGauge({
    name: "tickerline_replica_used",
    description:
      "1 if the replica's last poll succeeded, else 0. It serves only tables that are as recent as the primary's.",
    attributes,
    read: () => Number(replica.isAvailable()),
  })
  yield* registerGauge({
    name: "tickerline_replica_connections_used",
    description: "Connections to the replica in use.",
    attributes,
    read: replica.connectionsInUse,
  })
  yield* registerCounter({
    name: "tickerline_replica_reads_total",
    description: "Reads sent to the replica.",
    attributes,
    read: replica.readCount,
  })
  yield* registerCounter({
    name: "tickerline_replica_timeouts_total",
    description: "Reads that timed out while waiting for a connection to the replica.",
    attributes,
    read: replica.timeoutCount,
  })
})

/**
 * Creates the service that reads from replicas. It opens connections to all replicas in `DATABASE_READ_URLS`. Polls
 * determine which table versions each replica has, so that a read uses only a replica with the version that it requires
 * (`required`). Every read has a fallback on the primary.
 */
const makeReadRouter = Effect.gen(function* () {
  const { lagOf, record } = makeReplicationLagTracker()
  const replicas = yield* Effect.forEach(
    yield* ReplicaUrlsConfig,
    Effect.fnUntraced(function* ({ name, url }) {
      // The URL of this replica in the setting. It is read again after a rejected password, which may have changed.
      const setting = Config.map(
        ReplicaUrlsConfig,
        (urls) => Option.fromUndefinedOr(urls.find((other) => other.name === name)?.url),
      )
      return yield* makeReplica({ name, url, urlFile: yield* findUrlFile("DATABASE_READ_URLS", setting), lagOf })
    }),
  )
  /** For each replica, a handle that runs at most one poll at a time. */
  const polls = yield* Effect.forEach(
    replicas,
    (replica) => Effect.map(FiberHandle.make(), (handle) => ({ handle, replica })),
  )
  yield* Effect.forEach(replicas, registerMetrics)
  if (replicas.length > 0) yield* initializeCounters(conflictRetries, replicaRetries)

  /**
   * Polls every replica in the background, with at most one poll per replica in progress, so that polling the primary
   * never waits for the replicas. `primary` is the state just read from the primary.
   */
  const pollReplicas = (primary: ServerState) => {
    if (primary.wal_position !== null) record({ at: primary.polledAt, position: primary.wal_position })
    return Effect.forEach(
      polls,
      ({ handle, replica }) => FiberHandle.run(handle, replica.poll(primary), { onlyIfMissing: true }),
      { discard: true },
    )
  }

  /** The index of the replica at which the search starts. It moves on with every search. */
  let firstIndex = 0
  /**
   * Among the replicas that have the required version, chooses one with the fewest pending reads. Equally busy replicas
   * take turns.
   */
  const chooseReplica = (required: RequiredTableVersion) => {
    let chosen: Replica | undefined
    firstIndex += 1
    for (let offset = 0; offset < replicas.length; offset += 1) {
      const replica = replicas[(firstIndex + offset) % replicas.length]
      if (replica?.hasVersion(required) !== true) continue
      if (chosen === undefined || replica.pendingReads() < chosen.pendingReads()) chosen = replica
    }
    return chosen
  }

  /**
   * Runs an effect that uses `replica`. If the effect fails because of the replica, runs `fallback`. A recovery
   * conflict concerns only this query; after any other failure the replica counts as unavailable until a poll succeeds.
   */
  const withFallback = <A, E, R>(
    effect: Effect.Effect<A, E, R>,
    replica: Replica,
    fallback: Effect.Effect<A, E, R>,
  ) =>
    Effect.catch(effect, (error) => {
      if (!isReplicaFailure(error)) return Effect.fail(error)
      if (!isRecoveryConflict(error)) replica.markUnavailable()
      return Effect.andThen(
        Metric.update(isRecoveryConflict(error) ? conflictRetries : replicaRetries, 1),
        fallback,
      )
    })

  /**
   * Runs a query on a replica that has the required version. If there is no such replica or the query fails because of
   * it, runs `primary`.
   */
  const readFromReplica = <A, R>(
    required: RequiredTableVersion,
    partition: string,
    query: SessionQuery<A, R>,
    primary: PrimaryRead<A, R>,
  ) =>
    // `Effect.suspend` makes each retry choose a replica again.
    Effect.suspend(() => {
      const replica = chooseReplica(required)
      return replica === undefined ? primary : withFallback(replica.read(query, required, partition), replica, primary)
    })
  return {
    hasReplicas: replicas.length > 0,
    pollReplicas,
    chooseReplica,
    readFromReplica,
    withFallback,
  }
})

/** Routes reads to replicas where possible. */
export class ReadRouter extends Context.Service<ReadRouter, Effect.Success<typeof makeReadRouter>>()(
  "tickerline/postgres/ReadRouter",
) {
  static readonly layer = Layer.effect(ReadRouter, makeReadRouter).pipe(Layer.provide(Reactivity.layer))
}
