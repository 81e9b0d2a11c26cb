/**
 * Sums bars in PostgreSQL: one row per symbol, day and part of the day, in the table `price_periods` (decision 0127).
 * `docs/operations/ingest-prices.md` defines the columns.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import { type FileSpellings, respellColumn } from "../load/SymbolSpellings.ts"
import type { NumberedBar } from "./BarFile.ts"
import { listHalfDaysUntil } from "./MarketCalendar.ts"

/** Minutes after midnight in New York. */
const [open, earlyClose, close] = [570, 780, 960]

/** Returns SQL for the minute at which the exchanges close on a day, as far as it is known in advance. */
export const closeMinute = (day: string) =>
  `case when ${day} in (select half_day from half_days) then ${earlyClose} else ${close} end`

/** The last minute before the close. */
const lastRegularMinute = close - 1

/** Closing prints may arrive in the minutes after the close. */
const closingPrintMinutes = 5

/** Symbols whose bars must agree before they prove that the market closed early. */
const minEarlyCloseSymbols = 500

/** Symbols whose bars must agree before they make an early close possible, which is then reported. */
const minDoubtfulSymbols = 10

/**
 * Returns an SQL condition: the day has day bars, or its last minute bar is at the close or later. A day whose last bar
 * is at 13:00 closed early for a reason that nobody knew in advance, and the file has no bars after hours.
 */
export const isCompleteDay = (day: string) =>
  `(exists (select from price_periods as late where late.date = ${day} and late.period = 'day') or (
    select max(late.last_minute) >= ${lastRegularMinute}
      or max(late.last_minute) >= ${earlyClose - 1} and (
        max(late.last_minute) < ${earlyClose + closingPrintMinutes} or ${day} in (select half_day from half_days)
      )
    from price_periods as late where late.date = ${day}
  ))`

/** Least length of a halt, in minutes. The symbol must have traded in each of the five minutes before. */
const minHaltMinutes = 5

/** A spike ends at least this factor above its start. */
const minSpike = 1.1

/** Number of days for which a session can change the rows of later ones: as the usual volume, or the previous close. */
export const dependentDays = 60

/** Runs statements one after the other. */
export const runStatements = (...statements: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true }),
  )

/** Creates the temporary tables of a file. They disappear at the end of the transaction, also after a crash. */
export const createBarTable = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // A day of the whole market is sorted several times.
  yield* sql`set local work_mem = '128MB'`
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

const insertBars = `/* ingest prices */ insert into bars
  select * from unnest($1::int8[], $2::text[], $3::text[]::date[], $4::int2[], $5::text[]::numeric[],
    $6::text[]::numeric[], $7::text[]::numeric[], $8::text[]::numeric[], $9::text[]::numeric[], $10::text[]::numeric[],
    $11::text[]::int8[])`

