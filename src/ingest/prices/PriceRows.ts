/**
 * SQL that computes the rows of each price dataset from `price_periods`, for the sessions in the table `touched`.
 * `docs/operations/ingest-prices.md` defines each column.
 *
 * Most statements compare a session with earlier ones of the same security, which may have used other symbols then.
 * They read all of its sessions through `any_period`: each row of `symbol_periods` with that security, the current one
 * included.
 */
import { Record } from "effect"
import type { ComputedRows } from "../load/Load.ts"
import { closeMinute, dependentDays, isCompleteDay, runStatements, yearDays } from "./PeriodSql.ts"
import { isUsedOn } from "./SecurityPeriods.ts"

/** The smallest gap, up or down, with which a session is in `gap_stats`, in %. */
const minGap = 3

/** A runner's volume is more than this multiple of its usual volume (§2.4, intraday runners). */
const minRunnerRatio = 9

/** A runner's volume is more than this many standard deviations above the mean (§2.4, intraday runners). */
const minDeviations = 3

/** With fewer sessions, the usual volume is unknown. */
const minUsualSessions = 10

/** The greatest age of a previous close, in days. An older one may belong to another company with the same symbol. */
const maxCloseAge = 30

/**
 * Returns SQL for the factor that turns a price on the day `from` into one in shares of the day `to`: 0.1 after a
 * 10-for-1 split. Splits on the day `to` count, but splits on the day `from` do not. Null if the ratio of a split
 * between the two days is contradicted.
 */
const splitFactor = (security: string, from: string, to: string) =>
  `(
    select case when bool_or(status = 'contradicted') then null
      else coalesce(product(split_from) / product(split_to), 1) end
    from splits where splits.security = ${security} and status <> 'repeated'
      and effective_date > ${from} and effective_date <= ${to}
  )`

/**
 * SQL for the bounds of prices. The subqueries do not depend on the row, so PostgreSQL runs them once per statement.
 */
const [minPrice, maxPrice] = ["least", "greatest"].map((bound) =>
  `(select ${bound}::numeric from domain_bounds where domain = 'price'::regtype)`
)

/**
 * Returns SQL for a price on the day `from`, adjusted for the splits up to the day `to`. Null if the ratio of a split
 * is contradicted, or if the result is outside the bounds of a price (D42, plausible values).
 */
const adjustPrice = (price: string, security: string, from: string, to: string) =>
  `(
    -- Without "offset 0", PostgreSQL would merge the two selects and look up the splits three times for each price.
    select adjusted from (select round(${price} * ${splitFactor(security, from, to)}, 4) as adjusted offset 0) as one
    where adjusted between ${minPrice} and ${maxPrice}
  )`

/** SQL condition on `price_periods as known`: the row has the close of its day, and the day is complete. */
const hasClose = `(period = 'day' or period = 'regular' and ${isCompleteDay("known.date")})`

/**
 * SQL aggregate over the parts of a day, for its volume: the sum of the minute bars or, if there are none in regular
 * hours, the volume of the day bar.
 */
const sessionVolume = `case when bool_or(period = 'day') and not bool_or(period = 'regular')
    then max(volume) filter (where period = 'day') else sum(volume) filter (where period <> 'day') end`

/**
 * Returns an SQL subquery with the last close of a security up to and including a day, as `date` and `close`. It has no
 * row if there is none on that day or in the 29 days before it. If `daily_prices` and the bars both have the last
 * close, the one in `daily_prices` is used.
 */
const lastClose = (security: string, day: string) =>
  `(
    select closes.date, closes.close from symbol_periods as any_period cross join lateral (
      (select date, close, 0 as source from daily_prices as known
        where ${isUsedOn("known", "any_period")} and date <= ${day} and date > ${day} - ${maxCloseAge}
        order by date desc limit 1)
      union all
      (select date, close, 1 from price_periods as known
        where ${isUsedOn("known", "any_period")} and date <= ${day} and date > ${day} - ${maxCloseAge} and ${hasClose}
        order by date desc, period limit 1)
    ) as closes
    where any_period.security = ${security} order by closes.date desc, source limit 1
  )`

