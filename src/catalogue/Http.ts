import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import { endpoints } from "./Endpoints.ts"
import { estimator } from "./Estimate.ts"
import { document } from "./OpenApi.ts"
import { readiness } from "./Readiness.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* readiness
    const results = endpoints.map(({ row }) => row)
    const estimate = yield* estimator
    const openapi = HttpServerResponse.jsonUnsafe(document)

    return handlers.handleAll({
      endpoints: () => Effect.succeed({ count: results.length, results }),
      openapi: () => Effect.succeed(openapi),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)
