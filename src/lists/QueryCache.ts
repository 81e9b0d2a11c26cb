/**
 * Caches results in memory (D17, caching). The key is a hash of the decoded query, so `?a&b` and `?b&a` share an entry.
 * An entry is valid for one version of its tables. Concurrent requests for the same uncached result share one query.
 */
import { Cause, Config, Context, Effect, Exit, Layer, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import { ReplicaReader } from "../db/Database.ts"
import { ReadRouter } from "../db/replicas/ReadRouter.ts"
import { addToVary, computeEtag, matchIfNoneMatch } from "../http/ConditionalRequests.ts"
import { RequestContext } from "../http/RequestContext.ts"
import { registerGauge } from "../observability/CallbackMetrics.ts"
import { digestHeaderName, formatDigestHeader, listContentTypes, makeListFileHeaders } from "../rows/ListFormats.ts"
import { type AnnotatedEndpoint, getTablesReadByEndpoint } from "../rules/EndpointAnnotations.ts"
import { encodeUnpagedResponse, type ResponseContent, setPageMetadata } from "../rules/Paging.ts"
import { AsOfTime } from "../rules/Dates.ts"
import { DatasetVersions } from "./DatasetVersions.ts"

/** Maximum size of the query cache and of the response cache, each half of `CACHE_MEGABYTES`. 0 turns both off. */
export const MaxCacheBytesConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })),
  "CACHE_MEGABYTES",
).pipe(Config.withDefault(64), Config.map((megabytes) => Math.max(1, megabytes * 524_288)))

/** Estimated memory of an entry, excluding its body and key. */
const entryOverheadBytes = 512

interface CachedResult extends Omit<ResponseContent, "body"> {
  readonly body: HttpBody.Uint8Array
  readonly etag: string
  /** SHA-256 of a CSV or NDJSON page. */
  readonly digest?: string
  readonly version: string | undefined
}

export const makeResult = (content: ResponseContent, version: string | undefined): CachedResult => {
  const { body: bytes, file, headers = {}, nextPage, records } = content
  return {
    headers,
    nextPage,
    records,
    body: HttpBody.uint8Array(bytes, listContentTypes[file?.format ?? "json"]),
    etag: computeEtag(bytes),
    version,
    ...(file === undefined ? {} : { file, digest: formatDigestHeader(hash("sha256", bytes, "base64")) }),
  }
}

const getFileHeaders = ({ digest, file }: CachedResult, route: string | undefined) =>
  file === undefined || digest === undefined ? {} : { ...makeListFileHeaders(file, route), [digestHeaderName]: digest }

const estimateSize = ({ body, headers = {} }: CachedResult, key: string) =>
  entryOverheadBytes + key.length + body.contentLength + Object.entries(headers).join("").length * 2

/** Makes the store of cached results. */
export const makeResultStore = (maxBytes: number) =>
  new LRUCache<string, CachedResult>({ maxSize: maxBytes, sizeCalculation: estimateSize })

/**
 * Returns the SHA-256 of a query, so that no key is longer than 44 characters, however long the query is. Two queries
 * with the same hash are practically impossible, even if a client searches for them.
 */
export const hashQuery = (text: string) => hash("sha256", text, "base64")

const minRememberedKeys = 10_000

/** Returns a function that checks whether a key is among the last 10,000 to 20,000 requested keys, and records it. */
export const makeRepetitionDetector = () => {
  let [current, previous] = [new Set<string>(), new Set<string>()]
  return (key: string) => {
    if (current.has(key)) return true
    current.add(key)
    const wasRequested = previous.has(key)
    if (current.size >= minRememberedKeys) [current, previous] = [new Set<string>(), current]
    return wasRequested
  }
}

type Listeners<E> = Array<(exit: Exit.Exit<CachedResult, E>) => void>

const wasInterrupted = <E>(exit: Exit.Exit<CachedResult, E>) =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

