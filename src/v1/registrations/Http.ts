import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { Registration, RegistrationsApiGroup, RegistrationsQuery } from "./Api.ts"

export const registrationsHandlers = HttpApiBuilder.group(
  Api,
  "registrations",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, RegistrationsQuery, {})

    const page = from(
      RegistrationsApiGroup.endpoints.list,
      list({
        Row: Registration,
        execute: (query: typeof RegistrationsQuery.Type, slice) =>
          sql`
        select ${slice.columns}
        from registrations
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`filed_at desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
