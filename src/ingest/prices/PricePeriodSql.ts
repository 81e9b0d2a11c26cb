/**
 * SQL that computes the totals of a file's bars and stores them in `price_periods`, which has one row per symbol, day
 * and part of the day. The parts are premarket, regular hours, after hours, and the day bar (decision 0127).
 * `docs/operations/ingest-prices.md` defines the columns. A session is one symbol on one day.
 *
 * The steps, with the temporary tables that each creates:
 * - `createBarTables`: `bars`, the bars of the file, and `half_days`, the days with a scheduled early close.
 * - `storeBars` fills `bars`.
 * - `sumBars`: `bar_days`, one row per day of the file; `timed_bars`, the bars with their part of the day; and
 *   `new_periods`, their totals.
 * - `mergePeriods` moves the totals to `price_periods`: `removed`, `changed`, and `touched`, the sessions whose rows
 *   must be computed.
 * - `addDependentSessions` adds to `touched` the sessions that depend on changed ones.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import { type FileSpellings, respellColumn } from "../load/SymbolSpellings.ts"
import type { NumberedBar } from "./BarFile.ts"
import { listHalfDaysUntil } from "../load/MarketCalendar.ts"

/** The market open, an early close and the regular close, in minutes after midnight in New York. */
const [open, earlyClose, close] = [570, 780, 960]

/** Returns SQL for the minute of the market close on a day, as far as it is known in advance. */
export const makeCloseMinuteSql = (day: string) =>
  `case when ${day} in (select half_day from half_days) then ${earlyClose} else ${close} end`

/** The number of minutes after the close during which closing prints may still arrive. */
const closingPrintMinutes = 5

/** The minimum number of symbols whose bars must show an early close for the market to be considered closed early. */
const minEarlyCloseSymbols = 500

/** The minimum number of symbols in which a pattern must occur to be reported. With fewer symbols, it may be chance. */
export const minReportedSymbols = 10

/** Returns the SQL condition that a bar that starts at this minute is the last one before the close, or a later one. */
const reachesClose = (minute: string, day: string) => `${minute} >= ${makeCloseMinuteSql(day)} - 1`

/**
 * Returns the SQL condition on a row of `price_periods` that its price is the close of its day: it is a day bar, or it
 * comes from a file whose bars reach the close. Otherwise, the session was still in progress, or the file has only a
 * part of it.
 */
export const makeCloseCondition = (row: string) =>
  `(${row}.period = 'day' or ${row}.period = 'regular' and ${reachesClose(`${row}.covered_until`, `${row}.date`)})`

/**
 * The minimum length of a halt in minutes. The symbol must also have traded in each of that many minutes before the
 * halt.
 */
const minHaltMinutes = 5

/** The minimum ratio between the prices at the end and at the start of a spike. */
const minSpike = 1.1

/**
 * The number of days after a session in which other sessions may depend on it, because it is part of their usual
 * volume. Previous closes have a shorter range.
 */
export const dependentDays = 60

/** Runs SQL statements that have no parameters, one after the other. */
export const runStatements = (...statements: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true }),
  )

/**
 * Creates the temporary tables `bars`, for the bars of a file, and `half_days`. All temporary tables of an ingest are
 * dropped at the end of its transaction, even after a crash.
 */
export const createBarTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // The roughly two million bars that the whole market has in a day are sorted several times.
  yield* sql`set local work_mem = '128MB'`
  // Keeps triggers from recording the changes that this ingest makes. They record changes by other programs for the
  // next ingest.
  yield* sql`set local tickerline.ingests_prices = 'on'`
  yield* sql`
    create temp table bars (
      line bigint, ticker text, day date, minute smallint, open numeric(18, 4), high numeric(18, 4),
      low numeric(18, 4), close numeric(18, 4), volume numeric, vwap numeric, trades bigint
    ) on commit drop
  `
  const year = Number((yield* tomorrowInNewYork).slice(0, 4))
  yield* sql`
    create temp table half_days on commit drop as
    select unnest(${listHalfDaysUntil(year)}::text[])::date as half_day
  `
})

/**
 * Inserts bars, with one array per column. Decimal numbers are sent as text, so that they are never converted to
 * floating-point numbers.
 */
