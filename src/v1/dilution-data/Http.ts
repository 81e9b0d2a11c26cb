import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import {
  AdvancedConvertible,
  AdvancedQuery,
  AdvancedWarrant,
  Convertible,
  DilutionData,
  Query,
  Warrant,
} from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "dilutionData",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})
    const wantedAdvanced = conditions(sql, AdvancedQuery, {})

    const page = from(
      DilutionData.endpoints.list,
      list({
        Row: [Warrant, Convertible],
        execute: (query: typeof Query.Type, slice) =>
          sql`
            select ${slice.columns} from dilution_data where ${sql.and(wanted(query))}
            ${slice.page(sql`filed_at desc, id`)}
          `,
      }),
    )

    const pageAdvanced = from(
      DilutionData.endpoints.listAdvanced,
      list({
        Row: [AdvancedWarrant, AdvancedConvertible],
        execute: (query: typeof AdvancedQuery.Type, slice) =>
          sql`
            select ${slice.columns} from dilution_data where ${sql.and(wantedAdvanced(query))}
            ${slice.page(sql`filed_at desc, id`)}
          `,
      }),
    )

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)
