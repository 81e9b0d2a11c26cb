/** Connects to PostgreSQL: to the server in `DATABASE_URL`, or to the embedded server if that is not set. */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Option } from "effect"
import { startEmbeddedPostgres, TickerlineHomeConfig } from "./embedded/EmbeddedPostgres.ts"
import { migrationsLayer } from "./migrations/Migrations.ts"
import {
  checkDirectConnection,
  checkPooledAndDirectConnections,
  DatabaseUrlError,
  poolerSettingsGuardLayer,
} from "./pool/PoolerCheck.ts"
import { databaseClientLayer } from "./pool/PooledClient.ts"
import { DatabaseUrlConfig, DirectConnectionConfig, DirectDatabaseUrlConfig } from "./pool/ConnectionSettings.ts"

/** The embedded server's home directory; `None` if the database is external. */
export class EmbeddedHomeDirectory extends Context.Service<EmbeddedHomeDirectory, {
  readonly folder: Option.Option<string>
}>()("tickerline/db/EmbeddedHomeDirectory") {}

const noEmbeddedHome = Layer.succeed(EmbeddedHomeDirectory, { folder: Option.none() })

const embeddedLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const folder = yield* TickerlineHomeConfig
    const { url } = yield* startEmbeddedPostgres(folder)
    return Layer.merge(
      databaseClientLayer({ url, applicationName }),
      Layer.succeed(EmbeddedHomeDirectory, { folder: Option.some(folder) }),
    )
  }))

const databaseUrls = Effect.gen(function* () {
  const [url, directUrl] = [yield* DatabaseUrlConfig, yield* DirectDatabaseUrlConfig]
  if (Option.isNone(url) && Option.isSome(directUrl)) {
    return yield* new DatabaseUrlError({
      message:
        "DATABASE_DIRECT_URL is set, but DATABASE_URL is not. Set DATABASE_URL to the pooler, or to PostgreSQL " +
        "itself if there is no pooler.",
    })
  }
  return { url, directUrl }
})

/** Connects a command such as `load`. Never uses a pooler in transaction mode, because a command needs one session. */
export const commandDatabaseClientLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { directUrl, url } = yield* databaseUrls
    const [setting, chosen] = Option.isSome(directUrl) ? ["DATABASE_DIRECT_URL", directUrl] : ["DATABASE_URL", url]
    if (Option.isNone(chosen)) return embeddedLayer(applicationName)
    yield* checkDirectConnection(setting, chosen.value)
    return Layer.merge(databaseClientLayer({ url: chosen.value, applicationName }), noEmbeddedHome)
  }))

/** Connects the HTTP server, which reads through the pooler if there is one. */
export const serverDatabaseClientLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { directUrl, url } = yield* databaseUrls
    if (Option.isNone(url)) return embeddedLayer(applicationName)
    if (Option.isNone(directUrl)) {
      yield* checkDirectConnection("DATABASE_URL", url.value)
      return Layer.merge(databaseClientLayer({ url: url.value, applicationName }), noEmbeddedHome)
    }
    yield* checkPooledAndDirectConnections(url.value, directUrl.value)
    const client = databaseClientLayer({ url: url.value, direct: directUrl.value, applicationName })
    return Layer.merge(Layer.provideMerge(poolerSettingsGuardLayer, client), noEmbeddedHome)
  }))

/** Runs an effect on a new direct connection, for work such as migrations that must stay in one session. */
export const withDirectConnection = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    DirectConnectionConfig,
    ({ config }) => Effect.provide(effect, PgClient.layer({ ...config, maxConnections: 1 })),
  )

/** Connects a command after applying pending migrations. */
export const migratedDatabaseClientLayer = migrationsLayer.pipe(
  Layer.provideMerge(commandDatabaseClientLayer("tickerline-command")),
)
