/**
 * Reads what is stored about a company and needed to assess its share counts: its stored counts, which remain if the
 * SEC's company facts contain none (D38), and the closing prices and splits of its security. Also remembers what was
 * known then, so that the counts are assessed again when it changes.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { countDays, todayInChicago, todayInNewYork } from "../../../contract/rules/Dates.ts"
import type { CompanyFact } from "../read/CompanyFacts.ts"
import { currentDatasets, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { buildCompanyFactsUrl } from "../fetch/EdgarUrls.ts"
import { getTickerOn, type Issuer } from "../read/Issuer.ts"
import type { EdgarFiling } from "../read/Submissions.ts"
import type { CountedSplit, KnownSplit } from "../read/CountSplits.ts"
import { CurrentCount, unknownCount } from "../read/ShareCounts.ts"
import { requeueDocument } from "./IngestWork.ts"

const OptionalText = Schema.NullOr(Schema.String)

const decodeCounts = decodeRows(CurrentCount)

const decodeScreener = decodeRows(Schema.Struct({
  outstanding: OptionalText,
  last_updated: OptionalText,
  industry: OptionalText,
  exchange: OptionalText,
}))

const decodeSuccession = decodeRows(Schema.Struct({ isSuccessor: Schema.Boolean }))

/**
 * How many days after a notice of succession the SEC's list may still contain the predecessor. A company that stays in
 * the list longer has not been succeeded: the notice is about another company.
 */
const maxListedAfterSuccession = 60

/**
 * Number of days after filing that a company can use the count of another company that had the same symbol before. That
 * company may be its predecessor, as when a new holding company takes over the symbol.
 */
const maxInheritedDays = 400

/**
 * Returns the stored values from `float_outstanding` and `screener` for the company's symbol:
 *
 * - `float`: the current share count for `float_outstanding`
 * - `screener`: the current share count for `screener`
 * - `screenerUpdated`: `last_updated` of the company's row of `screener`
 * - `industry` and `exchange`
 * - `isInherited`: whether the company continues the one that had the symbol before, so that its stored values stay
 *
 * If the symbol is new and has no count in `float_outstanding`, uses the count stored under the company's previous
 * symbol. The row may belong to another company that used the symbol before. Its count is used only if it is recent,
 * because unrelated companies reuse symbols, and only if the company has filed as its successor, or has given up the
 * symbol after the count was filed and the SEC's newest list no longer gives it to the other company. The row's
 * `source` URLs contain the CIK and thus identify the company.
 */
