import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { DatasetRow, type DatasetsQuery } from "./Api.ts"
import { datasetEndpoints } from "./DatasetEndpoints.ts"

export const datasetsHandlers = HttpApiBuilder.group(
  Api,
  "datasets",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeAccountHandler: own } = yield* ListHandlers
    const known = JSON.stringify(datasetEndpoints)

    const page = own(list({
      Row: DatasetRow,
      // Of a dataset that several programs change at once there are several notes.
      execute: (_: typeof DatasetsQuery.Type, slice) =>
        sql`
          select ${slice.columns}
          from jsonb_to_recordset(${known}::text::jsonb) as known (dataset text, endpoints text[])
          cross join lateral (
            select max(changed_at) as changed_at from dataset_versions where dataset_versions.dataset = known.dataset
          ) as noted
          ${slice.orderAndLimit(sql`dataset collate "C"`)}
        `,
    }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
