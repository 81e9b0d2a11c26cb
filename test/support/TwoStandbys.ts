/**
 * Two standbys of a dedicated primary. They stream the primary's WAL, and tests can pause WAL replay on each.
 *
 * ```ts
 * layer(StandbyPair.layer, { excludeTestServices: true })("A replica", (it) => {
 *   it.effect("that lags is not read (operations/replicas)", () =>
 *     Effect.gen(function* () {
 *       const { first, urls, waitUntilCaughtUp } = yield* StandbyPair
 *       yield* waitUntilCaughtUp
 *       yield* first.pause
 *       const port = yield* startServiceInstance({ DATABASE_READ_URLS: urls })
 *       // Requests to `port` for changed tables are read from the second standby or the primary.
 *     }).pipe(Effect.scoped))
 * })
 * ```
 */
import { PgConnection } from "@effect/sql-pg"
import { Context, Effect, FileSystem, Layer, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { closeSync, openSync } from "node:fs"
import { chooseFreePort, embeddedDatabaseUser } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { runProcessToCompletion } from "../../src/postgres/embedded/ChildProcess.ts"
import * as Migrations from "../../src/postgres/migrations/Migrations.ts"
import { DedicatedPostgres } from "./DedicatedPostgres.ts"
import { type DetachedProcess, launchDetachedProcess } from "./DetachedProcess.ts"

/** A standby controlled by a test. */
export interface Standby {
  readonly name: string
  readonly url: string
  /**
   * Starts the server, optionally on a different port or with a different upstream server. Completes when the server
   * accepts queries.
   */
  readonly start: (other?: { readonly port?: number; readonly upstream?: string }) => Effect.Effect<void>
  readonly stop: (signal: "SIGINT" | "SIGKILL") => Effect.Effect<void>
  readonly query: (statement: string) => Effect.Effect<PgConnection.Result>
  /**
   * Pauses the replay of received WAL. Replay resumes no later than when the scope closes, so a failed test does not
   * affect later ones.
   */
  readonly pause: Effect.Effect<void, never, Scope.Scope>
  readonly resume: Effect.Effect<void>
}

/** Runs one statement on a new connection. */
export const queryServer = (url: string, statement: string) =>
  Effect.scoped(
    Effect.flatMap(PgConnection.make({ url: Redacted.make(url) }), (connection) => connection.query(statement)),
  )

const isCancelled = ({ reason }: SqlError.SqlError) => reason._tag === "SerializationError"

/**
 * Settings with which replay cancels conflicting queries early, and with which the standby reconnects to the primary
 * quickly.
 */
const settings = {
  max_standby_streaming_delay: "300ms",
  wal_retrieve_retry_interval: "100ms",
  hot_standby_feedback: "off",
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
}

/** Copies the stopped primary's data directory for a standby. Returns the folder of the copy. */
const copyCluster = Effect.fnUntraced(function* (number: number) {
  const fs = yield* FileSystem.FileSystem
  const { cluster } = yield* DedicatedPostgres
  const data = `${cluster.baseDirectory}/standby-${number}`
  yield* runProcessToCompletion({ command: "cp", args: ["-a", cluster.dataDirectory, data], systemUser: undefined })
  yield* fs.writeFileString(`${data}/standby.signal`, "")
  return data
})

/**
 * Starts a standby of the dedicated primary on the copy of its data directory in the folder `data`. The standby stops
 * when the scope closes. `child` is its process, or undefined while it is stopped, and `url` its current address, which
 * changes if a test starts it on another port.
 */
const startStandby = Effect.fnUntraced(function* (data: string) {
  const { cluster, port: primaryPort } = yield* DedicatedPostgres
  const port = yield* chooseFreePort
  const makeUrl = (port: number) => `postgres://${embeddedDatabaseUser}:${cluster.password}@127.0.0.1:${port}/postgres`
  const primary = `host=127.0.0.1 port=${primaryPort} user=${embeddedDatabaseUser} password=${cluster.password}`
  let [child, url]: [DetachedProcess | undefined, string] = [undefined, makeUrl(port)]

  const end: Standby["stop"] = (signal) =>
    Effect.gen(function* () {
      if (child === undefined) return
      yield* child.kill(signal)
      yield* child.exited
      child = undefined
    })
  // Retries, because WAL replay may cancel this query.
  const runStatement = (statement: string) =>
    Effect.orDie(
      Effect.retry(queryServer(url, statement), { while: isCancelled, schedule: Schedule.spaced("20 millis") }),
    )
  const start: Standby["start"] = (other = {}) =>
    Effect.gen(function* () {
      url = makeUrl(other.port ?? port)
      const options = { ...settings, port: String(other.port ?? port), primary_conninfo: other.upstream ?? primary }
      const output = openSync(`${data}.log`, "a")
      child = yield* launchDetachedProcess({
        command: `${cluster.programsDirectory}/bin/postgres`,
        args: ["-D", data, ...Object.entries(options).flatMap(([name, value]) => ["-c", `${name}=${value}`])],
        systemUser: cluster.systemUser,
        output,
      })
      closeSync(output)
      yield* queryServer(url, "select 1").pipe(Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 600 }))
    }).pipe(Effect.orDie)
  yield* start()
  yield* Effect.addFinalizer(() => end("SIGINT"))
  // A server that was promoted replays nothing, and refuses to resume.
  const resume = Effect.suspend(() =>
    child === undefined
      ? Effect.void
      : Effect.asVoid(runStatement("select pg_wal_replay_resume() where pg_is_in_recovery()"))
  )
  const made: Standby = {
    name: `127.0.0.1:${port}/postgres`,
    url,
    start,
    stop: end,
    query: runStatement,
    pause: Effect.acquireRelease(Effect.asVoid(runStatement("select pg_wal_replay_pause()")), () => resume),
    resume,
  }
  return made
})

/** Provides a dedicated primary with two standbys. */
export class StandbyPair extends Context.Service<StandbyPair, {
  readonly first: Standby
  readonly second: Standby
  /** The value for `DATABASE_READ_URLS`. */
  readonly urls: string
  /** Waits until both standbys have replayed the primary's current WAL. */
  readonly waitUntilCaughtUp: Effect.Effect<void>
}>()("test/support/StandbyPair") {
  /** Migrates the primary, then stops it briefly to copy its data. */
  static readonly layer = Layer.effect(
    StandbyPair,
    Effect.gen(function* () {
      const { stop: end, start, url } = yield* DedicatedPostgres
      yield* Migrations.runMigrations
      yield* end("SIGINT")
      const copies = [yield* copyCluster(1), yield* copyCluster(2)] as const
      yield* start
      const [first, second] = yield* Effect.all([startStandby(copies[0]), startStandby(copies[1])])
      const caughtUp = Effect.gen(function* () {
        const [row] = (yield* Effect.orDie(queryServer(url, "select pg_current_wal_lsn()::text as written"))).rows
        const reached = (one: Standby) =>
          Effect.map(
            one.query(`select pg_last_wal_replay_lsn() >= '${String(row?.["written"])}' as reached`),
            ({ rows }) => rows[0]?.["reached"],
          )
        yield* Effect.forEach(
          [first, second],
          (one) => Effect.repeat(reached(one), { until: (is) => is === true, schedule: Schedule.spaced("20 millis") }),
        )
      })
      return StandbyPair.of({ first, second, urls: `${first.url} ${second.url}`, waitUntilCaughtUp: caughtUp })
    }),
  )
}
