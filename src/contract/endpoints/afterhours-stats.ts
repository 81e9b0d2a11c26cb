/** `GET /v1/afterhours-stats`, which has the same fields and filters as `/v1/premarket-stats`. */
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { extendedHoursFields, ExtendedHoursStatsQuery } from "./premarket-stats.ts"

/** A row of `/v1/afterhours-stats`. */
export class AfterhoursStat extends Model.Class<AfterhoursStat>("AfterhoursStat")(extendedHoursFields) {}

/** The `/v1/afterhours-stats` endpoint. */
export class AfterhoursStatsApiGroup extends HttpApiGroup.make("afterhoursStats").add(
  HttpApiEndpoint.get("list", "/afterhours-stats", {
    query: ExtendedHoursStatsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(AfterhoursStat)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint("Afterhours stats", "Trading after the close: one row per ticker and day, newest first.", {
      tables: ["afterhours_stats"],
    }),
  ),
).annotateMerge(describeEndpointGroup("Afterhours stats", "Sessions with unusual trading after the close.")) {}
