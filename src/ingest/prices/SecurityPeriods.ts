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
import { dependentDays, maxSplitDistance, runStatements } from "./PeriodSql.ts"

/**
 * Adds sessions to `touched` whose prices were adjusted for another company's split.
 *
 * `split_status` may list a split under a symbol that the security adopted later or has just given up. Such a split is
 * attributed to the security if nobody traded under the symbol around the day of the split. If this file contains the
 * first bars that show another company trading under the symbol at that time, the split belongs to the other company,
 * and all sessions of the security are recomputed.
 */
export const addSessionsOfDisprovedSplits = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `insert into touched
      -- The splits that have a changed session around their day, with the symbol under which they are listed.
      with listed as materialized (
        select distinct ticker, effective_date,
          effective_date - ${maxSplitDistance} as first, effective_date + ${maxSplitDistance} as last
        from changed join split_status using (ticker)
        where changed.date between effective_date - ${maxSplitDistance} and effective_date + ${maxSplitDistance}
      ),
      periods as materialized (
        select * from security_periods(array(select distinct ticker from listed), '${today}')
      )
      -- "own" is the period of the company that uses the symbol on the day of the split. "chain" is a period in which a
      -- security that is linked by ticker changes uses the symbol. "used" contains all periods of that security.
      select session.ticker, session.date
      from listed join periods as own using (ticker) join periods as chain using (ticker)
        join periods as used on used.security = chain.security
        join price_periods as session
          on session.ticker = used.ticker and session.date >= used.starts and session.date < used.ends
      where effective_date >= own.starts and effective_date < own.ends and not own.is_linked and chain.is_linked
        -- All known bars around the day are new.
        and (
          select bool_and((known.ticker, known.date) in (select ticker, date from changed))
          from price_periods as known
          where known.ticker = listed.ticker
            and known.date between greatest(first, own.starts) and least(last, own.ends - 1)
        )
      except select ticker, date from touched`,
  ))

/**
 * Finds changes that other programs have made since the last ingest. Must run before the file's sessions are stored.
 * Creates two tables:
 * - `recomputed`: symbols with prices whose ticker changes or splits have changed, and the symbols that ticker changes
 *   connect with them.
 * - `stale`: symbols whose closes in `daily_prices` have changed, with the range of days from `first` to `last`, and
 *   symbols whose share counts have changed, with null for both days.
 *
 * A change that takes effect on a later day is left for an ingest on or after that day. With `keep`, the next ingest
 * finds the same changes again. Returns the number of symbols whose sessions are recomputed.
 */
