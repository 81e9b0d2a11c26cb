/**
 * SQL that computes the rows of each price dataset from `price_periods`, for the sessions (one symbol on one day) in
 * the table `touched`. `docs/operations/ingest-prices.md` defines each column.
 *
 * `PricePeriodSql.ts` and `SecurityPeriods.ts` have created the tables that the statements read: `touched`, `removed`,
 * `recomputed` and `stale`, `symbol_periods` (which security used which symbol when) and `splits`.
 *
 * Most statements compare a session with earlier sessions of the same security, which may have traded under other
 * symbols. They find the security's sessions by joining all of its rows in `symbol_periods`, including the current one,
 * under the alias `any_period`.
 */
import { Effect, Record } from "effect"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import type { ComputedRows } from "../load/DatasetLoad.ts"
import {
  dependentDays,
  makeCloseCondition,
  makeCloseMinuteSql,
  maxDaysWithoutBar,
  runStatements,
  yearDays,
} from "./PricePeriodSql.ts"
import { getPreviousMarketDay } from "../load/MarketCalendar.ts"
import { makePeriodCondition } from "./SecurityPeriods.ts"

/** The minimum gap, up or down, for a session to be included in `gap_stats`, in percent. */
const minGap = 3

/** A runner's volume must be more than this many times its usual volume (§2.4, intraday runners). */
const minRunnerRatio = 9

/** A runner's volume must be more than this many standard deviations above the mean (§2.4, intraday runners). */
const minDeviations = 3

/** The minimum number of earlier sessions from which a usual volume, the mean of their volumes, is computed. */
const minUsualSessions = 10

/** The maximum age of a previous close, in days. An older close may belong to another company with the same symbol. */
const maxCloseAge = 30

/**
 * Returns SQL for the factor that converts a price on the day `from` to a price per share on the day `to`. For example,
 * it is 0.1 after a 10-for-1 split. Splits on the day `to` are included. Splits on the day `from` are not, because that
 * day's prices are already prices after them. Null if the ratio of a split between the two days is contradicted.
 */
const splitFactor = (security: string, from: string, to: string) =>
  `(
    select case when bool_or(status = 'contradicted') then null
      else coalesce(product(split_from) / product(split_to), 1) end
    from splits where splits.security = ${security} and status <> 'repeated'
      and effective_date > ${from} and effective_date <= ${to}
  )`

/**
 * SQL for the bounds of prices. The subqueries do not depend on the row, so PostgreSQL evaluates them once per
 * statement.
 */
const [minPrice, maxPrice] = ["least", "greatest"].map((bound) =>
  `(select ${bound}::numeric from domain_bounds where domain = 'price'::regtype)`
)

/**
 * Returns SQL for a price on the day `from`, adjusted for splits up to the day `to`. Null if the ratio of a split is
 * contradicted, or if the result is outside the bounds for prices (D42, plausible values).
 */
const adjustPrice = (price: string, security: string, from: string, to: string) =>
  `(
    -- Without "offset 0", PostgreSQL would merge the two selects and look up the splits three times for each price.
    select adjusted from (select round(${price} * ${splitFactor(security, from, to)}, 4) as adjusted offset 0) as one
    where adjusted between ${minPrice} and ${maxPrice}
  )`

/** SQL condition on a row of `price_periods as known`: the row contains the close of its day. */
const hasClose = makeCloseCondition("known")

/**
 * SQL aggregate that computes a day's volume from the parts of the day. It is the total of the minute bars or, if there
 * are none in regular hours, the volume of the day bar.
 */
const sessionVolume = `case when bool_or(period = 'day') and not bool_or(period = 'regular')
    then max(volume) filter (where period = 'day') else sum(volume) filter (where period <> 'day') end`

/**
 * Returns an SQL subquery for the last close of a security on or before a day, with the columns `date` and `close`. It
 * returns no row if there is no close on that day or in the 29 days before it.
 */
const lastClose = (security: string, day: string) => {
  const isKnown = `${makePeriodCondition("known", "any_period")} and date <= ${day} and date > ${day} - ${maxCloseAge}`
  return `(
    select newest.date, found.close from (
      select any_period.ticker, greatest(
        (select date from daily_prices as known where ${isKnown} order by date desc limit 1),
        (select date from price_periods as known where ${isKnown} and ${hasClose} order by date desc limit 1)
      )::date as date
      from symbol_periods as any_period where any_period.security = ${security} order by 2 desc nulls last limit 1
    ) as newest cross join lateral find_close(newest.ticker, newest.date) as found
    where newest.date is not null
  )`
}

