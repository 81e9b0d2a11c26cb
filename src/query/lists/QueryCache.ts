/**
 * Caches results in memory (D17, caching). The cache key is a hash of the decoded query, so `?a&b` and `?b&a` share an
 * entry. An entry is valid for one version of the endpoint's tables. Concurrent requests for the same uncached result
 * share one query.
 */
import { Cause, Context, Effect, Exit, Layer } from "effect"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import type { AdmittedRequest } from "../EndpointHandler.ts"
import { DatabaseReader, type ReadSource, type StatementReader } from "../../postgres/DatabaseReader.ts"
import { computeEtag } from "../rows/Etag.ts"
import {
  digestHeaderName,
  formatDigestHeader,
  listContentTypes,
  makeListFileHeaders,
} from "../../contract/rows/ListFormats.ts"
import {
  makePage,
  type Page,
  privateNoCacheDirectives,
  type VersionDependency,
} from "../../contract/rules/EndpointResult.ts"
import { type AnnotatedEndpoint, getTablesReadByEndpoint } from "../../contract/rules/EndpointAnnotations.ts"
import { isSettled, mapSync } from "../../contract/rules/SynchronousResults.ts"
import type { ResponseContent } from "../../contract/rules/Paging.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import { type CacheEntry, CacheMemory } from "./CacheMemory.ts"

/** Estimated memory used by a cache entry, in bytes, in addition to its body, headers and key. */
const entryOverheadBytes = 640

/** A cached page. `version` is the version of the tables that the page was read from. */
export class CachedPage implements CacheEntry {
  readonly part = "results"
  readonly size: number
  readonly page: Page
  readonly version: string

  constructor(page: Page, version: string) {
    this.page = page
    this.version = version
    const { body, bodyHeaders, headers } = page
    this.size = entryOverheadBytes + body.length +
      Object.entries({ ...headers, ...bodyHeaders }).join("").length * 2
  }
}

/**
 * Creates a page that must not be stored by clients or caches. `route` is the endpoint's path, which determines the
 * names of downloaded files.
 */
const makePrivatePage = (content: ResponseContent, route: string, storage: Partial<Page> = {}): Page => {
  const { body, file, headers = {}, nextPage, records } = content
  const bodyHeaders = file === undefined ? {} : {
    ...makeListFileHeaders(file, route),
    [digestHeaderName]: formatDigestHeader(hash("sha256", body, "base64")),
  }
  const contentType = listContentTypes[file?.format ?? "json"]
  return makePage({ body, contentType, headers, bodyHeaders, records, nextPage, ...storage })
}

/** Creates a page that clients may store, with an `ETag`. If the content is transient, the page must not be stored. */
export const makeStorablePage = (
  content: ResponseContent,
  { past, route }: Pick<AdmittedRequest, "past" | "route">,
): Page =>
  content.isTransient === true ? makePrivatePage(content, route) : makePrivatePage(content, route, {
    etag: computeEtag(content.body),
    cacheControl: past === undefined ? privateNoCacheDirectives : "private, max-age=31536000, immutable",
    // The client stores this response for a year. It must not reuse the response for a different API key, which may not
    // have access to the data.
    ...(past === undefined ? {} : { headers: { ...content.headers, vary: "Authorization, X-API-Key" } }),
  })

/**
 * Returns the SHA-256 of a query, so that every key has 44 characters regardless of the length of the query. A
 * collision is practically impossible, even if a client deliberately searches for one.
 */
export const hashQuery = (text: string) => hash("sha256", text, "base64")

/** Returns a function that checks whether a key is among the last 20,000 requested keys, and then records the key. */
export const makeRecentKeySet = () => {
  const keys = new LRUCache<string, true>({ max: 20_000 })
  return (key: string) => {
    const wasRequested = keys.get(key) === true
    keys.set(key, true)
    return wasRequested
  }
}