const barParameters = (bars: ReadonlyArray<NumberedBar>, spell: FileSpellings["spell"]) => [
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

/** Stores bars, with their symbols spelled like those in the tables. */
export const storeBars = Effect.fnUntraced(
  function* (bars: ReadonlyArray<NumberedBar>, { learn, spell }: FileSpellings) {
    const sql = yield* SqlClient.SqlClient
    yield* learn(bars.map(({ ticker }) => ticker))
    yield* sql.unsafe(insertBars, barParameters(bars, spell))
  },
)

/** Keeps the spellings of the file's new symbols for other programs, and adopts those that they have kept meanwhile. */
export const keepSpellings = Effect.fnUntraced(function* ({ keep }: FileSpellings) {
  yield* respellColumn("bars", "ticker", yield* keep)
})

/**
 * The days of the file with minute bars. A day closed early if that was known in advance, or if the bars of many
 * symbols show it: the volume from 13:05 to 16:00 is less than a tenth of that before.
 */
const createBarDays = `
  create temp table bar_days on commit drop as
  select *, is_half_day or stops and symbols >= ${minEarlyCloseSymbols} as closed_early
  from (
    select day, day in (select half_day from half_days) as is_half_day, max(minute) as last_minute,
      count(distinct ticker) filter (where minute >= ${open} and minute < ${earlyClose}) as symbols,
      max(minute) >= ${lastRegularMinute}
        and coalesce(sum(volume) filter (where minute >= ${earlyClose + closingPrintMinutes} and minute < ${close}), 0)
          < 0.1 * sum(volume) filter (where minute >= ${open} and minute < ${earlyClose}) as stops
    from bars where minute is not null and volume > 0 group by day
  ) as days`

/** Of bars with the same symbol and start, the last one wins (D22, corrections). A bar without volume has no trades. */
const createTimedBars = `
  create temp table timed_bars on commit drop as
  with kept as (
    select * from (
      select distinct on (ticker, day, minute) * from bars order by ticker, day, minute, line desc
    ) as newest where volume > 0
  ),
  placed as (
    select kept.*,
      case
        when minute is null then 'day'
        when minute < ${open} then 'premarket'
        when minute < case when closed_early then ${earlyClose} else ${close} end then 'regular'
        else 'afterhours'
      end as period
    from kept left join bar_days using (day)
  )
  select *, max(high) over part as top, min(low) over part as bottom,
    lag(minute, ${minHaltMinutes - 1}) over minutes as earlier, lead(minute) over minutes as following
  from placed
  window part as (partition by ticker, day, period), minutes as (partition by ticker, day, period order by minute)`

/** Value traded in a bar, times three. Without a VWAP, the typical price (high + low + close) / 3 stands for it. */
const tripleValue = `volume * coalesce(3 * vwap, high + low + close)`

const createNewPeriods = `
  create temp table new_periods on commit drop as
  with sums as (
    select ticker, day as date, period,
      (array_agg(open order by minute))[1] as open, max(top) as high, max(bottom) as low,
      (array_agg(close order by minute desc))[1] as close, round(sum(volume))::bigint as volume,
      sum(trades)::bigint as trades,
      case when period <> 'day' then round(sum(${tripleValue}) / 3, 2) end::numeric(20, 2) as dollar_volume,
      case when period <> 'day' then round(sum(${tripleValue}) / (3 * sum(volume)), 4) end::numeric(18, 4) as vwap,
      min(minute) filter (where high = top) as high_minute, min(minute) filter (where low = bottom) as low_minute,
      min(minute) as first_minute, max(minute) as last_minute,
      case when period = 'regular' then coalesce(sum(following - minute - 1) filter (
        where following - minute > ${minHaltMinutes} and minute - earlier = ${minHaltMinutes - 1}
      ), 0) end::smallint as halt_minutes
    from timed_bars group by ticker, day, period
  ),
  rises as (
    -- The open of the bar with the high is the only one of its prices that is certainly not after the high.
    select bars.ticker, day as date, bars.period, min(price) as spike_price,
      (array_agg(minute order by price, minute desc))[1] as spike_minute
    from timed_bars as bars join sums on sums.ticker = bars.ticker and sums.date = bars.day
      and sums.period = bars.period and minute <= high_minute
    cross join lateral (select case when minute = high_minute then bars.open else bars.low end as price) as priced
    group by 1, 2, 3
  )
  select sums.*, case when high >= ${minSpike} * rises.spike_price then rises.spike_price end as spike_price,
    case when high >= ${minSpike} * rises.spike_price then rises.spike_minute end as spike_minute
  from sums left join rises using (ticker, date, period)`

/** Columns of `price_periods` that `new_periods` has, except the key. */
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
  "spike_minute",
  "spike_price",
  "halt_minutes",
]

const qualify = (alias: string) => valueColumns.map((name) => `${alias}.${name}`).join(", ")

/** Sums the bars of the file. Returns whether there are any with a volume. */
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

/** Removes the bars of whole days, if those are bars of minutes at midnight. Returns their number. */
export const removeMidnightBars = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`delete from bars where minute is null returning 1`).length
})

/** A day on which the bars of the file, and the early closes that were known in advance, do not agree. */
export interface DoubtfulDay {
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly is_half_day: boolean
  readonly closed_early: boolean
  /** Whether the bars of the day end at 13:00, or in the minutes after it. */
  readonly ends_early: boolean
}