export const readStoredCounts = Effect.fnUntraced(function* (
  { cik, periods = [], ticker }: Issuer,
  filings: ReadonlyArray<Pick<EdgarFiling, "filingDate" | "form">>,
) {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInNewYork
  // Rule 12g-3 requires these forms of a successor. An unrelated new company also has no facts at first.
  const successions = filings.flatMap(({ filingDate, form }) =>
    /^8-K12(B|G3)/.test(form) && countDays(filingDate, today) <= maxInheritedDays ? [filingDate] : []
  )
  const succeededOn = successions.toSorted().at(-1)
  const [{ isSuccessor = false } = {}] = succeededOn === undefined ? [] : yield* decodeSuccession(sql`
    select not exists (
      select from edgar_companies as former
      where former.cik <> ${cik} and ${ticker} = any (former.tickers || former.primary_ticker)
        and former.listed_on > ${succeededOn}::text::date + ${maxListedAfterSuccession}::int
    ) as "isSuccessor"
  `)
  // The last period is that of the current symbol, so the one before it has the previous symbol, if there is any.
  const [previous] = periods.slice(-2, -1)
  const symbols = [ticker, ...(previous === undefined ? [] : [previous.ticker])]
  // At most one row: the stored count with its sources, preferably that of the current symbol. A row of
  // `float_outstanding` without a CIK in its sources, for example one loaded from a file, is considered the company's
  // own, unless `screener` states another CIK. For a row without sources, `!~` yields null, which `is not false`
  // accepts.
  const [stored] = yield* decodeCounts(sql`
    select outstanding::text, reported_date::text, filed_at::text, document_url,
      array(select link from unnest(source) as link where link not like '%/submissions/%') as source
    from float_outstanding where ticker = any(${symbols}::text[]) and outstanding is not null and (
      array_to_string(source, ' ') !~ '/CIK[0-9]{10}' is not false and not exists (
        select from screener as listed
        where listed.ticker = float_outstanding.ticker and normal_cik(listed.cik) <> ${cik}
      )
      or array_to_string(source, ' ') like ${`%/CIK${cik}%`}
      or filed_at >= ${today}::text::date - ${maxInheritedDays}::int and (
        ${isSuccessor} or ticker <> ${ticker} and filed_at < coalesce(${
    previous?.until ?? null
  }::text::date, 'infinity')
        and not exists (
          select from edgar_companies as other
          where other.cik = substring(array_to_string(source, ' ') from '/CIK([0-9]{10})')
            and float_outstanding.ticker = any (other.tickers)
            and other.listed_on = (select max(listed_on) from edgar_companies)
        )
      )
    ) order by array_position(${symbols}::text[], ticker) limit 1
  `)
  // One row with the company's values in `screener` and, where these are unknown (null or empty), in
  // `float_outstanding`. Each table is joined only if its row belongs to the company. A screener row without a CIK is
  // also accepted.
  const [screener] = yield* decodeScreener(sql`
    select screener.outstanding::text, screener.last_updated::text,
      coalesce(nullif(screener.industry, ''), nullif(float_row.industry, '')) as industry,
      coalesce(nullif(screener.exchange, ''), nullif(float_row.exchange, '')) as exchange
    from (select ${ticker}::text as ticker) as requested
      left join screener on screener.ticker = requested.ticker
        and coalesce(normal_cik(screener.cik) = ${cik}, true)
      left join float_outstanding as float_row on float_row.ticker = requested.ticker
        and array_to_string(float_row.source, ' ') like ${`%/submissions/CIK${cik}%`}
  `)
  const float: CurrentCount = stored ?? unknownCount
  // The screener repeats the count from `float_outstanding`, so its own count is used only if that table has none.
  const countOfScreener: CurrentCount = stored ?? { ...unknownCount, outstanding: screener?.outstanding ?? null }
  return {
    float,
    screener: countOfScreener,
    screenerUpdated: screener?.last_updated ?? null,
    industry: screener?.industry ?? null,
    exchange: screener?.exchange ?? null,
    isInherited: isSuccessor,
  }
})

const Ratio = Schema.NullOr(Schema.Finite)

const decodeCloses = decodeRows(Schema.Struct({ day: Schema.String, ticker: Schema.String, close: Ratio }))
const decodeSplits = decodeRows(Schema.Struct({ day: Schema.String, ratio: Ratio }))
const decodeReceiptRatios = decodeRows(Schema.Struct({ ratio: Ratio }))

/** Known prices and splits of the company's security, which are used to check counts and public floats. */
interface KnownPrices {
  /** Closing prices per share in US dollars, by the dates of public floats. */
  readonly closes: ReadonlyMap<string, number>
  readonly splits: ReadonlyArray<KnownSplit>
  /**
   * The date of the newest public float and the company's symbol on that date, if the closing price for that date is
   * missing.
   */
  readonly awaited: { readonly ticker: string; readonly day: string } | undefined
  /**
   * What was known about the security, whether or not the counts are checked against it. It is stored with the
   * assessment (`saveAssessments`). If it changes, the counts must be assessed again.
   */
  readonly known: {
    readonly splits: ReadonlyArray<KnownSplit>
    readonly isReceipt: boolean
    readonly sharesPerReceipt: number | null
  }
}

/** Reads the newest stored number of ordinary shares per depositary receipt. Returns null if it is unknown. */
const readSharesPerReceipt = Effect.fnUntraced(
  function* ({ cik, ticker }: Pick<Issuer, "cik" | "ticker">, symbols: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* decodeReceiptRatios(sql`
      select find_shares_per_receipt(${cik}, ${ticker}, ${symbols}::text[]) as ratio
    `)
    return row?.ratio ?? null
  },
)

