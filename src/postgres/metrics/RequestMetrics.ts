/**
 * Request metrics: a counter per endpoint and status, and a histogram of durations. At log level Debug, each request is
 * also logged. All unknown paths count as the endpoint "other", so that clients cannot create an unlimited number of
 * time series.
 */
import { Context, Effect, Layer, LogLevel, Metric } from "effect"
import { redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { makeCounter } from "./CallbackMetrics.ts"

/** The data recorded about a request when its response is ready. */
export interface CompletedRequest {
  readonly request_id: string
  readonly method: string
  /** The path and query string, exactly as the client sent them. */
  readonly target: string
  /** The path as declared in the API contract, or undefined if no endpoint has this path. */
  readonly endpoint: string | undefined
  readonly account_id: number | undefined
  readonly status: number
  /** Size of the uncompressed body. Undefined for an endless stream, which is recorded when the stream begins. */
  readonly bytes: number | undefined
  /** Whether the response was produced without a database query. */
  readonly cached: boolean
  /** Time from the arrival of the request until the response was ready, in milliseconds. */
  readonly milliseconds: number
}

const bucketBoundaries = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 36]

const makeDurationHistogram = (endpoint: string) =>
  Metric.histogram("tickerline_http_request_duration_seconds", {
    description: "Time from the arrival of a request until its response was ready, in seconds.",
    attributes: { endpoint },
    boundaries: bucketBoundaries,
  })

const makeRequestCounter = (endpoint: string, status: number, cached: boolean) =>
  makeCounter(
    "tickerline_http_requests_total",
    "Requests by endpoint and status. The label cached is true if no database query was needed.",
    { endpoint, status: String(status), cached: String(cached) },
  )

type RequestCounter = ReturnType<typeof makeRequestCounter>

/** Creates the metrics for an endpoint. The counter for each status is created when it is first needed. */
const makeEndpointMetrics = (endpoint: string) => {
  const [cachedCounters, uncachedCounters] = [new Map<number, RequestCounter>(), new Map<number, RequestCounter>()]
  const getCounter = (status: number, cached: boolean) => {
    const counters = cached ? cachedCounters : uncachedCounters
    const existing = counters.get(status)
    if (existing !== undefined) return existing
    const counter = makeRequestCounter(endpoint, status, cached)
    counters.set(status, counter)
    return counter
  }
  return { getCounter, duration: makeDurationHistogram(endpoint) }
}

/** Records completed requests. */
export class RequestMetrics extends Context.Service<RequestMetrics, {
  readonly record: (request: CompletedRequest) => void
}>()("tickerline/postgres/RequestMetrics") {
  static readonly layer = Layer.effect(
    RequestMetrics,
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      const isLogged = yield* LogLevel.isEnabled("Debug")
      const metricsByEndpoint = new Map<string, ReturnType<typeof makeEndpointMetrics>>()

      const addEndpoint = (endpoint: string) => {
        const metrics = makeEndpointMetrics(endpoint)
        metricsByEndpoint.set(endpoint, metrics)
        return metrics
      }

      const log = ({ target, ...request }: CompletedRequest) =>
        Effect.runForkWith(context)(
          Effect.annotateLogs(Effect.logDebug("Request completed"), { ...request, target: redactApiKeys(target) }),
        )

      const record = (request: CompletedRequest) => {
        const { cached, endpoint = "other", milliseconds, status } = request
        const metrics = metricsByEndpoint.get(endpoint) ?? addEndpoint(endpoint)
        metrics.getCounter(status, cached).updateUnsafe(1, context)
        metrics.duration.updateUnsafe(milliseconds / 1000, context)
        if (isLogged) log(request)
      }
      return RequestMetrics.of({ record })
    }),
  )
}
