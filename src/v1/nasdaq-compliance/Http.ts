import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ComplianceNotice, NasdaqComplianceApiGroup, NasdaqComplianceQuery } from "./Api.ts"

export const nasdaqComplianceHandlers = HttpApiBuilder.group(
  Api,
  "nasdaqCompliance",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(NasdaqComplianceApiGroup.endpoints.list, {
        Query: NasdaqComplianceQuery,
        Row: ComplianceNotice,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from nasdaq_compliance
            where ${where}
            ${orderAndLimit(sql`date desc, id`)}
          `,
      }),
    )
  }),
)
