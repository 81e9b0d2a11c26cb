import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { PremarketStat, Query } from "./Api.ts"
import { sessions } from "./Sessions.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = sessions(yield* SqlClient.SqlClient, "premarket_stats")
    const list = yield* listing
    const find = list({ Request: Schema.toType(Query), Result: PremarketStat, execute })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)
