/** `GET /v1/datasets`: when each dataset last changed. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { freeEndpointListErrors } from "../rules/ApiErrors.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import { makeListEnvelope, PagingParameters } from "../rules/Paging.ts"
import { InstantColumn } from "../rows/Timestamps.ts"

/** A row of `/v1/datasets`. */
export class DatasetRow extends Model.Class<DatasetRow>("Dataset")({
  dataset: Column.text("The name of the dataset."),
  endpoints: Column.textArray("The paths of the endpoints that read it."),
  changed_at: Column.nullable(InstantColumn),
}) {}

/** The parameters of `/v1/datasets`. */
export const DatasetsQuery = Schema.Struct(PagingParameters).check(checkParameterCombinations)

/** The `/v1/datasets` endpoint. */
export class DatasetsApiGroup extends HttpApiGroup.make("datasets").add(
  HttpApiEndpoint.get("list", "/datasets", {
    query: DatasetsQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(DatasetRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint(
    "Datasets",
    "Every dataset, by name, with the endpoints that read it and the time of its last change. `changed_at` is null " +
      "if it never changed. Responses are at most a second behind the data.",
  )),
).annotateMerge(describeEndpointGroup("Datasets", "The datasets and when each last changed.")) {}
