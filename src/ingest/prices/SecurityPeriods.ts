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
 * Adds sessions to `touched` whose prices were adjusted for a split that, according to the file, is another company's.
 *
 * `split_status` may record a split under a symbol that the security adopted later or has just given up. Example: a
 * company changes its symbol from A to B in June, and its split in May is recorded under B. `security_splits`
 * attributes such a split to the security if nobody traded under the symbol around the day of the split. If the file
 * contains the first bars under B in May, another company used B then. The split belongs to that company, and all
 * sessions of the security that has used B since June must be computed again without it.
 */
export const addSessionsOfDisprovedSplits = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `insert into touched
      -- The splits that have a changed session around their day, with the symbol under which they are recorded.
      with recorded_splits as materialized (
        select distinct ticker, effective_date,
          effective_date - ${maxSplitDistance} as first, effective_date + ${maxSplitDistance} as last
        from changed join split_status using (ticker)
        where changed.date between effective_date - ${maxSplitDistance} and effective_date + ${maxSplitDistance}
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
        and (
          select bool_and((known.ticker, known.date) in (select ticker, date from changed))
          from price_periods as known
          where known.ticker = recorded_splits.ticker
            and known.date between greatest(first, split_period.starts) and least(last, split_period.ends - 1)
        )
      except select ticker, date from touched`,
  ))

/**
 * Finds the ticker changes, splits, closes and share counts that other programs have changed since the last ingest.
 * Triggers have recorded these changes in `price_corrections`. Must run before the file's sessions are stored. Creates
 * three tables:
 * - `corrected`: the rows of `price_corrections`. They are also deleted there, unless `keep` is true; then the next
 *   ingest finds them again.
 * - `recomputed`: symbols with prices whose ticker changes or splits have changed, and the symbols that ticker changes
 *   connect with them.
 * - `stale`: symbols whose closes in `daily_prices` have changed, with the range of days from `first` to `last`, and
 *   symbols whose share counts have changed, with null for both days.
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
    keep
      ? `create temp table corrected on commit drop as
          select * from price_corrections where ${isDue}`
      : `create temp table corrected on commit drop as
          with due as (delete from price_corrections where ${isDue} returning *) select * from due`,
    // A symbol without sessions uses the prices of another symbol if both belong to the same security, or belonged to
    // it before a ticker change was corrected. `counterpart` is the other symbol of such a change.
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
 * session under the old symbol and the first session under the new symbol, and the row has the day in `recorded`.
 *
 * The result differs from `recorded` only if the new symbol traded earlier, or the old symbol traded on that day or
 * later. Example: a change from A to B is recorded for the 10th, but bars show A until the 7th and B from the 8th, so
 * the result is the 8th. If the sessions overlap, another company uses one of the symbols, so the bars prove nothing.
 */
const shownDay = (lastOld: string, firstNew: string) =>
  `case
    when ${lastOld} < ${firstNew} and ${firstNew} between recorded - ${maxChangeShift} and recorded then ${firstNew}
    when ${lastOld} < ${firstNew} and ${lastOld} between recorded and recorded + ${maxChangeShift} then ${lastOld} + 1
    else recorded
  end`

/**
 * Creates the table `dated_changes`: the ticker changes of the securities in `symbol_periods`, except those that bars
 * cannot date, because the same symbols are involved in other changes. `recorded` is the day of the change in
 * `ticker_changes`. `last_old` and `first_new` are the last session under the old symbol and the first session under
 * the new one. `shown` is the day of the change according to them. `shown_before` is the same without the sessions in
 * `changed`, which is the day that previous ingests have used.
 */
const createDatedChanges = `
  create temp table dated_changes on commit drop as
  select recorded_changes.*, last_old, first_new, ${shownDay("last_old", "first_new")} as shown,
    ${shownDay("last_old_before", "first_new_before")} as shown_before
  from (
    select old.ticker as old_ticker, new.ticker as new_ticker, new.starts as recorded
    -- A security changes its symbol on the day on which it stops using one symbol and starts using another.
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
 * Creates the tables `symbol_periods`, `dated_changes` and `splits` for the symbols in `touched`, `recomputed` and
 * `stale`, and for all symbols that ticker changes connect with them. If bars show that a ticker change is recorded for
 * the wrong day, the periods in `symbol_periods` follow the bars. If this file's bars move such a change, adds the
 * sessions around it to `touched`.
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
 * Creates the table `caps` with the market capitalizations (D44) for rows of `screener` and `float_outstanding`, in the
 * columns `dataset`, `ticker`, `market_cap` and `reason`. Values that cannot be computed, because the close or the
 * number of shares is unknown, are normally left out, so that the rows keep their old values. They are null for the
 * symbols in `recomputed`, whose ticker changes or splits were corrected, because the old values may belong to another
 * company. Must run after `daily_prices` has been filled, because it reads the closes there.
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
