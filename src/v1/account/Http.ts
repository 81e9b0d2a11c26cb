/** Handles `GET /v1/account` and `GET /v1/account/api-keys`. */
import { Array, Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { apiKeyStatusSql } from "../../accounts/keys/ApiKeyManagement.ts"
import { Database } from "../../db/Database.ts"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { makePipelineEndpoint } from "../../http/RequestPipeline.ts"
import { makeUncachedObjectResponder } from "../../lists/QueryCache.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { AccountApiGroup, AccountResponse, AccountRow, ApiKeyRow, ApiKeysQuery } from "./Api.ts"

export const accountEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const { makeAccountEndpoint } = yield* ListEndpointFactory

  const respond = makeUncachedObjectResponder(AccountResponse)

  const find = SqlSchema.findAll({
    Request: Schema.Int,
    Result: AccountRow,
    execute: (account_id) =>
      sql`select account_id, name, contact_email, tier, created_at from accounts where account_id = ${account_id}`,
  })

  const keys = makeAccountEndpoint(AccountApiGroup.endpoints.listKeys, ApiKeysQuery, {
    Row: ApiKeyRow,
    select: ({ account_id }, { columns, orderAndLimit }) =>
      sql`
          select ${columns}
          from api_keys cross join lateral (select ${sql.literal(apiKeyStatusSql)} as status) as computed
          where account_id = ${account_id}
          ${orderAndLimit(sql`created_at, key_id`)}
        `,
  })

  const show = makePipelineEndpoint(
    AccountApiGroup.endpoints.show,
    NoParameters,
    Effect.fnUntraced(function* (_, { account_id }) {
      const account = yield* Effect.orDie(Effect.fromOption(Array.head(yield* read(find(account_id)))))
      return yield* respond({ count: 1, results: [account] })
    }),
  )
  return [show, keys]
})
