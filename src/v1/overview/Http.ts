import { Array, Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Account } from "../../accounts/keys/Authentication.ts"
import { RateLimit } from "../../accounts/limits/RateLimit.ts"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { todayInNewYork } from "../../rules/Dates.ts"
import { setRecordCount } from "../../http/RequestContext.ts"
import { AccountOverview } from "./Api.ts"

export const overviewHandlers = HttpApiBuilder.group(
  Api,
  "overview",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { read } = yield* Database
    const { perMinute } = yield* RateLimit

    const find = SqlSchema.findAll({
      Request: Schema.Struct({ account_id: Schema.Int, today: Schema.String }),
      Result: AccountOverview,
      execute: ({ account_id, today }) =>
        sql`
          select account_id, name, tier, balance_microdollars, last_charged_at, created_at, requests_today,
            cost_today_microdollars
          from accounts cross join lateral (
            select coalesce(sum(requests), 0)::bigint as requests_today,
              coalesce(sum(cost_microdollars), 0)::bigint as cost_today_microdollars
            from usage_daily where account_id = accounts.account_id and usage_date = ${today}::date
          ) as today
          where account_id = ${account_id}
        `,
    })

    return handlers.handle(
      "show",
      Effect.fnUntraced(function* () {
        const { account_id } = yield* Account
        const found = yield* read(find({ account_id, today: yield* todayInNewYork }))
        const overview = yield* Effect.orDie(Effect.fromOption(Array.head(found)))
        yield* setRecordCount(1)
        return {
          count: 1,
          results: [{ ...overview, rate_limit_per_minute: perMinute(overview.tier) }] as const,
        }
      }),
    )
  }),
)
