import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { DatasetRow, type Query } from "./Api.ts"
import { datasets } from "./Readers.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "datasets",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { own } = yield* Lists
    const known = JSON.stringify(datasets)

    const page = own(list({
      Row: DatasetRow,
      // Of a dataset that several programs change at once there are several notes.
      execute: (_: typeof Query.Type, slice) =>
        sql`
          select ${slice.columns}
          from jsonb_to_recordset(${known}::text::jsonb) as known (dataset text, endpoints text[])
          cross join lateral (
            select max(changed_at) as changed_at from dataset_versions where dataset_versions.dataset = known.dataset
          ) as noted
          ${slice.page(sql`dataset collate "C"`)}
        `,
    }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