/**
 * Creates the table `volumes`: the volumes of each session and the sums over the sessions in the 60 days before it.
 *
 * `comparable`, `premarket`, `afterhours` and the sums are in shares as they were before all splits, so that they can
 * be added and compared. Dividing one of them by `factor` gives shares as they were on the day of the session.
 * `are_comparable` says whether there is no split with a contradicted ratio between the session and those before it.
 */
const createVolumes = `
  create temp table volumes on commit drop as
  with used as materialized (
    select * from symbol_periods
    where security in (select security from symbol_periods where ticker in (select ticker from touched))
  ),
  traded as (
    select security, parts.ticker, parts.date, ${sessionVolume} as volume,
      bool_or(period <> 'day') as has_minutes,
      coalesce(sum(volume) filter (where period = 'premarket'), 0) as premarket,
      coalesce(sum(volume) filter (where period = 'afterhours'), 0) as afterhours
    from used join price_periods as parts on ${isUsedOn("parts", "used")}
    where parts.date between (select min(date) from touched) - ${dependentDays} and (select max(date) from touched)
    group by security, parts.ticker, parts.date
  ),
  -- The factor is that of all splits up to the day. "doubts" counts the contradicted ones among them.
  comparable as (
    select traded.*, adjusted.* from traded cross join lateral (
      select coalesce(product(split_from) filter (where status = 'applied')
          / product(split_to) filter (where status = 'applied'), 1) as factor,
        count(*) filter (where status = 'contradicted') as doubts
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
    -- The number of contradicted splits only grows with time, so if it was the same at the start, none is between.
    min(doubts) over before = doubts as are_comparable
  from comparable
  window before as (
    partition by security order by date
    range between interval '${dependentDays} days' preceding and interval '1 day' preceding
  )`

/**
 * Creates the table `sessions`: each session in `touched` with its security, the first day of that security (`began`),
 * its last minute bar and the previous close, adjusted for splits since.
 *
 * If no close is known from the days before, a row that exists stays: its source may have known one. `is_decided` is
 * true if such a row is removed unless it is computed again, because
 * - a close is known, even if it cannot be adjusted,
 * - the security is so young that an older close would belong to another company, or
 * - ticker changes, splits or closes were corrected, so an earlier ingest may have used a wrong close.
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
  from touched join symbol_periods as period on ${isUsedOn("touched", "period")}
  cross join lateral (
    select min(starts) as began from symbol_periods as any_period where any_period.security = period.security
  ) as used
  left join lateral ${lastClose("period.security", "(touched.date - 1)")} as before on true
  left join lateral (
    select ${adjustPrice("before.close", "period.security", "before.date", "touched.date")} as close
  ) as adjusted on true`

/**
 * Stores in `price_periods` when the price first returned to the previous close. Only the bars in the file show it, and
 * they are not kept. `fill_close` keeps the close that the time refers to.
 */
const storeGapFills = `
  update price_periods as kept set fill_close = found.previous, fill_minute = found.minute
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
  where kept.ticker = found.ticker and kept.date = found.day and kept.period = 'regular'
    and (fill_close, fill_minute) is distinct from (found.previous, found.minute)`

/** Creates the table `volumes`, which the rows of most datasets are computed from. */
export const computeVolumes = runStatements(
  createVolumes,
  "create index on volumes (ticker, date)",
  "analyze volumes",
)

/** Creates the table `sessions` with the previous closes. Runs after `daily_prices` is filled, because it reads it. */
export const findPreviousCloses = runStatements(
  createSessions,
  "create index on sessions (ticker, date)",
  "analyze sessions",
  storeGapFills,
)

/** Returns SQL for the change from `base` to `value`, in %. */
const toPercent = (value: string, base: string) => `round((${value} - ${base}) * 100 / ${base}, 4)`

