/**
 * D17: answers kept in memory, by what was asked: `?a&b` and `?b&a` are one. Each holds for one version of the tables
 * it was read from. Requests for one answer that is not there yet wait for one query.
 */
import { Cause, Config, Context, Effect, Exit, Layer, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import { ReplicaReader } from "../db/Database.ts"
import { ReadRouter } from "../db/replicas/ReadRouter.ts"
import { registerGauge } from "../observability/CallbackMetrics.ts"
import { type AnnotatedEndpoint, getTables } from "../rules/EndpointAnnotations.ts"
import { RequestContext } from "../http/RequestContext.ts"
import { contentTypes, digestHeaderName, formatDigest, makeFileHeaders } from "../rows/Formats.ts"
import { type ResponseContent, setPageMetadata } from "../rules/Paging.ts"
import * as Revalidation from "../http/ConditionalRequests.ts"
import { DatasetVersions } from "./DatasetVersions.ts"

/** What memory holds: a half by what was asked, a half by what was sent (`Sent.ts`). 0: nothing. */
export const CacheBytesConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })),
  "CACHE_MEGABYTES",
).pipe(Config.withDefault(64), Config.map((megabytes) => Math.max(1, megabytes * 524_288)))

/** What an entry takes beside its text. */
const overhead = 512

interface Answer extends Omit<ResponseContent, "text"> {
  readonly body: HttpBody.Uint8Array
  readonly etag: string
  /** Of a file. */
  readonly digest?: string
  readonly version: string | undefined
}

/** Of a page that is a file of its own: the sum that tells whether all of it arrived. */
const describedBy = ({ file }: ResponseContent, bytes: Uint8Array) =>
  file === undefined ? {} : { file, digest: formatDigest(hash("sha256", bytes, "base64")) }

const finished = (content: ResponseContent, version: string | undefined): Answer => {
  const { file, nextPage: next, records, text } = content
  const bytes = Buffer.from(text)
  const body = HttpBody.uint8Array(bytes, contentTypes[file?.format ?? "json"])
  return {
    nextPage: next,
    records,
    body,
    etag: Revalidation.computeEtag(bytes),
    version,
    ...describedBy(content, bytes),
  }
}

const headersOf = ({ digest, file }: Answer, route: string | undefined) =>
  file === undefined || digest === undefined ? {} : { ...makeFileHeaders(file, route), [digestHeaderName]: digest }

const sizeOf = ({ body }: Answer, key: string) => overhead + key.length + body.contentLength

/** How many of the latest keys are known again, at least. */
const mostSeen = 10_000

/** Tells of a key whether it was asked for lately. */
const memory = () => {
  let [latest, before] = [new Set<string>(), new Set<string>()]
  return (key: string) => {
    const known = latest.has(key)
    if (known) return true
    latest.add(key)
    const knownBefore = before.has(key)
    if (latest.size >= mostSeen) [latest, before] = [new Set<string>(), latest]
    return knownBefore
  }
}

type Followers<E> = Array<(exit: Exit.Exit<Answer, E>) => void>

const wasInterrupted = <E>(exit: Exit.Exit<Answer, E>) => Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

