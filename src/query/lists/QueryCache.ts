/**
 * Caches results in memory (D17, caching). The key is a hash of the decoded query, so `?a&b` and `?b&a` share an entry.
 * An entry is valid for one version of the endpoint's tables. Concurrent requests for the same uncached result share
 * one query.
 */
import { Cause, Context, Effect, Exit, Layer } from "effect"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import type { AdmittedRequest } from "../EndpointHandler.ts"
import { Reader, type ReadSource, type StatementReader } from "../../postgres/Reader.ts"
import { computeEtag } from "../rows/Etag.ts"
import {
  digestHeaderName,
  formatDigestHeader,
  listContentTypes,
  makeListFileHeaders,
} from "../../contract/rows/ListFormats.ts"
import { makePage, noCache, type Page, type VersionDependency } from "../../contract/rules/EndpointResult.ts"
import { type AnnotatedEndpoint, getTablesReadByEndpoint } from "../../contract/rules/EndpointAnnotations.ts"
import { isKnown, mapKnown } from "../../contract/rules/KnownResults.ts"
import type { ResponseContent } from "../../contract/rules/Paging.ts"
import { DatasetVersions } from "../../postgres/versions/DatasetVersions.ts"
import { type CacheEntry, CacheMemory } from "./CacheMemory.ts"

/** Estimated memory of an entry, excluding its body and key. */
const entryOverheadBytes = 640

/** A cached page. `version` is the version of its tables. */
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
 * Creates a page that nothing may store. `route` is the path of the endpoint, from which downloaded files are named.
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

/** Creates a page that clients may store, with an `ETag`, unless its content is transient. */
export const makeStorablePage = (
  content: ResponseContent,
  { past, route }: Pick<AdmittedRequest, "past" | "route">,
): Page =>
  content.isTransient === true ? makePrivatePage(content, route) : makePrivatePage(content, route, {
    etag: computeEtag(content.body),
    cacheControl: past === undefined ? noCache : "private, max-age=31536000, immutable",
    // The client stores this response for a year, so it must not reuse it for another key, which may not be allowed to
    // read it.
    ...(past === undefined ? {} : { headers: { ...content.headers, vary: "Authorization, X-API-Key" } }),
  })

/**
 * Returns the SHA-256 of a query, so that every key has 44 characters, however long the query is. A collision is
 * practically impossible, even if a client searches for one.
 */
export const hashQuery = (text: string) => hash("sha256", text, "base64")

/** Returns a function that tells whether a key is among the last 20,000 requested keys, and then records it. */
export const makeRepetitionDetector = () => {
  const keys = new LRUCache<string, true>({ max: 20_000 })
  return (key: string) => {
    const wasRequested = keys.get(key) === true
    keys.set(key, true)
    return wasRequested
  }
}

/** What a page has besides its content. */
export interface PageAdditions {
  /** Response headers, by lower-case name. */
  readonly headers?: Page["headers"]
  /** Further endpoints whose rows are on the page. */
  readonly sources?: Page["sources"]
  readonly total?: Page["total"] | undefined
  /** Versions that the page depends on besides the version of its tables. */
  readonly dependencies?: ReadonlyArray<VersionDependency>
}

const addToPage = (page: Page, { headers = {}, sources = [], total }: PageAdditions): Page => {
  const merged = { ...page.headers, ...headers }
  const [own, added] = [page.headers["vary"], headers["vary"]]
  return {
    ...page,
    headers: own === undefined || added === undefined ? merged : { ...merged, vary: `${added}, ${own}` },
    sources,
    total,
  }
}

