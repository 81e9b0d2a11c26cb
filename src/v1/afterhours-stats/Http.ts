import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { sessions } from "../premarket-stats/Sessions.ts"
import { AfterhoursStat, AfterhoursStats } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "afterhoursStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = sessions(yield* SqlClient.SqlClient, "afterhours_stats")
    const { list } = yield* listing
    const { from } = yield* Lists
    const page = from(AfterhoursStats.endpoints.list, list({ Row: AfterhoursStat, execute }))

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
