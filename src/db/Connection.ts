/** Which PostgreSQL: the one of `DATABASE_URL`, or the embedded one. */
import { Config, Context, Effect, Layer, Option } from "effect"
import { client } from "./Database.ts"
import * as Embedded from "./Embedded.ts"
import * as Migrations from "./Migrations.ts"

export const DatabaseUrl = Config.option(Config.Redacted("DATABASE_URL"))

/** The folder of the embedded server, `None` where the database is somebody else's. */
export class Home extends Context.Service<Home, { readonly folder: Option.Option<string> }>()("tickerline/db/Home") {}

const external = (url: Config.Success<typeof DatabaseUrl>) =>
  Option.map(url, (value) => ({ url: value, folder: Option.none<string>() }))

const embedded = Effect.gen(function* () {
  const folder = yield* Embedded.home
  const { url } = yield* Embedded.make(folder)
  return { url, folder: Option.some(folder) }
})

/** `SqlClient` and `Home`, for as long as the layer lives. */
export const layer = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function* () {
    const { folder, url } = yield* Option.match(external(yield* DatabaseUrl), {
      onNone: () => embedded,
      onSome: Effect.succeed,
    })
    return Layer.merge(client({ url, applicationName }), Layer.succeed(Home, { folder }))
  }))

/** The same, brought up to date: what a command works on. */
export const migrated = Migrations.layer.pipe(Layer.provideMerge(layer("tickerline-command")))
