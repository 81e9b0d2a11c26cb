/**
 * Caches results in memory (D17, caching). The key is a hash of the decoded query, so `?a&b` and `?b&a` share an entry.
 * An entry is valid for one version of its tables. Concurrent requests for the same uncached result share one query.
 */
import { Cause, Context, Effect, Exit, Layer, Schema } from "effect"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import type { AdmittedRequest } from "../accounts/EndpointHandler.ts"
import { Reader, type ReadSource, type StatementReader } from "../db/Reader.ts"
import { registerGauge } from "../observability/CallbackMetrics.ts"
import { computeEtag } from "../rows/Etag.ts"
import { digestHeaderName, formatDigestHeader, listContentTypes, makeListFileHeaders } from "../rows/ListFormats.ts"
import { makePage, type Page, type Total } from "../rules/Answer.ts"
import { type AnnotatedEndpoint, getTablesReadByEndpoint } from "../rules/EndpointAnnotations.ts"
import { encodeUnpagedResponse, type ResponseContent } from "../rules/Paging.ts"
import { DatasetVersions, MaxCacheBytesConfig } from "../db/versions/DatasetVersions.ts"

/** Estimated memory of an entry, excluding its body and key. */
const entryOverheadBytes = 512

/** The parts of a page that depend only on the query. */
interface CachedResult extends Pick<Page, "body" | "contentType" | "headers" | "bodyHeaders" | "records" | "nextPage"> {
  readonly etag: string
  readonly version: string | undefined
}

/** Makes the result of a query. `route` is the path of the endpoint, which names files. */
export const makeResult = (content: ResponseContent, version: string | undefined, route: string): CachedResult => {
  const { body, file, headers = {}, nextPage, records } = content
  return {
    body,
    contentType: listContentTypes[file?.format ?? "json"],
    headers,
    bodyHeaders: file === undefined ? {} : {
      ...makeListFileHeaders(file, route),
      [digestHeaderName]: formatDigestHeader(hash("sha256", body, "base64")),
    },
    records,
    nextPage,
    etag: computeEtag(body),
    version,
  }
}

const estimateSize = ({ body, bodyHeaders, headers }: CachedResult, key: string) =>
  entryOverheadBytes + key.length + body.length +
  Object.entries({ ...headers, ...bodyHeaders }).join("").length * 2

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

/** Makes the page of a result for a request. */
const toPage = (
  { body, bodyHeaders, contentType, etag, headers, nextPage, records }: CachedResult,
  { past }: AdmittedRequest,
  { isCached = false, isCurrent, total }: Partial<Pick<Page, "isCached" | "isCurrent" | "total">> = {},
): Page => ({
  _tag: "Page",
  body,
  contentType,
  cacheControl: past === undefined ? "private, no-cache" : "private, max-age=31536000, immutable",
  etag,
  // Stored for a year, the response must not reach another key, which may not be allowed to get it.
  headers: past === undefined ? headers : { ...headers, vary: "Authorization, X-API-Key" },
  bodyHeaders,
  records,
  nextPage,
  isCached,
  isCurrent,
  sources: [],
  total,
})

/** Reads the content of a page. */
type ReadContent<Query, E> = (query: Query, read: StatementReader, request: AdmittedRequest) => Effect.Effect<
  ResponseContent,
  E
>

/** Counts all results of a query, for an estimate (D28). */
type CountAll<Query, E> = (query: Query, read: StatementReader) => Effect.Effect<Total, E>