const insertBars = `/* ingest prices */ insert into bars
  select * from unnest($1::int8[], $2::text[], $3::text[]::date[], $4::int2[], $5::text[]::numeric[],
    $6::text[]::numeric[], $7::text[]::numeric[], $8::text[]::numeric[], $9::text[]::numeric[], $10::text[]::numeric[],
    $11::text[]::int8[])`

/** Returns the parameters of `insertBars`, in the order of the columns of `bars`. */
const makeBarParameters = (bars: ReadonlyArray<NumberedBar>, spell: FileSpellings["spell"]) => [
  makeArrayParameter(bars.map(({ line }) => BigInt(line)), OID.int8),
  makeArrayParameter(bars.map(({ ticker }) => spell(ticker)), OID.text),
  makeArrayParameter(bars.map(({ day }) => day), OID.text),
  makeArrayParameter(bars.map(({ minute }) => minute), OID.int2),
  makeArrayParameter(bars.map(({ open }) => open), OID.text),
  makeArrayParameter(bars.map(({ high }) => high), OID.text),
  makeArrayParameter(bars.map(({ low }) => low), OID.text),
  makeArrayParameter(bars.map(({ close }) => close), OID.text),
  makeArrayParameter(bars.map(({ volume }) => volume), OID.text),
  makeArrayParameter(bars.map(({ vwap }) => vwap), OID.text),
  makeArrayParameter(bars.map(({ trades }) => trades), OID.text),
]

/** Stores bars in the table `bars`, with their symbols spelled as in the other tables. */
export const storeBars = Effect.fnUntraced(
  function* (bars: ReadonlyArray<NumberedBar>, { learn, spell }: FileSpellings) {
    const sql = yield* SqlClient.SqlClient
    yield* learn(bars.map(({ ticker }) => ticker))
    yield* sql.unsafe(insertBars, makeBarParameters(bars, spell))
  },
)

/**
 * Stores the spellings of the file's new symbols, so that other programs use them. If another program has stored a
 * different spelling in the meantime, changes the bars to that spelling.
 */
export const storeBarSpellings = Effect.fnUntraced(function* ({ keep }: FileSpellings) {
  yield* respellColumn("bars", "ticker", yield* keep)
})

/**
 * SQL conditions on a row of `price_periods` that was stored by an earlier ingest: the row shows that this ingest took
 * the close of its day at 13:00, because bars before 16:00 count as after hours, or at 16:00, because bars after 13:05
 * count as regular hours. Most rows show neither. If no early close is known, closing prints after 13:00 belong to
 * regular hours.
 */
const showsEarlyClose = `(period = 'afterhours' and first_minute < ${close})`
const showsUsualClose = `(period = 'regular' and last_minute >= ${earlyClose + closingPrintMinutes})`

/**
 * Creates the table `bar_days`, which contains the days of the file that have minute bars. `symbols` is the number of
 * symbols traded before 13:00. `stops` is true if trading seems to have stopped at 13:00: the file continues until
 * 16:00, but the volume from 13:05 on is less than a tenth of the volume before 13:00.
 *
 * The columns that begin with `known` describe bars of the same day that were ingested before. Their close was taken at
 * 13:00 (`known_early`) or at 16:00 (`known_late`). Both may be true if a later file corrected the close of an earlier
 * file. In that case, the time that most symbols show is used: `ended_early` and `ended_late` count the symbols.
 *
 * `closed_early` is the result, whether the close is taken at 13:00. This is the case if an early close was scheduled,
 * or if trading stops and there are enough symbols. With fewer symbols, the bars that were ingested before determine
 * the close.
 */
const createBarDays = `
  create temp table bar_days on commit drop as
  select *,
    case
      when is_half_day then true
      when symbols >= ${minEarlyCloseSymbols} then stops
      else known_early and ended_early > ended_late
    end as closed_early
  from (
    select day, day in (select half_day from half_days) as is_half_day, max(minute) as last_minute,
      count(distinct ticker) filter (where minute >= ${open} and minute < ${earlyClose}) as symbols,
      max(minute) >= ${close - 1}
        and coalesce(sum(volume) filter (where minute >= ${earlyClose + closingPrintMinutes} and minute < ${close}), 0)
          < 0.1 * sum(volume) filter (where minute >= ${open} and minute < ${earlyClose}) as stops
    from bars where minute is not null and volume > 0 group by day
  ) as days cross join lateral (
    select min(first_minute) as known_first_minute, max(last_minute) as known_last_minute,
      coalesce(bool_or(${showsEarlyClose}), false) as known_early,
      coalesce(bool_or(${showsUsualClose}), false) as known_late,
      count(*) filter (where period = 'regular' and not ${showsUsualClose}) as ended_early,
      count(*) filter (where ${showsUsualClose}) as ended_late
    from price_periods as known where known.date = day and period <> 'day'
  ) as known`

