import { Array, Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { holdingColumns, OwnershipRow, Query } from "./Api.ts"

/** Owners come ordered by ticker, and a page has one filing of each. */
const filings = (owners: ReadonlyArray<OwnershipRow>) =>
  Array.isReadonlyArrayNonEmpty(owners)
    ? Array.groupWith(owners, (one, other) => one.ticker === other.ticker).map((group) => ({
      ...group[0],
      owner_count: group.length,
      owners: group,
    }))
    : []

export const layer = HttpApiBuilder.group(
  Api,
  "ownership",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, part } = where(sql)

    /** §2.7: no placeholder. The index of holders is on these very words. */
    const isHolder = sql`num_nonnulls(${sql.csv(holdingColumns)}) > 0`

    const find = list({
      counted: sql`distinct ticker`,
      Request: Schema.toType(Query),
      Result: OwnershipRow,
      execute: (query, slice) => {
        const isShown = sql.and([
          isHolder,
          ...part("owner_name", query.owner_name),
          ...oneOf("owner_type", query.owner_type),
        ])
        return sql`
        with filing as (
          select newest.* from unnest(${query.ticker}::text[]) as asked(ticker)
          cross join lateral (
            select ticker, reported_date, filed_at, form_type, accession_number, document_url from ownership
            where ticker = asked.ticker and ${isHolder}
            order by filed_at desc, reported_date desc nulls last, accession_number desc, form_type, document_url
            limit 1
          ) as newest
          where exists (
            select from ownership
            where ticker = newest.ticker and accession_number = newest.accession_number and ${isShown}
          )
          ${slice.page(sql`ticker`)}
        )
        select filing.ticker, filing.reported_date, filing.filed_at, filing.form_type, filing.accession_number,
          filing.document_url, owner_name, owner_cik, owner_type, title, common_shares_amount,
          preferred_shares_amount, options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class,
          sole_voting_shares, shared_voting_shares, event_date, last_updated
        from filing join ownership using (ticker, accession_number)
        where ${isShown}
        ${slice.order(sql`ticker, common_shares_amount desc nulls last, ${sql.csv(holdingColumns)}`)}
      `
      },
    })

    return handlers.handle(
      "list",
      ({ query }) => Effect.flatMap(find(query), (owners) => envelope(query, filings(owners))),
    )
  }),
)