/** Returns SQL for a time of the session on New York's clock, from minutes after midnight. */
const toTime = (minute: string) => `sessions.date + ${minute} * interval '1 minute'`

/** Returns SQL that converts a time on New York's clock to an instant. */
const toInstant = (time: string) => `(${time}) at time zone 'America/New_York'`

/** Returns SQL that converts an instant to the clock at -05:00, which some columns store (D15, time zones). */
const toFixedOffset = (instant: string) => `(${instant}) at time zone interval '-05:00'`

/** SQL for the instant at which the last bar of the session ends. A day bar ends at the close. */
const sessionEnd = toInstant(toTime(`coalesce(sessions.last_minute + 1, ${closeMinute("sessions.date")})`))

/** Returns an SQL join with the row of `price_periods` for one part of the session's day. */
const joinPeriod = (period: string, alias: string) =>
  `join price_periods as ${alias} on ${alias}.ticker = sessions.ticker and ${alias}.date = sessions.date
    and ${alias}.period = '${period}'`

/**
 * Returns an SQL condition on the rows of `existing`: this ingest computes the row's session, and the session fulfills
 * the condition. Such a row is removed unless it was computed again, for example because the session is no gap any
 * more.
 */
const isSessionWith = (condition: string) =>
  `exists (
    select from sessions join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date
    where sessions.ticker = existing.ticker and sessions.date = existing.date and ${condition}
  )`

const hasMinutes = "last_minute is not null"

/**
 * Returns an SQL condition: the usual volume is known. There are enough sessions, no contradicted split is between
 * them, and their mean, `total / sessionCount / factor` in shares of the day, is at least one share.
 */
const isUsualKnown = (sessionCount: string, total: string) =>
  `${sessionCount} >= ${minUsualSessions} and are_comparable and ${total} >= ${sessionCount} * volumes.factor`

const hasUsualVolume = isUsualKnown("volumes.sessions", "total")

/** Columns about the spike and the halts in one part of the day. */
const spikeColumns = (part: string) => ({
  spike_start_time: toTime(`${part}.spike_minute`),
  spike_start_price: `${part}.spike_price`,
  spike_duration_minutes: `${part}.high_minute - ${part}.spike_minute`,
  est_halt_minutes: `${part}.halt_minutes`,
})

/** Returns SQL for a volume as a multiple of the usual volume. Null if the usual volume is unknown. */
const usualRatio = (volume: string, sessionCount: string, total: string) =>
  `case when ${isUsualKnown(sessionCount, total)} then round(${volume} * ${sessionCount} / ${total}, 4) end`

const dailyPrices: ComputedRows = {
  columns: { ticker: "ticker", date: "date", close: "close" },
  from: `from (
    select distinct on (ticker, date) ticker, date, close
    from touched join price_periods as known using (ticker, date)
    where ${hasClose} order by ticker, date, period
  ) as closes`,
  // If the corrected bars of a day have no close, removes the one from the earlier bars. One from elsewhere stays.
  replaced: `exists (
    select from removed
    where removed.ticker = existing.ticker and removed.date = existing.date and removed.period = 'regular'
      and removed.close = existing.close
  )`,
}

/**
 * Adds the sessions whose close differs from that in `daily_prices` to `changed`. Their bars may be unchanged, if the
 * close in `daily_prices` came from elsewhere, but later sessions depend on the close.
 */
export const addSessionsOfChangedCloses = runStatements(
  `insert into changed select ticker, date ${dailyPrices.from} where not exists (
    select from daily_prices as known
    where known.ticker = closes.ticker and known.date = closes.date and known.close = closes.close
  )`,
)

