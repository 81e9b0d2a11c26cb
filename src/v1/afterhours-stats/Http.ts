import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { makeExtendedHoursSelect } from "../premarket-stats/Sessions.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "./Api.ts"

export const afterhoursStatsHandlers = HttpApiBuilder.group(
  Api,
  "afterhoursStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = makeExtendedHoursSelect(yield* SqlClient.SqlClient, "afterhours_stats")
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const page = from(AfterhoursStatsApiGroup.endpoints.list, list({ Row: AfterhoursStat, execute }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
