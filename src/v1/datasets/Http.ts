import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { DatasetRow, type DatasetsQuery } from "./Api.ts"
import { datasetEndpoints } from "./DatasetEndpoints.ts"

export const datasetsHandlers = HttpApiBuilder.group(
  Api,
  "datasets",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeAccountHandler } = yield* ListHandlers
    const known = JSON.stringify(datasetEndpoints)

    const list = makeAccountHandler<typeof DatasetsQuery.Type>({
      Row: DatasetRow,
      // dataset_versions has several rows for a dataset if several transactions change it at the same time.
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

    return handlers.handle("list", list)
  }),
)
