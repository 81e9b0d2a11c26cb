import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Account } from "../../account/Authentication.ts"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { DailyQuery, Query, UsageDay, UsageRow } from "./Api.ts"

/** An account sees only its own. */
const own = { account_id: Schema.Int }

export const layer = HttpApiBuilder.group(
  Api,
  "usage",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { days, in: oneOf, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Schema.Struct({ ...Query.fields, ...own })),
      Result: UsageRow,
      execute: ({ account_id, endpoint, status_code, ...query }, slice) =>
        sql`
          select request_id, requested_at, endpoint, status_code, records_returned, bytes, cost_microdollars,
            duration_ms, cached, deprecated,
            (select key_hint from api_keys where api_keys.key_id = usage.key_id) as key_hint
          from usage
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
      Request: Schema.toType(Schema.Struct({ ...DailyQuery.fields, ...own })),
      Result: UsageDay,
      execute: ({ account_id, endpoint, ...query }, slice) =>
        sql`
          select usage_date, endpoint, requests, errors, bytes, cost_microdollars
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
          return yield* envelope(query, yield* find({ ...query, account_id }))
        }),
      )
      .handle(
        "listDaily",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* envelope(query, yield* findDaily({ ...query, account_id }))
        }),
      )
  }),
)
