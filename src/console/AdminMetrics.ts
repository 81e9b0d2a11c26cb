/** Counts the responses of the admin port, and logs who was refused (docs/operations/monitoring.md). */
import { Effect, Metric, Option } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { initializeCounters, makeCounter } from "../observability/CallbackMetrics.ts"
import { redactApiKeys } from "../rules/Errors.ts"

const responsesTotal = (status: number) =>
  makeCounter("tickerline_admin_responses_total", "Responses of the admin API and the console by status.", {
    status: String(status),
  })

const refusedStatuses = [401, 403]

/** Starts the counters that alerts use. */
export const initializeAdminMetrics = initializeCounters(...refusedStatuses.map(responsesTotal))

export const withAdminMetrics = <E, R>(answer: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.tap(answer, ({ status }) =>
    Effect.gen(function* () {
      yield* Metric.update(responsesTotal(status), 1)
      if (!refusedStatuses.includes(status)) return
      const { method, remoteAddress, url } = yield* HttpServerRequest.HttpServerRequest
      const path = redactApiKeys(url.split("?", 1)[0] ?? "")
      const address = Option.getOrElse(remoteAddress, () => "unknown")
      yield* Effect.logWarning(`The admin port refused ${method} ${path} from ${address} with ${status}.`)
    }))
