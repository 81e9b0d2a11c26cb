/**
 * Reads the stored share counts of a company, which are kept if the SEC's facts have none (D38), and closing prices.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import type { CompanyFact } from "../read/CompanyFacts.ts"
import { getTickerOn, type Issuer } from "../read/Issuer.ts"
import { CurrentCount, unknownCount } from "../read/ShareCounts.ts"

const OptionalText = Schema.NullOr(Schema.String)

const decodeCounts = decodeRows(CurrentCount)

const decodeScreener = decodeRows(Schema.Struct({
  outstanding: OptionalText,
  last_updated: OptionalText,
  industry: OptionalText,
  exchange: OptionalText,
}))

/**
 * A count of another company that had the symbol is kept for this many days after its filing. The other company may be
 * the predecessor of a new holding company.
 */
const maxInheritedDays = 400

/**
 * Returns what `float_outstanding` and `screener` have for the company's symbol. If `float_outstanding` has no count
 * for a new symbol, that of the company's previous symbol is returned.
 *
 * The row may be that of another company, which had the symbol before. Its count is used only if it is recent, because
 * symbols are reused by unrelated companies later. `source` shows whose row it is: its URLs contain the CIK.
 */
export const readStoredCounts = Effect.fnUntraced(function* ({ cik, periods = [], ticker }: Issuer) {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInNewYork
  const symbols = [ticker, ...periods.map((period) => period.ticker).slice(-2, -1)]
  // A row without a CIK in its sources, such as a loaded one, counts as the company's own. `!~` yields null for a row
  // without sources, and `is not false` then accepts it.
  const [stored] = yield* decodeCounts(sql`
    select outstanding::text, reported_date::text, filed_at::text, document_url,
      array(select link from unnest(source) as link where link not like '%/submissions/%') as source
    from float_outstanding where ticker = any(${symbols}::text[]) and outstanding is not null and (
      array_to_string(source, ' ') !~ '/CIK[0-9]{10}' is not false
      or array_to_string(source, ' ') like ${`%/CIK${cik}%`}
      or filed_at >= ${today}::text::date - ${maxInheritedDays}::int
    ) order by array_position(${symbols}::text[], ticker) limit 1
  `)
  // Each table is joined only if its row is the company's own, or if a row of the screener names no CIK. The text '' in
  // a table means that the value is unknown.
  const [screener] = yield* decodeScreener(sql`
    select screener.outstanding::text, screener.last_updated::text,
      coalesce(nullif(screener.industry, ''), nullif(counted.industry, '')) as industry,
      coalesce(nullif(screener.exchange, ''), nullif(counted.exchange, '')) as exchange
    from (select ${ticker}::text as ticker) as requested
      left join screener on screener.ticker = requested.ticker
        and coalesce(normal_cik(screener.cik) = ${cik}, true)
      left join float_outstanding as counted on counted.ticker = requested.ticker
        and array_to_string(counted.source, ' ') like ${`%/submissions/CIK${cik}%`}
  `)
  const float: CurrentCount = stored ?? unknownCount
  // The screener repeats the count of `float_outstanding`, so its own counts only where that has none.
  const listed: CurrentCount = stored ?? { ...unknownCount, outstanding: screener?.outstanding ?? null }
  return {
    float,
    screener: listed,
    /** `last_updated` of the screener's row. */
    screenerUpdated: screener?.last_updated ?? null,
    industry: screener?.industry ?? null,
    exchange: screener?.exchange ?? null,
  }
})

const decodeCloses = decodeRows(Schema.Struct({ day: Schema.String, close: Schema.Finite }))

/**
 * Returns the stored closing prices in USD on the days for which a company states its public float, by day. A bar in
 * `price_periods` is preferred to one in `daily_prices`.
 */
export const readCloses = Effect.fnUntraced(function* (issuer: Issuer, floats: ReadonlyArray<CompanyFact>) {
  const days = Array.from(new Set(floats.map(({ end }) => end)))
  if (days.length === 0) return new Map<string, number>()
  const sql = yield* SqlClient.SqlClient
  // On each day, the price is stored under the symbol of that day.
  const wanted = JSON.stringify(days.map((day) => ({ day, ticker: getTickerOn(issuer, day) })))
  const closes = yield* decodeCloses(sql`
    select wanted.day::text, coalesce(
      (select close from price_periods as bar where bar.ticker = wanted.ticker and bar.date = wanted.day
        and bar.period in ('regular', 'day') order by bar.period limit 1),
      (select close from daily_prices as priced where priced.ticker = wanted.ticker and priced.date = wanted.day
        limit 1)
    )::float8 as close
    from jsonb_to_recordset(${wanted}::text::jsonb) as wanted (day date, ticker text)
    where exists (select from price_periods as bar where bar.ticker = wanted.ticker and bar.date = wanted.day
        and bar.period in ('regular', 'day'))
      or exists (select from daily_prices as priced where priced.ticker = wanted.ticker and priced.date = wanted.day
        and priced.close is not null)
  `)
  return new Map(closes.map(({ close, day }) => [day, close]))
})
