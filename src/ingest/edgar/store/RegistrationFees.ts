/**
 * Stores the amounts from the fee exhibits of registration statements (`edgar_fees`), and copies the amounts of each
 * registration's newest exhibit to `registrations`.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import type { FilingFees } from "../read/FilingFees.ts"
import type { FormFiling } from "./IngestWork.ts"

/** The amounts in a registration statement's fee exhibit, and the statement that the exhibit belongs to. */
export interface RegistrationFees
  extends Pick<FormFiling, "accession" | "filingDate">, Pick<FilingFees, "offeringAmount" | "sharesRegistered"> {
  readonly cik: string
  readonly fileNumber: string
  /** URLs of the exhibit's elements. The fragments begin with `ffd:`. */
  readonly source: ReadonlyArray<string>
}

/**
 * SQL query that selects one exhibit per registration (file number) of these companies: the newest one that states a
 * dollar amount or, if there is none, the newest one, which then states only a number of shares.
 */
const selectNewestFees = (sql: SqlClient.SqlClient, ciks: ReadonlyArray<string>) =>
  sql`
    select distinct on (cik, file_number) cik, file_number, offering_amount, shares_registered, source from edgar_fees
    where cik = any(${ciks}::text[])
    order by cik, file_number, offering_amount is null, filing_date desc, accession desc
  `

/**
 * SQL condition that is true if an amount of the registration `stored` came from a fee exhibit, that is, if the URL of
 * one of these elements (a regular expression) is among the row's sources. For a row without sources, the match yields
 * null, which counts as false.
 */
const isFromExhibit = (sql: SqlClient.SqlClient, elements: string) =>
  sql`coalesce(array_to_string(stored.source, ' ') ~ ${`#ffd:${elements}`}, false)`

const decodeSources = decodeRows(Schema.Struct({ file_number: Schema.String, source: Schema.Array(Schema.String) }))

/**
 * Returns the source URLs of the amounts that `saveRegistrationFees` copies to a company's registrations, by file
 * number.
 */
export const readFeeExhibitUrls = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeSources(
    sql`select file_number, source from (${selectNewestFees(sql, [cik])}) as newest`,
  )
  return new Map(rows.map(({ file_number, source }) => [file_number, source]))
})

/** Stores the amounts from fee exhibits in `edgar_fees`, with one row per exhibit. */
const storeFees = Effect.fnUntraced(function* (fees: ReadonlyArray<RegistrationFees>) {
  const sql = yield* SqlClient.SqlClient
  // A batch may contain an exhibit twice, but a statement cannot update a row twice, so use `distinct on`.
  yield* sql`
    insert into edgar_fees (cik, accession, file_number, filing_date, offering_amount, shares_registered, source)
    select distinct on (cik, accession) cik, accession, "fileNumber", "filingDate", "offeringAmount",
      "sharesRegistered", array(select jsonb_array_elements_text(source))
    from jsonb_to_recordset(${JSON.stringify(fees)}::text::jsonb) as fees (
      cik text, accession text, "fileNumber" text, "filingDate" date, "offeringAmount" numeric,
      "sharesRegistered" bigint, source jsonb
    )
    on conflict (cik, accession) do update set file_number = excluded.file_number, filing_date = excluded.filing_date,
      offering_amount = excluded.offering_amount, shares_registered = excluded.shares_registered,
      source = excluded.source
  `
})

/**
 * Copies the amounts of the newest exhibits to the companies' rows of `registrations`.
 *
 * If the newest exhibit omits an amount, an amount that was loaded from another source remains, but an amount from an
 * earlier exhibit is removed. The source URLs of earlier exhibits, which contain `#ffd:`, are replaced with those of
 * the newest one. All other URLs remain, in the same order.
 */
const copyNewestFees = Effect.fnUntraced(function* (ciks: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  // `newest` has one row per registration with an exhibit: the values that its row must have. Rows that already have
  // them are not updated.
  yield* sql`
    update registrations as registration set offering_amount = newest.offering_amount,
      shares_registered = newest.shares_registered, source = newest.source
    from (
      select stored.id,
        coalesce(fees.offering_amount, case when not ${isFromExhibit(sql, "(TtlOfferingAmt|MaxAggtOfferingPric)")}
          then stored.offering_amount end) as offering_amount,
        coalesce(fees.shares_registered, case when not ${isFromExhibit(sql, "AmtSctiesRegd")}
          then stored.shares_registered end) as shares_registered,
        array(
          select url from unnest(stored.source) with ordinality as sources (url, ordinal)
          where url not like '%#ffd:%' order by ordinal
        ) || fees.source as source
      from (${selectNewestFees(sql, ciks)}) as fees
      join registrations as stored on stored.id = fees.cik || '-' || fees.file_number
    ) as newest
    where registration.id = newest.id
      and (registration.offering_amount, registration.shares_registered, registration.source)
        is distinct from (newest.offering_amount, newest.shares_registered, newest.source)
  `
})

/** Stores the amounts from fee exhibits and copies them to the rows of `registrations`. */
export const saveRegistrationFees = Effect.fnUntraced(function* (fees: ReadonlyArray<RegistrationFees>) {
  if (fees.length === 0) return
  yield* storeFees(fees)
  yield* copyNewestFees(fees.map(({ cik }) => cik))
})
