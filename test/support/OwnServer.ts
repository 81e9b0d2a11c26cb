/** A PostgreSQL server of a test's own, which it may kill, stop and start; its data are those of the first start. */
import { NodeServices } from "@effect/platform-node"
import { Context, Effect, FileSystem, Layer, Logger, Redacted, Schedule } from "effect"
import { type Cluster, user } from "../../src/db/embedded/Cluster.ts"
import { ensure, find } from "../../src/db/embedded/PostgresServer.ts"
import { client } from "../../src/db/Database.ts"
import * as Migrations from "../../src/db/migrations/Migrations.ts"
import * as FirstStart from "../../src/cli/FirstStart.ts"
import { makeCluster } from "./Programs.ts"

export class OwnServer extends Context.Service<OwnServer, {
  readonly url: string
  readonly port: number
  /** The file that it logs to. */
  readonly log: string
  readonly cluster: Cluster
  /** The process that has all others as its children. */
  readonly pid: Effect.Effect<number>
  /** Ends it by the signal and waits until it is gone; `SIGINT` is PostgreSQL's own fast stop. */
  readonly end: (signal: "SIGINT" | "SIGKILL") => Effect.Effect<void>
  /** Starts it again, on the same port. */
  readonly start: Effect.Effect<void>
}>()("test/OwnServer") {
  static readonly layer = Layer.effect(
    OwnServer,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-faults-" })
      yield* fs.chmod(folder, 0o755)
      const services = yield* Effect.context<FileSystem.FileSystem>()
      const cluster = yield* makeCluster(`${folder}/home`)
      const port = yield* ensure(cluster, undefined)

      const found = Effect.provide(find(cluster), services)
      const gone = Effect.repeat(found, {
        until: (server) => server === undefined,
        schedule: Schedule.spaced("10 millis"),
      })
      const pid = Effect.map(found, (server) => server?.pid ?? 0)
      const end = (signal: NodeJS.Signals) =>
        Effect.flatMap(pid, (pid) => pid === 0 ? Effect.void : Effect.sync(() => process.kill(pid, signal))).pipe(
          Effect.andThen(gone),
          Effect.asVoid,
        )
      yield* Effect.addFinalizer(() => end("SIGINT"))

      const url = `postgres://${user}:${cluster.password}@127.0.0.1:${port}/postgres`
      const start = ensure(cluster, port).pipe(Effect.orDie, Effect.asVoid, Effect.provide(services))
      return OwnServer.of({ url, port, log: cluster.log, cluster, pid, end, start })
    }),
  )
}

/** What the service and the tests read it by, migrated and filled. */
export const filled = Layer.effectDiscard(Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  yield* Migrations.run
  yield* FirstStart.loadSamples(yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" }))
})).pipe(
  Layer.provide(Logger.layer([])),
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(OwnServer, ({ url }) => client({ url: Redacted.make(url), applicationName: "tickerline-test" })),
    ),
  ),
  Layer.provideMerge(OwnServer.layer),
  Layer.provideMerge(NodeServices.layer),
)
