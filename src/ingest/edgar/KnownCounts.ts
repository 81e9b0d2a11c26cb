/** Keeps share counts that newer documents do not repeat (D38). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import type { RowCells } from "../../load/FileReader.ts"

const decodeCounts = decodeRows(Schema.Struct({
  ticker: Schema.String,
  outstanding: Schema.String,
  reported_date: Schema.NullOr(Schema.String),
  filed_at: Schema.NullOr(Schema.String),
  document_url: Schema.NullOr(Schema.String),
  /** The sources without the company's list of filings, which may be that of a predecessor. */
  source: Schema.Array(Schema.String),
}))

const isUnknown = ({ outstanding }: RowCells) => outstanding === null

/**
 * Gives rows of `float_outstanding` without a count the count that the table has for their symbol. The company may have
 * a new CIK, such as that of a new holding company, whose documents state no count yet.
 */
export const keepKnownCounts = Effect.fnUntraced(function* (rows: ReadonlyArray<RowCells>) {
  const tickers = rows.filter(isUnknown).map(({ ticker }) => String(ticker))
  if (tickers.length === 0) return rows
  const sql = yield* SqlClient.SqlClient
  const counts = new Map(
    (yield* decodeCounts(sql`
      select ticker, outstanding::text, reported_date::text, filed_at::text, document_url,
        array(select link from unnest(source) as link where link not like '%/submissions/%') as source
      from float_outstanding where ticker = any(${tickers}::text[]) and outstanding is not null
    `)).map((count) => [count.ticker, count]),
  )
  return rows.map((row): RowCells => {
    const known = isUnknown(row) ? counts.get(String(row["ticker"])) : undefined
    const sources = Array.isArray(row["source"]) ? row["source"] : []
    return known === undefined ? row : { ...row, ...known, source: [...known.source, ...sources] }
  })
})
