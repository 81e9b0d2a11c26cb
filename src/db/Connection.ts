/** Which PostgreSQL: the one of `DATABASE_URL`, or the embedded one; and by which way. */
import { Context, Effect, Layer, Option } from "effect"
import { PgClient } from "@effect/sql-pg"
import { databaseClientLayer } from "./Database.ts"
import * as Embedded from "./embedded/EmbeddedPostgres.ts"
import * as Limits from "./pool/SessionSettingsGuard.ts"
import * as Migrations from "./migrations/Migrations.ts"
import * as Pooler from "./pool/PoolerCheck.ts"
import { DatabaseUrl, DirectConnection, DirectUrl } from "./pool/Session.ts"

/** The folder of the embedded server, `None` where the database is somebody else's. */
export class EmbeddedHome
  extends Context.Service<EmbeddedHome, { readonly folder: Option.Option<string> }>()("tickerline/db/Home") {}

const external = Layer.succeed(EmbeddedHome, { folder: Option.none() })

const embedded = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const folder = yield* Embedded.TickerlineHome
    const { url } = yield* Embedded.startEmbeddedPostgres(folder)
    return Layer.merge(
      databaseClientLayer({ url, applicationName }),
      Layer.succeed(EmbeddedHome, { folder: Option.some(folder) }),
    )
  }))

const urls = Effect.gen(function* () {
  const [url, direct] = [yield* DatabaseUrl, yield* DirectUrl]
  if (Option.isNone(url) && Option.isSome(direct)) {
    return yield* new Pooler.DatabaseUrlError({
      message:
        "DATABASE_DIRECT_URL is set, but DATABASE_URL is not. Name the pooler in DATABASE_URL, or, without one, " +
        "PostgreSQL itself.",
    })
  }
  return { url, direct }
})

/** For commands, which need sessions: `SqlClient` and `Home`, for as long as the layer lives. */
export const commandConnectionLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { direct, url: named } = yield* urls
    const [name, way] = Option.isSome(direct) ? ["DATABASE_DIRECT_URL", direct] : ["DATABASE_URL", named]
    if (Option.isNone(way)) return embedded(applicationName)
    yield* Pooler.checkDirectConnection(name, way.value)
    return Layer.merge(databaseClientLayer({ url: way.value, applicationName }), external)
  }))

/** For the service, which asks through the pooler where there is one. */
export const serverConnectionLayer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { direct, url } = yield* urls
    if (Option.isNone(url)) return embedded(applicationName)
    if (Option.isNone(direct)) {
      yield* Pooler.checkDirectConnection("DATABASE_URL", url.value)
      return Layer.merge(databaseClientLayer({ url: url.value, applicationName }), external)
    }
    yield* Pooler.checkBothConnections(url.value, direct.value)
    const through = databaseClientLayer({ url: url.value, direct: direct.value, applicationName })
    return Layer.merge(Layer.provideMerge(Limits.sessionSettingsGuardLayer, through), external)
  }))

/** The work, over a connection of the way for what needs a session. */
export const withDirectConnection = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    DirectConnection,
    ({ config }) => Effect.provide(work, PgClient.layer({ ...config, maxConnections: 1 })),
  )

/** The same, brought up to date: what a command works on. */
export const migratedConnectionLayer = Migrations.migrationsLayer.pipe(
  Layer.provideMerge(commandConnectionLayer("tickerline-command")),
)
