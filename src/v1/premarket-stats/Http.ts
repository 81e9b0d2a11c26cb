import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ExtendedHoursQuery, PremarketStat, PremarketStatsApiGroup } from "./Api.ts"
import { makeExtendedHoursSelect } from "./Sessions.ts"

export const premarketStatsHandlers = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const { makeHandler } = yield* ListHandlers
    const select = makeExtendedHoursSelect(yield* SqlClient.SqlClient, "premarket_stats")

    return handlers.handle(
      "list",
      makeHandler(PremarketStatsApiGroup.endpoints.list, { Query: ExtendedHoursQuery, Row: PremarketStat, select }),
    )
  }),
)