/**
 * Creates the table `timed_bars`, which contains the bars that count, each with its part of the day (`period`). Of
 * several bars with the same symbol and start, the last one in the file counts (D22, corrections). If it has no volume,
 * none of them counts.
 *
 * `top` and `bottom` are the high and low of the part of the day. `earlier` is the minute of the fourth bar before this
 * one. It is four minutes earlier unless bars in between are missing. `following` is the minute of the next bar.
 */
const createTimedBars = `
  create temp table timed_bars on commit drop as
  with counted as (
    select * from (
      select distinct on (ticker, day, minute) * from bars order by ticker, day, minute, line desc
    ) as newest where volume > 0
  ),
  with_period as (
    select counted.*,
      case
        when minute is null then 'day'
        when minute < ${open} then 'premarket'
        when minute < case when closed_early then ${earlyClose} else ${close} end then 'regular'
        else 'afterhours'
      end as period
    from counted left join bar_days using (day)
  )
  select *, max(high) over whole_period as top, min(low) over whole_period as bottom,
    lag(minute, ${minHaltMinutes - 1}) over by_minute as earlier, lead(minute) over by_minute as following
  from with_period
  window whole_period as (partition by ticker, day, period),
    by_minute as (partition by ticker, day, period order by minute)`

/**
 * SQL for three times the value traded in a bar, in USD: its volume times its VWAP. If there is no VWAP, the typical
 * price (high + low + close) / 3 is used instead. Dividing by three here would require rounding for each bar, so the
 * sum over all bars is divided instead.
 */
const tripleValue = `volume * coalesce(3 * vwap, high + low + close)`

/**
 * Creates the table `new_periods`, which contains the totals of `timed_bars` by symbol, day and part of the day, and
 * has the columns of `price_periods`. For day bars, the minute columns and the values that require minutes are null.
 *
 * `spike_price` and `spike_minute` are the start of the rise to the part's high. They are null if the rise is too small
 * to be a spike.
 */
const createNewPeriods = `
  create temp table new_periods on commit drop as
  with sums as (
    select ticker, day as date, period,
      -- The first elements of the sorted arrays are the open of the first bar and the close of the last bar.
      (array_agg(open order by minute))[1] as open, max(top) as high, max(bottom) as low,
      (array_agg(close order by minute desc))[1] as close, round(sum(volume))::bigint as volume,
      sum(trades)::bigint as trades,
      case when period <> 'day' then round(sum(${tripleValue}) / 3, 2) end::numeric(20, 2) as dollar_volume,
      case when period <> 'day' then round(sum(${tripleValue}) / (3 * sum(volume)), 4) end::numeric(18, 4) as vwap,
      min(minute) filter (where high = top) as high_minute, min(minute) filter (where low = bottom) as low_minute,
      min(minute) as first_minute, max(minute) as last_minute,
      -- The minutes without a bar between a bar and the following one are a halt if there are at least
      -- ${minHaltMinutes} of them, and if the last ${minHaltMinutes} minutes before them all have a bar.
      case when period = 'regular' then coalesce(sum(following - minute - 1) filter (
        where following - minute > ${minHaltMinutes} and minute - earlier = ${minHaltMinutes - 1}
      ), 0) end::smallint as halt_minutes
    from timed_bars group by ticker, day, period
  ),
  -- The lowest price before the high, and the last minute with that price. In the bar with the high, only the open
  -- counts, because it is the only price that certainly does not follow the high.
  rises as (
    select bars.ticker, day as date, bars.period, min(price) as spike_price,
      (array_agg(minute order by price, minute desc))[1] as spike_minute
    from timed_bars as bars join sums on sums.ticker = bars.ticker and sums.date = bars.day
      and sums.period = bars.period and minute <= high_minute
    cross join lateral (select case when minute = high_minute then bars.open else bars.low end as price) as priced
    group by 1, 2, 3
  )
  select sums.*, case when period <> 'day' then bar_days.last_minute end as covered_until,
    case when high >= ${minSpike} * rises.spike_price then rises.spike_price end as spike_price,
    case when high >= ${minSpike} * rises.spike_price then rises.spike_minute end as spike_minute
  from sums left join rises using (ticker, date, period) left join bar_days on day = date`

