import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { PremarketStat, PremarketStatsApiGroup } from "./Api.ts"
import { makeExtendedHoursSelect } from "./Sessions.ts"

export const premarketStatsHandlers = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = makeExtendedHoursSelect(yield* SqlClient.SqlClient, "premarket_stats")
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const page = from(PremarketStatsApiGroup.endpoints.list, list({ Row: PremarketStat, execute }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