/**
 * Creates the table `volumes`, with the volumes of each session and totals over the security's sessions of the
 * preceding 60 days. `volume` is the session's volume as traded.
 *
 * `comparable` is the same volume, and `premarket` and `afterhours` are parts of it, in shares before all splits, so
 * that volumes of different days can be added and compared. For example, 1,000 shares traded after a 10-for-1 split are
 * 100 comparable shares. Dividing by `factor` (0.1) converts them to shares on the day of the session.
 *
 * The other columns are about the preceding sessions. `sessions` is their number, `total` the sum of their comparable
 * volumes, and `squares` the sum of the squares. `minute_sessions`, `premarket_total` and `afterhours_total` count only
 * sessions with minute bars, because day bars do not show these parts. `are_comparable` is true if there is no split
 * with a contradicted ratio between the session and the preceding ones.
 */
const createVolumes = `
  create temp table volumes on commit drop as
  with used_periods as materialized (
    select * from symbol_periods
    where security in (select security from symbol_periods where ticker in (select ticker from touched))
  ),
  traded as (
    select security, parts.ticker, parts.date, ${sessionVolume} as volume,
      bool_or(period <> 'day') as has_minutes,
      coalesce(sum(volume) filter (where period = 'premarket'), 0) as premarket,
      coalesce(sum(volume) filter (where period = 'afterhours'), 0) as afterhours
    from used_periods join price_periods as parts on ${makePeriodCondition("parts", "used_periods")}
    where parts.date between (select min(date) from touched) - ${dependentDays} and (select max(date) from touched)
    group by security, parts.ticker, parts.date
  ),
  -- The factor covers all splits up to the day. "contradicted" is the number of contradicted splits among them.
  comparable as (
    select traded.*, adjusted.* from traded cross join lateral (
      select coalesce(product(split_from) filter (where status = 'applied')
          / product(split_to) filter (where status = 'applied'), 1) as factor,
        count(*) filter (where status = 'contradicted') as contradicted
      from splits where splits.security = traded.security and effective_date <= traded.date
    ) as adjusted
  )
  select security, ticker, date, volume, volume * factor as comparable,
    premarket * factor as premarket, afterhours * factor as afterhours, factor,
    count(*) over before as sessions, sum(volume * factor) over before as total,
    sum((volume * factor) ^ 2) over before as squares,
    count(*) filter (where has_minutes) over before as minute_sessions,
    sum(premarket * factor) filter (where has_minutes) over before as premarket_total,
    sum(afterhours * factor) filter (where has_minutes) over before as afterhours_total,
    -- The number of contradicted splits never decreases from day to day. If it was the same on the earliest of the
    -- preceding sessions, there is no such split in between.
    min(contradicted) over before = contradicted as are_comparable
  from comparable
  window before as (
    partition by security order by date
    range between interval '${dependentDays} days' preceding and interval '1 day' preceding
  )`

/**
 * Creates the table `sessions`. For each session in `touched`, it contains the security that used the symbol on that
 * day (`security`), the security's first day (`began`), the minute of the session's last minute bar (`last_minute`),
 * and the previous close, adjusted for later splits (`previous`; null if it is unknown or cannot be adjusted).
 *
 * `is_decided` says what happens to a row that a dataset already has for the session if this ingest does not compute
 * one, for example because there was no gap. If no close is known from the preceding days, the row is normally kept,
 * because its source may have known a close. If `is_decided` is true, the row is removed. This is the case if
 * - a close is known, even if it cannot be adjusted,
 * - the security is so new that an older close would belong to another company, or
 * - ticker changes, splits or closes were corrected, so that an earlier ingest may have used a wrong close.
 */