/**
 * Reads the stored closing prices of the company's security on the given days. Returns one row per day on which the
 * company's symbol denoted that security, with a null `close` if none is stored. Days on which another company can have
 * had the symbol are left out (D32, D45).
 */
const readStoredCloses = Effect.fnUntraced(
  function* (issuer: Issuer, symbols: ReadonlyArray<string>, days: ReadonlyArray<string>, today: string) {
    const sql = yield* SqlClient.SqlClient
    const { cik, ticker } = issuer
    if (days.length === 0) return []
    /** The days for which a close is wanted, each with the company's symbol on that day. */
    const wanted = JSON.stringify(days.map((day) => ({ day, ticker: getTickerOn(issuer, day) })))
    // `periods` contains the periods in which securities of this company had one of its symbols. `current_security` has
    // one row, the security that the company's symbol denotes now, or none if that is unknown. A symbol without
    // recorded changes (`not is_linked`) is accepted, because nothing contradicts the SEC's list, which assigns it to
    // the company.
    return yield* decodeCloses(sql`
      with periods as materialized (
        select * from security_periods(${symbols}::text[], ${today}::text::date)
        where not is_ambiguous and coalesce(cik, ${cik}) = ${cik}
      ),
      current_security as materialized (select security from periods where ticker = ${ticker} and ends = 'infinity')
      select wanted.day::text, wanted.ticker, known.close::float8
      from jsonb_to_recordset(${wanted}::text::jsonb) as wanted (day date, ticker text)
        join periods as period on period.ticker = wanted.ticker and day >= starts and day < ends and (
          security in (select security from current_security)
          or not is_linked and starts = '-infinity' and ends = 'infinity'
        )
        cross join lateral find_close(wanted.ticker, day) as known
    `)
  },
)

/**
 * Reads the splits of the company's security and the stored closing prices for the dates of its public floats
 * (`floats`). A close is used only if the company had the symbol on that date and no other company can have had it
 * (D32, D45).
 *
 * If the security is a depositary receipt, the counts are numbers of ordinary shares, so each close is divided by the
 * number of shares per receipt. A split of the receipts may change that number, so only closes since the last split are
 * returned, and no splits (D44).
 */
export const readKnownPrices = Effect.fnUntraced(
  function* (issuer: Issuer, floats: ReadonlyArray<CompanyFact>, isReceipt: boolean) {
    const sql = yield* SqlClient.SqlClient
    const { cik, periods: used = [], ticker } = issuer
    const symbols = Array.from(new Set([ticker, ...used.map((period) => period.ticker)]))
    const today = yield* todayInChicago
    const days = Array.from(new Set(floats.map(({ end }) => end)))
    const splits = yield* decodeSplits(sql`
      select day::text, ratio::float8
      from find_company_splits(${JSON.stringify([{ cik, ticker, symbols }])}::text::jsonb, ${today}::text::date)
    `)
    const closes = yield* readStoredCloses(issuer, symbols, days, today)
    const pricePerShareByDay = (chosen: typeof closes, sharesPerUnit: number) =>
      new Map(chosen.flatMap(({ close, day }) => close === null ? [] : [[day, close / sharesPerUnit]]))
    // The counts are assessed again when the close for the newest public float is loaded.
    const newest = closes.find(({ day }) => day === days.toSorted().at(-1))
    const awaited = newest?.close === null ? { ticker: newest.ticker, day: newest.day } : undefined
    const sharesPerReceipt = isReceipt ? yield* readSharesPerReceipt(issuer, symbols) : null
    // Contains the splits even for a receipt, because a new split requires a new assessment.
    const known = { splits, isReceipt, sharesPerReceipt }
    const ofShares: KnownPrices = { closes: pricePerShareByDay(closes, 1), splits, awaited, known }
    if (!isReceipt) return ofShares
    const lastSplit = splits.at(-1)?.day ?? ""
    const ofReceipts: KnownPrices = {
      closes: sharesPerReceipt === null
        ? new Map()
        : pricePerShareByDay(closes.filter(({ day }) => day >= lastSplit), sharesPerReceipt),
      splits: [],
      // A receipt's close alone says nothing about shares: the ratio may be missing, or have changed since.
      awaited: undefined,
      known,
    }
    return ofReceipts
  },
)

