/** Reads the share counts that are stored for a symbol, so that they stay if the SEC's facts have none (D38). */
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

/** Number of days for which the count of another company stays, such as that of a holding company's predecessor. */
const maxInheritedDays = 400

/**
 * Returns what `float_outstanding` and `screener` have for the company's symbol or, before its first row there, for the
 * symbol before. A count of another company must be recent, because the symbol may belong to an unrelated company
 * later.
 */
export const readStoredCounts = Effect.fnUntraced(function* ({ cik, periods = [], ticker }: Issuer) {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInNewYork
  const symbols = [ticker, ...periods.map((period) => period.ticker).slice(-2, -1)]
  const [stored] = yield* decodeCounts(sql`
    select outstanding::text, reported_date::text, filed_at::text, document_url,
      array(select link from unnest(source) as link where link not like '%/submissions/%') as source
    from float_outstanding where ticker = any(${symbols}::text[]) and outstanding is not null and (
      array_to_string(source, ' ') !~ '/CIK[0-9]{10}' is not false
      or array_to_string(source, ' ') like ${`%/CIK${cik}%`}
      or filed_at >= ${today}::text::date - ${maxInheritedDays}::int
    ) order by array_position(${symbols}::text[], ticker) limit 1
  `)
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
  const listed: CurrentCount = stored ?? { ...unknownCount, outstanding: screener?.outstanding ?? null }
  return {
    float,
    screener: listed,
    screenerUpdated: screener?.last_updated ?? null,
    industry: screener?.industry ?? null,
    exchange: screener?.exchange ?? null,
  }
})

const decodeCloses = decodeRows(Schema.Struct({ day: Schema.String, close: Schema.Finite }))

/** Returns the stored closing prices of a company's security on the days of its public floats. */
export const readCloses = Effect.fnUntraced(function* (issuer: Issuer, floats: ReadonlyArray<CompanyFact>) {
  const days = Array.from(new Set(floats.map(({ end }) => end)))
  if (days.length === 0) return new Map<string, number>()
  const sql = yield* SqlClient.SqlClient
  const given = JSON.stringify(days.map((day) => ({ day, ticker: getTickerOn(issuer, day) })))
  const closes = yield* decodeCloses(sql`
    select given.day::text, coalesce(
      (select close from price_periods as bar where bar.ticker = given.ticker and bar.date = given.day
        and bar.period in ('regular', 'day') order by bar.period limit 1),
      (select close from daily_prices as priced where priced.ticker = given.ticker and priced.date = given.day limit 1)
    )::float8 as close
    from jsonb_to_recordset(${given}::text::jsonb) as given (day date, ticker text)
    where exists (select from price_periods as bar where bar.ticker = given.ticker and bar.date = given.day
        and bar.period in ('regular', 'day'))
      or exists (select from daily_prices as priced where priced.ticker = given.ticker and priced.date = given.day
        and priced.close is not null)
  `)
  return new Map(closes.map(({ close, day }) => [day, close]))
})
