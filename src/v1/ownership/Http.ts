/** Handles `GET /v1/ownership`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { rowOutputBuffer } from "../../rows/OutputBuffer.ts"
import type { OptInColumn } from "../../rows/Columns.ts"
import { addOptInColumns, getColumnNames, makeJsonRowWriter } from "../../rows/RowEncoder.ts"
import type { BinaryRecord } from "../../rows/BinaryRecord.ts"
import { makeGroupResultEncoder, type ResultRows } from "../../rows/ResultWriter.ts"
import {
  Owner,
  OwnershipApiGroup,
  OwnershipFilingHeader,
  ownershipHolderSqlCondition,
  ownershipHoldingColumns,
  OwnershipQuery,
  OwnershipRow,
} from "./Api.ts"

/** Makes an encoder that groups consecutive rows with the same ticker and filing. CSV has one record per owner. */
const makeFilingEncoder = (added: ReadonlyArray<OptInColumn>) => {
  const row = addOptInColumns(OwnershipRow, added)
  const filing = addOptInColumns(OwnershipFilingHeader, added.filter((name) => name === "lineage_ticker"))
  const owner = addOptInColumns(Owner, added.filter((name) => name === "source"))
  const columns = getColumnNames(row)
  const [ticker, accessionNumber] = [columns.indexOf("ticker"), columns.indexOf("accession_number")]
  const writeFiling = makeJsonRowWriter(filing, columns)
  const writeOwner = makeJsonRowWriter(owner, columns)

  /** Writes the filing as a JSON object, with its owners as the last field. */
  const writeGroup = (owners: ResultRows, position: number) => {
    const filingEnd = writeFiling(owners[0], position) - 1
    let end = rowOutputBuffer.writeAscii(`,"owner_count":${owners.length},"owners":`, filingEnd)
    for (const [index, owner] of owners.entries()) {
      end = writeOwner(owner, rowOutputBuffer.writeAscii(index === 0 ? "[" : ",", end))
    }
    return rowOutputBuffer.writeAscii("]}", end)
  }
  const isSameFiling = (row: BinaryRecord, previous: BinaryRecord) =>
    row.hasSameField(previous, ticker) && row.hasSameField(previous, accessionNumber)
  return makeGroupResultEncoder(row, isSameFiling, writeGroup)
}

export const ownershipEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const isHolder = sql.literal(ownershipHolderSqlCondition)

  const list = makeEndpoint(OwnershipApiGroup.endpoints.list, {
    Query: OwnershipQuery,
    Row: { makeEncoder: makeFilingEncoder },
    countedExpression: sql`distinct (ticker, accession_number)`,
    select: (query, { columns, conditions, orderAndLimit, orderBy, period }) => {
      const isShown = sql.and([isHolder, ...conditions])
      const { accession_number } = query
      const isRequested = sql.and([
        isHolder,
        ...(accession_number === undefined ? [] : [sql`accession_number = ${accession_number}`]),
      ])
      const requested = period === undefined
        ? { selection: sql.literal("newest.*"), from: sql`unnest(${query.ticker}::text[]) as requested (symbol)` }
        : { selection: sql.literal("lineage_ticker, newest.*"), from: period.from }
      return sql`
        with filing as (
          select ${requested.selection} from ${requested.from}
          cross join lateral (
            select ticker, reported_date, filed_at, form_type, accession_number, document_url from ownership
            where ${period === undefined ? sql`ticker = symbol` : period.where} and ${isRequested}
            order by filed_at desc, reported_date desc nulls last, accession_number desc, form_type, document_url
            limit 1
          ) as newest
          where exists (
            select from ownership
            where ticker = newest.ticker and accession_number = newest.accession_number and ${isShown}
          )
          ${orderAndLimit(sql`ticker, filed_at desc`)}
        )
        select ${columns}, ticker, accession_number
        from filing join (
          select ticker, accession_number, ${sql.csv(ownershipHoldingColumns)}, last_updated, source from ownership
        ) as holding using (ticker, accession_number)
        where ${isShown}
        ${
        orderBy(sql`ticker, filed_at desc, common_shares_amount desc nulls last, ${sql.csv(ownershipHoldingColumns)}`)
      }
      `
    },
  })

  return [list]
})