/** A company whose share counts were assessed, with what was known about its security and what was found. */
export interface AssessedCompany extends Pick<KnownPrices, "awaited" | "known"> {
  readonly cik: string
  readonly ticker: string
  /** Whether the values that another company left under the symbol stay (see `readStoredCounts`). */
  readonly isInherited: boolean
  /** Whether the company's current rows were not written (see `Issuer`). */
  readonly isListedForOther: boolean
  /** The current count, or null if it is unknown. Undefined if the stored one stays. */
  readonly outstanding: string | null | undefined
  readonly countedSplits: ReadonlyArray<CountedSplit>
}

const decodeOwnedRows = decodeRows(
  Schema.Struct({ dataset: Schema.String, ticker: Schema.String, owner: Schema.String }),
)

/**
 * Deletes the rows of `datasets` that other companies left under the companies' symbols, unless the company continues
 * the other one. Otherwise, a company that reuses a symbol would seem to have the share count and the market
 * capitalization of the former one, until it reports its own. A row without the CIK of a company in its sources, for
 * example one loaded from a file, belongs to the company that `screener` states, if the SEC has listed the symbol for
 * that company. Otherwise, the CIK may be that of a predecessor, and the row stays.
 *
 * Companies that are left without current rows also lose their progress in these datasets, so that the next run creates
 * the rows again, under the symbol that the company has then.
 *
 * Returns a message for each symbol whose rows were deleted, because a vendor's row may state the CIK of a predecessor.
 */
export const deleteRowsOfOtherCompanies = Effect.fnUntraced(function* (
  companies: ReadonlyArray<AssessedCompany>,
  datasets: ReadonlyArray<IngestedDataset>,
) {
  const current = datasets.filter((dataset) => currentDatasets.has(dataset))
  const contested = companies.filter(({ isListedForOther }) => isListedForOther)
  const unrelated = companies.filter(({ isInherited, isListedForOther }) => !isInherited && !isListedForOther)
    .map(({ cik, ticker }) => ({ cik, ticker }))
  const sql = yield* SqlClient.SqlClient
  // One row per stored row of another company. `stored` contains the rows of both tables under the company's symbol,
  // and `owned` the CIK of the company that such a row belongs to.
  const ofOthers = unrelated.length === 0 ? [] : yield* decodeOwnedRows(sql`
    select dataset, ticker, owner
    from jsonb_to_recordset(${JSON.stringify(unrelated)}::text::jsonb) as company (cik text, ticker text)
      cross join lateral (
        select 'screener' as dataset, source, screener.cik from screener where screener.ticker = company.ticker
        union all
        select 'float_outstanding', counted.source, listed.cik
        from float_outstanding as counted left join screener as listed using (ticker)
        where counted.ticker = company.ticker
      ) as stored (dataset, source, stated_cik)
      cross join lateral (
        select coalesce(
          substring(array_to_string(source, ' ') from '/submissions/CIK([0-9]{10})'),
          (
            select former.cik from edgar_companies as former
            where former.cik = normal_cik(stated_cik)
              and ticker = any (former.tickers || former.primary_ticker || former.former_tickers)
          )
        )
      ) as owned (owner)
    where owner <> company.cik and dataset = any(${current}::text[])
  `)
  for (const [dataset, rows] of Map.groupBy(ofOthers, ({ dataset }) => dataset)) {
    yield* sql`delete from ${sql(dataset)} where ticker = any(${rows.map(({ ticker }) => ticker)}::text[])`
  }
  const withoutRows = [...contested.map(({ cik }) => cik), ...ofOthers.map(({ owner }) => owner)]
  if (withoutRows.length > 0) {
    yield* sql`
      delete from edgar_progress
      where cik = any(${withoutRows}::text[]) and dataset = any(${current}::text[])
    `
  }
  return Array.from(Map.groupBy(ofOthers, ({ ticker }) => ticker), ([ticker, rows]) => {
    const owners = Array.from(new Set(rows.map(({ owner }) => owner))).join(" and ")
    const named = rows.map(({ dataset }) => dataset).join(" and ")
    return `Deleted the row of ${ticker} in ${named}: it was that of CIK ${owners}, and the SEC lists ${ticker} for ` +
      "another company. If both are one company, load the row with its new CIK."
  })
})