const createSessions = `
  create temp table sessions on commit drop as
  select touched.ticker, touched.date, period.security, nullif(adjusted.close, 0) as previous, began,
    before.close is not null or began > touched.date - ${maxCloseAge}
      or touched.ticker in (select ticker from recomputed)
      or exists (
        select from symbol_periods as any_period join stale using (ticker)
        where any_period.security = period.security
          and last >= greatest(starts, touched.date - ${maxCloseAge}) and first < least(ends, touched.date)
      ) as is_decided,
    (select max(last_minute) from price_periods as parts
      where parts.ticker = touched.ticker and parts.date = touched.date) as last_minute
  from touched join symbol_periods as period on ${makePeriodCondition("touched", "period")}
  cross join lateral (
    select min(starts) as began from symbol_periods as any_period where any_period.security = period.security
  ) as first_period
  left join lateral ${lastClose("period.security", "(touched.date - 1)")} as before on true
  left join lateral (
    select ${adjustPrice("before.close", "period.security", "before.date", "touched.date")} as close
  ) as adjusted on true`

/**
 * Stores in `price_periods` the minute in which the price first returned to the previous close and so filled the gap
 * (`fill_minute`, null if it did not). The minute can only be determined from the file's minute bars, which are not
 * stored. `fill_close` is the close to which the minute refers: if that close is corrected later, the minute is no
 * longer used.
 */
const storeGapFills = `
  update price_periods as stored set fill_close = found.previous, fill_minute = found.minute
  from (
    select bars.ticker, bars.day, previous, min(minute) filter (
      where case when regular.open > previous then bars.low <= previous else bars.high >= previous end
    ) as minute
    from timed_bars as bars
    join new_periods as regular on regular.ticker = bars.ticker and regular.date = bars.day
      and regular.period = 'regular'
    join sessions on sessions.ticker = bars.ticker and sessions.date = bars.day
    where bars.period = 'regular' and previous is not null
    group by bars.ticker, bars.day, previous
  ) as found
  where stored.ticker = found.ticker and stored.date = found.day and stored.period = 'regular'
    and (fill_close, fill_minute) is distinct from (found.previous, found.minute)`

/**
 * Finds the days without any prices that are the last trading day before a day of the file, if there are prices of days
 * before them. A file was probably left out, so that the previous closes are those of an earlier day. Returns the days
 * as `YYYY-MM-DD`. Must run after the file has been merged.
 */
export const findMissingDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const days = yield* sql<{ readonly day: string }>`select distinct date::text as day from new_periods order by 1`
  const pairs = days.flatMap(({ day }) => {
    const previous = getPreviousMarketDay(day)
    return previous === undefined ? [] : [{ day, previous }]
  })
  const rows = yield* sql.unsafe<{ readonly date: string }>(
    `select previous::text as date
    from unnest($1::text[]::date[], $2::text[]::date[]) with ordinality as pair (day, previous, place)
    where not exists (select from price_periods where date = previous)
      and not exists (select from daily_prices where date = previous)
      and (exists (select from price_periods where date >= day - ${maxCloseAge} and date < previous)
        or exists (select from daily_prices where date >= day - ${maxCloseAge} and date < previous))
    order by place`,
    [
      makeArrayParameter(pairs.map(({ day }) => day), OID.text),
      makeArrayParameter(pairs.map(({ previous }) => previous), OID.text),
    ],
  )
  return rows.map(({ date }) => date)
})

/** Creates the table `volumes`, from which most datasets are computed. */
export const computeVolumes = runStatements(
  createVolumes,
  "create index on volumes (ticker, date)",
  "analyze volumes",
)

/**
 * Creates the table `sessions` with the previous closes, and stores when gaps were filled. Must run after
 * `daily_prices` has been filled, because it reads the closes there.
 */
export const findPreviousCloses = runStatements(
  createSessions,
  "create index on sessions (ticker, date)",
  "analyze sessions",
  storeGapFills,
)

/** Returns SQL for the change from `base` to `value`, in percent. */
const toPercent = (value: string, base: string) => `round((${value} - ${base}) * 100 / ${base}, 4)`

/** Returns SQL that converts minutes after midnight to a local time in New York on the session's day. */
const toTime = (minute: string) => `sessions.date + ${minute} * interval '1 minute'`

/** Returns SQL that converts a local time in New York to an instant. */
const toInstant = (time: string) => `(${time}) at time zone 'America/New_York'`

/** Returns SQL that converts an instant to a local time at -05:00, which some columns store (D15, time zones). */
const toFixedOffset = (instant: string) => `(${instant}) at time zone interval '-05:00'`

