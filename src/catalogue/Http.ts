import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import { conditional, ofRelease } from "../http/ConditionalRequests.ts"
import { constant } from "../http/Compression.ts"
import { BaseUrl } from "../http/Middleware.ts"
import { countRecords } from "../http/RequestContext.ts"
import { endpoints } from "./Endpoints.ts"
import { estimator } from "./Estimate.ts"
import { documentAt } from "./OpenApi.ts"
import { readiness } from "./Readiness.ts"

/** A document of the release, made and compressed once. */
const released = (document: unknown) =>
  conditional(constant(new TextEncoder().encode(JSON.stringify(document))), "application/json", ofRelease)

export const layer = HttpApiBuilder.group(
  Api,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* readiness
    const results = endpoints.map(({ row }) => row)
    const estimate = yield* estimator
    const catalogue = released({ count: results.length, results })
    // Without an address, as in tests, the server is the origin from which the document was read.
    const openapi = released(documentAt((yield* BaseUrl) || "/"))

    return handlers.handleAll({
      endpoints: ({ request }) => Effect.as(countRecords(results.length), catalogue(request)),
      openapi: ({ request }) => Effect.succeed(openapi(request)),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)
