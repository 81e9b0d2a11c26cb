/** Handles `GET /v1/overview`. */
import { Array, Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { makeHandler } from "../../accounts/EndpointHandler.ts"
import { AccountRateLimiter } from "../../accounts/limits/AccountRateLimiter.ts"
import { Reader } from "../../db/Reader.ts"
import { getDateInNewYork } from "../../rules/Dates.ts"
import { makeObjectEncoder } from "../../rules/Answer.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { AccountOverview, OverviewResponse } from "./Api.ts"

export const overviewHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* Reader
  const { getRequestsPerMinute: perMinute } = yield* AccountRateLimiter

  const encode = makeObjectEncoder(OverviewResponse)

  const find = SqlSchema.findAll({
    Request: Schema.Struct({ account_id: Schema.Int, today: Schema.String }),
    Result: AccountOverview,
    execute: ({ account_id, today }) =>
      sql`
          select account_id, name, tier, current_balance(accounts) as balance_microdollars, budget_microdollars,
            budget_stops,
            budget_spent_this_month(accounts) as budget_spent_microdollars,
            budget_spent_this_month(accounts) * 100 / budget_microdollars as budget_spent_percent,
            newest_charge(accounts) as last_charged_at, created_at, requests_today, cost_today_microdollars
          from accounts cross join lateral (
            select coalesce(sum(requests), 0)::bigint as requests_today,
              coalesce(sum(cost_microdollars), 0)::bigint as cost_today_microdollars
            from usage_totals where account_id = accounts.account_id and usage_date = ${today}::date
          ) as today
          where account_id = ${account_id}
        `,
  })

  const show = makeHandler(
    NoParameters,
    Effect.fnUntraced(function* (_, { account: { account_id }, now, route }) {
      const found = yield* reader.query(find({ account_id, today: getDateInNewYork(now) }), route)
      const overview = yield* Effect.orDie(Effect.fromOption(Array.head(found)))
      return encode({
        count: 1,
        results: [{ ...overview, rate_limit_per_minute: perMinute(overview.tier) }],
      })
    }),
  )
  return { show }
})
