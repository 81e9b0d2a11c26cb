import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { AdvancedConvertible, AdvancedQuery, AdvancedWarrant, Convertible, Query, Warrant } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "dilutionData",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, part, partOfAny, ranges } = where(sql)

    const conditions = (query: typeof Query.Type | typeof AdvancedQuery.Type) => [
      ...oneOf("ticker", query.ticker),
      ...oneOf("security_type", query.security_type),
      ...is("registered", query.registered),
      ...ranges(query),
    ]

    const page = from(
      ["dilution_data"],
      list({
        Row: [Warrant, Convertible],
        execute: (query: typeof Query.Type, slice) =>
          sql`
            select ${slice.columns} from dilution_data where ${sql.and(conditions(query))}
            ${slice.page(sql`filed_at desc, id`)}
          `,
      }),
    )

    const pageAdvanced = from(
      ["dilution_data"],
      list({
        Row: [AdvancedWarrant, AdvancedConvertible],
        execute: (query: typeof AdvancedQuery.Type, slice) => {
          const more = [
            ...partOfAny("owners", query.owner),
            ...part("bank", query.bank),
            ...part("price_protection", query.price_protection),
          ]
          return sql`
            select ${slice.columns} from dilution_data where ${sql.and([...conditions(query), ...more])}
            ${slice.page(sql`filed_at desc, id`)}
          `
        },
      }),
    )

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)