/** SQL for the instant at which the session's last bar ends. A day bar ends at the close. */
const sessionEnd = toInstant(toTime(`coalesce(sessions.last_minute + 1, ${makeCloseMinuteSql("sessions.date")})`))

/** Returns an SQL join with the row of `price_periods` for one period of the day, such as premarket. */
const joinPeriod = (period: string, alias: string) =>
  `join price_periods as ${alias} on ${alias}.ticker = sessions.ticker and ${alias}.date = sessions.date
    and ${alias}.period = '${period}'`

/**
 * Returns an SQL condition on `existing`, a row of the dataset: this ingest computes the row's session, and the session
 * satisfies `condition`, which may use columns of `sessions` and `volumes`. Such a row is removed unless it was
 * computed again. For example, the session may no longer have a gap.
 */
const isSessionWith = (condition: string) =>
  `exists (
    select from sessions join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date
    where sessions.ticker = existing.ticker and sessions.date = existing.date and ${condition}
  )`

/** SQL condition on a row of `sessions`: the session has minute bars. */
const hasMinutes = "last_minute is not null"

/**
 * Returns the SQL condition that the usual volume is known, which is the mean over the preceding sessions. The
 * arguments are columns of `volumes`: the number of these sessions, and the total of their volumes. There must be
 * enough sessions and no contradicted split between them, and the mean must be at least one share. In shares on the day
 * of the session, the mean is `total / sessionCount / factor`.
 */
const isUsualKnown = (sessionCount: string, total: string) =>
  `${sessionCount} >= ${minUsualSessions} and are_comparable and ${total} >= ${sessionCount} * volumes.factor`

const hasUsualVolume = isUsualKnown("volumes.sessions", "total")

/** SQL for the columns that describe the spike and the halts in `part`, a row of `price_periods`. */
const spikeColumns = (part: string) => ({
  spike_start_time: toTime(`${part}.spike_minute`),
  spike_start_price: `${part}.spike_price`,
  spike_duration_minutes: `${part}.high_minute - ${part}.spike_minute`,
  est_halt_minutes: `${part}.halt_minutes`,
})

/** Returns SQL for a volume divided by the usual volume. Null if the usual volume is unknown. */
const usualRatio = (volume: string, sessionCount: string, total: string) =>
  `case when ${isUsualKnown(sessionCount, total)} then round(${volume} * ${sessionCount} / ${total}, 4) end`

/** Computes the closes of sessions that are over. A session's day bar takes precedence over its minute bars. */
const dailyPrices: ComputedRows = {
  columns: { ticker: "ticker", date: "date", close: "close" },
  from: `from (
    select distinct on (ticker, date) ticker, date, close
    from touched join price_periods as known using (ticker, date)
    -- A session that only depends on the file keeps its close in daily_prices, which may be a correction.
    where ${hasClose} and ((ticker, date) in (select ticker, date from priced) or not exists (
      select from daily_prices as stored where stored.ticker = known.ticker and stored.date = known.date
    ))
    order by ticker, date, period
  ) as closes`,
  // If a day's corrected bars contain no close, the close from its earlier bars is removed. A close from another source
  // stays.
  replaced: `exists (
    select from removed
    where removed.ticker = existing.ticker and removed.date = existing.date and removed.period = 'regular'
      and removed.close = existing.close
  )`,
}

/**
 * Adds the sessions in `touched` to `changed` if this ingest will change their close in `daily_prices`, so that later
 * sessions, which depend on the close, are computed again. The bars of such a session may be unchanged, if the close in
 * `daily_prices` came from another source.
 */
export const markSessionsWithChangedCloses = runStatements(
  `insert into changed select ticker, date ${dailyPrices.from} where not exists (
    select from daily_prices as known
    where known.ticker = closes.ticker and known.date = closes.date and known.close = closes.close
  )`,
)

/** How the rows for one of the two sessions outside of regular hours are computed. */
interface ExtendedHours {
  readonly period: "premarket" | "afterhours"
  /** SQL for the close with which the prices are compared. */
  readonly reference: string
  /** SQL that follows the joins with `sessions`, `part` and `volumes`: further joins, and the condition. */
  readonly rest: string
  /**
   * An SQL condition on a session. If it is true and no row is computed for the session, an existing row is removed.
   */
  readonly isDecided: string
}

