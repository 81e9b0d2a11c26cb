import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
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
    const { makeHandler } = yield* ListHandlers

    const select = (_: object, { columns, orderAndLimit, where }: ListClauses) =>
      sql`
        select ${columns} from dilution_data where ${where}
        ${orderAndLimit(sql`filed_at desc, id`)}
      `

    return handlers
      .handle(
        "list",
        makeHandler(DilutionDataApiGroup.endpoints.list, {
          Query: DilutionDataQuery,
          Row: [Warrant, Convertible],
          select,
        }),
      )
      .handle(
        "listAdvanced",
        makeHandler(DilutionDataApiGroup.endpoints.listAdvanced, {
          Query: DilutionDataAdvancedQuery,
          Row: [AdvancedWarrant, AdvancedConvertible],
          select,
        }),
      )
  }),
)
