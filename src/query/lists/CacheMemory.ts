/**
 * The memory that cached results and cached responses share. Because there is only one limit, requests determine how it
 * is divided: once a response is cached, the result behind it is no longer requested, so it is evicted
 * (docs/decisions/0032-response-cache-before-effect.md).
 */
import { Context, Effect, Layer } from "effect"
import { LRUCache } from "lru-cache"
import { registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { HalfCacheBytesConfig } from "../../postgres/versions/DatasetVersions.ts"

/** Results are found by their query, and responses by their request. */
const parts = ["results", "responses"] as const

/** What is cached. Each part uses a class of its own, by which it recognizes its entries. */
export interface CacheEntry {
  readonly part: typeof parts[number]
  /** Estimated memory of the entry, excluding its key. */
  readonly size: number
}

/** Creates the store for both parts, and counts the bytes of each. The two parts must not use the same keys. */
export const makeCacheMemory = (maxBytes: number) => {
  const bytes = { results: 0, responses: 0 }
  const measure = ({ size }: CacheEntry, key: string) => size + key.length
  const entries = new LRUCache<string, CacheEntry>({
    maxSize: maxBytes,
    sizeCalculation: measure,
    onInsert: (entry, key) => bytes[entry.part] += measure(entry, key),
    dispose: (entry, key) => bytes[entry.part] -= measure(entry, key),
  })
  return { entries, bytes }
}

/** The cached results and responses of this process. */
export class CacheMemory extends Context.Service<CacheMemory, ReturnType<typeof makeCacheMemory>["entries"]>()(
  "tickerline/query/CacheMemory",
) {
  static readonly layer = Layer.effect(
    CacheMemory,
    Effect.gen(function* () {
      // Half of CACHE_MEGABYTES for each part.
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