/** The non-key columns that `price_periods` and `new_periods` have in common. */
const valueColumns = [
  "open",
  "high",
  "low",
  "close",
  "volume",
  "trades",
  "dollar_volume",
  "vwap",
  "high_minute",
  "low_minute",
  "first_minute",
  "last_minute",
  "covered_until",
  "spike_minute",
  "spike_price",
  "halt_minutes",
]

const qualify = (alias: string) => valueColumns.map((name) => `${alias}.${name}`).join(", ")

/**
 * Computes the totals of the bars in `bars` (`bar_days`, `timed_bars`, `new_periods`). Returns whether there are any
 * totals, which means that at least one bar counts.
 */
export const sumBars = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* runStatements(
    "analyze bars",
    createBarDays,
    createTimedBars,
    "analyze timed_bars",
    createNewPeriods,
    "create index on new_periods (ticker, date, period)",
    "analyze new_periods",
  )
  return (yield* sql`select from new_periods limit 1`).length > 0
})

/**
 * Deletes the bars at midnight, and returns how many there were. They were read as day bars. This is called if other
 * bars of the file show that they are minute bars, which are outside of the sessions.
 */
export const removeMidnightBars = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`delete from bars where minute is null returning 1`).length
})

/** A day on which the file's bars contradict the early closes known in advance. */
export interface ContradictedDay {
  /** The date as `YYYY-MM-DD`. */
  readonly date: string
  /** Whether an early close was scheduled. */
  readonly is_half_day: boolean
  /** Whether the ingest uses 13:00 as the close. */
  readonly closed_early: boolean
  /** Whether 13:00 is used because of bars that were ingested before. */
  readonly is_known: boolean
}

/**
 * Finds the days on which the bars contradict the calendar, so that the close that the ingest uses may be wrong. The
 * query returns a day in two cases:
 * - The close is taken at 13:00 because of previously ingested bars, without a scheduled early close (`is_known`).
 * - The bars, of enough symbols to exclude chance, show that trading nearly stopped at 13:00 without a scheduled early
 *   close, or that it continued until 16:00 in spite of one.
 */
export const findContradictedDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.unsafe<ContradictedDay>(`
    select day::text as date, is_half_day, closed_early, is_known
    from bar_days cross join lateral (
      select closed_early and not is_half_day and symbols < ${minEarlyCloseSymbols} as is_known
    ) as early
    where is_known or symbols >= ${minReportedSymbols}
      and case when is_half_day then not stops and last_minute >= ${close - 1} else stops end
    order by day
  `)
})

/** A day whose bars in the file end before the close. */
export interface UnfinishedDay {
  /** The date as `YYYY-MM-DD`. */
  readonly date: string
  /** The start of the last bar, in minutes after midnight in New York. */
  readonly last_minute: number
}

/** Finds the days whose minute bars in the file end before the close. Symbols without a day bar get no close then. */
export const findUnfinishedDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.unsafe<UnfinishedDay>(`
    select day::text as date, last_minute from bar_days
    where not ${reachesClose("last_minute", "day")} and exists (
      select from new_periods as part where part.date = day and not exists (
        select from price_periods as known
        where known.ticker = part.ticker and known.date = part.date and known.period = 'day'
      )
    )
    order by day
  `)
})

/**
 * Symbols that are not in the file, and whose bars of a day end before the close, or whose close was taken at a
 * different time than for the file's symbols.
 */
export interface ConflictingCloses {
  /** The date as `YYYY-MM-DD`. */
  readonly date: string
  /** Whether 13:00 is used as the close for the file's symbols. */
  readonly closed_early: boolean
  /** Whether the symbols have no close, because their bars end before it. */
  readonly is_unfinished: boolean
  readonly symbols: ReadonlyArray<string>
}