export class QueryCache extends Context.Service<QueryCache, {
  /**
   * Returns a function that answers with the results of `read`, which it caches until a table that the endpoint reads
   * changes. Results of requests with `as_of` remain valid.
   */
  readonly makeAnswer: <Query extends object, E>(
    endpoint: AnnotatedEndpoint,
    read: ReadContent<Query, E>,
    count?: CountAll<Query, E>,
  ) => (query: Query, request: AdmittedRequest) => Effect.Effect<Page, E>
}>()("tickerline/lists/QueryCache") {
  static readonly layer = Layer.effect(
    QueryCache,
    Effect.gen(function* () {
      const versions = yield* DatasetVersions
      const reader = yield* Reader
      const results = makeResultStore(yield* MaxCacheBytesConfig)
      yield* registerGauge({
        name: "tickerline_cache_bytes",
        description: "Memory used by the query cache (asked) and the response cache (sent).",
        attributes: { part: "asked" },
        read: () => results.calculatedSize,
      })
      const wasRequestedRecently = makeRepetitionDetector()
      let answerCount = 0

      /** Returns the version of all results with `as_of`. Only a failover that loses transactions can change them. */
      const getPastVersion = () => {
        const timeline = versions.getTimeline()
        return timeline === undefined ? undefined : `past of ${timeline}`
      }

      const makeAnswer = <Query extends object, E>(
        endpoint: AnnotatedEndpoint,
        readContent: ReadContent<Query, E>,
        count?: CountAll<Query, E>,
      ) => {
        const tables = getTablesReadByEndpoint(endpoint)
        const tableVersions = versions.watchTables(tables)
        const answerId = answerCount++
        const pendingReads = new Map<string, Listeners<E>>()

        /** Reads from the past, from a replica that has the current version of the tables, or from the primary. */
        const makeReader = ({ past, route }: AdmittedRequest): StatementReader => {
          const version = tableVersions.current()
          const from: ReadSource = past ?? (version === undefined ? "primary" : { tables, version })
          return (statement) => reader.read(statement, { partition: route, from })
        }

        const readResult = (query: Query, request: AdmittedRequest, version: string | undefined) =>
          Effect.map(
            readContent(query, makeReader(request), request),
            (content) => makeResult(content, version, request.route),
          )

        const readAndNotify = (
          key: string,
          pendingKey: string,
          query: Query,
          request: AdmittedRequest,
          version: string,
        ) => {
          const listeners: Listeners<E> = []
          const isRepeated = wasRequestedRecently(key)
          pendingReads.set(pendingKey, listeners)
          return Effect.onExit(readResult(query, request, version), (exit) => {
            pendingReads.delete(pendingKey)
            // Cache only repeated results, because results that are requested once would evict them.
            if (Exit.isSuccess(exit) && (isRepeated || listeners.length > 0)) results.set(key, exit.value)
            for (const notify of listeners) notify(exit)
            return Effect.void
          })
        }

        /** Waits for a pending read of the same result. Starts a read if there is none, or if it is interrupted. */
        const readOnce = (
          key: string,
          query: Query,
          request: AdmittedRequest,
          version: string,
        ): Effect.Effect<CachedResult, E> =>
          Effect.suspend(() => {
            const pendingKey = `${version} ${key}`
            const listeners = pendingReads.get(pendingKey)
            if (listeners === undefined) return readAndNotify(key, pendingKey, query, request, version)
            return Effect.callback<CachedResult, E>((resume) => {
              listeners.push((exit) => resume(wasInterrupted(exit) ? readOnce(key, query, request, version) : exit))
            })
          })

        const estimate = (query: Query, request: AdmittedRequest) => {
          const page = Effect.map(readResult(query, request, undefined), (result) => toPage(result, request))
          return count === undefined ? page : Effect.flatMap(
            count(query, makeReader(request)),
            (total) => Effect.map(page, (page): Page => ({ ...page, total })),
          )
        }

        return (query: Query, request: AdmittedRequest): Effect.Effect<Page, E> => {
          if (request.request.purpose === "estimate") return estimate(query, request)
          const { past } = request
          const getVersion = past === undefined ? tableVersions.current : getPastVersion
          const version = getVersion()
          if (version === undefined) {
            return Effect.map(readResult(query, request, undefined), (result) => toPage(result, request))
          }
          const key = hashQuery(`${answerId} ${past?.moment} ${JSON.stringify(query)}`)
          const cached = results.get(key)
          if (cached?.version !== version) {
            return Effect.map(readOnce(key, query, request, version), (result) => toPage(result, request))
          }
          return Exit.succeed(toPage(cached, request, { isCached: true, isCurrent: () => getVersion() === version }))
        }
      }
      return QueryCache.of({ makeAnswer })
    }),
  )
}

/** Makes a page that is not cached, but has an `ETag`. */
export const makeUncachedPage = (content: ResponseContent, request: AdmittedRequest, total?: Total): Page =>
  toPage(makeResult(content, undefined, request.route), request, { total })

/** Makes a page that nothing may store. */
export const makePrivatePage = (content: ResponseContent, route: string): Page => {
  const { bodyHeaders, contentType } = makeResult(content, undefined, route)
  const { body, headers = {}, nextPage, records } = content
  return makePage({ body, contentType, headers, bodyHeaders, nextPage, records })
}

/** Returns a function that makes the page of one object that is not a list, such as the account. */
export const makeObjectEncoder = <Value>(schema: Schema.Codec<Value, unknown>) => {
  const encode = Schema.encodeSync(Schema.toCodecJson(schema))
  return (value: Value, records = 1): Page =>
    makePage({
      ...encodeUnpagedResponse(encode(value), records),
      contentType: listContentTypes.json,
    })
}
