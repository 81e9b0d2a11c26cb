/** Resources: afterhours-stats, in fields and filters the same as premarket-stats; §2.1. */
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { jsonOf } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { Envelope } from "../../rules/Paging.ts"
import { fields, Query } from "../premarket-stats/Api.ts"

export class AfterhoursStat extends Model.Class<AfterhoursStat>("AfterhoursStat")(fields) {}

export class AfterhoursStats extends HttpApiGroup.make("afterhoursStats").add(
  HttpApiEndpoint.get("list", "/afterhours-stats", {
    query: Query,
    success: Envelope(jsonOf(AfterhoursStat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["afterhours_stats"]).annotateMerge(
    described("Afterhours stats", "Trading after the close, a row a ticker and day, newest first."),
  ),
).annotateMerge(tagged("Afterhours stats", "Sessions with unusual trading after the close.")) {}
