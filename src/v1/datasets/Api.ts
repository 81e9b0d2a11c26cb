/** How fresh the data are; §2.1, §9.3. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, tagged } from "../../rules/EndpointAnnotations.ts"
import { jsonOf, orNull, text, words } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class DatasetRow extends Model.Class<DatasetRow>("Dataset")({
  dataset: text("Its name."),
  endpoints: words("The paths that answer from it."),
  changed_at: orNull(UtcInstant),
}) {}

export const Query = Schema.Struct(Paging).check(consistent)

export class Datasets extends HttpApiGroup.make("datasets").add(
  HttpApiEndpoint.get("list", "/datasets", {
    query: Query,
    success: Envelope(jsonOf(DatasetRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described(
    "Datasets",
    "Every dataset, by name, with the endpoints that answer from it and when its rows changed last; `changed_at` is " +
      "null where they never did. What an endpoint answers is at most a second older than that.",
  )),
).annotateMerge(tagged("Datasets", "The datasets, and when each last changed.")) {}