/**
 * Computes the rows of `premarket_stats` or `afterhours_stats`: one for each session that has minute bars in this part
 * of the day (`period`) and a close to compare them with. `reference` is SQL for that close, and `rest` adds the joins
 * and the condition that it needs. If the session satisfies the condition `isDecided` and has no such row, an existing
 * row is removed.
 */
const makeExtendedHours = ({ isDecided, period, reference, rest }: ExtendedHours): ComputedRows => ({
  columns: {
    ticker: "sessions.ticker",
    date: "sessions.date",
    reference_close: reference,
    open_price: "part.open",
    close_price: "part.close",
    high_price: "part.high",
    low_price: "part.low",
    high_time: toTime("part.high_minute"),
    low_time: toTime("part.low_minute"),
    percentage_gain: toPercent("part.high", reference),
    change_percentage: toPercent("part.close", reference),
    vwap: "part.vwap",
    volume: "part.volume",
    dollar_volume: "part.dollar_volume",
    volume_ratio: usualRatio(`volumes.${period}`, "minute_sessions", `${period}_total`),
    trade_count: "part.trades",
    ...spikeColumns("part"),
    last_updated: toFixedOffset(toInstant(toTime("(part.last_minute + 1)"))),
  },
  from: `from sessions ${joinPeriod(period, "part")}
    join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date ${rest}`,
  replaced: isSessionWith(isDecided),
})

const premarketStats = makeExtendedHours({
  period: "premarket",
  reference: "previous",
  rest: "where previous is not null",
  isDecided: `${hasMinutes} and is_decided`,
})

const afterhoursStats = makeExtendedHours({
  period: "afterhours",
  reference: "today.close",
  rest: `cross join lateral ${
    lastClose("sessions.security", "sessions.date")
  } as today where today.date = sessions.date`,
  isDecided: hasMinutes,
})

/**
 * Columns that `gap_stats` and `intraday_runners` have in common. `main` is the row of `price_periods` for regular
 * hours or, for a runner without minute bars, for the whole day.
 */
const sharedColumns = {
  ticker: "sessions.ticker",
  date: "sessions.date",
  previous_day_close: "previous",
  market_open: "main.open",
  gap_percentage: toPercent("main.open", "previous"),
  percentage_gain: toPercent("main.high", "previous"),
  open_to_high_pct: toPercent("main.high", "main.open"),
  high_price: "main.high",
  low_price: "main.low",
  high_time: toTime("main.high_minute"),
  low_time: toTime("main.low_minute"),
  ...spikeColumns("main"),
  dollar_volume: "main.dollar_volume + coalesce(premarket.dollar_volume, 0) + coalesce(afterhours.dollar_volume, 0)",
  rth_dollar_volume: "main.dollar_volume",
  market_close: "main.close",
  close_under_50pct_of_range: "2 * main.close < main.high + main.low",
  premarket_vwap: "premarket.vwap",
  premarket_high: "premarket.high",
  premarket_low: "premarket.low",
  afterhours_close: "afterhours.close",
  afterhours_high: "afterhours.high",
  afterhours_low: "afterhours.low",
  afterhours_volume: "afterhours.volume",
}

const joinExtendedHours = `left ${joinPeriod("premarket", "premarket")} left ${joinPeriod("afterhours", "afterhours")}`

/**
 * Computes gaps: sessions whose open differs enough from the previous close. They need minute bars in regular hours,
 * because a day bar does not show the times.
 */
const gapStats: ComputedRows = {
  columns: {
    ...sharedColumns,
    closed_over_vwap: "main.close > main.vwap",
    volume: "main.volume + coalesce(premarket.volume, 0) + coalesce(afterhours.volume, 0)",
    premarket_volume: "coalesce(premarket.volume, 0)",
    premarket_dollar_volume: "coalesce(premarket.dollar_volume, 0)",
    open_to_low_pct: toPercent("main.low", "main.open"),
    rth_volume: "main.volume",
    gap_filled: "case when main.open > previous then main.low <= previous else main.high >= previous end",
    gap_fill_time: `case when main.fill_close = previous then ${toTime("main.fill_minute")} end`,
    last_updated: sessionEnd,
  },
  from: `from sessions ${joinPeriod("regular", "main")} ${joinExtendedHours}
    where previous is not null and abs(${sharedColumns.gap_percentage}) >= ${minGap}`,
  replaced: isSessionWith(`${hasMinutes} and is_decided`),
}