export const findCorrections = Effect.fnUntraced(function* ({ keep }: { readonly keep: boolean }) {
  const today = yield* todayInChicago
  const sql = yield* SqlClient.SqlClient
  // A change without a day takes effect immediately: "is not false" is true for null.
  const isDue = `day <= '${today}' is not false`
  yield* runStatements(
    keep
      ? `create temp table corrected on commit drop as
          select * from price_corrections where ${isDue}`
      : `create temp table corrected on commit drop as
          with due as (delete from price_corrections where ${isDue} returning *) select * from due`,
    // A symbol without sessions uses the prices of another symbol if both belong, or belonged, to the same security.
    `create temp table recomputed on commit drop as
      select distinct ticker from security_periods(
        array(select ticker from corrected where dataset in ('ticker_changes', 'split_status')), '${today}'
      ) as period
      where exists (select from price_periods as known where known.ticker = period.ticker) or exists (
        select from corrected cross join lateral security_periods(array[counterpart], '${today}') as other
          join price_periods as known on known.ticker = other.ticker
        where corrected.ticker = period.ticker and counterpart is not null
      )`,
    "analyze recomputed",
    `create temp table stale on commit drop as
      select ticker, min(day) as first, max(last_day) as last
      from corrected where dataset in ('daily_prices', 'screener', 'float_outstanding') group by ticker`,
    // Before the first bars are ingested, no changes are recorded, so all listed symbols count as changed.
    `insert into stale
      select ticker
      from (select ticker from screener union select ticker from float_outstanding) as listed
      where not exists (select from price_periods)`,
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

/** Number of days before and after a ticker change whose bars are evidence of when it took place. */
const changeWindowDays = 30

/** Maximum number of days by which bars can move a ticker change. */
const maxChangeShift = 10

/**
 * Returns SQL for the day on which a ticker change took place, according to bars. The arguments are SQL for the last
 * session under the old symbol and the first session under the new symbol, and the row has the day in `recorded`. The
 * result differs from `recorded` only if the new symbol traded earlier, or the old symbol traded on that day or later.
 * If the sessions overlap, another company uses one of the symbols, so the bars prove nothing.
 */
const shownDay = (lastOld: string, firstNew: string) =>
  `case
    when ${lastOld} < ${firstNew} and ${firstNew} between recorded - ${maxChangeShift} and recorded then ${firstNew}
    when ${lastOld} < ${firstNew} and ${lastOld} between recorded and recorded + ${maxChangeShift} then ${lastOld} + 1
    else recorded
  end`

/**
 * Creates the table `dated_changes`: the ticker changes of the securities in `symbol_periods`. `shown` is the day of
 * the change according to the bars, and `shown_before` is the same without the sessions in `changed`.
 */
const createDatedChanges = `
  create temp table dated_changes on commit drop as
  select recorded_changes.*, last_old, first_new, ${shownDay("last_old", "first_new")} as shown,
    ${shownDay("last_old_before", "first_new_before")} as shown_before
  from (
    select old.ticker as old_ticker, new.ticker as new_ticker, new.starts as recorded
    from symbol_periods as old join symbol_periods as new using (security) where old.ends = new.starts
      -- Other changes say that another company used the new symbol before, or the old symbol afterward.
      and not exists (
        select from symbol_periods as other where other.is_linked
          and (other.ticker = new.ticker and other.ends = new.starts
            or other.ticker = old.ticker and other.starts = old.ends)
      )
      -- The change must not be moved beyond another change of the same symbols.
      and not exists (
        select from symbol_periods as other where other.ticker in (old.ticker, new.ticker)
          and other.starts between old.ends - ${maxChangeShift} and old.ends + ${maxChangeShift} + 1
          and other.starts <> old.ends
      )
  ) as recorded_changes cross join lateral (
    select max(date) filter (where ticker = old_ticker) as last_old,
      min(date) filter (where ticker = new_ticker) as first_new,
      max(date) filter (where ticker = old_ticker and is_known) as last_old_before,
      min(date) filter (where ticker = new_ticker and is_known) as first_new_before
    from (
      select ticker, date, (ticker, date) not in (select ticker, date from changed) as is_known
      from price_periods as known where known.ticker in (old_ticker, new_ticker)
        and date between recorded - ${changeWindowDays} and recorded + ${changeWindowDays}
    ) as sessions
  ) as sessions`

/**
 * Creates the tables `symbol_periods` and `splits` for the symbols in `touched`, `recomputed` and `stale`, and for all
 * symbols connected with them. If bars show that a ticker change is recorded for the wrong day, the periods follow the
 * bars. If the file moves such a change, adds the sessions around it to `touched`.
 */
export const findSecurities = Effect.flatMap(todayInChicago, (today) => {
  const symbols = "array(select ticker from touched union select ticker from recomputed union select ticker from stale)"
  return runStatements(
    `create temp table symbol_periods on commit drop as
      select security, ticker, starts, ends, is_linked, is_ambiguous from security_periods(${symbols}, '${today}')`,
    "create index on symbol_periods (ticker)",
    "create index on symbol_periods (security)",
    "analyze symbol_periods",
    createDatedChanges,
    `update symbol_periods set starts = shown from dated_changes
      where shown <> recorded and ticker in (old_ticker, new_ticker) and starts = recorded`,
    `update symbol_periods set ends = shown from dated_changes
      where shown <> recorded and ticker in (old_ticker, new_ticker) and ends = recorded`,
    `insert into touched
      select known.ticker, known.date from dated_changes join price_periods as known
        on known.ticker in (old_ticker, new_ticker)
        and known.date between recorded - ${maxChangeShift} and recorded + ${maxChangeShift} + ${dependentDays}
      where shown <> shown_before
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
  /** `YYYY-MM-DD`, like the other days. */
  readonly recorded: string
  /** The last session under the old symbol. */
  readonly last_old: string
  /** The first session under the new symbol. */
  readonly first_new: string
}

/** Finds the ticker changes that are recorded for the wrong day, if this ingest computes a session around that day. */
export const findMisdatedChanges = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql<MisdatedChange>`
    select old_ticker, new_ticker, recorded::text, last_old::text, first_new::text
    from dated_changes
    where shown <> recorded and exists (
      select from touched where ticker in (old_ticker, new_ticker)
        and date between recorded - ${changeWindowDays}::int and recorded + ${changeWindowDays}::int
    )
    order by recorded, old_ticker
  `)

/**
 * Returns the SQL condition that a row belongs to the security of a period, because the security used the row's symbol
 * on the row's date. `rows` is the alias of the row's table, and `periods` is the alias of `symbol_periods`.
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
      select touched.ticker from touched where touched.date between effective_date and effective_date + 365
    )
    order by 1, 2
  `)
})

/**
 * Creates the table `caps` with the market capitalizations (D44) for rows of `screener` and `float_outstanding`. Values
 * that cannot be computed are normally left out, so that the rows keep their old values. They are null if ticker
 * changes or splits were corrected, because the old values may belong to another company. Must run after `daily_prices`
 * has been filled, because it reads the closes there.
 */
export const findMarketCaps = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table caps on commit drop as
      select * from find_market_caps(array(select distinct ticker from symbol_periods), '${today}')`,
    `insert into caps
      select dataset, ticker
      from (
        select 'screener' as dataset, ticker from screener
        union all select 'float_outstanding', ticker from float_outstanding
      ) as listed
      where ticker in (select ticker from recomputed)
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
