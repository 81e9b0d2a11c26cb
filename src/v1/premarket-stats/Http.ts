import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { PremarketStat, PremarketStats } from "./Api.ts"
import { sessions } from "./Sessions.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = sessions(yield* SqlClient.SqlClient, "premarket_stats")
    const { list } = yield* listing
    const { from } = yield* Lists
    const page = from(PremarketStats.endpoints.list, list({ Row: PremarketStat, execute }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
