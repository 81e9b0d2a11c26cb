/** A hot standby of a dedicated server, with synchronous replication on request. */
import { Effect, FileSystem, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { closeSync, openSync, writeFileSync } from "node:fs"
import { launchDetached } from "../../src/db/embedded/ChildProcess.ts"
import { DedicatedPostgres } from "./DedicatedPostgres.ts"
import { findFreePort } from "./Processes.ts"
import { queryServer } from "./StandbyPair.ts"
import { startTcpProxy } from "./TcpProxy.ts"

/** Name of the standby in `synchronous_standby_names`. */
export const standbyName = "standby"

const until = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  effect.pipe(
    Effect.filterOrFail(holds, () => `${what} did not happen`),
    Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 1200 }),
  )

/** Creates the standby from a copy of the stopped primary. It replicates through the proxy `link`, which can stall. */
export const makeSynchronousStandby = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const server = yield* DedicatedPostgres
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-standby-" })
  yield* fs.chmod(folder, 0o755)
  const data = `${folder}/data`
  const link = yield* startTcpProxy(server.port)
  const port = yield* findFreePort
  const { systemUser, dataDirectory: original, programsDirectory: programs } = server.cluster
  yield* server.stop("SIGINT")
  yield* Effect.sync(() => execFileSync("cp", ["-a", original, data]))
  yield* server.start
  const upstream = new URL(server.url)
  const source = `host=127.0.0.1 port=${link.port} user=${upstream.username} password=${upstream.password} ` +
    `application_name=${standbyName}`
  yield* Effect.sync(() => {
    writeFileSync(`${data}/standby.signal`, "")
    writeFileSync(`${data}/postgresql.auto.conf`, `primary_conninfo = '${source}'\n`, { flag: "a" })
  })
  yield* fs.remove(`${data}/postmaster.pid`, { force: true })
  const log = openSync(`${folder}/log`, "a", 0o600)
  const options = [`port=${port}`, "listen_addresses=127.0.0.1", "unix_socket_directories="]
  const child = yield* Effect.acquireRelease(
    launchDetached({
      command: `${programs}/bin/postgres`,
      args: ["-D", data, ...options.flatMap((option) => ["-c", option])],
      systemUser,
      output: log,
    }),
    ({ exited, kill }) =>
      Effect.andThen(kill("SIGQUIT"), exited).pipe(Effect.andThen(Effect.sync(() => closeSync(log)))),
  )
  const own = new URL(server.url)
  own.port = String(port)
  const url = own.href

  const streams = until(
    "that it streams",
    queryServer(server.url, `select state from pg_stat_replication where application_name = '${standbyName}'`),
    ({ rows }) => rows[0]?.["state"] === "streaming",
  )
  yield* streams
  /** Makes each commit on the primary wait for the standby. */
  const synchronous = queryServer(server.url, `alter system set synchronous_standby_names = '${standbyName}'`).pipe(
    Effect.andThen(queryServer(server.url, "select pg_reload_conf()")),
    Effect.andThen(until(
      "that it is synchronous",
      queryServer(server.url, `select sync_state from pg_stat_replication where application_name = '${standbyName}'`),
      ({ rows }) => rows[0]?.["sync_state"] === "sync",
    )),
    Effect.asVoid,
  )
  const promote = Effect.asVoid(queryServer(url, "select pg_promote(true, 30)"))
  return { url, port, link, synchronous, promote, end: Effect.andThen(child.kill("SIGQUIT"), child.exited) }
})
