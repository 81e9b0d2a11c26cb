import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { ComplianceNotice, NasdaqComplianceApiGroup, NasdaqComplianceQuery } from "./Api.ts"

export const nasdaqComplianceHandlers = HttpApiBuilder.group(
  Api,
  "nasdaqCompliance",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, NasdaqComplianceQuery, {})

    const page = from(
      NasdaqComplianceApiGroup.endpoints.list,
      list({
        Row: ComplianceNotice,
        execute: (query: typeof NasdaqComplianceQuery.Type, slice) =>
          sql`
        select ${slice.columns}
        from nasdaq_compliance
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`date desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
