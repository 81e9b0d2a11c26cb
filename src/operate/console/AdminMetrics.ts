/** Counts the responses of the admin port (docs/operations/monitoring.md). */
import { Effect, Metric } from "effect"
import type { HttpServerResponse } from "effect/http"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"

const responsesTotal = (status: number) =>
  makeCounter("tickerline_admin_responses_total", "Responses of the admin API and the console by status.", {
    status: String(status),
  })

/** Starts the counters that alerts use. */
export const initializeAdminMetrics = initializeCounters(responsesTotal(401), responsesTotal(403))

export const withAdminMetrics = <E, R>(answer: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.tap(answer, ({ status }) => Metric.update(responsesTotal(status), 1))
