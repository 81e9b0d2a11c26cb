import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { Registration, RegistrationsApiGroup, RegistrationsQuery } from "./Api.ts"

export const registrationsHandlers = HttpApiBuilder.group(
  Api,
  "registrations",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(RegistrationsApiGroup.endpoints.list, {
        Query: RegistrationsQuery,
        Row: Registration,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from registrations
            where ${where}
            ${orderAndLimit(sql`filed_at desc, id`)}
          `,
      }),
    )
  }),
)
