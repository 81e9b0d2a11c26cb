/**
 * Reads from replicas: which of them may answer, and what happens where one fails. A replica is asked for tables whose
 * version it was found to have, the one that the primary was last known to have; it only goes forward, so what it
 * answers is as new as what the primary would, and may be kept under that version (D17).
 */
import { Config, Context, Duration, Effect, FiberHandle, Layer, Metric, Redacted, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlError } from "effect/sql"
import { initializeCounters, registerCounter, registerGauge } from "../../observability/CallbackMetrics.ts"
import { isLockTimeout, isStatementTimeout, makeRetryCounter, type ReplicaReader } from "../Database.ts"
import { makeWalHistory } from "./ReplicationLag.ts"
import type { ServerState } from "./ServerState.ts"
import { isRecoveryConflict, makeReplica, type Replica, type TablesAtVersion } from "./Replica.ts"

const entriesOf = (text: string) => text.split(/[\s,]+/).filter((entry) => entry !== "")

/** What metrics and logs call a replica, with its database, since one pooler has several; undefined: no URL of one. */
const nameOf = (entry: string) => {
  try {
    const { hostname, password, pathname, port, protocol, username } = new URL(entry)
    decodeURIComponent(`${username}:${password}`)
    return /^postgres(ql)?:$/.test(protocol) && hostname !== ""
      ? `${hostname}:${port === "" ? "5432" : port}${decodeURIComponent(pathname)}`
      : undefined
  } catch {
    return undefined
  }
}

/** Redacted before it is checked: what is refused shows no password. */
const Urls = Schema.Redacted(Schema.String).check(
  Schema.makeFilter((text) => entriesOf(Redacted.value(text)).every((entry) => nameOf(entry) !== undefined), {
    message: "must be URLs, postgres://user:password@host:port/database, separated by spaces or commas",
  }),
  Schema.makeFilter((text) => {
    const names = entriesOf(Redacted.value(text)).map(nameOf)
    return new Set(names).size === names.length
  }, { message: "must name each server once" }),
)

export const ReplicaUrls = Config.schema(Urls, "DATABASE_READ_URLS").pipe(
  Config.map((text) =>
    entriesOf(Redacted.value(text)).map((entry) => ({ name: nameOf(entry) ?? "", url: Redacted.make(entry) }))
  ),
  Config.withDefault([]),
)

export const MaxLag = Config.Duration("MAX_REPLICA_LAG").pipe(Config.withDefault(Duration.seconds(1)))

const whenConflict = makeRetryCounter("conflict")
const whenLost = makeRetryCounter("replica")

/** What the primary may answer where a replica did not; a table that is locked or a slow query is so there too. */
const isItsOwn = (error: unknown): error is SqlError.SqlError =>
  SqlError.isSqlError(error) && !isLockTimeout(error) && !isStatementTimeout(error)

const measured = Effect.fnUntraced(function* (replica: Replica) {
  const attributes = { replica: replica.name }
  yield* registerGauge({
    name: "tickerline_replica_lag_seconds",
    description: "How long ago the primary was first seen beyond where the replica is.",
    attributes,
    read: () => replica.lag() / 1000,
  })
  yield* registerGauge({
    name: "tickerline_replica_used",
    description: "Whether the replica answers, and is not too far behind; it is read from where it has what is asked.",
    attributes,
    read: () => Number(replica.isWithin()),
  })
  yield* registerGauge({
    name: "tickerline_replica_connections_used",
    description: "Connections to the replica that readers use.",
    attributes,
    read: replica.inside,
  })
  yield* registerCounter({
    name: "tickerline_replica_reads_total",
    description: "Reads that were sent to the replica.",
    attributes,
    read: replica.reads,
  })
  yield* registerCounter({
    name: "tickerline_replica_timeouts_total",
    description: "Readers that waited for a connection to the replica in vain.",
    attributes,
    read: replica.turnedAway,
  })
})

export class ReadRouter extends Context.Service<ReadRouter, {
  /** Looks at all of them; the primary was looked at just before. */
  readonly pollReplicas: (primary: ServerState) => Effect.Effect<void>
  /** The one with the fewest readers of those that have what is wanted; in turn where several have as few. */
  readonly chooseReplica: (wanted: TablesAtVersion) => Replica | undefined
  /** How reads of the wanted find a replica; undefined where there are none. */
  readonly makeReplicaReader: ((wanted: TablesAtVersion) => ReplicaReader) | undefined
  /** Runs `first` with a replica; where that fails by the replica's own doing, and where there is none, `otherwise`. */
  readonly withFallback: <A, E, R>(
    first: Effect.Effect<A, E, R>,
    replica: Replica,
    otherwise: Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E, R>
}>()("tickerline/db/Replicas") {
  static readonly layer = Layer.effect(
    ReadRouter,
    Effect.gen(function* () {
      const most = Duration.toMillis(yield* MaxLag)
      const { behind, note } = makeWalHistory()
      const replicas = yield* Effect.forEach(yield* ReplicaUrls, (named) => makeReplica({ ...named, most, behind }))
      const looking = yield* Effect.forEach(
        replicas,
        (replica) => Effect.map(FiberHandle.make(), (handle) => ({ handle, replica })),
      )
      yield* Effect.forEach(replicas, measured)
      if (replicas.length > 0) yield* initializeCounters(whenConflict, whenLost)

      // The primary does not wait for them, and a replica that hangs is asked again when it has answered.
      const look = (primary: ServerState) => {
        if (primary.position !== null) note({ at: primary.polledAt, position: primary.position })
        return Effect.forEach(
          looking,
          ({ handle, replica }) => FiberHandle.run(handle, replica.look(primary), { onlyIfMissing: true }),
          { discard: true },
        )
      }

      let turn = 0
      const choose = (wanted: TablesAtVersion) => {
        let chosen: Replica | undefined
        turn += 1
        for (let at = 0; at < replicas.length; at += 1) {
          const replica = replicas[(turn + at) % replicas.length]
          if (replica?.isUsable(wanted) === true && (chosen === undefined || replica.busy() < chosen.busy())) {
            chosen = replica
          }
        }
        return chosen
      }

      const or = <A, E, R>(first: Effect.Effect<A, E, R>, replica: Replica, otherwise: Effect.Effect<A, E, R>) =>
        Effect.catch(first, (error) => {
          if (!isItsOwn(error)) return Effect.fail(error)
          if (!isRecoveryConflict(error)) replica.setAside()
          return Effect.andThen(Metric.update(isRecoveryConflict(error) ? whenConflict : whenLost, 1), otherwise)
        })

      const elsewhere = (wanted: TablesAtVersion): ReplicaReader => (query, route, primary) => {
        const replica = choose(wanted)
        return replica === undefined ? primary : or(replica.read(query, wanted, route), replica, primary)
      }
      return ReadRouter.of({
        pollReplicas: look,
        chooseReplica: choose,
        withFallback: or,
        makeReplicaReader: replicas.length === 0 ? undefined : elsewhere,
      })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
