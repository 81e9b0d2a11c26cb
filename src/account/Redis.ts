/** D18: the counters that all instances share, in the Redis of `REDIS_URL`. */
import { Config, Context, Data, Effect, Fiber, Layer, Option, Predicate, Redacted, Schema, Scope } from "effect"
import { RateLimiter } from "effect/persistence"

/** What the client can read, to the number of the database; over anything else it throws, with the address in hand. */
const isAddress = (text: string) => {
  try {
    const { password, pathname, username } = new URL(text)
    decodeURIComponent(`${username}:${password}`)
    return /^rediss?:\/\/./.test(text) && /^(\/\d*)?$/.test(pathname)
  } catch {
    return false
  }
}

export const RedisUrl = Config.schema(
  Schema.String.check(
    Schema.makeFilter(isAddress, { message: "must be an address of Redis, redis://user:password@host:port" }),
  ),
  "REDIS_URL",
).pipe(Config.map((text) => Redacted.make(text)))

export class RedisAway extends Data.TaggedError("RedisAway")<{ readonly message: string }> {}

/** The code of what went wrong first; a message might repeat the address, which may hold a password. */
const codeOf = (error: unknown): string | undefined =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string"
    ? error.code
    : Predicate.hasProperty(error, "originalError")
    ? codeOf(error.originalError)
    : Predicate.hasProperty(error, "cause")
    ? codeOf(error.cause)
    : undefined

const unreachable = (cause: unknown) => {
  const why = codeOf(cause) ?? "it refused the connection"
  return new RedisAway({ message: `REDIS_URL: no connection to Redis: ${why}` })
}

const silent = new RedisAway({ message: "REDIS_URL: no connection to Redis: it does not answer" })

/** A scope whose end is not waited for long: the client says goodbye to its server even where that is silent. */
const briefly = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const end = Effect.fnUntraced(function* (exit: Parameters<typeof Scope.close>[1]) {
    const closing = yield* Effect.forkDetach(Scope.close(scope, exit))
    yield* Effect.timeoutOption(Fiber.await(closing), "1 second")
  })
  // In a fiber of its own, where timeouts work although the scope's fiber is no longer interruptible.
  yield* Effect.addFinalizer((exit) => Effect.flatMap(Effect.forkDetach(end(exit)), Fiber.await))
  return scope
})

/** None where no Redis is named; a named one must be there when the service starts. */
export const shared = Effect.gen(function* () {
  const url = yield* Config.option(RedisUrl)
  if (Option.isNone(url)) return Option.none<RateLimiter.RateLimiter>()
  // Few have a Redis; a start of the others need not load its client.
  const NodeRedis = yield* Effect.promise(() => import("@effect/platform-node/NodeRedis"))
  const redis = NodeRedis.layer({ url: Redacted.value(url.value), disableOfflineQueue: true })
  const store = RateLimiter.layerStoreRedis({ prefix: "tickerline:rate:" }).pipe(Layer.provide(redis))
  // In a fiber of its own: a server that says nothing holds the client up where no timeout reaches it.
  const connecting = yield* Effect.forkDetach(
    Layer.buildWithScope(RateLimiter.layer.pipe(Layer.provide(store)), yield* briefly),
  )
  const context = yield* Fiber.join(connecting).pipe(
    Effect.mapError(unreachable),
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail(silent) }),
  )
  return Option.some(Context.get(context, RateLimiter.RateLimiter))
})
