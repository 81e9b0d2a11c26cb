/**
 * Probes the primary twice a second. If the server is silent, has been replaced, or is a standby, the probe closes the
 * connections to it. Requests then fail immediately instead of waiting up to 15 minutes for the kernel to notice (§8,
 * database load).
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Duration, Effect, Layer, Metric, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlError, SqlSchema } from "effect/sql"
import type { Duplex } from "node:stream"
import { repeatInBackground } from "../metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerGauge } from "../metrics/CallbackMetrics.ts"
import { describeSqlError } from "../FailureText.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { compareClocks, databaseMillisSql, makeClockMonitor } from "./ClockComparison.ts"
import { DirectConnectionConfig } from "../pool/ConnectionSettings.ts"

const probeInterval = Duration.millis(500)

/** Time limit for opening a connection and for receiving a reply. A healthy server needs only milliseconds. */
const probeTimeout = Duration.seconds(2)

/**
 * How long the server may be silent, in milliseconds, before its sockets are closed. A shorter network stall only
 * delays requests.
 */
const maxSilence = Duration.toMillis(Duration.seconds(5))

/**
 * How long the server may be silent, in milliseconds, before the database counts as down. Its sockets are not closed
 * yet.
 */
const silenceUntilDown = Duration.toMillis(Duration.seconds(3))

/** If more milliseconds than this pass between two checks, the process was paused and could not receive data. */
const maxCheckGap = Duration.toMillis(Duration.seconds(2))

type Cause = "silent" | "replaced" | "standby"

const closedConnections = (why: Cause) =>
  makeCounter(
    "tickerline_database_connections_cut_total",
    "Connections closed because the database was silent, was replaced, or is a standby.",
    { why },
  )

const ServerRow = Schema.Struct({ started: Schema.String, standby: Schema.Boolean, now: Schema.Number })

const makeProbeClient = (config: PgClient.PgPoolConfig, stream: () => Duplex) =>
  PgClient.make({ ...config, stream, maxConnections: 1, minConnections: 0, connectTimeout: probeTimeout })

/**
 * Creates the probe that finds out whether the database is up. Two background fibers run once per `probeInterval`:
 * `probe` asks the server for its state, on a connection of its own, and `checkSilence` notices if the server no longer
 * sends anything. Connections to a server that is silent, was replaced, or is a standby are closed, because requests on
 * them would wait in vain or read outdated data. `sockets` registers all sockets to the server, and can close them.
 */