/** What a list adds to a page in addition to the content that it reads from the database. */
export interface PageAdditions {
  /** Response headers. The keys are in lower case. */
  readonly headers?: Page["headers"]
  /** Names of other endpoints whose rows also appear on the page. */
  readonly sources?: Page["sources"]
  readonly total?: Page["total"] | undefined
  /** The versions of other data that the page depends on, in addition to the version of its tables. */
  readonly dependencies?: ReadonlyArray<VersionDependency>
}

/** Adds the headers, sources and total to a page. */
const addToPage = (page: Page, { headers = {}, sources = [], total }: PageAdditions): Page => {
  const merged = { ...page.headers, ...headers }
  // A page with `as_of` already has `vary`. Both values apply.
  const [pageVary, addedVary] = [page.headers["vary"], headers["vary"]]
  return {
    ...page,
    headers: pageVary === undefined || addedVary === undefined
      ? merged
      : { ...merged, vary: `${addedVary}, ${pageVary}` },
    sources,
    total,
  }
}

/** Reads an endpoint's pages and builds the responses. */
export interface PageSource<E> {
  readonly tables: ReadonlyArray<string>
  /** Returns the version of the tables, or undefined if it is not available. */
  readonly getVersion: () => string | undefined
  /**
   * Returns a reader for the request. With `as_of`, it reads past data. Otherwise it reads from a replica that has the
   * current version of the tables, or from the primary if there is no such replica or the version is not available.
   */
  readonly makeReader: (request: AdmittedRequest) => StatementReader
  /**
   * Returns the page for the query from the cache, or builds it from the content that `read` returns. Estimates are not
   * cached.
   */
  readonly getPage: (
    query: object,
    request: AdmittedRequest,
    read: (read: StatementReader) => Effect.Effect<ResponseContent, E>,
    additions?: PageAdditions,
  ) => Effect.Effect<Page, E>
}

