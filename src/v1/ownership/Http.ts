import { Array, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { columnsOf, printer, type Values } from "../../rows/RowEncoder.ts"
import { together } from "../../rows/ResultWriter.ts"
import { conditions } from "../../lists/Conditions.ts"
import { holdingColumns, Owner, OwnershipFiling, OwnershipRow, Ownerships, Query } from "./Api.ts"

const columns = columnsOf(OwnershipRow)
const ticker = columns.indexOf("ticker")
const printFiling = printer(OwnershipFiling, columns)
const printOwner = printer(Owner, columns)

const print = (owners: Array.NonEmptyReadonlyArray<Values>) => {
  const printed = owners.map((values) => printOwner(values)).join(",")
  return `${printFiling(owners[0]).slice(0, -1)},"owner_count":${owners.length},"owners":[${printed}]}`
}

/** Owners come ordered by ticker, and a page has one filing of each; in CSV each has a record of its own. */
const filings = together(OwnershipRow, (owner, before) => owner[ticker] === before[ticker], print)

export const layer = HttpApiBuilder.group(
  Api,
  "ownership",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    /** §2.7: no placeholder. The index of holders is on these very words. */
    const isHolder = sql`num_nonnulls(${sql.csv(holdingColumns)}) > 0`

    const owners = list({
      Row: filings,
      counted: sql`distinct ticker`,
      execute: (query: typeof Query.Type, slice) => {
        const isShown = sql.and([isHolder, ...wanted(query)])
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
        select ${slice.columns}
        from filing join (
          select ticker, accession_number, ${sql.csv(holdingColumns)}, last_updated from ownership
        ) as holding using (ticker, accession_number)
        where ${isShown}
        ${slice.order(sql`ticker, common_shares_amount desc nulls last, ${sql.csv(holdingColumns)}`)}
      `
      },
    })

    const page = from(Ownerships.endpoints.list, owners)

    return handlers.handle("list", ({ query }) => page(query))
  }),
)
