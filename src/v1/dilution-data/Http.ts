import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { AdvancedConvertible, AdvancedQuery, AdvancedWarrant, Convertible, Query, Warrant } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "dilutionData",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, part, partOfAny, ranges } = where(sql)

    const columns = sql.literal(`
      id, ticker, security_type, details, floor_price, registered, filed_at, form_type, accession_number, document_url,
      last_updated, warrants_amount, warrants_remaining, warrants_exercise_price, prefunded_cost, exercisable_date,
      expiration_date, conversion_price, conversion_price_type, offering_amount, convertible_debt_remaining,
      interest_rate_percentage, convertible_date, maturity_date, underlying_shares_remaining`)

    const conditions = (query: typeof Query.Type | typeof AdvancedQuery.Type) => [
      ...oneOf("ticker", query.ticker),
      ...oneOf("security_type", query.security_type),
      ...is("registered", query.registered),
      ...ranges(query),
    ]

    const find = list({
      Request: Schema.toType(Query),
      Result: Schema.Union([Warrant, Convertible]),
      execute: (query, slice) =>
        sql`
            select ${columns} from dilution_data where ${sql.and(conditions(query))}
            ${slice.page(sql`filed_at desc, id`)}
          `,
    })

    const findAdvanced = list({
      Request: Schema.toType(AdvancedQuery),
      Result: Schema.Union([AdvancedWarrant, AdvancedConvertible]),
      execute: (query, slice) => {
        const more = [
          ...partOfAny("owners", query.owner),
          ...part("bank", query.bank),
          ...part("price_protection", query.price_protection),
        ]
        return sql`
            select ${columns}, bank, owners, price_protection, price_protection_clause, reset_date,
              beneficial_ownership_blocker_percentage, registration_file_no
            from dilution_data where ${sql.and([...conditions(query), ...more])}
            ${slice.page(sql`filed_at desc, id`)}
          `
      },
    })

    return handlers
      .handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
      .handle("listAdvanced", ({ query }) => Effect.flatMap(findAdvanced(query), (rows) => envelope(query, rows)))
  }),
)
