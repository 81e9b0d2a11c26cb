/**
 * Finds the securities whose sessions an ingest computes (D45, a security over time). A security may have used several
 * symbols, and several companies may have used the same symbol. The table `symbol_periods` lists the days on which each
 * security used each symbol, and the table `splits` contains the securities' splits. `47_securities.sql` implements the
 * rules.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeIncompleteSymbols } from "../load/MarketCaps.ts"
import { dependentDays, maxSplitDistance, runStatements, yearDays } from "./PricePeriodSql.ts"

/**
 * Adds sessions to `touched` whose prices were adjusted for a split that, according to the file, is another company's.
 *
 * `split_status` may record a split under a symbol that the security adopted later or has just given up. Example: a
 * company changes its symbol from A to B in June, and its split in May is recorded under B. `security_splits`
 * attributes such a split to the security if nobody traded under the symbol around the day of the split. If the file
 * contains the first bars under B in May, another company used B then. The split belongs to that company, and all
 * sessions of the security that has used B since June must be computed again without it. The same applies if closes in
 * `daily_prices` around that day have changed, because they are evidence in the same way.
 *
 * Tables read:
 * - `touched`: the sessions to compute, as `ticker` and `date`
 * - `changed`: the sessions whose totals in `price_periods` this file has changed, and all sessions of days that it
 *   completes
 * - `stale`: the symbols whose closes in `daily_prices` other programs have changed, each with the first and last day;
 *   both days are null for a changed share count, which is no evidence about splits
 * - `price_periods`: all bars stored so far, including this file's
 *
 * The function `security_periods` returns the periods in which securities used the symbols. `is_linked` is true if
 * ticker changes connect the period with another symbol of the same security.
 */
export const addSessionsOfDisprovedSplits = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `insert into touched
      -- Splits with a changed session or close around their day, and the symbol under which they are recorded. The days
      -- from "first" to "last" are around the split. "has_changed_closes" is true if a close there has changed.
      with recorded_splits as materialized (
        select ticker, effective_date, effective_date - ${maxSplitDistance} as first,
          effective_date + ${maxSplitDistance} as last, bool_or(is_close) as has_changed_closes
        from (
          select ticker, date as first, date as last, false as is_close from changed
          union all select ticker, first, last, true from stale where first is not null
        ) as evidence join split_status using (ticker)
        where evidence.first <= effective_date + ${maxSplitDistance}
          and evidence.last >= effective_date - ${maxSplitDistance}
        group by ticker, effective_date
      ),
      periods as materialized (
        select * from security_periods(array(select distinct ticker from recorded_splits), '${today}')
      )
      -- "split_period" is the period of the symbol that contains the day of the split; no security with ticker changes
      -- uses the symbol then. "other_period" is a period in which one does. "security_period" stands for each period of
      -- that security, under any symbol.
      select session.ticker, session.date
      from recorded_splits
        join periods as split_period using (ticker) join periods as other_period using (ticker)
        join periods as security_period on security_period.security = other_period.security
        join price_periods as session on session.ticker = security_period.ticker
          and session.date >= security_period.starts and session.date < security_period.ends
      where effective_date >= split_period.starts and effective_date < split_period.ends
        and not split_period.is_linked and other_period.is_linked
        -- All stored bars of the symbol around the day of the split, within "split_period", have come from this file.
        and (has_changed_closes or (
          select bool_and((known.ticker, known.date) in (select ticker, date from changed))
          from price_periods as known
          where known.ticker = recorded_splits.ticker
            and known.date between greatest(first, split_period.starts) and least(last, split_period.ends - 1)
        ))
      except select ticker, date from touched`,
  ))

/**
 * Finds the ticker changes, splits, closes and share counts that other programs have changed since the last ingest.
 * Triggers have recorded these changes in `price_corrections`. Must run before the file's sessions are stored. Creates
 * three tables:
 * - `corrected`: the rows of `price_corrections`. They are also deleted there, unless `keep` is true; then the next
 *   ingest finds them again.
 * - `recomputed`: symbols with bars whose ticker changes or splits have changed, and the symbols that ticker changes
 *   connect with them.
 * - `revalued`: such symbols without bars, but with closes in `daily_prices`. Only their market capitalizations are
 *   computed from prices.
 * - `stale`: symbols whose closes in `daily_prices` have changed, with the range of days from `first` to `last`, and
 *   symbols whose share counts have changed or whose rows are new, with null for both days.
 *
 * A change that takes effect on a later day is left for an ingest on or after that day. Returns the number of symbols
 * whose sessions are computed again.
 */
