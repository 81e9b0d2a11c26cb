/** Handles `GET /v1/overview`. */
import { Array, Effect, Schema } from "effect"
import { SqlClient, SqlSchema, Statement } from "effect/sql"
import { UsageMetering } from "../../accounts/billing/UsageMetering.ts"
import { makeHandler } from "../../query/EndpointHandler.ts"
import { AccountRateLimiter } from "../../accounts/limits/AccountRateLimiter.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { getDateInNewYork } from "../../contract/rules/Dates.ts"
import { makeObjectEncoder } from "../../contract/rules/EndpointResult.ts"
import { NoParameters } from "../../contract/rules/FilterParameters.ts"
import { AccountOverview, OverviewResponse } from "../../contract/endpoints/overview.ts"

/**
 * Maximum number of times the overview is read for one request. It is read again if usage was written in the meantime,
 * which happens a few times per second, so the second attempt almost always succeeds.
 */
const maxAttempts = 3

/** Handler for an account's overview, which includes its balance, budget and today's usage. */
export const overviewHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader
  const { getRequestsPerMinute: perMinute } = yield* AccountRateLimiter

  const { makeUnwrittenSql } = yield* UsageMetering
  const encode = makeObjectEncoder(OverviewResponse)

  /**
   * Reads the account's row, its balance and budget, and its usage today. `unwritten` is a query for one row: the usage
   * of this account that is still in this process's memory. Its amounts are added to those in the database.
   * `current_balance(accounts)` and similar calls are functions of the row.
   */
  const find = SqlSchema.findAll({
    Request: Schema.Struct({
      account_id: Schema.Int,
      today: Schema.String,
      unwritten: Schema.declare(Statement.isFragment),
    }),
    Result: AccountOverview,
    execute: ({ account_id, today, unwritten }) =>
      sql`
      select account_id, name, tier, current_balance(accounts) - unwritten.cost as balance_microdollars,
        budget_microdollars, budget_stops,
        budget_spent_this_month(accounts) + unwritten.cost_this_month as budget_spent_microdollars,
        (budget_spent_this_month(accounts) + unwritten.cost_this_month) * 100 / budget_microdollars
          as budget_spent_percent,
        greatest(newest_charge(accounts), unwritten.charged_at) as last_charged_at, created_at,
        today.requests + unwritten.requests_today as requests_today,
        today.cost + unwritten.cost_today as cost_today_microdollars
      from accounts cross join lateral (
        select coalesce(sum(requests), 0)::bigint as requests, coalesce(sum(cost_microdollars), 0)::bigint as cost
        from usage_totals where account_id = accounts.account_id and usage_date = ${today}::date
      ) as today cross join (${unwritten}) as unwritten
      where account_id = ${account_id}
    `,
  })

  /**
   * Reads the overview, and adds usage that is still in this process's memory to usage in the database. If this process
   * writes usage during the query, the result may lack what was written, so the overview is read again. After
   * `maxAttempts`, the last result is returned.
   */
  const read = Effect.fnUntraced(function* (account_id: number, now: number, route: string) {
    const today = getDateInNewYork(now)
    for (let attempt = 1;; attempt++) {
      // `isCurrent` returns whether no usage has been written since `query` was built.
      const { isCurrent, query } = makeUnwrittenSql(account_id, today)
      const found = yield* reader.query(find({ account_id, today, unwritten: query }), route)
      if (isCurrent() || attempt === maxAttempts) return yield* Effect.orDie(Effect.fromOption(Array.head(found)))
    }
  })

  const show = makeHandler(
    NoParameters,
    Effect.fnUntraced(function* (_, { account: { account_id }, now, route }) {
      const overview = yield* read(account_id, now, route)
      return encode({
        count: 1,
        results: [{ ...overview, rate_limit_per_minute: perMinute(overview.tier) }],
      })
    }),
  )
  return { show }
})
