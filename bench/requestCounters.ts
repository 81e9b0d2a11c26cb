/** Reads the request counters of Tickerline, to check whether the measured responses came from a cache. */
import type { BenchmarkCase, Mode } from "./cases.ts"
import { sendRequest } from "./httpClient.ts"

/** Numbers of requests by endpoint, status and origin, such as `/v1/screener 200 cached`. */
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
 * The maximum share of the responses of a cached case that may come from a query, as the first ones after midnight do.
 */
const maxUncachedShare = 0.01

/** What the load generator sent. */
interface Sent {
  readonly benchmarkCase: BenchmarkCase
  readonly mode: Mode
  readonly connections: number
  /** Number of responses that the load generator received. */
  readonly requests: number
}

/**
 * Fails unless all misses were queried, and all hits and 304 came from the cache. The load generator ends by closing
 * its connections, so each of them may have had one more request.
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
