/**
 * Finds the securities of the sessions of a file (D45): the table `symbol_periods` has the days on which each of them
 * used which symbol, and the table `splits` their splits. `47_securities.sql` has the rules.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeDoubtfulSymbols } from "../load/MarketCaps.ts"
import { maxSplitDistance, runStatements } from "./PeriodSql.ts"

/**
 * Adds the sessions of securities to `touched` whose split turns out to be that of another company: the file has the
 * first bars of the other company around the day. Until then, the split was taken for one that is listed under a former
 * or later symbol of the security.
 */
export const addSessionsOfDisprovedSplits = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `insert into touched
      with listed as materialized (
        select distinct ticker, effective_date,
          effective_date - ${maxSplitDistance} as first, effective_date + ${maxSplitDistance} as last
        from changed join split_status using (ticker)
        where changed.date between effective_date - ${maxSplitDistance} and effective_date + ${maxSplitDistance}
      ),
      periods as materialized (
        select * from security_periods(array(select distinct ticker from listed), '${today}')
      )
      select session.ticker, session.date
      from listed join periods as own using (ticker) join periods as chain using (ticker)
        join periods as used on used.security = chain.security
        join price_periods as session
          on session.ticker = used.ticker and session.date >= used.starts and session.date < used.ends
      where effective_date >= own.starts and effective_date < own.ends and not own.is_linked and chain.is_linked
        and (
          select bool_and((known.ticker, known.date) in (select ticker, date from changed))
          from price_periods as known
          where known.ticker = listed.ticker
            and known.date between greatest(first, own.starts) and least(last, own.ends - 1)
        )
      except select ticker, date from touched`,
  ))

/**
 * Creates the table `recomputed` with the symbols that have sessions, and whose ticker changes or splits, or those of
 * connected symbols, have changed since the last ingest and count by now. Unless `keep` is true, the next ingest does
 * not find them again. Returns their number. Runs before the sessions of the file are stored.
 */
export const findCorrectedSymbols = Effect.fnUntraced(function* ({ keep }: { readonly keep: boolean }) {
  const today = yield* todayInChicago
  const sql = yield* SqlClient.SqlClient
  const isDue = `day <= '${today}' is not false`
  yield* runStatements(
    keep
      ? `create temp table corrected on commit drop as select distinct ticker from price_corrections where ${isDue}`
      : `create temp table corrected on commit drop as
          with due as (delete from price_corrections where ${isDue} returning ticker) select distinct ticker from due`,
    `create temp table recomputed on commit drop as
      select distinct ticker from security_periods(array(select ticker from corrected), '${today}') as period
      where exists (select from price_periods as known where known.ticker = period.ticker)`,
    "analyze recomputed",
  )
  return (yield* sql`select from recomputed`).length
})

/** Adds all sessions of the symbols in `recomputed` to `touched`. */
export const addCorrectedSessions = runStatements(
  `insert into touched
    select ticker, date from price_periods where ticker in (select ticker from recomputed)
    except select ticker, date from touched`,
)

/** Creates the tables for the securities of the symbols in `touched`. */
export const findSecurities = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table symbol_periods on commit drop as
      select security, ticker, starts, ends, is_ambiguous
      from security_periods(array(select distinct ticker from touched), '${today}')`,
    "create index on symbol_periods (ticker)",
    "create index on symbol_periods (security)",
    "analyze symbol_periods",
    `create temp table splits on commit drop as
      select * from security_splits(array(select distinct ticker from touched), '${today}')`,
    "create index on splits (security, effective_date)",
    "analyze splits",
  ))

/** Returns an SQL condition: on the day of this row, its symbol was that of the security in `symbol_periods`. */
export const isUsedOn = (rows: string, periods: string) =>
  `${rows}.ticker = ${periods}.ticker and ${rows}.date >= ${periods}.starts and ${rows}.date < ${periods}.ends`

/** Finds the splits of the last year whose ratio is unknown, or about which `split_status` contradicts itself. */
export const findContradictedSplits = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeDoubtfulSymbols(sql`
    select distinct ticker, 'an unknown or contradicting ratio of the split on ' || effective_date as reason
    from splits join symbol_periods using (security)
    where status = 'contradicted' and ticker in (
      select touched.ticker from touched where touched.date between effective_date and effective_date + 365
    )
    order by 1, 2
  `)
})

/** Computes the market capitalizations for the rows of `screener`. Runs after `daily_prices` is filled. */
export const findMarketCaps = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table caps on commit drop as
      select * from find_market_caps(array(select distinct ticker from symbol_periods), '${today}')`,
    "create index on caps (ticker)",
    "analyze caps",
  ))

/** Stores the market capitalizations, also of other rows of the companies. Returns the symbols without one. */
export const storeMarketCaps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select store_market_caps(jsonb_agg(to_jsonb(cap))) from caps as cap`
  return yield* decodeDoubtfulSymbols(sql`
    select distinct ticker, reason from caps where reason is not null order by ticker, reason
  `)
})