/**
 * Finds symbols that are not in the file and whose close on one of the file's days was taken at a different time, or
 * that have no close. Example: 13:00 was the close of a day in an earlier file of a few symbols, and a file of the
 * whole market now shows 16:00. Or an earlier file was of a session in progress, and this file has the whole day. Such
 * a close can be corrected only with the symbol's bars. Must run before the file is merged.
 */
export const findConflictingCloses = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.unsafe<ConflictingCloses>(`
    -- "closed_early" is true if the file's symbols use the close of 13:00 on the day. "others" are the symbols whose
    -- stored bars use the other time, or end before the close. The last condition repeats the condition on "others"
    -- with columns of bar_days, to exclude most days before the bars of "others" are read.
    select day::text as date, closed_early, others.is_unfinished, others.symbols
    from bar_days cross join lateral (
      -- The symbols are cast to text, because the driver does not know the type of an array of symbols.
      select is_unfinished, array_agg(distinct ticker::text order by ticker::text) as symbols
      from price_periods as known cross join lateral (
        select period = 'regular' and not ${reachesClose("known.covered_until", "day")} as is_unfinished
      ) as covered
      where known.date = day
        and (is_unfinished or case when closed_early then ${showsUsualClose} else ${showsEarlyClose} end)
        and not exists (
          select from new_periods as in_file
          where in_file.ticker = known.ticker and in_file.date = known.date
        )
      group by is_unfinished
    ) as others
    where case when closed_early then known_late else known_early end
      or ${reachesClose("bar_days.last_minute", "day")} and not ${reachesClose("known_last_minute", "day")}
    order by day, is_unfinished
  `)
})

/**
 * Returns whether bars seem to be labeled with their end times. In that case, the first bar of trading is at 09:31, the
 * bar at 09:30 is the last one before the open, and the last regular bar is at 16:00. The check requires at least
 * `minSymbols` symbols with a bar at 09:31, because with fewer symbols this may only be a sign of rare trading.
 */
export const hasEndTimestamps = Effect.fnUntraced(function* (minSymbols: number) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql.unsafe<{ readonly has: boolean }>(`
    select coalesce(sum(volume) filter (where minute = ${open}), 0)
        <= 0.1 * coalesce(sum(volume) filter (where minute = ${open + 1}), 0)
      and count(distinct ticker) filter (where minute = ${open + 1}) >= ${minSymbols}
      and exists (select from bars where minute = ${close}) as has
    from bars where minute in (${open}, ${open + 1})
  `)
  return found?.has === true
})

/** The minimum number of different start times in a day to conclude from them how long the bars are. */
const minStartTimes = 6

/**
 * Returns the number of minutes, such as 60, of which the start times of all minute bars are multiples, if this shows
 * that the bars are longer than a minute. Returns undefined otherwise, or if there are too few bars to tell.
 */
export const findBarLength = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql.unsafe<{ readonly minutes: number | null }>(`
    select max(length) as minutes from unnest(array[5, 10, 15, 30, 60]) as length
    -- "case" determines the order. In most files, one of the first bars decides.
    where case when exists (select from bars where minute % length <> 0 and volume > 0) then false
      else exists (
        select from bars where minute is not null and volume > 0
        group by day having count(distinct minute) >= ${minStartTimes}
      ) end
  `)
  return found?.minutes ?? undefined
})

/**
 * A day for which the file's bars cover less time than the previously ingested bars (`known`). The minutes are the
 * start of the first and the last bar, counted from midnight in New York.
 */
export interface ShortenedDay {
  /** The date as `YYYY-MM-DD`. */
  readonly date: string
  readonly first_minute: number
  readonly last_minute: number
  readonly known_first_minute: number
  readonly known_last_minute: number
}

/**
 * Finds the days for which the file's minute bars begin later or end earlier than the previously ingested bars. The
 * bars of all symbols are compared together, because a single symbol may trade rarely, or its last bar may have been
 * corrected.
 */
export const findShortenedDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<ShortenedDay>`
    select in_file.date::text, in_file.first_minute, in_file.last_minute, known_first_minute, known_last_minute
    from (
      select date, min(first_minute) as first_minute, max(last_minute) as last_minute
      from new_periods where period <> 'day' group by date
    ) as in_file join bar_days on day = in_file.date
    where in_file.first_minute > known_first_minute or in_file.last_minute < known_last_minute
    order by in_file.date
  `
})