export const findCorrections = Effect.fnUntraced(function* ({ keep }: { readonly keep: boolean }) {
  const today = yield* todayInChicago
  const sql = yield* SqlClient.SqlClient
  // A change without a day takes effect immediately: "is not false" is true for null.
  const isDue = `day <= '${today}' is not false`
  yield* runStatements(
    // Before the first bars are ingested, no changes are recorded, so all listed symbols count as changed.
    `insert into price_corrections (dataset, ticker)
      select dataset, ticker
      from (
        select 'screener' as dataset, ticker from screener
        union all select 'float_outstanding', ticker from float_outstanding
      ) as listed
      where not exists (select from price_periods)
      except select dataset, ticker from price_corrections`,
    keep
      ? `create temp table corrected on commit drop as
          select * from price_corrections where ${isDue}`
      : `create temp table corrected on commit drop as
          with due as (delete from price_corrections where ${isDue} returning *) select * from due`,
    // A symbol without prices uses those of another symbol if both belong to the same security, or belonged to it
    // before a ticker change was corrected. `counterpart` is the other symbol of such a change.
    `create temp table corrected_symbols on commit drop as
      with reached as materialized (
        select distinct ticker from security_periods(
          array(select ticker from corrected where dataset in ('ticker_changes', 'split_status')), '${today}'
        )
      ),
      sources as materialized (
        select ticker, ticker as source from reached
        union
        select corrected.ticker, other.ticker
        from corrected cross join lateral security_periods(array[counterpart], '${today}') as other
        where counterpart is not null
      )
      select ticker, bool_or(has_bars) as has_bars
      from reached join sources using (ticker)
        cross join lateral (
          select exists (select from price_periods as known where known.ticker = source) as has_bars,
            exists (select from daily_prices as known where known.ticker = source) as has_closes
        ) as known
      where has_bars or has_closes
      group by ticker`,
    "create temp table recomputed on commit drop as select ticker from corrected_symbols where has_bars",
    "create temp table revalued on commit drop as select ticker from corrected_symbols where not has_bars",
    "analyze recomputed",
    `create temp table stale on commit drop as
      select ticker, min(day) as first, max(last_day) as last from corrected
      where dataset not in ('ticker_changes', 'split_status') group by ticker`,
    "analyze stale",
  )
  return (yield* sql`
    select from (select ticker from recomputed union select ticker from stale where first is not null) as found
    where exists (select from price_periods as known where known.ticker = found.ticker)
  `).length
})

/** Adds all sessions of the symbols in `recomputed` to `touched`. */
export const addCorrectedSessions = runStatements(
  `insert into touched
    select ticker, date from price_periods where ticker in (select ticker from recomputed)
    except select ticker, date from touched`,
)

/**
 * Creates the table `periods_before`: the periods of the file's symbols according to the bars ingested before. Called
 * before the file is merged, because its bars may show that a ticker change took place on another day.
 */
