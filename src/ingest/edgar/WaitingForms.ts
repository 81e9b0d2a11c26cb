/** Ownership forms and registration statements that wait until a run has visited all companies (decision 0128). */
import { DateTime, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** The properties of a filing that are needed to read its documents. */
export interface FormFiling
  extends Pick<EdgarFiling, "acceptedAt" | "accession" | "fileNumber" | "filingDate" | "form" | "primaryDocument"> {}

export interface WaitingForm extends FormFiling {
  readonly cik: string
}

const StoredForm = Schema.Struct({
  cik: Schema.String,
  accession: Schema.String,
  form: Schema.String,
  file_number: Schema.NullOr(Schema.String),
  filing_date: Schema.String,
  accepted_at: Schema.NullOr(Schema.Finite),
  primary_document: Schema.String,
})

const decodeForms = decodeRows(StoredForm)
const decodeCounts = decodeRows(Schema.Struct({ cik: Schema.String, count: Schema.Finite }))

export const addWaitingForms = Effect.fnUntraced(function* (forms: ReadonlyArray<WaitingForm>) {
  if (forms.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = forms.map(({ acceptedAt, ...form }) => ({
    ...form,
    acceptedAt: acceptedAt === null ? null : DateTime.toEpochMillis(acceptedAt),
  }))
  yield* sql`
    insert into edgar_forms (cik, accession, form, file_number, filing_date, accepted_at, primary_document)
    select cik, accession, form, "fileNumber", "filingDate", to_timestamp("acceptedAt" / 1000), "primaryDocument"
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as form (
      cik text, accession text, form text, "fileNumber" text, "filingDate" date, "acceptedAt" float8,
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
    const rows = yield* decodeForms(sql`
      select cik, accession, form, file_number, filing_date::text,
        extract(epoch from accepted_at)::float8 * 1000 as accepted_at, primary_document
      from edgar_forms where cik = any(${ciks}::text[]) and ${areOf(sql, datasets)}
      order by filing_date desc, accession desc, cik limit ${limit}::int
    `)
    return rows.map(({ accepted_at, file_number, filing_date, primary_document, ...form }): WaitingForm => ({
      ...form,
      fileNumber: file_number,
      filingDate: filing_date,
      acceptedAt: accepted_at === null ? null : DateTime.makeUnsafe(accepted_at),
      primaryDocument: primary_document,
    }))
  },
)
