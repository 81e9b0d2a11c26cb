/** Counts the responses on the admin port (docs/operations/monitoring.md). */
import { Effect, Metric } from "effect"
import type { HttpServerResponse } from "effect/http"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"

const responsesTotal = (status: number) =>
  makeCounter("tickerline_admin_responses_total", "Responses of the admin API and the console by status.", {
    status: String(status),
  })

/** Initializes the counters that alerts depend on to 0 at startup. */
export const initializeAdminMetrics = initializeCounters(responsesTotal(401), responsesTotal(403))

/** Counts a response by its status code. */
export const withAdminMetrics = <E, R>(response: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.tap(response, ({ status }) => Metric.update(responsesTotal(status), 1))
