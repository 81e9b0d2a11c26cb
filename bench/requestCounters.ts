/** Reads Tickerline's request counters, to check whether the measured responses came from a cache. */
import type { BenchmarkCase, Mode } from "./cases.ts"
import { sendRequest } from "./httpClient.ts"

/**
 * The numbers of requests, by endpoint, status, and whether the response was cached. A key looks like `/v1/screener 200
 * cached`.
 */
export type RequestCounters = ReadonlyMap<string, number>

const sample = /^tickerline_http_requests_total\{(.*)\} (\d+)$/gm

const labelOf = (labels: string, name: string) => new RegExp(`${name}="([^"]*)"`).exec(labels)?.[1] ?? ""

/** Reads the counters from the metrics port. */
export const readRequestCounters = async (metricsPort: number): Promise<RequestCounters> => {
  const { body, status } = await sendRequest(metricsPort, "/metrics")
  if (status !== 200) throw new Error(`/metrics returned ${status}`)
  const counters = new Map<string, number>()
  for (const [, labels = "", count] of body.toString().matchAll(sample)) {
    const origin = labelOf(labels, "cached") === "true" ? "cached" : "uncached"
    counters.set(`${labelOf(labels, "endpoint")} ${labelOf(labels, "status")} ${origin}`, Number(count))
  }
  return counters
}

/**
 * In a case that is served from the cache, the maximum share of responses that may come from a query. Some do, such as
 * the first ones after midnight.
 */
const maxUncachedShare = 0.01

/** The requests that the load generator sent. */
interface Sent {
  readonly benchmarkCase: BenchmarkCase
  readonly mode: Mode
  readonly connections: number
  /** The number of responses that the load generator received. */
  readonly requests: number
}

/**
 * Fails unless all misses were answered by a query, and all hits and 304 responses came from the cache. The load
 * generator closes its connections at the end, so the service may have counted one additional request per connection.
 */
export const checkCounters = (
  before: RequestCounters,
  after: RequestCounters,
  { benchmarkCase, connections, mode, requests }: Sent,
) => {
  const counted = Array.from(after, ([key, count]) => ({ key, count: count - (before.get(key) ?? 0) }))
    .filter(({ count }) => count > 0)
  const intended = `${benchmarkCase.path} ${mode === "304" ? 304 : 200} ${mode === "miss" ? "uncached" : "cached"}`
  const others = counted.filter(({ key }) => key !== intended)
  const maxOthers = connections + (mode === "miss" ? 0 : Math.ceil(maxUncachedShare * requests))
  const found = counted.find(({ key }) => key === intended)?.count ?? 0
  const isWrong = others.some(({ key }) => mode === "miss" && / 200 /.test(key)) ||
    others.reduce((sum, { count }) => sum + count, 0) > maxOthers || found + maxOthers < requests
  if (isWrong) {
    const list = counted.map(({ count, key }) => `${count} × ${key}`).join(", ")
    throw new Error(`the ${requests} requests must be counted as "${intended}", but the service counted ${list}`)
  }
}
