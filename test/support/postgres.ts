/** One PostgreSQL for a run of the tests, with a migrated database to copy (each test file has its own copy). */
import { NodeServices } from "@effect/platform-node"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect, Exit, FileSystem, Layer, Redacted, Scope } from "effect"
import type { TestProject } from "vitest/node"
import { user } from "../../src/db/embedded/Cluster.ts"
import { ensure, stop } from "../../src/db/embedded/PostgresServer.ts"
import * as Migrations from "../../src/db/migrations/Migrations.ts"
import { limits } from "../../src/db/pool/Session.ts"
import * as PgBouncer from "./PgBouncer.ts"
import { makeCluster } from "./Programs.ts"
import * as Through from "./Through.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Of the migrated database; other databases are reached by changing its path. */
    readonly databaseUrl: string
  }
}

const start = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-test-" })
  yield* fs.chmod(home, 0o755)
  const cluster = yield* makeCluster(home)
  const port = yield* Effect.acquireRelease(ensure(cluster, undefined), () => stop(cluster))
  const at = (database: string) => `postgres://${user}:${cluster.password}@127.0.0.1:${port}/${database}`
  const admin = yield* PgConnection.make({ url: Redacted.make(at("postgres")) })
  yield* admin.query(`create database ${user}`)
  const url = at(user)
  yield* Effect.scoped(
    Layer.build(Migrations.layer.pipe(Layer.provide(PgClient.layer({ url: Redacted.make(url) })))),
  )
  if (!Through.isWanted) return url
  // Of all databases: copies of one do not have what a role was given in that one.
  yield* Effect.forEach(
    Object.entries(limits),
    ([name, value]) => admin.query(`alter role ${user} set ${name} = '${value}'`),
  )
  const pooler = yield* PgBouncer.start({ port, user, password: cluster.password })
  Through.tell(port, pooler.port)
  return url
})

export default async function setup(project: TestProject) {
  const scope = Scope.makeUnsafe()
  const run = <A, E>(effect: Effect.Effect<A, E, Scope.Scope | NodeServices.NodeServices>) =>
    Effect.runPromise(effect.pipe(Effect.provide(NodeServices.layer), Scope.provide(scope)))
  const stop = () => run(Scope.close(scope, Exit.void))
  project.provide("databaseUrl", await run(start.pipe(Effect.tapCause(() => Effect.promise(stop)))))
  return stop
}
