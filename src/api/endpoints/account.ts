/** Handles `GET /v1/account` and the lists of the account's keys, invoices and invoice lines. */
import { Array, Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { makeHandler } from "../../query/EndpointHandler.ts"
import { apiKeyStatusSql } from "../../accounts/keys/ApiKeyManagement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { makeObjectEncoder } from "../../contract/rules/EndpointResult.ts"
import { NoParameters } from "../../contract/rules/FilterParameters.ts"
import {
  AccountResponse,
  AccountRow,
  ApiKeyRow,
  ApiKeysQuery,
  InvoiceLineRow,
  InvoiceLinesQuery,
  InvoiceRow,
  InvoicesQuery,
} from "../../contract/endpoints/account.ts"

/** Handlers for what customers can read about their own account. */
export const accountHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader
  const { makeAccountEndpoint } = yield* ListEndpointFactory

  const encode = makeObjectEncoder(AccountResponse)

  const findAccount = SqlSchema.findAll({
    Request: Schema.Int,
    Result: AccountRow,
    execute: (account_id) =>
      sql`select account_id, name, contact_email, tier, created_at from accounts where account_id = ${account_id}`,
  })

  const listKeys = makeAccountEndpoint(ApiKeysQuery, {
    Row: ApiKeyRow,
    select: ({ account_id }, { columns, orderAndLimit }) =>
      sql`
          select ${columns}
          from api_keys cross join lateral (select ${sql.literal(apiKeyStatusSql)} as status) as computed
          where account_id = ${account_id}
          ${orderAndLimit(sql`created_at, key_id`)}
        `,
  })

  const listInvoices = makeAccountEndpoint(InvoicesQuery, {
    Query: InvoicesQuery,
    Row: InvoiceRow,
    select: ({ account_id }, { columns, conditions, orderAndLimit }) =>
      sql`
          select ${columns}
          from invoices
          where ${sql.and([sql`account_id = ${account_id}`, ...conditions])}
          ${orderAndLimit(sql`month desc`)}
        `,
  })

  const listInvoiceLines = makeAccountEndpoint(InvoiceLinesQuery, {
    Query: InvoiceLinesQuery,
    Row: InvoiceLineRow,
    select: ({ account_id }, { columns, conditions, orderAndLimit }) =>
      sql`
          select ${columns}
          from invoice_lines
          where ${sql.and([sql`account_id = ${account_id}`, ...conditions])}
          ${orderAndLimit(sql`month desc, line`)}
        `,
  })

  const show = makeHandler(
    NoParameters,
    Effect.fnUntraced(function* (_, { account: { account_id }, route }) {
      const account = yield* Effect.orDie(
        Effect.fromOption(Array.head(yield* reader.query(findAccount(account_id), route))),
      )
      return encode({ count: 1, results: [account] })
    }),
  )
  return { show, listKeys, listInvoices, listInvoiceLines }
})
