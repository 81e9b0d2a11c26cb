/**
 * The memory that cached results and cached responses share. There is only one limit, so requests determine how the
 * memory is divided. Once a response is cached, the result that it was built from is no longer requested and will be
 * evicted (docs/decisions/0032-response-cache-before-effect.md).
 */
import { Context, Effect, Layer } from "effect"
import { LRUCache } from "lru-cache"
import { registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { HalfCacheBytesConfig } from "../../postgres/versions/DatasetVersions.ts"

/**
 * The two kinds of entries: query results, which are looked up by query, and responses, which are looked up by request.
 */
const parts = ["results", "responses"] as const

/** A cache entry. Each kind of entry has its own class, which distinguishes it from the other kind. */
export interface CacheEntry {
  readonly part: typeof parts[number]
  /** Estimated memory used by the entry, in bytes, excluding the key. */
  readonly size: number
}

/** The maximum share of the memory that one entry may use. A larger one would evict too many others. */
const maxEntryShare = 1 / 8

/**
 * Creates the cache for both kinds of entries, and counts the bytes used by each kind. The two kinds must not use the
 * same keys.
 */
export const makeCacheMemory = (maxBytes: number) => {
  const bytes = { results: 0, responses: 0 }
  const measure = ({ size }: CacheEntry, key: string) => size + key.length
  const entries = new LRUCache<string, CacheEntry>({
    maxSize: maxBytes,
    maxEntrySize: Math.ceil(maxBytes * maxEntryShare),
    sizeCalculation: measure,
    onInsert: (entry, key) => bytes[entry.part] += measure(entry, key),
    dispose: (entry, key) => bytes[entry.part] -= measure(entry, key),
  })
  return { entries, bytes }
}

/** This process's cached results and responses. */
export class CacheMemory extends Context.Service<CacheMemory, ReturnType<typeof makeCacheMemory>["entries"]>()(
  "tickerline/query/CacheMemory",
) {
  static readonly layer = Layer.effect(
    CacheMemory,
    Effect.gen(function* () {
      // Each kind of entry contributes half of `CACHE_MEGABYTES` to the shared limit.
      const { bytes, entries } = makeCacheMemory((yield* HalfCacheBytesConfig) * parts.length)
      for (const part of parts) {
        yield* registerGauge({
          name: "tickerline_cache_bytes",
          description: "Memory used by cached results of queries, and by cached responses.",
          attributes: { part },
          read: () => bytes[part],
        })
      }
      return entries
    }),
  )
}
