/** Connects to PostgreSQL: to the server in `DATABASE_URL`, or to the embedded server if `DATABASE_URL` is not set. */
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
import { findUrlFile } from "./pool/PasswordRotation.ts"
import { databaseClientLayer } from "./pool/PooledClient.ts"
import { DatabaseUrlConfig, DirectConnectionConfig, DirectDatabaseUrlConfig } from "./pool/ConnectionSettings.ts"

/** The embedded server's home directory, or `None` if the database is external. */
export class EmbeddedHomeDirectory extends Context.Service<EmbeddedHomeDirectory, {
  readonly folder: Option.Option<string>
}>()("tickerline/postgres/EmbeddedHomeDirectory") {}

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

/** Reads the database URLs and the files that contain them. `None` means the embedded server. */
const databaseUrls = Effect.gen(function* () {
  const [url, directUrl] = [yield* DatabaseUrlConfig, yield* DirectDatabaseUrlConfig]
  if (Option.isNone(url) && Option.isSome(directUrl)) {
    return yield* new DatabaseUrlError({
      message:
        "DATABASE_DIRECT_URL is set, but DATABASE_URL is not. Set DATABASE_URL to the pooler, or to PostgreSQL " +
        "itself if there is no pooler.",
    })
  }
  return {
    url,
    urlFile: yield* findUrlFile("DATABASE_URL", DatabaseUrlConfig),
    directUrl,
    directFile: yield* findUrlFile("DATABASE_DIRECT_URL", DirectDatabaseUrlConfig),
  }
})

/**
 * Connects a command such as `load`. Never uses a pooler in transaction mode, because a command needs a single session.
 */
export const commandDatabaseClientLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { directFile, directUrl, url, urlFile } = yield* databaseUrls
    const [setting, chosen, chosenFile] = Option.isSome(directUrl)
      ? ["DATABASE_DIRECT_URL", directUrl, directFile] as const
      : ["DATABASE_URL", url, urlFile] as const
    if (Option.isNone(chosen)) return embeddedLayer(applicationName)
    yield* checkDirectConnection(setting, chosen.value)
    const client = databaseClientLayer({ url: chosen.value, urlFile: chosenFile, applicationName })
    return Layer.merge(client, noEmbeddedHome)
  }))

/**
 * Connects the HTTP server: to the embedded server if no database is configured, to `DATABASE_URL` if that is all that
 * is configured, and otherwise to both the pooler (`DATABASE_URL`), through which it reads, and PostgreSQL itself
 * (`DATABASE_DIRECT_URL`). Fails if a URL points to a pooler in a mode that does not suit its purpose.
 */
export const serverDatabaseClientLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { directFile, directUrl, url, urlFile } = yield* databaseUrls
    if (Option.isNone(url)) return embeddedLayer(applicationName)
    if (Option.isNone(directUrl)) {
      yield* checkDirectConnection("DATABASE_URL", url.value)
      return Layer.merge(databaseClientLayer({ url: url.value, urlFile, applicationName }), noEmbeddedHome)
    }
    yield* checkPooledAndDirectConnections(url.value, directUrl.value)
    const client = databaseClientLayer({
      url: url.value,
      urlFile,
      direct: directUrl.value,
      directFile,
      applicationName,
    })
    // Other programs may change the settings of the pooler's connections, so these are checked again and again.
    return Layer.merge(Layer.provideMerge(poolerSettingsGuardLayer, client), noEmbeddedHome)
  }))

/** Runs an effect on a new direct connection, for work that must stay in one session, such as migrations. */
export const withDirectConnection = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    DirectConnectionConfig,
    ({ config }) => Effect.provide(effect, PgClient.layer({ ...config, maxConnections: 1 })),
  )

/** Connects a command to the database and applies pending migrations first. */
export const migratedDatabaseClientLayer = migrationsLayer.pipe(
  Layer.provideMerge(commandDatabaseClientLayer("tickerline-command")),
)
