/** A hot standby of a dedicated server, with optional synchronous replication. */
import { Effect, FileSystem, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { closeSync, openSync, writeFileSync } from "node:fs"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { DedicatedPostgres, makeServerControls, type PostgresServer } from "./DedicatedPostgres.ts"
import { launchDetachedProcess } from "./DetachedProcess.ts"
import { queryServer } from "./TwoStandbys.ts"
import { startTcpProxy } from "./TcpProxy.ts"

/** The name of the standby in `synchronous_standby_names`. */
export const standbyName = "standby"

const waitUntil = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  effect.pipe(
    Effect.filterOrFail(holds, () => `The standby did not ${what} within a minute`),
    Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 1200 }),
  )

/**
 * Creates a standby of a running primary, and waits until it streams changes. Stops the primary, copies its data
 * directory, starts the primary again, and starts the standby on the copy.
 *
 * Replication runs through the proxy `link`, which tests can stall. `synchronous` makes each commit wait for the
 * standby, `waitUntilComplete` waits until the standby has everything, and `promote` makes it a primary.
 */
export const makeStandbyOf = Effect.fnUntraced(function* (primary: PostgresServer) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-standby-" })
  yield* fs.chmod(folder, 0o755)
  const cluster = { ...primary.cluster, dataDirectory: `${folder}/data`, logFile: `${folder}/log` }
  const { dataDirectory: data, logFile, programsDirectory: programs, systemUser } = cluster
  const link = yield* startTcpProxy(primary.port)
  const server = yield* makeServerControls(cluster, yield* chooseFreePort)
  yield* primary.stop("SIGINT")
  yield* Effect.sync(() => execFileSync("cp", ["-a", primary.cluster.dataDirectory, data]))
  yield* primary.start
  // `standby.signal` makes the copy start as a standby. The primary's process ID must not seem to be the copy's.
  const upstream = new URL(primary.url)
  const source = `host=127.0.0.1 port=${link.port} user=${upstream.username} password=${upstream.password} ` +
    `application_name=${standbyName}`
  const settings = `primary_conninfo = '${source}'\nwal_retrieve_retry_interval = '200ms'\n`
  yield* Effect.sync(() => {
    writeFileSync(`${data}/standby.signal`, "")
    writeFileSync(`${data}/postgresql.auto.conf`, settings, { flag: "a" })
  })
  yield* fs.remove(`${data}/postmaster.pid`, { force: true })
  const output = openSync(logFile, "a", 0o600)
  const options = [`port=${server.port}`, "listen_addresses=127.0.0.1", "unix_socket_directories="]
  yield* launchDetachedProcess({
    command: `${programs}/bin/postgres`,
    args: ["-D", data, ...options.flatMap((option) => ["-c", option])],
    systemUser,
    output,
  })
  closeSync(output)

  const replication = `select state, sync_state, coalesce(flush_lsn >= pg_current_wal_flush_lsn(), false) as is_complete
    from pg_stat_replication where application_name = '${standbyName}'`
  const waitUntilReplicating = (what: string, holds: (row: Readonly<Record<string, unknown>>) => boolean) =>
    waitUntil(what, queryServer(primary.url, replication), ({ rows: [row] }) => row !== undefined && holds(row))
  yield* waitUntilReplicating("stream", ({ state }) => state === "streaming")
  const isSynchronous = waitUntilReplicating("become synchronous", ({ sync_state }) => sync_state === "sync")
  /** Makes each commit on the primary wait for the standby. */
  const synchronous = queryServer(
    primary.url,
    `alter system set synchronous_standby_names = '${standbyName}'`,
  ).pipe(
    Effect.andThen(queryServer(primary.url, "select pg_reload_conf()")),
    Effect.andThen(isSynchronous),
    Effect.asVoid,
  )
  /**
   * Waits until the standby has received everything that is visible on the primary, even after the primary has
   * restarted.
   */
  const waitUntilComplete = Effect.asVoid(
    waitUntilReplicating(
      "catch up",
      ({ is_complete, sync_state }) => sync_state === "sync" && is_complete === true,
    ),
  )
  const promote = Effect.asVoid(queryServer(server.url, "select pg_promote(true, 30)"))
  return { ...server, link, synchronous, waitUntilComplete, promote }
})

/** Creates a standby of the dedicated server. */
export const makeSynchronousStandby = Effect.flatMap(DedicatedPostgres, makeStandbyOf)
