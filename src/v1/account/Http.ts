import { Array, Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Account } from "../../accounts/keys/Authentication.ts"
import { apiKeyStatusSql } from "../../accounts/keys/ApiKeys.ts"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { setRecordCount } from "../../http/RequestContext.ts"
import type { PageQuery } from "../../rules/Paging.ts"
import { AccountRow, ApiKeyRow } from "./Api.ts"

export const accountHandlers = HttpApiBuilder.group(
  Api,
  "account",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { read } = yield* Database
    const { makeAccountHandler } = yield* ListHandlers

    const find = SqlSchema.findAll({
      Request: Schema.Int,
      Result: AccountRow,
      execute: (account_id) =>
        sql`select account_id, name, contact_email, tier, created_at from accounts where account_id = ${account_id}`,
    })

    const listKeys = makeAccountHandler<PageQuery>({
      Row: ApiKeyRow,
      select: ({ account_id }, { columns, orderAndLimit }) =>
        sql`
          select ${columns}
          from api_keys cross join lateral (select ${sql.literal(apiKeyStatusSql)} as status) as computed
          where account_id = ${account_id}
          ${orderAndLimit(sql`created_at, key_id`)}
        `,
    })

    return handlers
      .handle(
        "show",
        Effect.fnUntraced(function* () {
          const { account_id } = yield* Account
          const account = yield* Effect.orDie(Effect.fromOption(Array.head(yield* read(find(account_id)))))
          yield* setRecordCount(1)
          return { count: 1, results: [account] as const }
        }),
      )
      .handle("listKeys", listKeys)
  }),
)