export class QueryCache extends Context.Service<QueryCache, {
  /**
   * Returns a handler that caches the results of `read` until a table that the endpoint reads changes. Results of
   * requests with `as_of` remain valid.
   */
  readonly makeHandler: <Query extends object, E>(
    endpoint: AnnotatedEndpoint,
    read: (query: Query) => Effect.Effect<ResponseContent, E>,
  ) => (query: Query) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest>
}>()("tickerline/lists/QueryCache") {
  static readonly layer = Layer.effect(
    QueryCache,
    Effect.gen(function* () {
      const versions = yield* DatasetVersions
      const { makeReplicaReader } = yield* ReadRouter
      const results = makeResultStore(yield* MaxCacheBytesConfig)
      yield* registerGauge({
        name: "tickerline_cache_bytes",
        description: "Memory used by the query cache (asked) and the response cache (sent).",
        attributes: { part: "asked" },
        read: () => results.calculatedSize,
      })
      const wasRequestedRecently = makeRepetitionDetector()
      let handlerCount = 0

      /** Returns the version of all results with `as_of`. Only a failover that loses transactions can change them. */
      const getPastVersion = () => {
        const timeline = versions.getTimeline()
        return timeline === undefined ? undefined : `past of ${timeline}`
      }

      const makeHandler = <Query extends object, E>(
        endpoint: AnnotatedEndpoint,
        read: (query: Query) => Effect.Effect<ResponseContent, E>,
      ) => {
        const tables = getTablesReadByEndpoint(endpoint)
        const tableVersions = versions.watchTables(tables)
        const handlerId = handlerCount++
        const pendingReads = new Map<string, Listeners<E>>()

        /** Reads from a replica that has the current version of the tables, or from the primary. */
        const readCurrent = (query: Query) => {
          const version = tableVersions.current()
          return makeReplicaReader === undefined || version === undefined
            ? read(query)
            : Effect.provideService(read(query), ReplicaReader, makeReplicaReader({ tables, version }))
        }

        const readAndNotify = (key: string, pendingKey: string, query: Query, version: string) => {
          const listeners: Listeners<E> = []
          const isRepeated = wasRequestedRecently(key)
          const reading = Effect.suspend(() => {
            pendingReads.set(pendingKey, listeners)
            return Effect.map(readCurrent(query), (content) => {
              const result = makeResult(content, version)
              // Cache only repeated results, because results that are requested once would evict them.
              if (isRepeated || listeners.length > 0) results.set(key, result)
              return result
            })
          })
          return Effect.onExit(reading, (exit) =>
            Effect.sync(() => {
              pendingReads.delete(pendingKey)
              for (const notify of listeners) notify(exit)
            }))
        }

        /** Waits for a pending read of the same result. Starts a read if there is none, or if it is interrupted. */
        const readOnce = (key: string, query: Query, version: string): Effect.Effect<CachedResult, E> =>
          Effect.suspend(() => {
            const pendingKey = `${version} ${key}`
            const listeners = pendingReads.get(pendingKey)
            if (listeners === undefined) return readAndNotify(key, pendingKey, query, version)
            return Effect.callback<CachedResult, E>((resume) => {
              listeners.push((exit) => resume(wasInterrupted(exit) ? readOnce(key, query, version) : exit))
            })
          })

        const getResult = (
          query: Query,
          { purpose, response }: RequestContext,
          moment: string | undefined,
        ): Effect.Effect<CachedResult, E> => {
          const getVersion = moment === undefined ? tableVersions.current : getPastVersion
          const version = getVersion()
          if (version === undefined || purpose === "estimate") {
            return Effect.map(readCurrent(query), (content) => makeResult(content, undefined))
          }
          const key = hashQuery(`${handlerId} ${moment} ${JSON.stringify(query)}`)
          const cached = results.get(key)
          if (cached?.version !== version) return readOnce(key, query, version)
          response.cached = true
          response.isCurrent = () => getVersion() === version
          return Effect.succeed(cached)
        }

        return (query: Query) =>
          Effect.withFiber<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest>((fiber) => {
            const context = fiber.getRef(RequestContext)
            const moment = fiber.getRef(AsOfTime)
            return Effect.flatMap(getResult(query, context, moment), (result) => respond(result, context, moment))
          })
      }
      return QueryCache.of({ makeHandler })
    }),
  )
}

/** Responds with the result, or with 304 if the client has the same result. */
const respond = (result: CachedResult, context: RequestContext, moment: string | undefined) =>
  Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const { body, etag } = result
    const { purpose, response } = context
    setPageMetadata(context, result)
    // Stored for a year, the response must not reach another key, which may not be allowed to get it.
    if (moment !== undefined) response.headers["Vary"] = addToVary(response.headers["Vary"], "Authorization, X-API-Key")
    const match = purpose === "answer" ? matchIfNoneMatch(headers["if-none-match"], etag) : undefined
    const validators = {
      "Cache-Control": moment === undefined ? "private, no-cache" : "private, max-age=31536000, immutable",
      ETag: match ?? etag,
    }
    if (match !== undefined) {
      response.cached = true
      return HttpServerResponse.empty({ status: 304, headers: validators })
    }
    response.bytes = body.contentLength
    const responseHeaders = result.file === undefined
      ? validators
      : { ...validators, ...getFileHeaders(result, response.route) }
    return HttpServerResponse.setBody(HttpServerResponse.empty({ status: 200, headers: responseHeaders }), body)
  })

/** Responds with content that is not cached, or with 304 if the client has the same content. */
export const respondWithEtag = (content: ResponseContent) =>
  Effect.flatMap(RequestContext, (context) => respond(makeResult(content, undefined), context, undefined))

/** Responds without caching and without an `ETag`. */
export const respondUncached = (content: ResponseContent) =>
  Effect.map(RequestContext, (context) => {
    setPageMetadata(context, content)
    if (content.file === undefined) {
      return HttpServerResponse.uint8Array(content.body, { contentType: listContentTypes.json })
    }
    const result = makeResult(content, undefined)
    return HttpServerResponse.setBody(
      HttpServerResponse.empty({ status: 200, headers: getFileHeaders(result, context.response.route) }),
      result.body,
    )
  })

/** Returns a function that responds with one object that is not a list, such as the account. */
export const makeUncachedObjectResponder = <Value>(schema: Schema.Codec<Value, unknown>) => {
  const encode = Schema.encodeEffect(Schema.toCodecJson(schema))
  return (value: Value) =>
    Effect.flatMap(Effect.orDie(encode(value)), (encoded) => respondUncached(encodeUnpagedResponse(encoded, 1)))
}
