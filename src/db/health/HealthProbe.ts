/**
 * Whether the database at the end of the line is there, and is the primary. It is asked twice a second over a
 * connection of its own, since neither a read nor a write can tell a host that vanished from a long query: nobody says
 * that it is gone, and the kernel goes on sending for a quarter of an hour. Three things end connections of the line,
 * for which readers and writers then take others:
 * - Nothing at all was heard over any of them for five seconds, although it was asked.
 * - Another server answers than before: those that were opened before it lead to one that was replaced.
 * - A standby answers: it was demoted, and knows neither what was charged since nor whose keys were revoked.
 * For the first and the last the line stays shut until a primary answers, so who asks is refused at once (§8).
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Metric, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, SqlSchema } from "effect/sql"
import { initializeCounters, registerGauge } from "../../observability/CallbackMetrics.ts"
import * as Line from "./SocketRegistry.ts"
import { DirectConnection } from "../pool/Session.ts"

const every = Duration.millis(500)

/** For an answer, and for a connection: a server that is there gives both in some milliseconds. */
const patience = Duration.seconds(2)

/** Shorter than that a network may stall, and requests wait (RELIABILITY.md). */
const longestSilence = Duration.toMillis(Duration.seconds(5))

/** After a silence of this length the database counts as away, although nothing is cut yet, in milliseconds. */
const longestWait = Duration.toMillis(Duration.seconds(3))

/** Longer than that the check was not made itself, as by a process that was stopped: it knows nothing. */
const longestPause = Duration.toMillis(Duration.seconds(2))

type Why = "silent" | "replaced" | "standby"

const cutFor = (why: Why) =>
  Metric.counter("tickerline_database_connections_cut_total", {
    description: "Connections that were ended because the database was silent, was replaced, or is a standby.",
    attributes: { why },
    incremental: true,
  })

const Server = Schema.Struct({ started: Schema.String, standby: Schema.Boolean })

/**
 * Asks over one connection through the pooler, and tells whether it could be opened. How long the answer takes says
 * nothing: a pooler whose connections are all in use lets it wait.
 */
const knocker = Effect.fnUntraced(function* (line: Line.SocketRegistry, tell: (isThere: boolean) => void) {
  const { config } = yield* PgClient.PgClient
  const stream = () => line.openForProbe().once("connect", () => tell(true)).once("error", () => tell(false))
  const sql = yield* PgClient.make({
    ...config,
    stream,
    maxConnections: 1,
    minConnections: 0,
    connectTimeout: patience,
  })
  return sql`select 1`.pipe(Effect.timeout(patience), Effect.ignore)
})

export class HealthProbe extends Context.Service<HealthProbe, {
  /** One connection beside the pool, for single short statements that must not wait behind readers. */
  readonly sql: SqlClient.SqlClient
  /** Whether the primary answered when it was last asked, and the pooler, if there is one, takes connections. */
  readonly isUp: () => boolean
}>()("tickerline/db/Heartbeat") {
  static readonly layer = Layer.effect(
    HealthProbe,
    Effect.gen(function* () {
      const { config, pooled } = yield* DirectConnection
      const line = Line.findSocketRegistry(config)
      // Where PostgreSQL itself is away, a pooler's connections to it are too.
      const toPooler = pooled ? Line.findSocketRegistry((yield* PgClient.PgClient).config) : undefined
      let opened = performance.now()
      const open = line && (() => {
        opened = performance.now()
        return line.openForProbe()
      })
      const sql = yield* PgClient.make({
        ...config,
        ...(open && { stream: open }),
        maxConnections: 1,
        minConnections: 0,
        connectTimeout: patience,
      })
      yield* initializeCounters(...(["silent", "replaced", "standby"] as const).map(cutFor))

      const ask = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Server,
        execute: () => sql`select pg_postmaster_start_time()::text as started, pg_is_in_recovery() as standby`,
      })

      const cut = Effect.fnUntraced(function* (line: Line.SocketRegistry, why: Why, words: string) {
        const isNews = !line.isBlocked()
        const lines = toPooler === undefined ? [line] : [line, toPooler]
        const since = why === "replaced" ? opened : undefined
        if (why !== "replaced") lines.forEach(({ setBlocked: shut }) => shut(words))
        const count = lines.reduce((sum, { destroySockets: cut }) => sum + cut(since), 0)
        yield* Metric.update(cutFor(why), count)
        if (isNews && count > 0) yield* Effect.logWarning(`${words}: ${count} connections are ended.`)
      })

      /** Since when no answer has come to any question. */
      let asking: number | undefined
      /** When a byte last came over any connection, or the process noticed that it had been stopped. */
      let heardAt = performance.now()
      let known: string | undefined
      let isRefused = false
      let isPoolerThere = true

      /** A process that was stopped, or a slow one, must not take its own pause for the database's. */
      const silence = (now: number) => asking === undefined ? 0 : now - Math.max(asking, heardAt)
      const isUp = () =>
        line?.isBlocked() !== true && !isRefused && isPoolerThere && silence(performance.now()) < longestWait
      yield* registerGauge({
        name: "tickerline_database_up",
        description: "Whether a primary is at the end of the line to the database, as last seen.",
        read: () => isUp() ? 1 : 0,
      })

      const beat = (line: Line.SocketRegistry) => {
        const began = performance.now()
        return Effect.gen(function* () {
          asking ??= began
          // A connection that was ended meanwhile is noticed by asking, and the next one may be good.
          const answer = Effect.retry(ask(undefined), { times: 1 })
          const { standby, started } = yield* Effect.timeout(answer, patience)
          asking = undefined
          isRefused = false
          const before = known
          known = started
          // The connection that found it out too: the next one may lead elsewhere.
          if (standby) return yield* cut(line, "standby", "The database is a standby, and not the primary")
          if (line.isBlocked()) yield* Effect.logInfo("The database answers again.")
          line.setBlocked()
          toPooler?.setBlocked()
          if (before !== undefined && before !== started) yield* cut(line, "replaced", "Another server answers")
        }).pipe(
          // A connection that was waited for in vain is a silence, and may be this process's own pause.
          Effect.catchIf(SqlError.isSqlError, () =>
            Effect.sync(() => {
              isRefused = performance.now() - began < Duration.toMillis(patience)
            })),
          Effect.ignore,
        )
      }

      const check = (line: Line.SocketRegistry) => {
        let checked = performance.now()
        return Effect.suspend(() => {
          const now = performance.now()
          if (line.hasReceivedBytes() || now - checked > longestPause) heardAt = now
          checked = now
          if (silence(now) < longestSilence) return Effect.void
          heardAt = now
          return cut(line, "silent", "The database has said nothing for five seconds")
        })
      }

      const untraced = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(Effect.delay(effect, every)), false))
      if (line !== undefined) {
        yield* untraced(Effect.suspend(() => beat(line)))
        yield* untraced(check(line))
      }
      if (toPooler !== undefined) {
        const knock = yield* knocker(toPooler, (isThere) => {
          isPoolerThere = isThere
        })
        yield* untraced(knock)
      }
      return HealthProbe.of({ sql, isUp })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