export class QueryCache extends Context.Service<QueryCache, {
  /** Answers what `make` makes of the tables that the endpoint reads, from memory while these do not change. */
  readonly makeHandler: <Query extends object, E>(
    endpoint: AnnotatedEndpoint,
    make: (query: Query) => Effect.Effect<ResponseContent, E>,
  ) => (query: Query) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest>
}>()("tickerline/cache/Answers") {
  static readonly layer = Layer.effect(
    QueryCache,
    Effect.gen(function* () {
      const versions = yield* DatasetVersions
      const { makeReplicaReader: elsewhere } = yield* ReadRouter
      const kept = new LRUCache<string, Answer>({ maxSize: yield* CacheBytesConfig, sizeCalculation: sizeOf })
      yield* registerGauge({
        name: "tickerline_cache_bytes",
        description: "What memory holds of answers: as they were asked for, and as they were sent.",
        attributes: { part: "asked" },
        read: () => kept.calculatedSize,
      })
      const wasSeen = memory()
      let makers = 0

      const from = <Query extends object, E>(
        endpoint: AnnotatedEndpoint,
        make: (query: Query) => Effect.Effect<ResponseContent, E>,
      ) => {
        const tables = getTables(endpoint)
        const watched = versions.watchTables(tables)
        const maker = makers++
        const making = new Map<string, Followers<E>>()

        /** Read where that version is there: the primary, or a replica that was found to have it. */
        const readAt = (query: Query, version: string) =>
          elsewhere === undefined
            ? make(query)
            : Effect.provideService(make(query), ReplicaReader, elsewhere({ tables, version }))

        const lead = (key: string, once: string, query: Query, version: string) => {
          const followers: Followers<E> = []
          const isWanted = wasSeen(key)
          const made = Effect.suspend(() => {
            making.set(once, followers)
            return Effect.map(readAt(query, version), (content) => {
              const answer = finished(content, version)
              // What is asked for once would only drive out what others ask for again.
              if (isWanted || followers.length > 0) kept.set(key, answer)
              return answer
            })
          })
          return Effect.onExit(made, (exit) =>
            Effect.sync(() => {
              making.delete(once)
              for (const tell of followers) tell(exit)
            }))
        }

        /** One of those who ask for the same leads; where it goes away before the end, another one does. */
        const once = (key: string, query: Query, version: string): Effect.Effect<Answer, E> =>
          Effect.suspend(() => {
            const name = `${version} ${key}`
            const leading = making.get(name)
            if (leading === undefined) return lead(key, name, query, version)
            return Effect.callback<Answer, E>((resume) => {
              leading.push((exit) => resume(wasInterrupted(exit) ? once(key, query, version) : exit))
            })
          })

        return Effect.fnUntraced(function* (query: Query) {
          const exchange = yield* RequestContext
          const version = watched.current()
          if (version === undefined) return yield* respond(finished(yield* make(query), undefined))
          if (exchange.purpose === "estimate") {
            return yield* respond(finished(yield* readAt(query, version), undefined))
          }
          const key = `${maker} ${JSON.stringify(query)}`
          const found = kept.get(key)
          if (found?.version === version) {
            exchange.cached = true
            exchange.isCurrent = () => watched.current() === version
            return yield* respond(found)
          }
          return yield* respond(yield* once(key, query, version))
        })
      }
      return QueryCache.of({ makeHandler: from })
    }),
  )
}

/** The answer, or 304 to a client that has it. */
const respond = Effect.fnUntraced(function* (answer: Answer) {
  const { body, etag } = answer
  const exchange = yield* RequestContext
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  yield* setPageMetadata(answer)
  const known = exchange.purpose === "answer"
    ? Revalidation.matchIfNoneMatch(headers["if-none-match"], etag)
    : undefined
  const validators = { "Cache-Control": "private, no-cache", ETag: known ?? etag }
  if (known !== undefined) {
    exchange.cached = true
    return HttpServerResponse.empty({ status: 304, headers: validators })
  }
  exchange.bytes = body.contentLength
  const said = answer.file === undefined ? validators : { ...validators, ...headersOf(answer, exchange.route) }
  return HttpServerResponse.setBody(HttpServerResponse.empty({ status: 200, headers: said }), body)
})

/** The answer as it is, for those that are not kept. */
export const respondUncached = Effect.fnUntraced(function* (content: ResponseContent) {
  yield* setPageMetadata(content)
  if (content.file === undefined) return HttpServerResponse.text(content.text, { contentType: contentTypes.json })
  const answer = finished(content, undefined)
  const { route } = yield* RequestContext
  return HttpServerResponse.setBody(
    HttpServerResponse.empty({ status: 200, headers: headersOf(answer, route) }),
    answer.body,
  )
})
