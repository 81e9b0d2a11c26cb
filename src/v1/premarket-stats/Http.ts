import { Effect, flow, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { envelope } from "../../policy/Paging.ts"
import { PremarketStat, Query } from "./Api.ts"
import { sessions } from "./Sessions.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = sessions(yield* SqlClient.SqlClient, "premarket_stats")
    const database = yield* Database
    const find = flow(
      SqlSchema.findAll({ Request: Schema.toType(Query), Result: PremarketStat, execute }),
      database.read,
    )

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)
