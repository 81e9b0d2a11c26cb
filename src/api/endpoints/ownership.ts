/** Handles `GET /v1/ownership`. */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { rowOutputBuffer } from "../../query/rows/OutputBuffer.ts"
import type { OptInColumn } from "../../contract/rows/Columns.ts"
import { makeJsonRowWriter } from "../../query/rows/RowEncoder.ts"
import { addOptInColumns, getColumnNames } from "../../contract/rows/RowModel.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import { makeGroupResultEncoder, type ResultRows } from "../../query/rows/ResultWriter.ts"
import {
  Owner,
  OwnershipApiGroup,
  OwnershipFilingHeader,
  ownershipHolderSqlCondition,
  ownershipHoldingColumns,
  OwnershipQuery,
  OwnershipRow,
} from "../../contract/endpoints/ownership.ts"

/**
 * Creates an encoder that writes consecutive rows with the same ticker and filing as one object with a list of owners.
 * In CSV, each owner is a separate record. `added` are the optional columns that the request has asked for.
 */
const makeFilingEncoder = (added: ReadonlyArray<OptInColumn>) => {
  const row = addOptInColumns(OwnershipRow, added)
  const filing = addOptInColumns(OwnershipFilingHeader, added.filter((name) => name === "lineage_ticker"))
  const owner = addOptInColumns(Owner, added.filter((name) => name === "source"))
  const columns = getColumnNames(row)
  const [ticker, accessionNumber] = [columns.indexOf("ticker"), columns.indexOf("accession_number")]
  const writeFiling = makeJsonRowWriter(filing, columns)
  const writeOwner = makeJsonRowWriter(owner, columns)

  /** Writes a filing as a JSON object that has its owners as the last field. */
  const writeGroup = (owners: ResultRows, position: number) => {
    // Overwrites the closing brace of the filing's object, to add further fields.
    const filingEnd = writeFiling(owners[0], position) - 1
    let end = rowOutputBuffer.writeText(`,"owner_count":${owners.length},"owners":`, filingEnd)
    for (const [index, owner] of owners.entries()) {
      end = writeOwner(owner, rowOutputBuffer.writeText(index === 0 ? "[" : ",", end))
    }
    return rowOutputBuffer.writeText("]}", end)
  }
  const isSameFiling = (row: BinaryRecord, previous: BinaryRecord) =>
    row.hasSameField(previous, ticker) && row.hasSameField(previous, accessionNumber)
  return makeGroupResultEncoder(row, isSameFiling, writeGroup)
}

/**
 * The parts of the statement that are the same with and without `per_holder`. A row of the table `ownership` is one
 * owner's holding according to one filing.
 */
interface OwnershipClauses {
  /** SQL condition: the row is a holder that matches the filters. */
  readonly isShown: Statement.Fragment
  /** SQL condition: the row is a holder in the requested filing or, if no filing is requested, in any filing. */
  readonly isRequested: Statement.Fragment
  /**
   * The requested tickers or, with `follow_lineage`, the periods in their lineages. `from` is a table of them for the
   * `from` clause, and `where` is the condition that a row belongs to the ticker or period.
   */
  readonly requested: {
    /** With `follow_lineage`, an additional column for the select list, followed by a comma. Otherwise empty. */
    readonly lineageColumn: Statement.Fragment
    /** The column that identifies the company to which a row belongs: its ticker or, with `follow_lineage`, lineage. */
    readonly companyColumn: Statement.Fragment
    readonly from: Statement.Fragment
    readonly where: Statement.Fragment
  }
  /** Builds the order and limit for the filings on the page. */
  readonly filingClauses: (order: Statement.Fragment) => Statement.Fragment
}

