import { Array, Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Account } from "../../accounts/keys/Authentication.ts"
import { keyStatus } from "../../accounts/keys/ApiKeys.ts"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { countRecords } from "../../http/RequestContext.ts"
import type { Page } from "../../rules/Paging.ts"
import { AccountRow, ApiKey } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "account",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { read } = yield* Database
    const { list } = yield* listing
    const { own } = yield* Lists

    const find = SqlSchema.findAll({
      Request: Schema.Int,
      Result: AccountRow,
      execute: (account_id) =>
        sql`select account_id, name, contact_email, tier, created_at from accounts where account_id = ${account_id}`,
    })

    const pageOfKeys = own(list({
      Row: ApiKey,
      execute: ({ account_id }: Page & { readonly account_id: number }, slice) =>
        sql`
          select ${slice.columns}
          from api_keys cross join lateral (select ${sql.literal(keyStatus)} as status) as computed
          where account_id = ${account_id}
          ${slice.page(sql`created_at, key_id`)}
        `,
    }))

    return handlers
      .handle(
        "show",
        Effect.fnUntraced(function* () {
          const { account_id } = yield* Account
          const account = yield* Effect.orDie(Effect.fromOption(Array.head(yield* read(find(account_id)))))
          yield* countRecords(1)
          return { count: 1, results: [account] as const }
        }),
      )
      .handle(
        "listKeys",
        Effect.fnUntraced(function* ({ query }) {
          const { account_id } = yield* Account
          return yield* pageOfKeys({ ...query, account_id })
        }),
      )
  }),
)
