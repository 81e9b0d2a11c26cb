/**
 * Ten values from real filings that an operator can compare with the results of the first run
 * (docs/operations/ingest-edgar.md).
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { buildFilingIndexUrl } from "../fetch/EdgarUrls.ts"

/** A value that a table must contain after a run. */
interface ReferenceValue {
  readonly cik: string
  /** Table that contains the value. */
  readonly dataset: "historical_float_pro" | "news" | "registrations"
  readonly field: string
  /** Accession number of the filing that the row's `document_url` points to. */
  readonly accession: string
  /** The value as PostgreSQL formats it in JSON. For a column with sentences, the part that never changes. */
  readonly expected: string
  /** Accession number of the filing that proves the value, if it is not the row's filing. */
  readonly evidence?: string
}

const [apple, imunon] = ["0000320193", "0000749647"]

/**
 * Values that no later filing changes, taken from recorded responses. The two companies were chosen for their
 * acceptance times: the SEC labels both companies' times as UTC, which is correct for Imunon but not for Apple.
 */
const referenceValues: ReadonlyArray<ReferenceValue> = [
  {
    cik: apple,
    dataset: "news",
    field: "filed_at_time",
    accession: "0000320193-26-000006",
    expected: "2026-01-30T06:01:32",
  },
  { cik: apple, dataset: "news", field: "tags", accession: "0000320193-26-000005", expected: `["2.02", "9.01"]` },
  {
    cik: apple,
    dataset: "historical_float_pro",
    field: "outstanding_shares",
    accession: "0000320193-26-000006",
    expected: "14681140000",
  },
  {
    cik: apple,
    dataset: "historical_float_pro",
    field: "reported_date",
    accession: "0000320193-25-000079",
    expected: "2025-10-17",
  },
  {
    cik: apple,
    dataset: "historical_float_pro",
    field: "details",
    accession: "0000320193-25-000079",
    expected: "Public float on 2025-03-28: 3253431000000 USD.",
  },
  {
    cik: apple,
    dataset: "registrations",
    field: "effective_date",
    accession: "0001140361-24-044880",
    expected: "2024-11-01",
  },
  {
    cik: imunon,
    dataset: "news",
    field: "filed_at_time",
    accession: "0001641172-25-020652",
    expected: "2025-07-23T08:02:47",
  },
  {
    cik: imunon,
    dataset: "news",
    field: "tags",
    accession: "0001641172-25-020652",
    expected: `["3.03", "5.03", "7.01", "8.01", "9.01"]`,
  },
  {
    cik: imunon,
    dataset: "registrations",
    field: "headline",
    accession: "0001641172-25-002783",
    expected: "withdrawn on 2025-05-22",
    evidence: "0001641172-25-011997",
  },
  {
    cik: imunon,
    dataset: "registrations",
    field: "effective_date",
    accession: "0001641172-25-013088",
    expected: "2025-06-13",
    evidence: "9999999995-25-001928",
  },
]

/** Returns whether the column contains sentences. If so, `expected` is only part of the text. */
const isSentence = (field: string) => field === "details" || field === "headline"

const decodeFound = decodeRows(Schema.Struct({ ticker: Schema.String, value: Schema.NullOr(Schema.String) }))

/**
 * Compares the reference values with the database. Returns for each value the company's symbol, the column, the
 * expected and the found value (null if there is no row), whether they agree, and the URL of the SEC page on which an
 * operator can check the value.
 */
export const compareReferenceValues = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(
    referenceValues,
    Effect.fnUntraced(function* ({ accession, cik, dataset, evidence = accession, expected, field }) {
      const [row] = yield* decodeFound(sql`
        select ticker, to_jsonb(stored) ->> ${field} as value from ${sql(dataset)} as stored
        where ticker in (select alias from company_symbols where cik = ${cik})
          and document_url like ${`%/${accession.replaceAll("-", "")}/%`}
        limit 1
      `)
      const value = row?.value ?? null
      const isSame = value === expected || (isSentence(field) && value?.includes(expected) === true)
      return {
        company: row?.ticker ?? `CIK ${cik}`,
        field: `${dataset}.${field}`,
        expected,
        // If only a part of a sentence is expected, shows just that part, so that the two columns look the same.
        found: isSame ? expected : value,
        isSame,
        url: buildFilingIndexUrl(cik, evidence),
      }
    }),
  )
})
