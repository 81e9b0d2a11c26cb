import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import * as Revalidation from "../cache/Revalidation.ts"
import { constant } from "../Compression.ts"
import { BaseUrl } from "../Edge.ts"
import { endpoints } from "./Endpoints.ts"
import { estimator } from "./Estimate.ts"
import { documentAt } from "./OpenApi.ts"
import { readiness } from "./Readiness.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* readiness
    const results = endpoints.map(({ row }) => row)
    const estimate = yield* estimator
    // Without an address, as in tests, the server is the origin from which the document was read.
    const document = documentAt((yield* BaseUrl) || "/")
    const openapi = constant(new TextEncoder().encode(JSON.stringify(document)))

    return handlers.handleAll({
      endpoints: () => Effect.succeed({ count: results.length, results }),
      openapi: () =>
        Revalidation.respond(openapi, { contentType: "application/json", cacheControl: "public, max-age=300" }),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)