/**
 * Computes runners: sessions whose volume is far above the mean, both by a factor and by standard deviations. If there
 * are no minute bars in regular hours, the day bar is used.
 */
const intradayRunners: ComputedRows = {
  columns: {
    ...sharedColumns,
    daily_volume_ratio: usualRatio("comparable", "volumes.sessions", "total"),
    volume: "volumes.volume",
    rth_volume: "case when main.period = 'regular' then main.volume end",
    afterhours_dollar_volume: "afterhours.dollar_volume",
    premarket_volume: "premarket.volume",
    premarket_dollar_volume: "premarket.dollar_volume",
    last_updated: toFixedOffset(sessionEnd),
    anomaly_flagged: "true",
  },
  from: `from sessions join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date
    cross join lateral (
      select * from price_periods as part
      where part.ticker = sessions.ticker and part.date = sessions.date and period in ('regular', 'day')
      order by period desc limit 1 -- 'regular' comes first
    ) as main
    ${joinExtendedHours}
    where previous is not null and ${hasUsualVolume}
      and round(comparable * volumes.sessions / total, 4) > ${minRunnerRatio}
      -- (volume - mean)² > (number of deviations)² * variance, multiplied by sessions² to avoid division and rounding.
      -- The preceding condition ensures that the volume is above the mean.
      and (volumes.sessions * comparable - total) ^ 2
        > ${minDeviations ** 2} * (volumes.sessions * squares - total ^ 2)`,
  // If the usual volume is unknown, a row from another source normally stays. It is removed if more bars could not make
  // the usual volume known either: because a split makes the volumes incomparable, or because the security is younger
  // than the period from which the usual volume is computed. It is also removed if it may be based on ticker changes or
  // splits that have been corrected.
  replaced: isSessionWith(
    `is_decided and (${hasUsualVolume} or not are_comparable or began > sessions.date - ${dependentDays}
      or sessions.ticker in (select ticker from recomputed))`,
  ),
}

/** The values of N for which the screener has a column `gain_N_day`. */
const gainDays = [1, 2, 3, 7, 14, 30, 60, 90, 180, 365]

/**
 * Returns SQL for the new value of a screener column: `value`, or the old value `kept` if `value` is null for lack of
 * bars. `value` is computed from the last `days` days, or from a close that is up to `age` days older.
 *
 * Example: prices have been ingested since 1 June, and the gain over 90 days is null on 1 August. The row keeps its old
 * gain, which another source has loaded. The old value becomes null in two cases. If the days begin before
 * `known.since`, it may come from another company or ignore a split. If closes are known from before the days begin, it
 * was computed from them for an earlier session, and does not describe the newest one.
 */
const keepUnlessComputable = (value: string, days: number, kept: string, age = 0) =>
  `coalesce(${value}, case when newest.date - ${days} >= known.since
    and newest.date - ${days + age} < known.first_close then ${kept} end)`

/** Returns SQL for the old value of a screener column in dollars or shares, which a split since then makes wrong. */
const keepUnlessRestated = (column: string) => `case when not known.is_restated then listed.${column} end`

/**
 * Returns SQL for the gain in percent since `days` days before the newest session. The base is the last close on or
 * before that day.
 */
const gainSince = (days: number) =>
  `(
    select ${toPercent("newest.close", "nullif(base.close, 0)")}
    from ${lastClose("current_period.security", `(newest.date - ${days})`)} as earlier
    cross join lateral (
      select ${adjustPrice("earlier.close", "current_period.security", "earlier.date", "newest.date")} as close
    ) as base
  )`

const gainColumns = Object.fromEntries(
  gainDays.map((days) => {
    const column = `gain_${days}_day`
    return [column, keepUnlessComputable(gainSince(days), days, `listed.${column}`, maxCloseAge - 1)]
  }),
)

/**
 * SQL join. `newest` is the newest day for which the security has a close, under any symbol: the day, the close, the
 * volume, and the local time in New York at which the day's last bar ends. The volume is null if `daily_prices` has a
 * close that is newer than all bars.
 */
