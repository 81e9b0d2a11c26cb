/** `GET /endpoints`, `/estimate`, `/v1/openapi.json` and the health checks. Only `/estimate` requires a key (D2). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { AuthorizationMiddleware } from "../Authorization.ts"
import { AuthenticationMiddleware } from "../Authentication.ts"
import { describeEndpoint, describeEndpointGroup, FreeEndpointHasEtag, Tier } from "../rules/EndpointAnnotations.ts"
import { CursorExpired, listErrors, NotFound } from "../rules/ApiErrors.ts"
import { AnyParameters, NoParameters } from "../rules/FilterParameters.ts"
import { NotReadyError, ReadinessParts } from "../rules/NotReadyError.ts"
import { ResultCount } from "../rules/Paging.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

/** A row of `/endpoints`. */
export const CatalogueEndpointRow = Schema.Struct({
  path: Schema.String.annotate({ description: "Path of the endpoint. It never changes." }),
  label: Schema.String.annotate({
    description: "Name of the endpoint, prefixed with `DEPRECATED` if it is deprecated.",
  }),
  description: Schema.String.annotate({ description: "What the endpoint returns." }),
  tier: Schema.NullOr(Tier).annotate({ description: "The lowest tier that may call it. Null: no key is needed." }),
  deprecated: Schema.Boolean.annotate({ description: "Whether its deprecation has been announced." }),
  sunset: Schema.NullOr(Schema.String).annotate({
    description: "The date after which it may stop responding. Null: no date is set.",
  }),
  successor: Schema.NullOr(Schema.String).annotate({ description: "The path of its replacement." }),
}).annotate({ identifier: "Endpoint" })

/** The predicted size and cost of a request (D28, estimates). */
export const CostEstimate = Schema.Struct({
  endpoint: Schema.String.annotate({ description: "The path of the estimated request." }),
  unit: Schema.Literals(["row", "filing_group"]).annotate({
    identifier: "EstimateUnit",
    description: "The unit of a record.",
  }),
  ticker_count: NonNegativeInt.annotate({ description: "Number of symbols in the request. 0: all symbols." }),
  records_returned: NonNegativeInt.annotate({ description: "Number of records on the page." }),
  records_total: NonNegativeInt.annotate({
    description: "Number of records on all pages, or after the cursor. If `message` says so, there are more.",
  }),
  rows_sampled: NonNegativeInt.annotate({
    description: "Number of records measured to find the size: always the complete page.",
  }),
  estimated_bytes: NonNegativeInt.annotate({ description: "Size of the response body." }),
  estimated_cost_microdollars: NonNegativeInt.annotate({
    description: "Cost of the request in millionths of a US dollar.",
  }),
  price_per_gb_microdollars: NonNegativeInt.annotate({
    description: "Price of 1,000,000,000 bytes in millionths of a US dollar.",
  }),
}).annotate({ identifier: "Estimate" })

/** The response of `/estimate`. */
export const CostEstimates = Schema.Struct({
  count: ResultCount,
  results: Schema.Tuple([CostEstimate]).annotate({ description: "Exactly one object." }),
  message: Schema.optionalKey(
    Schema.String.annotate({ description: "Why the request would be free, or what the numbers leave out." }),
  ),
})

/**
 * The parameters of `/estimate`. Any parameter besides `endpoint` is accepted here, because the estimated endpoint
 * validates the others.
 */
export const CostEstimateQuery = Schema.StructWithRest(
  Schema.Struct({
    endpoint: Schema.String.annotate({
      description: "A path from the catalogue. A free endpoint costs 0. The filter of the same name, of /v1/usage, " +
        "/v1/usage/daily and /v1/account/invoice-lines, cannot be sent; all are free.",
    }),
  }),
  [Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Array(Schema.String)]))],
)

/** The response of the liveness check. */
export const Health = Schema.Struct({
  status: Schema.Literal("ok").annotate({ description: "The service can do what the check asks." }),
})

/** The response of the readiness check when the service is ready. */
export const ReadinessReport = Schema.Struct({ ...Health.fields, parts: ReadinessParts })

/** Endpoints that describe the service itself. */
export class CatalogueApiGroup extends HttpApiGroup.make("catalogue").add(
  HttpApiEndpoint.get("endpoints", "/endpoints", {
    query: NoParameters,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Array(CatalogueEndpointRow).annotate({ description: "One row per endpoint." }),
    }),
  }).annotateMerge(describeEndpoint("Endpoints", "Every endpoint, with its tier and whether it is deprecated."))
    .annotate(FreeEndpointHasEtag, true),
  HttpApiEndpoint.get("estimate", "/estimate", {
    query: CostEstimateQuery,
    success: CostEstimates,
    error: [...listErrors, CursorExpired, NotFound],
  }).middleware(AuthorizationMiddleware).middleware(AuthenticationMiddleware).annotateMerge(describeEndpoint(
    "Estimate",
    "What a request would cost. Send its path as `endpoint` together with its own parameters. The estimate is free; " +
      "if the request would be answered with an error, the estimate is answered with the same error. A key may " +
      "estimate exactly the endpoints that it may use.",
  )),
  HttpApiEndpoint.get("openapi", "/v1/openapi.json", { query: NoParameters, success: Schema.Json }).annotateMerge(
    describeEndpoint("OpenAPI", "This API as an OpenAPI 3.1 document."),
  ).annotate(FreeEndpointHasEtag, true),
  HttpApiEndpoint.get("live", "/health/live", { query: AnyParameters, success: Health }).annotateMerge(
    describeEndpoint("Liveness", "The process is running."),
  ),
  HttpApiEndpoint.get("ready", "/health/ready", {
    query: AnyParameters,
    success: ReadinessReport,
    error: NotReadyError,
  }).annotateMerge(
    describeEndpoint("Readiness", "The service can serve data: the database answers, and usage can be recorded."),
  ),
).annotateMerge(
  describeEndpointGroup("Catalogue", "Endpoints, prices, OpenAPI document and health of the service."),
) {}
