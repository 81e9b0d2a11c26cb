/** Starts one PostgreSQL server for the entire test run, with a migrated database that each test file copies. */
import { NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, FileSystem, Layer, Redacted, Scope } from "effect"
import { rmSync } from "node:fs"
import process from "node:process"
import type { TestProject } from "vitest/node"
import { createUpcomingUsagePartitions } from "../../src/accounts/billing/UsagePartitions.ts"
import { embeddedDatabaseUser } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import {
  ensurePostgresIsRunning,
  findRunningPostgres,
  stopPostgres,
} from "../../src/postgres/embedded/PostgresServer.ts"
import * as Migrations from "../../src/postgres/migrations/Migrations.ts"
import { sessionSettings } from "../../src/postgres/pool/ConnectionSettings.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as PgBouncer from "./PgBouncer.ts"
import { installedPostgresPrograms, makePostgresCluster } from "./PostgresCluster.ts"
import * as PoolerMode from "./PoolerMode.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of the migrated database. The URLs of other databases differ only in their path. */
    readonly databaseUrl: string
    /** The folder of the server that `DedicatedPostgres.sampleLayer` copies. */
    readonly sampleServerFolder: string
  }
}

/**
 * Settings that trade durability for speed. Many test files share this server, and none of their databases needs to
 * survive a crash.
 */
const sharedServerSettings = `
max_connections = 200
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum_naptime = '1h'
`

/**
 * Settings that an operator's server may have. Nothing may depend on PostgreSQL's defaults, because each session sets
 * what its statements need (`sessionSettings`). With `TEST_POSTGRES_BIN`, the server uses the defaults instead.
 */
const unusualSettings = `
bytea_output = 'escape'
datestyle = 'SQL, DMY'
default_text_search_config = 'pg_catalog.german'
extra_float_digits = -3
intervalstyle = 'sql_standard'
jit = on
timezone = 'Asia/Kolkata'
`

/** Sorts like `en_US`, as most servers do: punctuation before digits, and letters regardless of case. */
const collation = "template template0 encoding 'UTF8' locale_provider icu icu_locale 'en-US' locale 'C'"

const makeFolder = Effect.fnUntraced(function* (prefix: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix })
  // The system user that runs PostgreSQL must be able to access the folder.
  yield* fs.chmod(folder, 0o755)
  return folder
})

/** Stops the server and removes its folder when the process exits, even if a signal ends the tests. */
const endWithProcess = (pid: number, home: string) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1))
  process.once("exit", () => {
    try {
      process.kill(pid, "SIGQUIT")
    } catch {
      return
    }
    rmSync(home, { recursive: true, force: true, maxRetries: 10 })
  })
}

/**
 * Starts the PostgreSQL server that all tests share, and returns the URL of a migrated database, of which tests make
 * copies. In the pooler mode of the tests, also starts PgBouncer in front of the server.
 */
const startDatabase = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = yield* makeFolder("tickerline-test-")
  const cluster = yield* makePostgresCluster(home)
  const settings = sharedServerSettings + (installedPostgresPrograms === undefined ? unusualSettings : "")
  yield* fs.writeFileString(`${cluster.dataDirectory}/postgresql.conf`, settings, { flag: "a" })
  const port = yield* Effect.acquireRelease(
    ensurePostgresIsRunning(cluster, undefined),
    () => Effect.orDie(stopPostgres(cluster)),
  )
  const server = yield* findRunningPostgres(cluster)
  if (server !== undefined) endWithProcess(server.pid, home)
  const at = (database: string) =>
    `postgres://${embeddedDatabaseUser}:${cluster.password}@127.0.0.1:${port}/${database}`
  const admin = yield* PgConnection.make({ url: Redacted.make(at("postgres")) })
  yield* admin.query(`create database ${embeddedDatabaseUser} ${collation}`)
  const url = at(embeddedDatabaseUser)
  // Creates the partitions here, so that no service has to create them when it starts on a copy of this database.
  yield* createUpcomingUsagePartitions.pipe(
    Effect.provide(Migrations.migrationsLayer.pipe(
      Layer.provideMerge(databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" })),
    )),
  )
  if (!PoolerMode.isPoolerRequested) return url
  // Applies to all databases, because copying a database does not copy its per-role settings.
  yield* Effect.forEach(
    Object.entries(sessionSettings),
    ([name, value]) => admin.query(`alter role ${embeddedDatabaseUser} set ${name} = '${value}'`),
  )
  const pooler = yield* PgBouncer.startPgBouncer({ port, user: embeddedDatabaseUser, password: cluster.password })
  PoolerMode.setPoolerPorts(port, pooler.port)
  return url
})

export default async function setup(project: TestProject) {
  const scope = Scope.makeUnsafe()
  const run = <A, E>(effect: Effect.Effect<A, E, Scope.Scope | NodeServices.NodeServices>) =>
    Effect.runPromise(effect.pipe(Effect.provide(NodeServices.layer), Scope.provide(scope)))
  const stop = () => run(Scope.close(scope, Exit.void))
  project.provide("sampleServerFolder", await run(makeFolder("tickerline-test-sample-")))
  project.provide("databaseUrl", await run(startDatabase.pipe(Effect.tapCause(() => Effect.promise(stop)))))
  return stop
}