const joinNewestSession = `left join lateral (
    select closes.date, closes.close, traded.volume,
      closes.date + coalesce(last_minute + 1, ${makeCloseMinuteSql("closes.date")}) * interval '1 minute' as ended
    from newest_closes as closes cross join lateral (
      select ${sessionVolume} as volume,
        case when not bool_or(period = 'day') then max(last_minute) filter (where period = 'regular') end as last_minute
      from symbol_periods as any_period join price_periods as part on ${makePeriodCondition("part", "any_period")}
      where any_period.security = current_period.security and part.date = closes.date
    ) as traded
    where closes.symbol = listed.ticker
  ) as newest on true`

/**
 * SQL join. `known.began` is the security's first day. `known.since` is the day since which the existing values of the
 * row can be trusted: the later of the security's first day and its latest contradicted split. It is infinity, so that
 * no value is trusted, if the security's ticker changes or splits were corrected. `known.compared_since` is the day
 * since which the security's prices can be compared: the day of its latest contradicted split, or the first day of the
 * current period if its symbol is ambiguous. `known.first_close` is the day of the security's oldest known close or
 * session. `known.is_restated` means that a split has taken place since the row's values were stored. `greatest` and
 * `least` ignore nulls.
 */
const joinKnownSince = `cross join lateral (
    select min(starts) as began from symbol_periods as any_period where any_period.security = current_period.security
  ) as first_period cross join lateral (
    select first_period.began, greatest(
        first_period.began,
        max(effective_date),
        case when exists (
          select from symbol_periods as any_period join recomputed using (ticker)
          where any_period.security = current_period.security
        ) then 'infinity'::date end
      ) as since,
      greatest(case when current_period.is_ambiguous then current_period.starts end, max(effective_date))
        as compared_since,
      (
        select min(least(
          (select min(date) from daily_prices as past where ${makePeriodCondition("past", "any_period")}),
          (select min(date) from price_periods as past where ${makePeriodCondition("past", "any_period")})
        )) from symbol_periods as any_period where any_period.security = current_period.security
      ) as first_close,
      exists (
        select from splits as applied
        where applied.security = current_period.security and applied.status = 'applied'
          and applied.effective_date > listed.last_updated::date and applied.effective_date <= newest.date
      ) as is_restated
    from splits
    where splits.security = current_period.security and status = 'contradicted' and effective_date <= newest.date
  ) as known`

/**
 * SQL join. `extremes` has the high and low of the security's bars in the last year, adjusted for splits, and
 * `are_known`: whether these bars go back to the start of the year, or to the security's first day, without a hole of
 * more than `maxDaysWithoutBar` days. Without bars that can be compared with the newest session, both are null.
 */
const joinYearExtremes = `cross join lateral (
    select max(high) as high, min(low) as low, max(days_before) <= ${maxDaysWithoutBar} as are_known
    from (
      select ${adjustPrice("high", "current_period.security", "date", "newest.date")} as high,
        ${adjustPrice("low", "current_period.security", "date", "newest.date")} as low,
        date - lag(date, 1, greatest(known.began, newest.date - ${yearDays})) over (order by date) as days_before
      from symbol_periods as any_period join price_periods as past on ${makePeriodCondition("past", "any_period")}
      where any_period.security = current_period.security
        and date > newest.date - ${yearDays} and period in ('regular', 'day')
        and newest.date - ${yearDays} >= coalesce(known.compared_since, '-infinity')
    ) as bar
  ) as extremes`

/**
 * Returns SQL for the new value of `high_365` or `low_365`, by the function `widest` (`greatest` or `least`) of SQL. If
 * the year is not known, the row's old value is kept, but never inside the highs and lows that are known.
 */
const findExtreme = (column: "high_365" | "low_365", extreme: string, widest: "greatest" | "least") =>
  keepUnlessComputable(
    `case when extremes.are_known then ${extreme} end`,
    yearDays,
    // `greatest` and `least` ignore a null extreme, but an old value that is null must stay null.
    `case when listed.${column} is not null and not known.is_restated
      then ${widest}(listed.${column}, ${extreme}) end`,
  )

/**
 * SQL join. The mean and median volume of the sessions before the newest one, adjusted for splits until its day.
 * They are null if there are too few sessions or if one of the volumes cannot be adjusted for a split.
 */