/** Creates the page sources of endpoints. */
export class QueryCache extends Context.Service<QueryCache, {
  /**
   * Creates a source that caches pages until a table that the endpoint reads changes. Pages for requests with `as_of`
   * remain valid.
   */
  readonly makeCachedSource: <E>(endpoint: AnnotatedEndpoint) => PageSource<E>
  /** Creates a source that caches nothing, because its pages depend on the account. */
  readonly makePrivateSource: <E>() => PageSource<E>
}>()("tickerline/query/QueryCache") {
  static readonly layer = Layer.effect(
    QueryCache,
    Effect.gen(function* () {
      const versions = yield* DatasetVersions
      const reader = yield* DatabaseReader
      const memory = yield* CacheMemory
      const wasRequestedRecently = makeRecentKeySet()
      /** The number of sources created so far. It distinguishes the cache keys of different lists. */
      let sourceCount = 0

      /**
       * Returns the version of all pages for requests with `as_of`. These pages change only if a failover loses
       * transactions.
       */
      const getPastVersion = () => {
        const timeline = versions.getTimeline()
        return timeline === undefined ? undefined : `past of ${timeline}`
      }

      const makeCachedSource = <E>(endpoint: AnnotatedEndpoint): PageSource<E> => {
        const tables = getTablesReadByEndpoint(endpoint)
        const getVersion = versions.watchTables(tables)
        const sourceId = sourceCount++
        /** For each page that is being read, the callbacks of the requests that wait for it. */
        const pendingReads = new Map<string, Array<(exit: Exit.Exit<Page, E>) => void>>()

        const makeReader = ({ past, route }: AdmittedRequest): StatementReader => {
          const version = getVersion()
          const from: ReadSource = past ?? (version === undefined ? "primary" : { tables, version })
          return (statement) => reader.read(statement, { partition: route, from })
        }

        /**
         * Caches a page if it may be stored and has been requested before or by several requests at once
         * (`isRepeated`). Otherwise pages requested only once would evict those requested often. Returns the page.
         */
        const store = (key: string, version: string, page: Page, isRepeated: boolean) => {
          if (page.etag !== undefined && isRepeated) memory.set(key, new CachedPage(page, version))
          return page
        }

        /**
         * Reads a page only once, even if several requests need it at the same time. The first request runs `first`,
         * and the others wait for its result. If the first request is interrupted, each of the others retries with
         * `read`; one of them then becomes the first.
         *
         * `first` is an effect that the caller has already obtained by calling `read`, to check whether the page is
         * available immediately. Running this effect avoids building it again.
         */
        const readOnce = (
          key: string,
          version: string,
          read: () => Effect.Effect<Page, E>,
          first: Effect.Effect<Page, E>,
        ): Effect.Effect<Page, E> =>
          Effect.suspend(() => {
            const pendingKey = `${version} ${key}`
            const pending = pendingReads.get(pendingKey)
            if (pending !== undefined) {
              return Effect.callback<Page, E>((resume) => {
                pending.push((exit) => {
                  const wasInterrupted = Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
                  resume(wasInterrupted ? readOnce(key, version, read, read()) : exit)
                })
              })
            }
            const listeners: Array<(exit: Exit.Exit<Page, E>) => void> = []
            const isRepeated = wasRequestedRecently(key)
            // The read is added to `pendingReads` inside the effect that `onExit` observes. If it were added earlier,
            // an interruption in between would leave the entry there, and later requests would wait for it forever.
            const readPending = Effect.suspend(() => {
              pendingReads.set(pendingKey, listeners)
              return first
            })
            return Effect.onExit(readPending, (exit) => {
              if (pendingReads.get(pendingKey) === listeners) pendingReads.delete(pendingKey)
              if (Exit.isSuccess(exit)) store(key, version, exit.value, isRepeated || listeners.length > 0)
              for (const notify of listeners) notify(exit)
              return Effect.void
            })
          })

        /**
         * Returns a page from the cache, or reads it. If the effect for reading it turns out to be already settled, for
         * example because it failed before any statement ran, no fiber is needed (`SynchronousResults.ts`), and no
         * other request can be waiting for the result.
         */
        const getPage: PageSource<E>["getPage"] = (query, request, readContent, additions = {}) => {
          const { past } = request
          const getCurrentVersion = past === undefined ? getVersion : getPastVersion
          const version = request.request.purpose === "estimate" ? undefined : getCurrentVersion()
          const readPage = () =>
            mapSync(readContent(makeReader(request)), (content) => makeStorablePage(content, request))
          const add = (page: Page) => addToPage(page, additions)
          // Without a version, there is no way to know when a cached page becomes outdated.
          if (version === undefined) return mapSync(readPage(), add)
          const key = hashQuery(`${sourceId} ${past?.timestamp} ${JSON.stringify(query)}`)
          const cached = memory.get(key)
          if (!(cached instanceof CachedPage) || cached.version !== version) {
            const first = readPage()
            return isSettled(first)
              ? Exit.map(first, (page) => add(store(key, version, page, wasRequestedRecently(key))))
              : Effect.map(readOnce(key, version, readPage, first), add)
          }
          const { dependencies = [] } = additions
          return Exit.succeed({
            ...add(cached.page),
            isCached: true,
            dependencies: [{ getVersion: getCurrentVersion, version }, ...dependencies],
          })
        }
        return { tables, getVersion, makeReader, getPage }
      }

      const makePrivateSource = <E>(): PageSource<E> => {
        const makeReader = ({ route }: AdmittedRequest): StatementReader => (statement) =>
          reader.read(statement, { partition: route, from: "primary" })
        return {
          tables: [],
          getVersion: () => undefined,
          makeReader,
          getPage: (_, request, read, additions = {}) =>
            Effect.map(
              read(makeReader(request)),
              (content) => addToPage(makePrivatePage(content, request.route), additions),
            ),
        }
      }
      return QueryCache.of({ makeCachedSource, makePrivateSource })
    }),
  )
}
