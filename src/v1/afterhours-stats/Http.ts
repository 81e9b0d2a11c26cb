import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { Query } from "../premarket-stats/Api.ts"
import { sessions } from "../premarket-stats/Sessions.ts"
import { AfterhoursStat } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "afterhoursStats",
  Effect.fnUntraced(function* (handlers) {
    const execute = sessions(yield* SqlClient.SqlClient, "afterhours_stats")
    const list = yield* listing
    const find = list({ Request: Schema.toType(Query), Result: AfterhoursStat, execute })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)