/**
 * Stores what the assessments of the companies' share counts were based on: which closing prices were missing, and
 * which splits and numbers of shares per receipt were known. Also stores which splits the current counts include.
 */
export const saveAssessments = Effect.fnUntraced(function* (companies: ReadonlyArray<AssessedCompany>) {
  if (companies.length === 0) return
  const sql = yield* SqlClient.SqlClient
  // A batch may contain several visits to a company, but a statement cannot update a row twice.
  const latest = Array.from(new Map(companies.map((company) => [company.cik, company])).values())
  const awaited = latest.flatMap(({ awaited, cik }) => awaited === undefined ? [] : [{ cik, ...awaited }])
  yield* sql`delete from edgar_awaited_closes where cik = any(${companies.map(({ cik }) => cik)}::text[])`
  yield* sql`
    insert into edgar_awaited_closes
    select * from jsonb_populate_recordset(null::edgar_awaited_closes, ${JSON.stringify(awaited)}::text::jsonb)
  `
  const assessments = latest.map(({ cik, countedSplits, known, outstanding }) => ({
    cik,
    splits: known.splits,
    is_receipt: known.isReceipt,
    ads_ratio: known.sharesPerReceipt,
    outstanding,
    counted_splits: Object.fromEntries(countedSplits.map(({ day, isCounted }) => [day, isCounted])),
  }))
  // Companies whose stored count, and the record of the splits that it includes, stay unchanged (`outstanding` is
  // undefined). They need a list of their own, because undefined becomes null in JSON, and null means that the count is
  // unknown.
  const kept = latest.flatMap(({ cik, outstanding }) => outstanding === undefined ? [cik] : [])
  yield* sql`
    insert into edgar_assessments as stored (cik, splits, is_receipt, ads_ratio, outstanding, counted_splits)
    select cik, splits, is_receipt, ads_ratio, outstanding, counted_splits
    from jsonb_populate_recordset(null::edgar_assessments, ${JSON.stringify(assessments)}::text::jsonb)
    on conflict (cik) do update set splits = excluded.splits, is_receipt = excluded.is_receipt,
      ads_ratio = excluded.ads_ratio, outstanding = case when stored.cik = any(${kept}::text[])
        then stored.outstanding else excluded.outstanding end,
      counted_splits = case when stored.cik = any(${kept}::text[])
        then stored.counted_splits else excluded.counted_splits end
  `
})

/**
 * Queues the company facts again for companies whose share counts were assessed without something that has become known
 * since: a missing closing price, a split, or the number of shares per receipt. The result therefore does not depend on
 * whether they or the filings are ingested first.
 */
export const requeueOutdatedAssessments = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInChicago
  yield* sql.withTransaction(Effect.gen(function* () {
    // `priced` deletes the awaited closes that bars or `daily_prices` now contain. `find_outdated_assessments` finds
    // the companies whose splits or number of shares per receipt are no longer those of their assessment.
    const known = yield* sql<{ readonly cik: string }>`
      with priced as (
        delete from edgar_awaited_closes as awaited
        where exists (
            select from price_periods as bar
            where bar.ticker = awaited.ticker and bar.date = awaited.day and bar.period in ('regular', 'day')
          )
          or exists (
            select from daily_prices as priced
            where priced.ticker = awaited.ticker and priced.date = awaited.day and priced.close is not null
          )
        returning cik
      )
      select cik from priced union select find_outdated_assessments(${today}::text::date)
    `
    yield* Effect.forEach(known, ({ cik }) => requeueDocument(buildCompanyFactsUrl(cik)), { discard: true })
  }))
})
