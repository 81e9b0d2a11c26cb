/**
 * Gives a test a separate database, and provides the database URL for commands.
 *
 * yield* withOwnDatabase(Effect.gen(function* () {
 *   yield* runCommandInProcess(["ingest", "doubts"], { DATABASE_URL: yield* DatabaseUrl })
 * }))
 */
import { Context, Effect, Layer, Redacted } from "effect"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as Service from "./Service.ts"

/** Provides the URL of the test's database. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/support/OwnDatabaseUrl") {
  static readonly layer = Layer.effect(DatabaseUrl, Effect.map(Service.copyMigratedDatabase, Redacted.value))
}

const clientLayer = Layer.unwrap(
  Effect.map(
    DatabaseUrl,
    (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
  ),
)

/** Runs a test with a separate database, which is migrated and empty. */
export const withOwnDatabase = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provide(effect, Layer.fresh(Layer.provideMerge(clientLayer, DatabaseUrl.layer)))

/** Runs a test with a separate database, which is migrated and empty, and with a service that uses it. */
export const withOwnService = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provide(effect, Layer.fresh(Layer.provideMerge(Service.serviceLayerOver(clientLayer), DatabaseUrl.layer)))
