/** D18: the counters that all instances share, in the Redis of `REDIS_URL`. */
import {
  Config,
  Context,
  Data,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Layer,
  Logger,
  Option,
  Predicate,
  Queue,
  Redacted,
  Schema,
  Scope,
} from "effect"
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

/** The first word of what Redis answered (`WRONGPASS`, `LOADING`, `READONLY`): the rest is not needed. */
const wordOf = (error: unknown): string | undefined =>
  Predicate.hasProperty(error, "cause")
    ? wordOf(error.cause)
    : Predicate.hasProperty(error, "message")
    ? /^[A-Z]{4,}\b/.exec(String(error.message))?.[0]
    : undefined

const unreachable = (cause: unknown) => {
  const why = codeOf(cause) ?? wordOf(cause) ?? "it refused the connection"
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

type Store = typeof RateLimiter.RateLimiterStore.Service

/** Longer than that no request waits for Redis. */
const patience = Duration.seconds(1)

/** What it answered in time, where that makes sense. Out of memory, loading, a replica, not permitted: all is away. */
export const answer = (counting: ReturnType<Store["fixedWindow"]>) =>
  counting.pipe(
    Effect.timeout(patience),
    Effect.catchDefect((defect) => Effect.fail(new RedisAway({ message: String(defect) }))),
    Effect.filterOrFail(
      ([count, endsIn]) => Number.isFinite(count) && Number.isFinite(endsIn),
      () => new RedisAway({ message: "an answer that makes no sense" }),
    ),
  )

/** Whether it counts for this user: it is written to, for a millisecond. */
const probe = (store: Store) =>
  Effect.mapError(
    answer(store.fixedWindow({ key: "probe", tokens: 1, limit: 1_000_000, refillRate: Duration.millis(1) })),
    (error) => {
      const why = codeOf(error) ?? wordOf(error) ?? "it does not answer"
      return new RedisAway({ message: `REDIS_URL: Redis does not count: ${why}` })
    },
  )

/** Connects, for as long as the scope lives, to a Redis that counts. */
export const connect = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  // Few have a Redis; a start of the others need not load its client.
  const NodeRedis = yield* Effect.promise(() => import("@effect/platform-node/NodeRedis"))
  const redis = NodeRedis.layer({ url: Redacted.value(url), disableOfflineQueue: true })
  const store = RateLimiter.layerStoreRedis({ prefix: "tickerline:rate:" }).pipe(
    Layer.provide(redis),
    // What the client says of each failure is said once, by what looks after it.
    Layer.provide(Logger.layer([])),
  )
  // In a fiber of its own: a server that says nothing holds the client up where no timeout reaches it.
  const connecting = yield* Effect.forkDetach(Layer.buildWithScope(Layer.fresh(store), yield* briefly))
  const context = yield* Fiber.join(connecting).pipe(
    Effect.mapError(unreachable),
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail(silent) }),
  )
  const found = Context.get(context, RateLimiter.RateLimiterStore)
  yield* probe(found)
  return found
})

/** The start waits for it no longer than that. */
const firstPatience = Duration.seconds(2)

/**
 * A Redis that failed is not counted in for so long: that no change of counters gives an account its limit anew more
 * than once a minute, however often Redis comes and goes.
 */
export const Rest = Context.Reference<Duration.Duration>("tickerline/account/Redis/Rest", {
  defaultValue: () => Duration.minutes(1),
})

export interface Shared {
  /** None while it is away. */
  readonly store: () => Store | undefined
  /** It did not answer a request: whether it does at all is asked at once. */
  readonly doubt: () => void
}

/** Undefined where no Redis is named. One that is away is looked for every second, and its client made anew. */
export const shared = Effect.gen(function* () {
  const url = yield* Config.option(RedisUrl)
  if (Option.isNone(url)) return undefined
  const rest = yield* Rest
  const doubts = yield* Queue.dropping<void>(1)
  const tried = yield* Deferred.make<void>()
  let store: Store | undefined
  let told = false

  const awayFor = Effect.fnUntraced(function* (pause: Duration.Duration, { message }: { readonly message: string }) {
    if (!told) yield* Effect.logWarning(`Redis does not count requests, so PostgreSQL does: ${message}`)
    told = true
    yield* Deferred.succeed(tried, undefined)
    yield* Effect.sleep(pause)
  })

  const used = Effect.gen(function* () {
    store = yield* connect(url.value)
    if (told) yield* Effect.logInfo("Redis counts requests.")
    told = false
    yield* Deferred.succeed(tried, undefined)
    yield* Queue.clear(doubts)
    const doubted = Effect.andThen(Queue.take(doubts), probe(store))
    return yield* Effect.flip(Effect.forever(doubted))
  }).pipe(
    Effect.ensuring(Effect.sync(() => store = undefined)),
    Effect.scoped,
  )
  yield* used.pipe(
    Effect.matchEffect({
      onSuccess: (why) => awayFor(rest, why),
      onFailure: (why) => awayFor(Duration.seconds(1), why),
    }),
    Effect.forever,
    Effect.forkScoped,
  )
  yield* Effect.timeoutOption(Deferred.await(tried), firstPatience)
  return { store: () => store, doubt: () => void Queue.offerUnsafe(doubts, undefined) } satisfies Shared
})
