/**
 * Finds the securities whose sessions an ingest computes (D45, a security over time). A security may have used several
 * symbols, and a symbol may have been used by several companies: the table `symbol_periods` says on which days each
 * security used which symbol, and the table `splits` has the securities' splits. `47_securities.sql` has the rules.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { decodeDoubtfulSymbols } from "../load/MarketCaps.ts"
import { maxSplitDistance, runStatements } from "./PeriodSql.ts"

/**
 * Adds sessions whose prices were adjusted for a split of another company to `touched`.
 *
 * `split_status` may list a split under a symbol that the security got later, or has just given up, so it is taken for
 * the security's if nobody traded under that symbol around its day. If this file has the first bars that show another
 * company trading under the symbol then, the split was the other company's, and all sessions of the security are
 * computed again.
 */
export const addSessionsOfDisprovedSplits = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `insert into touched
      -- The splits with a changed session around their day, under the symbol for which they are listed.
      with listed as materialized (
        select distinct ticker, effective_date,
          effective_date - ${maxSplitDistance} as first, effective_date + ${maxSplitDistance} as last
        from changed join split_status using (ticker)
        where changed.date between effective_date - ${maxSplitDistance} and effective_date + ${maxSplitDistance}
      ),
      periods as materialized (
        select * from security_periods(array(select distinct ticker from listed), '${today}')
      )
      -- "own" is the period of the company that uses the symbol on the day of the split, and "chain" a period in which
      -- a security that is linked by ticker changes uses it. "used" are all periods of that security.
      select session.ticker, session.date
      from listed join periods as own using (ticker) join periods as chain using (ticker)
        join periods as used on used.security = chain.security
        join price_periods as session
          on session.ticker = used.ticker and session.date >= used.starts and session.date < used.ends
      where effective_date >= own.starts and effective_date < own.ends and not own.is_linked and chain.is_linked
        -- All bars that are known around the day are new.
        and (
          select bool_and((known.ticker, known.date) in (select ticker, date from changed))
          from price_periods as known
          where known.ticker = listed.ticker
            and known.date between greatest(first, own.starts) and least(last, own.ends - 1)
        )
      except select ticker, date from touched`,
  ))

/**
 * Creates the table `recomputed` and returns the number of symbols in it: those with sessions whose ticker changes or
 * splits have changed since the last ingest, or those of symbols that ticker changes connect with them. A change with a
 * later day is left for an ingest on or after that day. With `keep`, the next ingest finds the same changes again. Runs
 * before the sessions of the file are stored.
 */
export const findCorrectedSymbols = Effect.fnUntraced(function* ({ keep }: { readonly keep: boolean }) {
  const today = yield* todayInChicago
  const sql = yield* SqlClient.SqlClient
  // A change without a day is due at once: "is not false" holds for null, too.
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

/** Creates the tables `symbol_periods` and `splits` for the symbols in `touched` and those connected with them. */
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

/**
 * Returns an SQL condition on a row of a table with the alias `rows` and one of `symbol_periods` with the alias
 * `periods`: the row is about the period's security, which used the row's symbol on its day.
 */
export const isUsedOn = (rows: string, periods: string) =>
  `${rows}.ticker = ${periods}.ticker and ${rows}.date >= ${periods}.starts and ${rows}.date < ${periods}.ends`

/**
 * Finds the symbols with a split whose ratio is unknown or contradicted, if the ingest computes a session of the symbol
 * in the year after the split.
 */
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

/**
 * Creates the table `caps` with the market capitalizations for the rows of `screener` (D44). Runs after `daily_prices`
 * is filled, because it reads the closes there.
 */
export const findMarketCaps = Effect.flatMap(todayInChicago, (today) =>
  runStatements(
    `create temp table caps on commit drop as
      select * from find_market_caps(array(select distinct ticker from symbol_periods), '${today}')`,
    "create index on caps (ticker)",
    "analyze caps",
  ))

/** Stores the market capitalizations in `caps`. Returns the symbols whose capitalization is null, and why. */
export const storeMarketCaps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select store_market_caps(jsonb_agg(to_jsonb(cap))) from caps as cap`
  return yield* decodeDoubtfulSymbols(sql`
    select distinct ticker, reason from caps where reason is not null order by ticker, reason
  `)
})
