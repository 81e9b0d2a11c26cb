import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ExtendedHoursQuery } from "../premarket-stats/Api.ts"
import { makeExtendedHoursSelect } from "../premarket-stats/Sessions.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "./Api.ts"

export const afterhoursStatsHandlers = HttpApiBuilder.group(
  Api,
  "afterhoursStats",
  Effect.fnUntraced(function* (handlers) {
    const { makeHandler } = yield* ListHandlers
    const select = makeExtendedHoursSelect(yield* SqlClient.SqlClient, "afterhours_stats")

    return handlers.handle(
      "list",
      makeHandler(AfterhoursStatsApiGroup.endpoints.list, { Query: ExtendedHoursQuery, Row: AfterhoursStat, select }),
    )
  }),
)
