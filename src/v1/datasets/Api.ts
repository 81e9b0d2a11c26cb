/** How fresh the data are; §2.1, §9.3. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup } from "../../rules/EndpointAnnotations.ts"
import { getRowJsonSchema, nullableColumn, textArrayColumn, textColumn } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class DatasetRow extends Model.Class<DatasetRow>("Dataset")({
  dataset: textColumn("Its name."),
  endpoints: textArrayColumn("The paths that answer from it."),
  changed_at: nullableColumn(UtcInstant),
}) {}

export const DatasetsQuery = Schema.Struct(PagingParameters).check(checkParameterCombinations)

export class DatasetsApiGroup extends HttpApiGroup.make("datasets").add(
  HttpApiEndpoint.get("list", "/datasets", {
    query: DatasetsQuery,
    success: ListEnvelope(getRowJsonSchema(DatasetRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Datasets",
    "Every dataset, by name, with the endpoints that answer from it and when its rows changed last; `changed_at` is " +
      "null where they never did. What an endpoint answers is at most a second older than that.",
  )),
).annotateMerge(describeGroup("Datasets", "The datasets, and when each last changed.")) {}