const joinUsualVolume = `left join lateral (
    select case when count(volume) >= ${minUsualSessions} then round(avg(volume)) end as mean,
      -- The mean of the two middle volumes. percentile_cont would convert the volumes to floating-point numbers.
      case when count(volume) >= ${minUsualSessions} then round((
        percentile_disc(0.5) within group (order by volume)
        + percentile_disc(0.5) within group (order by volume desc)
      ) / 2.0) end as median
    from (
      select round(${sessionVolume} / ${splitFactor("current_period.security", "past.date", "newest.date")}) as volume
      from symbol_periods as any_period join price_periods as past on ${makePeriodCondition("past", "any_period")}
      where any_period.security = current_period.security
        and date >= newest.date - ${dependentDays} and date < newest.date
      group by date
      -- A volume is null if a split cannot be adjusted for. Then there are fewer volumes than sessions, and no result.
    ) as sessions having count(volume) = count(*)
  ) as usual on true`

/** SQL join. The number and mean size of the security's upward gaps. */
const joinUpwardGaps = `cross join lateral (
    select count(*) as count, round(avg(gap_percentage), 4) as mean
    from symbol_periods as any_period join gap_stats as gap on ${makePeriodCondition("gap", "any_period")}
    where any_period.security = current_period.security and gap_percentage > 0
  ) as gaps`

/**
 * Updates the existing rows of the screener to the newest close of their security. `listed` is the row, and
 * `current_period` is the period in which the security uses the row's symbol now. Rows are updated if this ingest
 * computes a session of the security, under any of its symbols, or if a close or share count was corrected that belongs
 * to the security. No rows are added, because most of their columns come from other sources.
 */
const screener: ComputedRows = {
  columns: {
    ticker: "listed.ticker",
    price: "newest.close",
    market_cap:
      "case when cap.ticker is null and newest.date is not null then listed.market_cap else cap.market_cap end",
    high_365: findExtreme("high_365", "extremes.high", "greatest"),
    low_365: findExtreme("low_365", "extremes.low", "least"),
    average_volume: keepUnlessComputable("usual.mean", dependentDays, keepUnlessRestated("average_volume")),
    median_volume_60: keepUnlessComputable("usual.median", dependentDays, keepUnlessRestated("median_volume_60")),
    today_volume: "newest.volume",
    volume_change_percentage: keepUnlessComputable(
      toPercent("newest.volume", "nullif(usual.mean, 0)"),
      dependentDays,
      "case when newest.volume is not null then listed.volume_change_percentage end",
    ),
    ...gainColumns,
    num_gaps: "gaps.count",
    avg_gap: "gaps.mean",
    num_runners: `(
      select count(*)
      from symbol_periods as any_period join intraday_runners as run on ${makePeriodCondition("run", "any_period")}
      where any_period.security = current_period.security
        and anomaly_flagged and daily_volume_ratio > ${minRunnerRatio}
    )`,
    // Without a session, the old time is that of another company's session if there was a price.
    last_updated: `case when newest.ended is null and listed.price is not null
      then date_trunc('second', now() at time zone 'America/New_York')
      else greatest(listed.last_updated, newest.ended) end`,
  },
  from: `from screener as listed
    join symbol_periods as current_period
      on current_period.ticker = listed.ticker and current_period.ends = 'infinity'
    left join caps as cap on cap.dataset = 'screener' and cap.ticker = listed.ticker
    ${joinNewestSession}
    ${joinKnownSince}
    ${joinYearExtremes}
    ${joinUsualVolume}
    ${joinUpwardGaps}
    where newest.date is not null and current_period.security in (
        select security from symbol_periods as period join touched on ${makePeriodCondition("touched", "period")}
        union
        select security from symbol_periods as period join stale on stale.ticker = period.ticker
          and coalesce(last >= starts and first < ends, true)
      )
      -- The old values may belong to a company that turned out to have given up the symbol. They become null.
      or newest.date is null and listed.ticker in (select ticker from recomputed)`,
}

/**
 * How to compute the rows of each dataset that prices fill. The datasets are computed in this order, because later ones
 * read earlier ones.
 */
export const computedRows = {
  daily_prices: dailyPrices,
  premarket_stats: premarketStats,
  afterhours_stats: afterhoursStats,
  gap_stats: gapStats,
  intraday_runners: intradayRunners,
  screener,
}

/** The name of a dataset that `ingest prices` fills. */
export type PriceDataset = keyof typeof computedRows

/** The datasets that `ingest prices` fills, in the order in which they are computed. */
export const priceDatasets: ReadonlyArray<PriceDataset> = Record.keys(computedRows)