/** Reads pages for an endpoint, and builds their responses. */
export interface PageSource<E> {
  readonly tables: ReadonlyArray<string>
  /** Returns the version of the tables, or undefined while it is unknown. */
  readonly getVersion: () => string | undefined
  /**
   * Returns a reader for the request. It reads the past for a request with `as_of`, otherwise a replica that has the
   * current version of the tables, or the primary if the version is unknown.
   */
  readonly makeReader: (request: AdmittedRequest) => StatementReader
  /** Returns the page for the query from the cache, or builds it from what `read` returns. Estimates are not cached. */
  readonly getPage: (
    query: object,
    request: AdmittedRequest,
    read: (read: StatementReader) => Effect.Effect<ResponseContent, E>,
    additions?: PageAdditions,
  ) => Effect.Effect<Page, E>
}

/** The source of the pages of each endpoint. */
export class QueryCache extends Context.Service<QueryCache, {
  /** Caches pages until a table that the endpoint reads changes. Pages for requests with `as_of` stay valid. */
  readonly makeCachedSource: <E>(endpoint: AnnotatedEndpoint) => PageSource<E>
  /** Caches nothing, because the pages depend on the account. */
  readonly makePrivateSource: <E>() => PageSource<E>
}>()("tickerline/query/QueryCache") {
  static readonly layer = Layer.effect(
    QueryCache,
    Effect.gen(function* () {
      const versions = yield* DatasetVersions
      const reader = yield* Reader
      const memory = yield* CacheMemory
      const wasRequestedRecently = makeRepetitionDetector()
      let sourceCount = 0

      /** Returns the version of all pages with `as_of`. Only a failover that loses transactions can change them. */
      const getPastVersion = () => {
        const timeline = versions.getTimeline()
        return timeline === undefined ? undefined : `past of ${timeline}`
      }

      const makeCachedSource = <E>(endpoint: AnnotatedEndpoint): PageSource<E> => {
        const tables = getTablesReadByEndpoint(endpoint)
        const getVersion = versions.watchTables(tables)
        const sourceId = sourceCount++
        const pendingReads = new Map<string, Array<(exit: Exit.Exit<Page, E>) => void>>()

        const makeReader = ({ past, route }: AdmittedRequest): StatementReader => {
          const version = getVersion()
          const from: ReadSource = past ?? (version === undefined ? "primary" : { tables, version })
          return (statement) => reader.read(statement, { partition: route, from })
        }

        /** Caches only pages that are requested repeatedly, because pages requested once would evict them. */
        const store = (key: string, version: string, page: Page, isRepeated: boolean) => {
          if (page.etag !== undefined && isRepeated) memory.set(key, new CachedPage(page, version))
          return page
        }

        /**
         * Reads a page only once, even if several requests ask for it at the same time. The first request runs `first`,
         * and all others wait for its result. If the first request is interrupted, the others try again with `read`.
         *
         * `first` is the effect that `read` returned to the caller, which had to call it to see whether the page is
         * known immediately. Running that effect instead of calling `read` again saves building it twice.
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
            // Adds the read to `pendingReads` only inside the effect whose end `onExit` observes. If it were added
            // earlier, an interruption in between would leave it there, and later requests would wait for it forever.
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
         * Returns a page from the cache, or reads it. A result that is available immediately, such as an error, needs
         * no fiber (`KnownResults.ts`), and no other request can be waiting for it.
         */
        const getPage: PageSource<E>["getPage"] = (query, request, readContent, additions = {}) => {
          const { past } = request
          const getCurrentVersion = past === undefined ? getVersion : getPastVersion
          const version = request.request.purpose === "estimate" ? undefined : getCurrentVersion()
          const read = () => mapKnown(readContent(makeReader(request)), (content) => makeStorablePage(content, request))
          const add = (page: Page) => addToPage(page, additions)
          if (version === undefined) return mapKnown(read(), add)
          const key = hashQuery(`${sourceId} ${past?.moment} ${JSON.stringify(query)}`)
          const cached = memory.get(key)
          if (!(cached instanceof CachedPage) || cached.version !== version) {
            const first = read()
            return isKnown(first)
              ? Exit.map(first, (page) => add(store(key, version, page, wasRequestedRecently(key))))
              : Effect.map(readOnce(key, version, read, first), add)
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
