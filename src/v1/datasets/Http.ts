import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers, type WithAccount } from "../../lists/ListHandlers.ts"
import { DatasetRow, DatasetsQuery } from "./Api.ts"
import { datasetEndpoints } from "./DatasetEndpoints.ts"

export const datasetsHandlers = HttpApiBuilder.group(
  Api,
  "datasets",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeAccountHandler } = yield* ListHandlers
    const known = JSON.stringify(datasetEndpoints)

    const list = makeAccountHandler({ path: "/datasets", query: DatasetsQuery }, {
      Row: DatasetRow,
      // Takes the latest time, because concurrent changes of a dataset add several rows to dataset_versions.
      select: (_: WithAccount<typeof DatasetsQuery.Type>, { columns, orderAndLimit }) =>
        sql`
          select ${columns}
          from jsonb_to_recordset(${known}::text::jsonb) as known (dataset text, endpoints text[])
          cross join lateral (
            select max(changed_at) as changed_at from dataset_versions where dataset_versions.dataset = known.dataset
          ) as latest
          ${orderAndLimit(sql`dataset collate "C"`)}
        `,
    })

    return handlers.handle("list", list)
  }),
)
