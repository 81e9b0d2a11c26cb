import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { PumpAndDumpSuspect, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "pumpAndDumpTracker",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, part, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: PumpAndDumpSuspect,
      execute: (query, slice) =>
        sql`
        select ticker, company, ipo_date, lock_up_expiration, lock_up_shares, underwriters, known_underwriter,
          number_liquidations, last_liquidation_date, liquidation_history, tradable_float, outstanding_shares,
          market_cap, country, exchange, sector, industry, is_adr, gain_1_day, gain_7_day, gain_14_day, gain_30_day,
          num_splits, last_split_date, underwriter_risk, country_risk, float_risk, scam_risk, scam_description,
          last_post_date, document_url, filed_at, effective_date, last_updated
        from pump_and_dump_tracker
        where ${
          sql.and([
            ...oneOf("ticker", query.ticker),
            ...oneOf("country", query.country),
            ...oneOf("underwriter_risk", query.underwriter_risk),
            ...oneOf("country_risk", query.country_risk),
            ...oneOf("float_risk", query.float_risk),
            ...oneOf("scam_risk", query.scam_risk),
            ...part("underwriters", query.underwriters),
            ...is("known_underwriter", query.known_underwriter),
            ...is("is_adr", query.is_adr),
            ...ranges(query),
          ])
        }
        ${slice.page(sql`ipo_date desc nulls last, ticker`)}
      `,
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)