/** The number of days that `high_365` and `low_365` cover. */
export const yearDays = 365

/**
 * The maximum number of days between two bars of a security, or between the start of the year and its first bar, for
 * its high and low of the year to count as known. A longer hole may be one of files that were not ingested.
 */
export const maxDaysWithoutBar = 10

/**
 * Merges `new_periods` into `price_periods`. The totals of a session's minute bars replace all earlier totals of its
 * minute bars. Example: if the file has only regular hours of a session, its premarket totals are removed.
 *
 * Creates these tables. A session is one symbol on one day.
 * - `removed`: the parts of a session that had minute bars before but have none in the file.
 * - `changed`: the sessions whose totals have changed.
 * - `priced`: all sessions in `changed`, and all other sessions in the file. Their closes are stored.
 * - `touched`: the sessions to compute. At first, they are those in `priced`; later steps add the ones that depend on
 *   them.
 */
export const mergePeriods = runStatements(
  `create temp table removed on commit drop as
    with deleted as (
      delete from price_periods as known
      using (select distinct ticker, date from new_periods where period <> 'day') as in_file
      where known.ticker = in_file.ticker and known.date = in_file.date and known.period <> 'day' and not exists (
        select from new_periods as same
        where same.ticker = known.ticker and same.date = known.date and same.period = known.period
      ) returning known.ticker, known.date, known.period, known.close
    )
    select * from deleted`,
  `create temp table changed on commit drop as
    with merged as (
      insert into price_periods as known (ticker, date, period, ${valueColumns.join(", ")})
      select ticker, date, period, ${valueColumns.join(", ")} from new_periods
      on conflict (ticker, date, period) do update
      set ${valueColumns.map((name) => `${name} = excluded.${name}`).join(", ")}
      where (${qualify("known")}) is distinct from (${qualify("excluded")})
      returning ticker, date
    )
    select ticker, date from removed union select ticker, date from merged`,
  "analyze price_periods",
  `create temp table priced on commit drop as
    select ticker, date from new_periods union select ticker, date from changed`,
  "create temp table touched on commit drop as select ticker, date from priced",
)

/** The maximum distance in days between two records of the same split. Bars show which of the days is right. */
export const maxSplitDistance = 30

/**
 * The maximum number of days by which a split is postponed or brought forward. Bars on its new day show that the record
 * for the old day is about the same split (`security_splits`).
 */
const maxPostponement = 180

/**
 * Adds sessions to `touched` whose rows depend on the sessions in `changed`, or on closes that other programs have
 * changed (`stale`): the sessions of the same security, under any of its symbols, in the following days. If a split is
 * recorded around a changed session, the sessions around the split are added too, because the changed bars may show
 * that the split took place on another day. So are the sessions around other records that may be about the same split.
 * `symbol_periods` contains the securities' symbols, and `splits` their splits.
 */
export const addDependentSessions = runStatements(
  "create unique index on touched (ticker, date)",
  `insert into touched
    select other.ticker, other.date
    from (
      -- Rows of "stale" without days are about share counts, on which no session depends.
      select ticker, date as first, date as last from changed
      union all select ticker, first, last from stale where first is not null
    ) as source
      join symbol_periods as period on source.ticker = period.ticker
        and source.last >= period.starts and source.first < period.ends
      cross join lateral (
        select coalesce(max(abs(other.effective_date - shown.effective_date)) + ${maxSplitDistance}, 0) as margin
        from splits as shown join splits as other on other.security = shown.security
          and abs(other.effective_date - shown.effective_date) <= ${maxPostponement}
        where shown.security = period.security
          and shown.effective_date between source.first - ${maxSplitDistance} and source.last + ${maxSplitDistance}
        offset 0 -- Without it, PostgreSQL would look up the splits for each session that is joined below.
      ) as around
      join symbol_periods as any_period using (security)
      join price_periods as other on other.ticker = any_period.ticker
        and other.date >= greatest(any_period.starts, source.first - margin)
        and other.date <= least(any_period.ends - 1, source.last + ${dependentDays} + margin)
    on conflict do nothing`,
  "analyze touched",
)
