/** Handles `GET /v1/datasets`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { DatasetRow, DatasetsQuery } from "../../contract/endpoints/datasets.ts"

/**
 * Builds the handler for the list of datasets, each with the time of its last change and the paths of the endpoints
 * that read it. `endpointsByDataset` contains all datasets with these paths. It is passed to PostgreSQL as JSON, which
 * becomes the table `known`.
 */
export const makeDatasetsHandlers = Effect.fnUntraced(function* (
  endpointsByDataset: ReadonlyArray<{ readonly dataset: string; readonly endpoints: ReadonlyArray<string> }>,
) {
  const sql = yield* SqlClient.SqlClient
  const { makeAccountEndpoint } = yield* ListEndpointFactory
  const known = JSON.stringify(endpointsByDataset)

  const list = makeAccountEndpoint(DatasetsQuery, {
    Row: DatasetRow,
    // Concurrent changes to a dataset add several rows to `dataset_versions`, of which `max` selects the latest time.
    select: (_, { columns, orderAndLimit }) =>
      sql`
          select ${columns}
          from jsonb_to_recordset(${known}::text::jsonb) as known (dataset text, endpoints text[])
          cross join lateral (
            select max(changed_at) as changed_at from dataset_versions where dataset_versions.dataset = known.dataset
          ) as latest
          ${orderAndLimit(sql`dataset collate "C"`)}
        `,
  })

  return { list }
})