/** Handler for the list of holders, grouped by filing. */
export const ownershipHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const isHolder = sql.literal(ownershipHolderSqlCondition)

  const newestFirst = sql`filed_at desc, reported_date desc nulls last, accession_number desc, form_type, document_url`
  const holdingColumns = sql.csv(ownershipHoldingColumns)
  const filingColumns = sql`ticker, reported_date, filed_at, form_type, accession_number, document_url`

  /**
   * Selects the newest filing for each ticker or period, if any of its holders matches the filters. Like
   * `selectNewestOfHolders`, it defines two tables for the final `select`: `filing`, which contains the filings on the
   * page, and `holding`, whose rows for these filings are the holders.
   */
  const selectNewestFilings = ({ filingClauses, isRequested, isShown, requested }: OwnershipClauses) =>
    sql`
        with filing as (
          select ${requested.lineageColumn} newest.* from ${requested.from}
          cross join lateral (
            select ${filingColumns} from ownership where ${requested.where} and ${isRequested}
            order by ${newestFirst}
            limit 1
          ) as newest
          where exists (
            select from ownership
            where ticker = newest.ticker and accession_number = newest.accession_number and ${isShown}
          )
          ${filingClauses(sql`ticker, filed_at desc`)}
        ), holding as (
          select ticker, accession_number, ${holdingColumns}, last_updated, source from ownership
        )`

  /**
   * Selects each holder's newest filing for a ticker or lineage, and from each filing only those holders whose newest
   * filing it is. A holder without a CIK is identified by name. Punctuation, spaces and case are ignored, because they
   * differ between filings. The tables:
   *
   * - `candidate`: all requested rows, each with the accession number of its holder's newest filing (`newest_number`)
   * - `holding`: those of them that are in that filing and match the filters
   * - `filing`: the filings that these rows are in, with the order and limit of the page
   */
  const selectNewestOfHolders = ({ filingClauses, isRequested, isShown, requested }: OwnershipClauses) =>
    sql`
        with candidate as (
          select ${requested.lineageColumn} held.*, first_value(accession_number) over (
            partition by ${requested.companyColumn}, coalesce(
              nullif(owner_cik, ''), lower(regexp_replace(owner_name, '[[:punct:][:space:]]+', '', 'g'))
            ) order by ${newestFirst}
          ) as newest_number
          from ${requested.from}
          cross join lateral (select * from ownership where ${requested.where} and ${isRequested}) as held
        ), holding as (
          select * from candidate where accession_number = newest_number and ${isShown}
        ), filing as (
          select * from (
            select distinct on (ticker, accession_number) ${requested.lineageColumn} ${filingColumns} from holding
            order by ticker, accession_number, ${newestFirst}
          ) as newest
          ${filingClauses(sql`ticker, filed_at desc, accession_number desc`)}
        )`

  const list = makeEndpoint(OwnershipApiGroup.endpoints.list, {
    Query: OwnershipQuery,
    Row: { makeEncoder: makeFilingEncoder },
    shapedBy: ["per_holder"],
    countedExpression: sql`distinct (ticker, accession_number)`,
    // The limit counts filings, so it applies to the table `filing`, before the filings are joined with their holders.
    // The last two columns of each row identify its filing, for `countedExpression`.
    select: (query, { columns, conditions, orderAndLimit, orderBy, period }) => {
      const { accession_number } = query
      const isShown = sql.and([isHolder, ...conditions])
      const selection = {
        isShown,
        isRequested: sql.and([
          isHolder,
          ...(accession_number === undefined ? [] : [sql`accession_number = ${accession_number}`]),
        ]),
        requested: period === undefined
          ? {
            lineageColumn: sql.literal(""),
            companyColumn: sql.literal("ticker"),
            from: sql`unnest(${query.ticker}::text[]) as requested (symbol)`,
            where: sql.literal("ticker = symbol"),
          }
          : { ...period, lineageColumn: sql.literal("lineage_ticker,"), companyColumn: sql.literal("lineage_ticker") },
        filingClauses: orderAndLimit,
      }
      const isPerHolder = query.per_holder === true
      return sql`
        ${isPerHolder ? selectNewestOfHolders(selection) : selectNewestFilings(selection)}
        select ${columns}, ticker, accession_number
        from filing join (
          select ticker, accession_number, ${holdingColumns}, last_updated, source from holding
        ) as holding using (ticker, accession_number)
        where ${isShown}
        ${
        orderBy(
          sql`ticker, filed_at desc${sql.literal(isPerHolder ? ", accession_number desc" : "")},
          common_shares_amount desc nulls last, ${holdingColumns}`,
        )
      }
      `
    },
  })

  return { list }
})
