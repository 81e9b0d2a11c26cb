/** One embedded PostgreSQL for a run of the tests, with a migrated database to copy (each test file has its own copy). */
import { NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, FileSystem, Layer, Redacted, Scope } from "effect"
import type { TestProject } from "vitest/node"
import * as Embedded from "../../src/db/Embedded.ts"
import * as Migrations from "../../src/db/Migrations.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Of the migrated database; other databases are reached by changing its path. */
    readonly databaseUrl: string
  }
}

const start = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-test-" })
  const { url } = yield* Embedded.make(home)
  yield* Effect.scoped(Layer.build(Migrations.layer.pipe(Layer.provide(PgClient.layer({ url })))))
  return Redacted.value(url)
})

export default async function setup(project: TestProject) {
  const scope = Scope.makeUnsafe()
  const run = <A, E>(effect: Effect.Effect<A, E, Scope.Scope | NodeServices.NodeServices>) =>
    Effect.runPromise(effect.pipe(Effect.provide(NodeServices.layer), Scope.provide(scope)))
  const stop = () => run(Scope.close(scope, Exit.void))
  project.provide("databaseUrl", await run(start.pipe(Effect.tapCause(() => Effect.promise(stop)))))
  return stop
}
