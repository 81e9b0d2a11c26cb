/**
 * D17: answers kept in memory, by what was asked: `?a&b` and `?b&a` are one. Each holds for one version of the tables
 * it was read from. Requests for one answer that is not there yet wait for one query.
 */
import { Config, Context, Effect, Fiber, FiberSet, Layer, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import { Exchange } from "../policy/Exchange.ts"
import { announce, type Content } from "../policy/Paging.ts"
import * as Revalidation from "./Revalidation.ts"
import { Versions } from "./Versions.ts"

/** What memory holds: a half by what was asked, a half by what was sent (`Shortcut.ts`). 0: nothing. */
export const CacheBytes = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })),
  "CACHE_MEGABYTES",
).pipe(Config.withDefault(64), Config.map((megabytes) => Math.max(1, megabytes * 524_288)))

/** What an entry takes beside its text. */
const overhead = 512

interface Answer extends Content {
  readonly body: HttpBody.Uint8Array
  readonly etag: string
  readonly version: string | undefined
}

const finished = (content: Content, version: string | undefined): Answer => ({
  ...content,
  body: HttpBody.text(content.text, "application/json"),
  etag: Revalidation.etagOf(content.text),
  version,
})

/** A character takes two bytes where any of the text lies beyond Latin-1. */
const sizeOf = ({ body, text }: Answer, key: string) =>
  overhead + key.length + (body.contentLength === text.length ? text.length : 2 * text.length)

interface Making<E> {
  readonly fiber: Fiber.Fiber<Answer, E>
  waiting: number
}

export class Answers extends Context.Service<Answers, {
  /** Gives the answers that `make` makes of `tables`; those that are known from memory. */
  readonly from: <Query extends object, E>(
    tables: ReadonlyArray<string>,
    make: (query: Query) => Effect.Effect<Content, E>,
  ) => (query: Query) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest>
}>()("tickerline/cache/Answers") {
  static readonly layer = Layer.effect(
    Answers,
    Effect.gen(function* () {
      const versions = yield* Versions
      const fibers = yield* FiberSet.make()
      const kept = new LRUCache<string, Answer>({ maxSize: yield* CacheBytes, sizeCalculation: sizeOf })
      let makers = 0

      const from = <Query extends object, E>(
        tables: ReadonlyArray<string>,
        make: (query: Query) => Effect.Effect<Content, E>,
      ) => {
        const watched = versions.of(tables)
        const maker = makers++
        const making = new Map<string, Making<E>>()

        /** When the last who waits for it goes away, it ends. */
        const wait = (once: string, made: Making<E>) => {
          made.waiting += 1
          return Effect.onInterrupt(Fiber.join(made.fiber), () => {
            made.waiting -= 1
            if (made.waiting > 0) return Effect.void
            making.delete(once)
            return Fiber.interrupt(made.fiber)
          })
        }

        /** In a fiber of its own: others may wait for it too, whoever goes away. */
        const start = Effect.fnUntraced(function* (key: string, query: Query, version: string) {
          const once = `${version} ${key}`
          const running = making.get(once)
          if (running !== undefined) return yield* wait(once, running)
          const made = Effect.map(make(query), (content) => {
            const answer = finished(content, version)
            kept.set(key, answer)
            return answer
          })
          const fiber = yield* FiberSet.run(fibers, Effect.ensuring(made, Effect.sync(() => making.delete(once))))
          const begun = { fiber, waiting: 0 }
          if (fiber.pollUnsafe() === undefined) making.set(once, begun)
          return yield* wait(once, begun)
        })

        return Effect.fnUntraced(function* (query: Query) {
          const exchange = yield* Exchange
          const version = watched.current()
          if (exchange.purpose === "estimate" || version === undefined) {
            return yield* respond(finished(yield* make(query), undefined))
          }
          const key = `${maker} ${JSON.stringify(query)}`
          const found = kept.get(key)
          if (found?.version === version) {
            exchange.cached = true
            exchange.holds = () => watched.current() === version
            return yield* respond(found)
          }
          return yield* respond(yield* start(key, query, version))
        })
      }
      return Answers.of({ from })
    }),
  )
}

/** The answer, or 304 to a client that has it. */
const respond = Effect.fnUntraced(function* (answer: Answer) {
  const { body, etag } = answer
  const exchange = yield* Exchange
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  yield* announce(answer)
  const known = exchange.purpose === "answer" ? Revalidation.known(headers["if-none-match"], etag) : undefined
  const validators = { "Cache-Control": "private, no-cache", ETag: known ?? etag }
  if (known !== undefined) {
    exchange.cached = true
    return HttpServerResponse.empty({ status: 304, headers: validators })
  }
  exchange.bytes = body.contentLength
  return HttpServerResponse.setBody(HttpServerResponse.empty({ status: 200, headers: validators }), body)
})