export const findPeriodsBefore = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table periods_before on commit drop as
      select ticker, recorded, starts
      from security_periods(array(select distinct ticker from new_periods), '${today}') where recorded <> '-infinity'`,
  ))

/**
 * Creates the tables `symbol_periods` and `splits` for the symbols in `touched`, `recomputed`, `revalued` and `stale`,
 * and for all symbols that ticker changes connect with them. A row of `symbol_periods` is a period in which a security
 * used a symbol.
 *
 * If bars show that a ticker change is recorded for the wrong day, the period starts on another day (`starts`) than
 * recorded (`recorded`). If this file's bars have moved the start, which `periods_before` contains as it was before the
 * file, adds the sessions around it to `touched`.
 */
export const findSecurities = Effect.flatMap(todayInChicago, (today) => {
  const symbols = `array(
    select ticker from touched union select ticker from recomputed union select ticker from revalued
    union select ticker from stale
  )`
  return runStatements(
    `create temp table symbol_periods on commit drop as
      select security, ticker, starts, ends, is_ambiguous, recorded from security_periods(${symbols}, '${today}')`,
    "create index on symbol_periods (ticker)",
    "create index on symbol_periods (security)",
    "analyze symbol_periods",
    `insert into touched
      select known.ticker, known.date
      from periods_before as before join symbol_periods as period using (ticker, recorded)
        join price_periods as known on known.ticker = before.ticker
          and known.date >= least(before.starts, period.starts)
          and known.date < greatest(before.starts, period.starts) + ${dependentDays}
      where before.starts <> period.starts
      except select ticker, date from touched`,
    `create temp table splits on commit drop as select * from security_splits(${symbols}, '${today}')`,
    "create index on splits (security, effective_date)",
    "analyze splits",
  )
})

/** A ticker change that, according to the bars, took place on another day than the recorded one. */
export interface MisdatedChange {
  readonly old_ticker: string
  readonly new_ticker: string
  /** The recorded day as `YYYY-MM-DD`, like the other days. */
  readonly recorded: string
  /** The last session under the old symbol. */
  readonly last_old: string
  /** The first session under the new symbol. */
  readonly first_new: string
}

/**
 * Finds ticker changes that are recorded for the wrong day: the bars show that the security has used the new symbol
 * from another day on. Only returns changes with a session within 30 days of the recorded day that this ingest computes
 * (`touched`), so that later ingests do not repeat the warning. `former` and `next` are the periods before and after
 * the change.
 */
export const findMisdatedTickerChanges = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql<MisdatedChange>`
    select former.ticker as old_ticker, next.ticker as new_ticker, next.recorded::text, (
        select max(date)::text from price_periods as bar
        where bar.ticker = former.ticker and bar.date between next.recorded - 30 and next.starts - 1
      ) as last_old, (
        select min(date)::text from price_periods as bar
        where bar.ticker = next.ticker and bar.date between next.starts and next.recorded + 30
      ) as first_new
    from symbol_periods as former join symbol_periods as next using (security)
    where former.ends = next.starts and next.starts <> next.recorded and exists (
      select from touched
      where touched.ticker in (former.ticker, next.ticker)
        and touched.date between next.recorded - 30 and next.recorded + 30
    )
    order by next.recorded, former.ticker
  `)

/**
 * Returns the SQL condition that a row belongs to the security of a period: the period's symbol is that of the row, and
 * the row's date is within the period. `rows` is the alias of the row's table, and `periods` is the alias of
 * `symbol_periods`.
 */
export const makePeriodCondition = (rows: string, periods: string) =>
  `${rows}.ticker = ${periods}.ticker and ${rows}.date >= ${periods}.starts and ${rows}.date < ${periods}.ends`

/**
 * Finds symbols with a split whose ratio is unknown or contradicted, if this ingest computes a session of the symbol in
 * the year after the split.
 */
export const findContradictedSplits = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeIncompleteSymbols(sql`
    select distinct ticker, 'a split on ' || effective_date || ' whose ratio is unknown or contradicted' as reason
    from splits join symbol_periods using (security)
    where status = 'contradicted' and ticker in (
      select touched.ticker from touched where touched.date between effective_date and effective_date + ${yearDays}::int
    )
    order by 1, 2
  `)
})

/**
 * Creates the table `newest_closes`, with the newest close of each security that has sessions, by its present symbol
 * (`symbol`, `date`, `close`). Market capitalizations are computed from the same closes (`find_market_caps`). Must run
 * after `daily_prices` has been filled, because it reads the closes there.
 */
export const findNewestCloses = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table newest_closes on commit drop as
      select symbol, date, close
      from find_newest_closes(array(select distinct ticker from symbol_periods), '${today}') as newest
      where exists (
        select from symbol_periods as any_period
          join price_periods as known on ${makePeriodCondition("known", "any_period")}
        where any_period.security = newest.security and period in ('regular', 'day')
      )`,
    "create index on newest_closes (symbol)",
    "analyze newest_closes",
  ))

/**
 * Creates the table `caps` with the market capitalizations (D44) for rows of `screener` and `float_outstanding`, in the
 * columns `dataset`, `ticker`, `market_cap` and `reason`. Values that cannot be computed, because the close or the
 * number of shares is unknown, are normally left out, so that the rows keep their old values. They are null for the
 * symbols in `recomputed` and `revalued`, whose ticker changes or splits were corrected, because the old values may
 * belong to another company. A value without a number of shares in its row was not computed, so it stays without bars.
 * Must run after `daily_prices` has been filled, because it reads the closes there.
 */
export const findMarketCaps = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table caps on commit drop as
      select * from find_market_caps(array(select distinct ticker from symbol_periods), '${today}')`,
    `insert into caps
      select dataset, ticker
      from (
        select 'screener' as dataset, ticker, outstanding from screener
        union all select 'float_outstanding', ticker, outstanding from float_outstanding
      ) as listed
      where (ticker in (select ticker from recomputed)
          or ticker in (select ticker from revalued) and outstanding is not null)
        and not exists (select from caps where caps.dataset = listed.dataset and caps.ticker = listed.ticker)`,
    "create index on caps (ticker)",
    "analyze caps",
  ))

/**
 * Stores the market capitalizations in `caps`. Returns the symbols whose market capitalization is null, with the
 * reasons.
 */
export const storeMarketCaps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select store_market_caps(jsonb_agg(to_jsonb(cap))) from caps as cap`
  return yield* decodeIncompleteSymbols(sql`
    select distinct ticker, reason from caps where reason is not null order by ticker, reason
  `)
})