/** Finds the days whose early close is doubtful. Bars of a few symbols prove nothing. */
export const findDoubtfulDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<DoubtfulDay>`
    select day::text as date, is_half_day, closed_early, ends_early
    from bar_days cross join lateral (
      select not is_half_day and last_minute between ${earlyClose - 1} and ${earlyClose + closingPrintMinutes - 1}
        as ends_early
    ) as early
    where ends_early or symbols >= ${minDoubtfulSymbols}
      and case when is_half_day then not stops and last_minute >= ${lastRegularMinute} else stops end
    order by day
  `
})

/** Whether the minutes of the bars seem to be their ends: none starts at 09:30, but one at 16:00. */
export const hasEndStamps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly has: boolean }>`
    select exists (select from bars where minute = ${close}) and not exists (select from bars where minute = ${open})
      as has
  `
  return found?.has === true
})

/** A day of a file and what was known of it before. Minutes are those after midnight in New York. */
export interface ShortenedDay {
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly first_minute: number
  readonly last_minute: number
  readonly known_first_minute: number
  readonly known_last_minute: number
}

/**
 * Finds days whose minute bars in the file begin later or end earlier than those that are known, over all symbols. A
 * single symbol proves nothing: it may be traded rarely, or its last bar may have been corrected.
 */
export const findShortenedDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<ShortenedDay>`
    select given.date::text, given.first_minute, given.last_minute, known_first_minute, known_last_minute
    from (
      select date, min(first_minute) as first_minute, max(last_minute) as last_minute
      from new_periods where period <> 'day' group by date
    ) as given cross join lateral (
      select min(first_minute) as known_first_minute, max(last_minute) as known_last_minute
      from price_periods as known where known.date = given.date and period <> 'day'
    ) as known
    where given.first_minute > known_first_minute or given.last_minute < known_last_minute order by given.date
  `
})

const completeDays = `select date from (select distinct date from new_periods) as given
  where ${isCompleteDay("given.date")}`

/**
 * Merges the sums into `price_periods`. The minute bars of a symbol's day replace all earlier ones of that day. Creates
 * the table `removed` with the parts of days that are no longer there, `changed` with the sessions that differ, and
 * `touched` with these and the other sessions of the file.
 */
export const mergePeriods = runStatements(
  `create temp table complete_before on commit drop as ${completeDays}`,
  `create temp table removed on commit drop as
    with deleted as (
      delete from price_periods as known
      using (select distinct ticker, date from new_periods where period <> 'day') as given
      where known.ticker = given.ticker and known.date = given.date and known.period <> 'day' and not exists (
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
  `insert into changed select distinct ticker, date from price_periods
    where date in (${completeDays} except select date from complete_before)`,
  `create temp table touched on commit drop as
    select ticker, date from new_periods union select ticker, date from changed`,
)

/** Days within which two records of a split are one, so that the session that shows its day may come after others. */
export const maxSplitDistance = 30

/**
 * Adds the sessions to `touched` whose rows depend on the changed ones: later ones of the security. If its splits are
 * recorded for several days, also earlier ones, because the bars decide which of these days is right.
 */
export const addDependentSessions = runStatements(
  "create unique index on touched (ticker, date)",
  `insert into touched
    select other.ticker, other.date
    from changed join symbol_periods as period on changed.ticker = period.ticker
        and changed.date >= period.starts and changed.date < period.ends
      cross join lateral (
        select changed.date - case when exists (
          select from splits where splits.security = period.security and status = 'repeated'
            and effective_date between changed.date - ${maxSplitDistance} and changed.date + ${maxSplitDistance}
        ) then ${maxSplitDistance} else 0 end as earliest
        offset 0 -- computed once per changed session
      ) as dependent
      join symbol_periods as former using (security)
      join price_periods as other on other.ticker = former.ticker
        and other.date >= greatest(former.starts, earliest)
        and other.date <= least(former.ends - 1, changed.date + ${dependentDays})
    on conflict do nothing`,
  "analyze touched",
)
