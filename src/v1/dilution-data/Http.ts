import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import {
  AdvancedConvertible,
  AdvancedWarrant,
  Convertible,
  DilutionDataAdvancedQuery,
  DilutionDataApiGroup,
  DilutionDataQuery,
  Warrant,
} from "./Api.ts"

export const dilutionDataHandlers = HttpApiBuilder.group(
  Api,
  "dilutionData",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, DilutionDataQuery, {})
    const wantedAdvanced = compileConditions(sql, DilutionDataAdvancedQuery, {})

    const page = from(
      DilutionDataApiGroup.endpoints.list,
      list({
        Row: [Warrant, Convertible],
        execute: (query: typeof DilutionDataQuery.Type, slice) =>
          sql`
            select ${slice.columns} from dilution_data where ${sql.and(wanted(query))}
            ${slice.orderAndLimit(sql`filed_at desc, id`)}
          `,
      }),
    )

    const pageAdvanced = from(
      DilutionDataApiGroup.endpoints.listAdvanced,
      list({
        Row: [AdvancedWarrant, AdvancedConvertible],
        execute: (query: typeof DilutionDataAdvancedQuery.Type, slice) =>
          sql`
            select ${slice.columns} from dilution_data where ${sql.and(wantedAdvanced(query))}
            ${slice.orderAndLimit(sql`filed_at desc, id`)}
          `,
      }),
    )

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)
