/** What the service says of itself: open to everybody (D2), but for what a request would cost (D28). */
import { ErrorReporter, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Authorization } from "../accounts/Authorization.ts"
import { Authentication } from "../accounts/keys/Authentication.ts"
import { describeEndpoint, describeGroup, HasEtag, Tier } from "../rules/EndpointAnnotations.ts"
import { DatabasePoolTimeout, DataRefreshing, makeErrorFieldsWithDetails } from "../rules/Errors.ts"
import { NoParameters } from "../rules/Filters.ts"
import { ResultCount } from "../rules/Paging.ts"

export const EndpointRow = Schema.Struct({
  path: Schema.String.annotate({ description: "The stable key of an endpoint." }),
  label: Schema.String.annotate({ description: "Its name; `DEPRECATED` stands before the name of a deprecated one." }),
  description: Schema.String.annotate({ description: "What it answers." }),
  tier: Schema.NullOr(Tier).annotate({ description: "The least tier that sees it; null: no key is needed." }),
  deprecated: Schema.Boolean.annotate({ description: "True from its announced deprecation on." }),
  sunset: Schema.NullOr(Schema.String).annotate({
    description: "The date after which it may stop responding; null while none is committed.",
  }),
  successor: Schema.NullOr(Schema.String).annotate({ description: "The path of what replaces it." }),
}).annotate({ identifier: "Endpoint" })

/** D28 */
export const CostEstimate = Schema.Struct({
  endpoint: Schema.String.annotate({ description: "The path whose request this is about." }),
  unit: Schema.Literals(["row", "filing_group"]).annotate({ description: "What records are." }),
  ticker_count: Schema.Int.annotate({ description: "How many symbols the request names; 0: it is about all." }),
  records_returned: Schema.Int.annotate({ description: "How many records this page would hold." }),
  records_total: Schema.Int.annotate({ description: "How many there are on all pages." }),
  rows_sampled: Schema.Int.annotate({ description: "Of how many records the size was measured: all of the page." }),
  estimated_bytes: Schema.Int.annotate({ description: "Size of the answer's body." }),
  estimated_cost_microdollars: Schema.Int.annotate({ description: "What it would cost, millionths of a USD." }),
  price_per_gb_microdollars: Schema.Int.annotate({ description: "The price of 1,000,000,000 bytes." }),
}).annotate({ identifier: "Estimate" })

/** What the endpoint takes is for the endpoint to judge. */
export const CostEstimateQuery = Schema.StructWithRest(
  Schema.Struct({
    endpoint: Schema.String.annotate({ description: "A path from the catalogue; a free endpoint costs 0." }),
  }),
  [Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Array(Schema.String)]))],
)

const Health = Schema.Struct({ status: Schema.Literal("ok") })

const Parts = Schema.Struct({
  service: Schema.Literals(["ok", "ending"]).annotate({
    description: "ending: it was told to end, and answers for `SHUTDOWN_DELAY` yet.",
  }),
  database: Schema.Literals(["ok", "away"]).annotate({ description: "away: it does not answer in time." }),
  usage: Schema.Literals(["ok", "full"]).annotate({
    description: "full: so many requests wait to be recorded that others are refused.",
  }),
  limits: Schema.Literals(["ok", "alone"]).annotate({
    description:
      "alone: Redis, or PostgreSQL where there is no Redis, does not count this instance's requests; until it does, " +
      "PostgreSQL or the instance itself does. It answers all the same.",
  }),
  cache: Schema.Literals(["ok", "idle"]).annotate({
    description: "idle: what changed is not known just now, so all answers come from the database.",
  }),
}).annotate({ identifier: "Parts", description: "What the service is made of." })

const Readiness = Schema.Struct({ ...Health.fields, parts: Parts })

/** 503, `Retry-After: 5`: requests for data would be refused as well, and with the same code. */
export class NotReadyError extends Schema.Error<NotReadyError>("NotReady")(
  makeErrorFieldsWithDetails("database_pool_timeout", Schema.Struct({ parts: Parts })),
  { httpApiStatus: 503, description: "A part without which no data can be served is not ready; `details` name it." },
) {
  readonly _tag = "NotReady"
  override readonly [ErrorReporter.ignore] = true
}

export class CatalogueApiGroup extends HttpApiGroup.make("catalogue").add(
  HttpApiEndpoint.get("endpoints", "/endpoints", {
    query: NoParameters,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Array(EndpointRow).annotate({ description: "A row for each endpoint." }),
    }),
  }).annotateMerge(describeEndpoint("Endpoints", "Every endpoint, and whether it is deprecated."))
    .annotate(HasEtag, true),
  HttpApiEndpoint.get("estimate", "/estimate", {
    query: CostEstimateQuery,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Tuple([CostEstimate]).annotate({ description: "Exactly one object." }),
      message: Schema.optionalKey(Schema.String.annotate({ description: "Why the request would cost nothing." })),
    }),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).middleware(Authorization).middleware(Authentication).annotateMerge(describeEndpoint(
    "Estimate",
    "What a request would cost, itself free of charge: send the path as `endpoint`, and the request's own " +
      "parameters. It goes the way of that request, so what that would refuse is refused here too.",
  )),
  HttpApiEndpoint.get("openapi", "/v1/openapi.json", { query: NoParameters, success: Schema.Json }).annotateMerge(
    describeEndpoint("OpenAPI", "This API as an OpenAPI 3.1 document."),
  ).annotate(HasEtag, true),
  HttpApiEndpoint.get("live", "/health/live", { query: NoParameters, success: Health }).annotateMerge(
    describeEndpoint("Liveness", "The process answers."),
  ),
  HttpApiEndpoint.get("ready", "/health/ready", {
    query: NoParameters,
    success: Readiness,
    error: NotReadyError,
  }).annotateMerge(
    describeEndpoint("Readiness", "Data can be served: the database answers, and usage can be recorded."),
  ),
).annotateMerge(
  describeGroup("Catalogue", "What the service says of itself: its endpoints, prices, contract and health."),
) {}