interface ExtendedHours {
  readonly period: "premarket" | "afterhours"
  /** SQL for the close that the prices are compared with. */
  readonly reference: string
  /** SQL that follows the joins of `sessions`, `part` and `volumes`: further joins and the condition. */
  readonly rest: string
  /** SQL condition on a session: if it has no row now, one that exists is removed. */
  readonly isDecided: string
}

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
 * Columns that `gap_stats` and `intraday_runners` share. `main` is the row of `price_periods` for regular hours or, for
 * a runner without minute bars, for the whole day.
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
 * A runner's volume is far above its mean, by a factor and by standard deviations. Without minute bars for regular
 * hours, the day bar stands in for them.
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
      -- (volume - mean)² > (number of deviations)² * variance, times sessions², so that nothing is divided or rounded.
      -- The volume is above the mean, not below it, by the condition before.
      and (volumes.sessions * comparable - total) ^ 2
        > ${minDeviations ** 2} * (volumes.sessions * squares - total ^ 2)`,
  // Without a usual volume, a row from elsewhere stays, unless more bars could not give one either: a split makes the
  // volumes incomparable, or the security is younger than the days from which the usual volume is computed. It does not
  // stay either if it may rest on ticker changes or splits that were corrected.
  replaced: isSessionWith(
    `is_decided and (${hasUsualVolume} or not are_comparable or began > sessions.date - ${dependentDays}
      or sessions.ticker in (select ticker from recomputed))`,
  ),
}

/** The numbers of days N for which the screener has a column `gain_N_day`. */
const gainDays = [1, 2, 3, 7, 14, 30, 60, 90, 180, 365]

/**
 * Returns SQL for a value that is computed from the last `days` days, or from closes that are at most `age` days older.
 * If the value cannot be computed yet, because the first known close is more recent, the row of the screener keeps its
 * old value, unless these days begin before `known.since`: then the old value may come from another company, or ignore
 * a split. If older closes are known, the old value would come from an earlier session, and becomes null.
 */
const keepIfKnown = (value: string, column: string, days: number, age = 0) =>
  `coalesce(${value}, case when newest.date - ${days} >= known.since
    and newest.date - ${days + age} < known.first_close then listed.${column} end)`

/** Returns SQL for the gain, in %, since the last close `days` days before the newest session or earlier. */
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
    return [column, keepIfKnown(gainSince(days), column, days, maxCloseAge - 1)]
  }),
)

/**
 * SQL join: `newest` is the newest session of the security, under whichever symbol: its day, close, volume, and the
 * time on New York's clock at which its last bar ends.
 */
const joinNewestSession = `left join lateral (
    select bar.* from symbol_periods as any_period cross join lateral (
      select date, close, (
          select ${sessionVolume} from price_periods as parts
          where parts.ticker = part.ticker and parts.date = part.date
        ) as volume, date + coalesce(last_minute + 1, ${closeMinute("date")}) * interval '1 minute' as ended
      from price_periods as part
      where ${isUsedOn("part", "any_period")} and period in ('regular', 'day')
      order by date desc, period limit 1 -- 'day' comes first
    ) as bar
    where any_period.security = current_period.security order by date desc limit 1
  ) as newest on true`

/**
 * SQL join: `known.since` is the day since which the existing values of the row can be trusted: the first day of the
 * security or its latest contradicted split, whichever is later, and never (infinity) if its ticker changes or splits
 * were corrected. `known.compared_since` is the day since which its prices can be compared: its latest contradicted
 * split, or the first day of a period before which its symbol is ambiguous. `known.first_close` is the day of the
 * oldest close or session that is known of the security. `greatest` and `least` ignore nulls.
 */
const joinKnownSince = `cross join lateral (
    select greatest(
        (select min(starts) from symbol_periods as any_period where any_period.security = current_period.security),
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
          (select min(date) from daily_prices as past where ${isUsedOn("past", "any_period")}),
          (select min(date) from price_periods as past where ${isUsedOn("past", "any_period")})
        )) from symbol_periods as any_period where any_period.security = current_period.security
      ) as first_close
    from splits
    where splits.security = current_period.security and status = 'contradicted' and effective_date <= newest.date
  ) as known`

/** SQL join: the high and low of the last year, adjusted for splits. Null until the bars go back that far. */
const joinYearExtremes = `cross join lateral (
    select max(${adjustPrice("high", "current_period.security", "date", "newest.date")}) as high,
      min(${adjustPrice("low", "current_period.security", "date", "newest.date")}) as low
    from symbol_periods as any_period join price_periods as past on ${isUsedOn("past", "any_period")}
    where any_period.security = current_period.security
      and date > newest.date - ${yearDays} and period in ('regular', 'day')
      and newest.date - ${yearDays} >= coalesce(known.compared_since, '-infinity')
      and newest.date - ${yearDays} >= (
        select min(date) from price_periods as first where ${isCompleteDay("first.date")}
      )
  ) as extremes`

/**
 * SQL join: the mean and median volume of the sessions before the newest one, in shares of that day. There is no row if
 * one of the volumes cannot be adjusted.
 */
const joinUsualVolume = `left join lateral (
    select case when count(volume) >= ${minUsualSessions} then round(avg(volume)) end as mean,
      -- The lower and the upper of the two middle volumes. percentile_cont would convert them to floating-point
      -- numbers.
      case when count(volume) >= ${minUsualSessions} then round((
        percentile_disc(0.5) within group (order by volume)
        + percentile_disc(0.5) within group (order by volume desc)
      ) / 2.0) end as median
    from (
      select round(${sessionVolume} / ${splitFactor("current_period.security", "past.date", "newest.date")}) as volume
      from symbol_periods as any_period join price_periods as past on ${isUsedOn("past", "any_period")}
      where any_period.security = current_period.security
        and date >= newest.date - ${dependentDays} and date < newest.date
      group by date
    ) as sessions having count(volume) = count(*)
  ) as usual on true`

/** SQL join: the number and mean size of the security's upward gaps. */
const joinUpwardGaps = `cross join lateral (
    select count(*) as count, round(avg(gap_percentage), 4) as mean
    from symbol_periods as any_period join gap_stats as gap on ${isUsedOn("gap", "any_period")}
    where any_period.security = current_period.security and gap_percentage > 0
  ) as gaps`

/**
 * Updates the rows that the screener has, as of the newest session of their security. `listed` is the row, and
 * `current_period` is the period in which the security uses the row's symbol.
 */
const screener: ComputedRows = {
  columns: {
    ticker: "listed.ticker",
    price: "newest.close",
    market_cap:
      "case when cap.ticker is null and newest.date is not null then listed.market_cap else cap.market_cap end",
    high_365: keepIfKnown("extremes.high", "high_365", yearDays),
    low_365: keepIfKnown("extremes.low", "low_365", yearDays),
    average_volume: keepIfKnown("usual.mean", "average_volume", dependentDays),
    median_volume_60: keepIfKnown("usual.median", "median_volume_60", dependentDays),
    today_volume: "newest.volume",
    volume_change_percentage: keepIfKnown(
      toPercent("newest.volume", "nullif(usual.mean, 0)"),
      "volume_change_percentage",
      dependentDays,
    ),
    ...gainColumns,
    num_gaps: "gaps.count",
    avg_gap: "gaps.mean",
    num_runners: `(
      select count(*)
      from symbol_periods as any_period join intraday_runners as run on ${isUsedOn("run", "any_period")}
      where any_period.security = current_period.security
        and anomaly_flagged and daily_volume_ratio > ${minRunnerRatio}
    )`,
    last_updated: "greatest(listed.last_updated, newest.ended)",
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
        select security from symbol_periods as period join touched on ${isUsedOn("touched", "period")}
        union
        select security from symbol_periods as period join stale on stale.ticker = period.ticker
          and coalesce(last >= starts and first < ends, ends = 'infinity')
      )
      -- The values of a row may be those of a company that turns out to have given up the symbol. They become null.
      or newest.date is null and listed.ticker in (select ticker from recomputed)`,
}

/**
 * How the rows of each dataset that prices fill are computed. They are computed in this order, because later datasets
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