const makeHealthProbe = Effect.gen(function* () {
  const now = yield* makeMonotonicClock
  const { config, pooler, sockets } = yield* DirectConnectionConfig
  // If PostgreSQL is gone, sockets to the pooler are also closed, because the server connections behind the pooler are
  // dead.
  const registries = pooler === undefined ? [sockets] : [sockets, pooler.sockets]
  let probeOpenedAt = now()
  const sql = yield* makeProbeClient(config, () => {
    probeOpenedAt = now()
    return sockets.openForProbe()
  })
  yield* initializeCounters(...(["silent", "replaced", "standby"] as const).map(closedConnections))

  /** When the oldest unanswered probe started, in monotonic milliseconds. */
  let unansweredSince: number | undefined
  /**
   * When a connection last received a byte, or when this process last resumed after a pause, in monotonic milliseconds.
   */
  let lastReceivedAt = now()
  let serverStartedAt: string | undefined
  let isRefused = false
  let isPoolerReachable = true

  /** Returns how long the server has been silent, in milliseconds. Returns 0 while no probe is waiting for a reply. */
  const silence = () => unansweredSince === undefined ? 0 : now() - Math.max(unansweredSince, lastReceivedAt)
  const isUp = () => !sockets.isBlocked() && !isRefused && isPoolerReachable && silence() < silenceUntilDown
  yield* registerGauge({
    name: "tickerline_database_up",
    description: "1 if the last health probe reached a primary, else 0.",
    read: () => isUp() ? 1 : 0,
  })

  /**
   * Closes connections. Also blocks new ones until a probe succeeds, unless the cause is that a new server replaced the
   * old one.
   */
  const closeConnections = Effect.fnUntraced(function* (cause: Cause, message: string) {
    const isFirst = !sockets.isBlocked()
    if (cause !== "replaced") registries.forEach(({ block }) => block(message))
    const openedBefore = cause === "replaced" ? probeOpenedAt : undefined
    const count = registries.reduce((sum, { destroySockets }) => sum + destroySockets(openedBefore), 0)
    yield* Metric.update(closedConnections(cause), count)
    if (isFirst && count > 0) yield* Effect.logWarning(`${message}. Connections closed: ${count}.`)
  })

  const queryServer = SqlSchema.findOne({
    Request: Schema.Void,
    Result: ServerRow,
    execute: () =>
      sql`
        select pg_postmaster_start_time()::text as started, pg_is_in_recovery() as standby,
          ${sql.literal(databaseMillisSql)} as now
      `,
  })
  const clockMonitor = yield* makeClockMonitor
  /** Reads the server's state and compares its clock with this machine's clock at the time of the query (`before`). */
  const queryServerAndClock = Effect.gen(function* () {
    const before = yield* Clock.currentTimeMillis
    const server = yield* queryServer()
    return { ...server, clocks: yield* compareClocks(before, server.now) }
  })

  /** Asks the server when it started and whether it is a standby. If no reply arrives, `checkSilence` notices. */
  const probe = Effect.suspend(() => {
    const probedAt = now()
    unansweredSince ??= probedAt
    return Effect.gen(function* () {
      // Tries twice, because the connection may have ended since the last probe. The retry opens a new connection.
      const { clocks, standby, started } = yield* Effect.timeout(
        Effect.retry(queryServerAndClock, { times: 1 }),
        probeTimeout,
      )
      unansweredSince = undefined
      const wasRefused = isRefused
      isRefused = false
      const previous = serverStartedAt
      serverStartedAt = started
      // A standby may lack recent charges and key revocations. The probe's own connection is closed too, so that the
      // next probe can reach a different server.
      if (standby) return yield* closeConnections("standby", "The database is a standby, not the primary")
      yield* clockMonitor.record(clocks)
      if (sockets.isBlocked() || wasRefused) yield* Effect.logInfo("The database responds again.")
      registries.forEach(({ unblock }) => unblock())
      // Connections that are newer than the probe's own connection are not closed, because they may already lead to the
      // new server.
      if (previous !== undefined && previous !== started) {
        yield* closeConnections("replaced", "Another database server responds")
      }
    }).pipe(
      // Only a fast failure counts as a refusal. A slow failure counts as silence, because this process may have been
      // paused.
      Effect.catchIf(SqlError.isSqlError, (error) => {
        const wasRefused = isRefused
        isRefused = now() - probedAt < Duration.toMillis(probeTimeout)
        return isRefused && !wasRefused
          ? Effect.logWarning(`The database refuses the health probe: ${describeSqlError(error)}`)
          : Effect.void
      }),
      Effect.ignore,
    )
  })

  let checkedAt = now()
  /**
   * Closes connections after `maxSilence`. Runs independently of the probe, which may itself be waiting for a reply.
   */
  const checkSilence = Effect.suspend(() => {
    const time = now()
    if (sockets.hasReceivedBytes() || time - checkedAt > maxCheckGap) lastReceivedAt = time
    checkedAt = time
    if (silence() < maxSilence) return Effect.void
    lastReceivedAt = time
    return closeConnections("silent", "The database has not responded for five seconds")
  })

  yield* repeatInBackground(probe, probeInterval)
  yield* repeatInBackground(checkSilence, probeInterval)
  if (pooler !== undefined) {
    // This checks only whether the pooler accepts a connection. The query itself may fail, because a busy pooler makes
    // it wait.
    const poolerSql = yield* makeProbeClient(pooler.config, () =>
      pooler.sockets.openForProbe()
        .once("connect", () => {
          isPoolerReachable = true
        })
        .once("error", () => {
          isPoolerReachable = false
        }))
    yield* repeatInBackground(Effect.ignore(Effect.timeout(poolerSql`select 1`, probeTimeout)), probeInterval)
  }
  return {
    /** A client outside the pool, for short single statements that must not queue behind reads. */
    sql,
    /** Returns whether the last probe reached a primary. If there is a pooler, it must also accept connections. */
    isUp,
    /** Returns whether this machine's clock agreed with the primary's clock at the last probe. */
    isClockRight: clockMonitor.isRight,
  }
})

/**
 * Reports whether the database is up, according to the latest probes. Also provides a connection that does not wait for
 * the pool.
 */
export class HealthProbe extends Context.Service<HealthProbe, Effect.Success<typeof makeHealthProbe>>()(
  "tickerline/postgres/HealthProbe",
) {
  static readonly layer = Layer.effect(HealthProbe, makeHealthProbe).pipe(
    Layer.provide(Reactivity.layer),
    // Uses the real clock even in tests, because advancing `TestClock` would make a healthy server look silent.
    Layer.provide(Layer.succeed(Clock.Clock, Clock.Clock.defaultValue())),
  )
}
