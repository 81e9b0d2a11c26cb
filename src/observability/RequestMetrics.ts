/**
 * What was answered, for those who run the service: a count by endpoint and status, a histogram of durations by
 * endpoint and, where the log shows that much, a line for each request. What is no endpoint counts as one, so that
 * strangers cannot make up names without end.
 */
import { Context, Effect, Layer, LogLevel, Metric } from "effect"
import { redactKeys } from "../rules/Errors.ts"
import type { RequestContext } from "../http/RequestContext.ts"

export interface AnsweredRequest {
  readonly request_id: string
  readonly method: string
  /** Path and query, as sent. */
  readonly target: string
  /** The path of the endpoint, as declared; none where there is none. */
  readonly endpoint: string | undefined
  readonly account_id: number | undefined
  readonly status: number
  /** Of the body before any compression. */
  readonly bytes: number
  /** It was answered without the database. */
  readonly cached: boolean
  /** From its arrival to the moment at which its answer was ready to be sent. */
  readonly milliseconds: number
}

const boundaries = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 36]

const durationOf = (endpoint: string) =>
  Metric.histogram("tickerline_http_request_duration_seconds", {
    description: "Time from a request's arrival until its answer was ready.",
    attributes: { endpoint },
    boundaries,
  })

const countOf = (endpoint: string, status: number, cached: boolean) =>
  Metric.counter("tickerline_http_requests_total", {
    description: "Requests that were answered; cached: without the database.",
    attributes: { endpoint, status: String(status), cached: String(cached) },
    incremental: true,
  })

type Count = ReturnType<typeof countOf>

/** Made at the first request of a kind, and found again by what they count. */
const seriesOf = (endpoint: string) => {
  const [fromMemory, fromDatabase] = [new Map<number, Count>(), new Map<number, Count>()]
  const count = (status: number, cached: boolean) => {
    const counts = cached ? fromMemory : fromDatabase
    const known = counts.get(status)
    if (known !== undefined) return known
    const made = countOf(endpoint, status, cached)
    counts.set(status, made)
    return made
  }
  return { count, duration: durationOf(endpoint) }
}

export class RequestMetrics extends Context.Service<RequestMetrics, {
  readonly record: (answer: AnsweredRequest) => void
  /** The same, of a request with an exchange; what was run through for an estimate is none. */
  readonly recordFromContext: (method: string, status: number, exchange: RequestContext, milliseconds: number) => void
}>()("tickerline/observability/Requests") {
  static readonly layer = Layer.effect(
    RequestMetrics,
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      const isLogged = yield* LogLevel.isEnabled("Debug")
      const series = new Map<string, ReturnType<typeof seriesOf>>()

      const begun = (endpoint: string) => {
        const made = seriesOf(endpoint)
        series.set(endpoint, made)
        return made
      }

      const log = ({ target, ...answer }: AnsweredRequest) =>
        Effect.runForkWith(context)(
          Effect.annotateLogs(Effect.logDebug("answered"), { ...answer, target: redactKeys(target) }),
        )

      const answered = (answer: AnsweredRequest) => {
        const { cached, endpoint = "other", milliseconds, status } = answer
        const known = series.get(endpoint) ?? begun(endpoint)
        known.count(status, cached).updateUnsafe(1, context)
        known.duration.updateUnsafe(milliseconds / 1000, context)
        if (isLogged) log(answer)
      }

      const exchanged = (method: string, status: number, exchange: RequestContext, milliseconds: number) => {
        const { account_id, bytes = 0, cached, id: request_id, purpose, route: endpoint, target } = exchange
        if (purpose === "estimate") return
        answered({ request_id, method, target, endpoint, account_id, status, bytes, cached, milliseconds })
      }
      return RequestMetrics.of({ record: answered, recordFromContext: exchanged })
    }),
  )
}
