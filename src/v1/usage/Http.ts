import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Account } from "../../account/Authentication.ts"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { respond } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { DailyQuery, Query, UsageDay, UsageRow } from "./Api.ts"

/** An account sees only its own. */
interface Own {
  readonly account_id: number
}

export const layer = HttpApiBuilder.group(
  Api,
  "usage",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { days, in: oneOf, ranges } = where(sql)

    const find = list({
      Row: UsageRow,
      execute: ({ account_id, endpoint, status_code, ...query }: typeof Query.Type & Own, slice) =>
        sql`
          select ${slice.columns}
          from usage cross join lateral (
            select (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
          ) as key
          where ${
          sql.and([
            sql`account_id = ${account_id}`,
            ...oneOf("endpoint", endpoint),
            ...(status_code === undefined ? [] : [sql`status_code = any(${status_code}::text[]::smallint[])`]),
            ...days("requested_at", query.requested_at_from, query.requested_at_to),
          ])
        }
          ${slice.page(sql`requested_at desc, usage_id desc`)}
        `,
    })

    const findDaily = list({
      Row: UsageDay,
      execute: ({ account_id, endpoint, ...query }: typeof DailyQuery.Type & Own, slice) =>
        sql`
          select ${slice.columns}
          from usage_daily
          where ${sql.and([sql`account_id = ${account_id}`, ...oneOf("endpoint", endpoint), ...ranges(query)])}
          ${slice.page(sql`usage_date desc, endpoint`)}
        `,
    })

    return handlers
      .handle(
        "list",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* respond(yield* find({ ...query, account_id }))
        }),
      )
      .handle(
        "listDaily",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* respond(yield* findDaily({ ...query, account_id }))
        }),
      )
  }),
)
