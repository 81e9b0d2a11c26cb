/** Ownership forms and registration statements that wait until a run has visited all companies (decision 0128). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import type { IngestedDataset } from "../schedule/IngestedDatasets.ts"

export const WaitingForm = Schema.Struct({
  cik: Schema.String,
  accession: Schema.String,
  form: Schema.String,
  fileNumber: Schema.NullOr(Schema.String),
  filingDate: Schema.String,
  acceptedAt: Schema.NullOr(Schema.DateTimeUtcFromMillis),
  primaryDocument: Schema.String,
})
export type WaitingForm = typeof WaitingForm.Type

/** The properties of a filing that are needed to read its documents. */
export interface FormFiling extends Omit<WaitingForm, "cik"> {}

const decodeForms = decodeRows(WaitingForm)
const decodeCounts = decodeRows(Schema.Struct({ cik: Schema.String, count: Schema.Finite }))

export const addWaitingForms = Effect.fnUntraced(function* (forms: ReadonlyArray<WaitingForm>) {
  if (forms.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into edgar_forms (cik, accession, form, file_number, filing_date, accepted_at, primary_document)
    select cik, accession, form, "fileNumber", "filingDate", "acceptedAt", "primaryDocument"
    from jsonb_to_recordset(${JSON.stringify(forms)}::text::jsonb) as form (
      cik text, accession text, form text, "fileNumber" text, "filingDate" date, "acceptedAt" timestamptz,
      "primaryDocument" text
    )
    on conflict do nothing
  `
})

export const deleteWaitingForms = Effect.fnUntraced(function* (
  forms: ReadonlyArray<Pick<WaitingForm, "accession" | "cik">>,
) {
  if (forms.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    delete from edgar_forms where (cik, accession) in (
      select cik, accession from jsonb_to_recordset(${JSON.stringify(forms)}::text::jsonb)
        as form (cik text, accession text)
    )
  `
})

/** Selects the forms of these datasets: registration statements, such as S-1 or F-3, and ownership forms. */
const areOf = (sql: SqlClient.SqlClient, datasets: ReadonlyArray<IngestedDataset>) =>
  sql`case when form ~ '^[SF]-' then 'registrations' else 'ownership' end = any(${datasets}::text[])`

/** Counts the waiting forms of these datasets by company. */
export const countWaitingForms = Effect.fnUntraced(function* (datasets: ReadonlyArray<IngestedDataset>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeCounts(sql`
    select cik, count(*)::float8 as count from edgar_forms where ${areOf(sql, datasets)} group by cik
  `)
  return new Map(rows.map(({ cik, count }) => [cik, count]))
})

/** Reads the newest waiting forms of these companies and datasets. */
export const readWaitingForms = Effect.fnUntraced(
  function* (ciks: ReadonlyArray<string>, datasets: ReadonlyArray<IngestedDataset>, limit: number) {
    const sql = yield* SqlClient.SqlClient
    return yield* decodeForms(sql`
      select cik, accession, form, file_number as "fileNumber", filing_date::text as "filingDate",
        extract(epoch from accepted_at)::float8 * 1000 as "acceptedAt", primary_document as "primaryDocument"
      from edgar_forms where cik = any(${ciks}::text[]) and ${areOf(sql, datasets)}
      order by filing_date desc, accession desc, cik limit ${limit}::int
    `)
  },
)
