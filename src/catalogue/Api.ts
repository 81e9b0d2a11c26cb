/** What the service says of itself: open to everybody (D2). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { described } from "../policy/Access.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../policy/Errors.ts"
import { NoParameters } from "../policy/Filters.ts"

export const EndpointRow = Schema.Struct({
  path: Schema.String.annotate({ description: "The stable key of an endpoint." }),
  label: Schema.String.annotate({ description: "Its name; `DEPRECATED` stands before the name of a deprecated one." }),
  description: Schema.String,
  tier: Schema.NullOr(Schema.String).annotate({ description: "The least tier that sees it; null: no key is needed." }),
  deprecated: Schema.Boolean,
  sunset: Schema.NullOr(Schema.String).annotate({
    description: "The date after which it may stop responding; null while none is committed.",
  }),
  successor: Schema.NullOr(Schema.String).annotate({ description: "The path of what replaces it." }),
}).annotate({ identifier: "Endpoint" })

const Health = Schema.Struct({ status: Schema.Literal("ok") })

export class Catalogue extends HttpApiGroup.make("catalogue").add(
  HttpApiEndpoint.get("endpoints", "/endpoints", {
    query: NoParameters,
    success: Schema.Struct({ count: Schema.Int, results: Schema.Array(EndpointRow) }),
  }).annotateMerge(described("Endpoints", "Every endpoint, and whether it is deprecated.")),
  HttpApiEndpoint.get("openapi", "/v1/openapi.json", { query: NoParameters, success: Schema.Json }).annotateMerge(
    described("OpenAPI", "This API as an OpenAPI 3.1 document."),
  ),
  HttpApiEndpoint.get("live", "/health/live", { query: NoParameters, success: Health }).annotateMerge(
    described("Liveness", "The process answers."),
  ),
  HttpApiEndpoint.get("ready", "/health/ready", {
    query: NoParameters,
    success: Health,
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described("Readiness", "The database answers too.")),
).annotate(OpenApi.Title, "Catalogue") {}
