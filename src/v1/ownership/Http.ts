import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpoints } from "../../lists/ListEndpoints.ts"
import { output } from "../../rows/OutputBuffer.ts"
import { getColumnNames, makeJsonRowWriter } from "../../rows/RowEncoder.ts"
import { makeGroupResultEncoder, type RowsOfResult } from "../../rows/ResultWriter.ts"
import {
  holderCondition,
  Owner,
  OwnershipApiGroup,
  OwnershipFiling,
  ownershipHoldingColumns,
  OwnershipQuery,
  OwnershipRow,
} from "./Api.ts"

const columns = getColumnNames(OwnershipRow)
const ticker = columns.indexOf("ticker")
const writeFiling = makeJsonRowWriter(OwnershipFiling, columns)
const writeOwner = makeJsonRowWriter(Owner, columns)

/** Continues the JSON object of the filing with its owners. */
const writeGroup = (owners: RowsOfResult, position: number) => {
  const filingEnd = writeFiling(owners[0], position) - 1
  let end = output.writeAscii(`,"owner_count":${owners.length},"owners":`, filingEnd)
  for (const [index, owner] of owners.entries()) {
    end = writeOwner(owner, output.writeAscii(index === 0 ? "[" : ",", end))
  }
  return output.writeAscii("]}", end)
}

/** Groups consecutive rows with the same ticker into one filing. CSV has one record per owner. */
const filings = makeGroupResultEncoder(OwnershipRow, (row, previous) => row.hasSameField(previous, ticker), writeGroup)

export const ownershipEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpoints

  const isHolder = sql.literal(holderCondition)

  const list = makeEndpoint(OwnershipApiGroup.endpoints.list, {
    Query: OwnershipQuery,
    Row: filings,
    counted: sql`distinct ticker`,
    select: (query, { columns, conditions, orderAndLimit, orderBy }) => {
      const isShown = sql.and([isHolder, ...conditions])
      const { accession_number } = query
      const isRequested = sql.and([
        isHolder,
        ...(accession_number === undefined ? [] : [sql`accession_number = ${accession_number}`]),
      ])
      return sql`
        with filing as (
          select newest.* from unnest(${query.ticker}::text[]) as requested(ticker)
          cross join lateral (
            select ticker, reported_date, filed_at, form_type, accession_number, document_url from ownership
            where ticker = requested.ticker and ${isRequested}
            order by filed_at desc, reported_date desc nulls last, accession_number desc, form_type, document_url
            limit 1
          ) as newest
          where exists (
            select from ownership
            where ticker = newest.ticker and accession_number = newest.accession_number and ${isShown}
          )
          ${orderAndLimit(sql`ticker`)}
        )
        select ${columns}, ticker
        from filing join (
          select ticker, accession_number, ${sql.csv(ownershipHoldingColumns)}, last_updated from ownership
        ) as holding using (ticker, accession_number)
        where ${isShown}
        ${orderBy(sql`ticker, common_shares_amount desc nulls last, ${sql.csv(ownershipHoldingColumns)}`)}
      `
    },
  })

  return [list]
})
