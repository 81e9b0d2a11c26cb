/** Which key a query is sent with. It is never an argument, which the list of processes would show. */
import { Config, Effect, FileSystem, Option, Redacted, Schema } from "effect"
import * as Embedded from "../../db/embedded/EmbeddedPostgres.ts"

export class UnreadableKey extends Schema.TaggedError<UnreadableKey>()("UnreadableKey", { message: Schema.String }) {}

export const ApiKeyConfig = Config.option(Config.Redacted("TICKERLINE_KEY"))

const inFile = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(
    fs.readFileString(path),
    ({ reason }) =>
      new UnreadableKey({
        message: `The key cannot be read from ${path}: ${reason._tag}. Expected a file with nothing but the key.`,
      }),
  )
  return Redacted.make(text.trim())
})

/** The demo key opens the service of this machine, so no other is sent it. */
const demo = Effect.gen(function* () {
  const home = yield* Embedded.TickerlineHome
  return yield* Effect.option(inFile(`${home}/demo-key`))
})

/** `isOwn`: no other service than that of this machine's settings is asked. */
export const findApiKey = Effect.fnUntraced(function* (file: Option.Option<string>, isOwn: boolean) {
  if (Option.isSome(file)) return Option.some(yield* inFile(file.value))
  const named = yield* ApiKeyConfig
  if (Option.isSome(named)) return named
  return isOwn ? yield* demo : Option.none<Redacted.Redacted>()
})
