/** Starts one PostgreSQL server for the run, with a migrated database that each test file copies. */
import { NodeServices } from "@effect/platform-node"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect, Exit, FileSystem, Layer, Redacted, Scope } from "effect"
import { rmSync } from "node:fs"
import process from "node:process"
import type { TestProject } from "vitest/node"
import { createUpcomingUsagePartitions } from "../../src/accounts/billing/UsagePartitions.ts"
import { embeddedDatabaseUser } from "../../src/db/embedded/EmbeddedCluster.ts"
import { ensurePostgresIsRunning, findRunningPostgres, stopPostgres } from "../../src/db/embedded/PostgresServer.ts"
import * as Migrations from "../../src/db/migrations/Migrations.ts"
import { sessionTimeouts } from "../../src/db/pool/ConnectionSettings.ts"
import * as PgBouncer from "./PgBouncer.ts"
import { makePostgresCluster } from "./PostgresCluster.ts"
import * as PoolerMode from "./PoolerMode.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the migrated database. The URLs of other databases differ only in the path. */
    readonly databaseUrl: string
    /** Folder for the server that `DedicatedPostgres.sampleLayer` copies. */
    readonly sampleServerFolder: string
  }
}

/** Fast but unsafe settings, because no test database has to survive a crash of this server. */
const unsafeSettings = `
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum_naptime = '1h'
`

const makeFolder = Effect.fnUntraced(function* (prefix: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix })
  // The system user that runs PostgreSQL must be able to enter the folder.
  yield* fs.chmod(folder, 0o755)
  return folder
})

/** Ends the server and removes its folder if a signal ends the tests. */
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

const startDatabase = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = yield* makeFolder("tickerline-test-")
  const cluster = yield* makePostgresCluster(home)
  yield* fs.writeFileString(`${cluster.dataDirectory}/postgresql.conf`, unsafeSettings, { flag: "a" })
  const port = yield* Effect.acquireRelease(
    ensurePostgresIsRunning(cluster, undefined),
    () => Effect.orDie(stopPostgres(cluster)),
  )
  const server = yield* findRunningPostgres(cluster)
  if (server !== undefined) endWithProcess(server.pid, home)
  const at = (database: string) =>
    `postgres://${embeddedDatabaseUser}:${cluster.password}@127.0.0.1:${port}/${database}`
  const admin = yield* PgConnection.make({ url: Redacted.make(at("postgres")) })
  yield* admin.query(`create database ${embeddedDatabaseUser}`)
  const url = at(embeddedDatabaseUser)
  // Create the partitions here, so that no service needs to when it starts on a copy of the database.
  yield* createUpcomingUsagePartitions.pipe(
    Effect.provide(Migrations.migrationsLayer.pipe(Layer.provideMerge(PgClient.layer({ url: Redacted.make(url) })))),
  )
  if (!PoolerMode.isPoolerRequested) return url
  // Set for all databases, because a copy of a database does not include its role settings.
  yield* Effect.forEach(
    Object.entries(sessionTimeouts),
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
