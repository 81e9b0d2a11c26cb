import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { PumpAndDumpSuspect, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "pumpAndDumpTracker",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, part, ranges } = where(sql)

    const page = from(
      ["pump_and_dump_tracker"],
      list({
        Row: PumpAndDumpSuspect,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
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
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
