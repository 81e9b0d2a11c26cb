/**
 * Computes the rows of the datasets from `price_periods` in PostgreSQL. `docs/operations/ingest-prices.md` defines each
 * column. The table `touched` has the sessions to compute.
 */
import { Record } from "effect"
import type { ComputedRows } from "../load/Load.ts"
import { closeMinute, dependentDays, isCompleteDay, runStatements } from "./PeriodSql.ts"
import { isUsedOn } from "./SecurityPeriods.ts"

/** Least gap of a session in `gap_stats`, in %, in either direction. */
const minGap = 3

/** Multiple of the usual volume that a runner exceeds (§2.4). */
const minRunnerRatio = 9

/** Number of standard deviations by which the volume of a runner exceeds the mean (§2.4). */
const minDeviations = 3

/** Least number of sessions from which the usual volume is computed. */
const minUsualSessions = 10

/** Maximum age of a previous close, in days. With an older one, the symbol may have belonged to another company. */
const maxCloseAge = 30

/**
 * Returns SQL for the factor by which the splits between two days have multiplied the price of a security. Null if the
 * ratio of one of them is contradicted.
 */
const splitFactor = (security: string, from: string, to: string) =>
  `(
    select case when bool_or(status = 'contradicted') then null
      else coalesce(product(split_from) / product(split_to), 1) end
    from splits where splits.security = ${security} and status <> 'repeated'
      and effective_date > ${from} and effective_date <= ${to}
  )`

/** The bounds of prices. They do not depend on the row, so PostgreSQL reads them once per statement. */
const [minPrice, maxPrice] = ["least", "greatest"].map((bound) =>
  `(select ${bound}::numeric from domain_bounds where domain = 'price'::regtype)`
)

/** Returns SQL for a price of the day `from`, in shares as they were on the day `to`. Null if it is no price (D42). */
const adjustPrice = (price: string, security: string, from: string, to: string) =>
  `(select adjusted from (select round(${price} * ${splitFactor(security, from, to)}, 4) as adjusted offset 0) as one
    where adjusted between ${minPrice} and ${maxPrice})`

/** SQL condition of the rows of `price_periods as known` that have the close of a day, if the day is complete. */
const hasClose = `(period = 'day' or period = 'regular' and ${isCompleteDay("known.date")})`

/** SQL aggregate of a session's volume. The bar of the day counts only without minute bars of regular hours. */
const sessionVolume = `case when bool_or(period = 'day') and not bool_or(period = 'regular')
    then max(volume) filter (where period = 'day') else sum(volume) filter (where period <> 'day') end`

/** Returns a subquery with the last close of the security up to a day: `date` and `close`. `daily_prices` wins. */
const lastClose = (security: string, day: string) =>
  `(
    select closes.date, closes.close from symbol_periods as former cross join lateral (
      (select date, close, 0 as source from daily_prices as known
        where ${isUsedOn("known", "former")} and date <= ${day} and date > ${day} - ${maxCloseAge}
        order by date desc limit 1)
      union all
      (select date, close, 1 from price_periods as known
        where ${isUsedOn("known", "former")} and date <= ${day} and date > ${day} - ${maxCloseAge} and ${hasClose}
        order by date desc, period limit 1)
    ) as closes
    where former.security = ${security} order by closes.date desc, source limit 1
  )`

/**
 * Volumes of the sessions before, in shares as they were before all splits, so that they can be added.
 * Volumes before and after a split with a contradicted ratio, which `doubts` counts, cannot be compared.
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
    min(doubts) over before = doubts as are_comparable
  from comparable
  window before as (
    partition by security order by date
    range between interval '${dependentDays} days' preceding and interval '1 day' preceding
  )`

/**
 * Sessions with their previous close, adjusted for splits since. If a close is known but cannot be adjusted, if it
 * would be that of another company, or if an earlier ingest may have used one that is no longer right, it is certain
 * that there is none (`is_decided`), so rows that need it are removed.
 */
const createSessions = `
  create temp table sessions on commit drop as
  select touched.ticker, touched.date, period.security, nullif(adjusted.close, 0) as previous, began,
    before.close is not null or began > touched.date - ${maxCloseAge}
      or touched.ticker in (select ticker from recomputed) as is_decided,
    (select max(last_minute) from price_periods as parts
      where parts.ticker = touched.ticker and parts.date = touched.date) as last_minute
  from touched join symbol_periods as period on ${isUsedOn("touched", "period")}
  cross join lateral (
    select min(starts) as began from symbol_periods as former where former.security = period.security
  ) as used
  left join lateral ${lastClose("period.security", "(touched.date - 1)")} as before on true
  left join lateral (
    select ${adjustPrice("before.close", "period.security", "before.date", "touched.date")} as close
  ) as adjusted on true`

/** Stores when the price first returned to the previous close. Only the bars of the file can tell. */
const storeGapFills = `
  update price_periods as kept set fill_close = found.previous, fill_minute = found.minute
  from (
    select bars.ticker, bars.day, previous, min(minute) filter (
      where case when first.open > previous then bars.low <= previous else bars.high >= previous end
    ) as minute
    from timed_bars as bars
    join new_periods as first on first.ticker = bars.ticker and first.date = bars.day and first.period = 'regular'
    join sessions on sessions.ticker = bars.ticker and sessions.date = bars.day
    where bars.period = 'regular' and previous is not null
    group by bars.ticker, bars.day, previous
  ) as found
  where kept.ticker = found.ticker and kept.date = found.day and kept.period = 'regular'
    and (fill_close, fill_minute) is distinct from (found.previous, found.minute)`

/** Prepares the volumes that the rows are computed from. */
export const prepareSessions = runStatements(
  createVolumes,
  "create index on volumes (ticker, date)",
  "analyze volumes",
)

/** Computes the previous closes. Runs after `daily_prices` is filled, which the closes are read from. */
export const findPreviousCloses = runStatements(
  createSessions,
  "create index on sessions (ticker, date)",
  "analyze sessions",
  storeGapFills,
)

const toPercent = (value: string, base: string) => `round((${value} - ${base}) * 100 / ${base}, 4)`

/** Returns SQL for the time on New York's clock of a minute of the session. */
const toTime = (minute: string) => `sessions.date + ${minute} * interval '1 minute'`

/** The end of the last bar of the session. Bars of days end at the close. */
const lastUpdate = `(sessions.date + coalesce(sessions.last_minute + 1, ${
  closeMinute("sessions.date")
}) * interval '1 minute')
  at time zone 'America/New_York'`

const joinPeriod = (period: string, alias: string) =>
  `join price_periods as ${alias} on ${alias}.ticker = sessions.ticker and ${alias}.date = sessions.date
    and ${alias}.period = '${period}'`

/** SQL condition of the existing rows of sessions that fulfill a condition. The ingest decides about these rows. */
const isSessionWith = (condition: string) =>
  `exists (
    select from sessions join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date
    where sessions.ticker = existing.ticker and sessions.date = existing.date and ${condition}
  )`

const hasMinutes = "last_minute is not null"
const hasUsualVolume =
  `volumes.sessions >= ${minUsualSessions} and are_comparable and total >= volumes.sessions * volumes.factor`

const spikeColumns = (part: string) => ({
  spike_start_time: toTime(`${part}.spike_minute`),
  spike_start_price: `${part}.spike_price`,
  spike_duration_minutes: `${part}.high_minute - ${part}.spike_minute`,
  est_halt_minutes: `${part}.halt_minutes`,
})

/** Volume relative to the mean of the sessions before, if there are enough of them and it is at least one share. */
const usualRatio = (volume: string, sessionCount: string, total: string) =>
  `case when ${sessionCount} >= ${minUsualSessions} and are_comparable and ${total} >= ${sessionCount} * volumes.factor
    then round(${volume} * ${sessionCount} / ${total}, 4) end`

const dailyPrices: ComputedRows = {
  columns: { ticker: "ticker", date: "date", close: "close" },
  from: `from (
    select distinct on (ticker, date) ticker, date, close
    from touched join price_periods as known using (ticker, date)
    where ${hasClose} order by ticker, date, period
  ) as closes`,
  // Removes a close if the corrected bars of its day have none. A close from another source stays.
  replaced: `exists (
    select from removed
    where removed.ticker = existing.ticker and removed.date = existing.date and removed.period = 'regular'
      and removed.close = existing.close
  )`,
}

/** Adds the sessions to `changed` whose close differs from that in `daily_prices`. */
export const noteChangedCloses = runStatements(
  `insert into changed select ticker, date ${dailyPrices.from} where not exists (
    select from daily_prices as known
    where known.ticker = closes.ticker and known.date = closes.date and known.close = closes.close
  )`,
)

const makeExtendedHours = (
  period: "premarket" | "afterhours",
  reference: string,
  from: string,
  judged: string,
): ComputedRows => ({
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
    last_updated: `((sessions.date + (part.last_minute + 1) * interval '1 minute') at time zone 'America/New_York')
      at time zone interval '-05:00'`,
  },
  from: `from sessions ${joinPeriod(period, "part")} 
    join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date ${from}`,
  replaced: isSessionWith(judged),
})

const premarketStats = makeExtendedHours(
  "premarket",
  "previous",
  "where previous is not null",
  `${hasMinutes} and is_decided`,
)

const afterhoursStats = makeExtendedHours(
  "afterhours",
  "today.close",
  `cross join lateral ${lastClose("sessions.security", "sessions.date")} as today where today.date = sessions.date`,
  hasMinutes,
)

/** Columns that gaps and runners share. `main` has the regular hours, or the day if there are no minute bars. */
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
    last_updated: lastUpdate,
  },
  from: `from sessions ${joinPeriod("regular", "main")} ${joinExtendedHours}
    where previous is not null and abs(${sharedColumns.gap_percentage}) >= ${minGap}`,
  replaced: isSessionWith(`${hasMinutes} and is_decided`),
}

/** Without minute bars, the bar of the day stands for the regular hours. */
const intradayRunners: ComputedRows = {
  columns: {
    ...sharedColumns,
    daily_volume_ratio: usualRatio("comparable", "volumes.sessions", "total"),
    volume: "volumes.volume",
    rth_volume: "case when main.period = 'regular' then main.volume end",
    afterhours_dollar_volume: "afterhours.dollar_volume",
    premarket_volume: "premarket.volume",
    premarket_dollar_volume: "premarket.dollar_volume",
    last_updated: `(${lastUpdate}) at time zone interval '-05:00'`,
    anomaly_flagged: "true",
  },
  from: `from sessions join volumes on volumes.ticker = sessions.ticker and volumes.date = sessions.date
    cross join lateral (
      select * from price_periods as part
      where part.ticker = sessions.ticker and part.date = sessions.date and period in ('regular', 'day')
      order by period desc limit 1
    ) as main
    ${joinExtendedHours}
    where previous is not null and ${hasUsualVolume}
      and round(comparable * volumes.sessions / total, 4) > ${minRunnerRatio}
      and (volumes.sessions * comparable - total) ^ 2
        > ${minDeviations ** 2} * (volumes.sessions * squares - total ^ 2)`,
  replaced: isSessionWith(
    `is_decided and (${hasUsualVolume} or not are_comparable or began > sessions.date - ${dependentDays})`,
  ),
}

const yearDays = 365

const gainDays = [1, 2, 3, 7, 14, 30, 60, 90, 180, 365]

/**
 * Returns SQL for a value from the bars of the last days. Without it, the row keeps its value, unless the security or
 * its splits are unknown within these days (D45), or were not yet known when the value may have been computed.
 */
const keepIfKnown = (value: string, column: string, days: number) =>
  `coalesce(${value}, case when newest.date - ${days} >= known.since then listed.${column} end)`

/** Updates the companies that the screener has, as of the newest session of their security. */
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
    ...Object.fromEntries(gainDays.map((days) => [
      `gain_${days}_day`,
      keepIfKnown(
        `(
        select ${toPercent("newest.close", "nullif(base.close, 0)")}
        from ${lastClose("present.security", `(newest.date - ${days})`)} as earlier
        cross join lateral (
          select ${adjustPrice("earlier.close", "present.security", "earlier.date", "newest.date")} as close
        ) as base
      )`,
        `gain_${days}_day`,
        days,
      ),
    ])),
    num_gaps: "gaps.count",
    avg_gap: "gaps.mean",
    num_runners: `(
      select count(*) from symbol_periods as former join intraday_runners as run on ${isUsedOn("run", "former")}
      where former.security = present.security and anomaly_flagged and daily_volume_ratio > ${minRunnerRatio}
    )`,
    last_updated: "greatest(listed.last_updated, newest.ended)",
  },
  from: `from screener as listed
    join symbol_periods as present on present.ticker = listed.ticker and present.ends = 'infinity'
    left join caps as cap on cap.dataset = 'screener' and cap.ticker = listed.ticker
    left join lateral (
      select bar.* from symbol_periods as former cross join lateral (
        select date, close, (
            select ${sessionVolume} from price_periods as parts
            where parts.ticker = part.ticker and parts.date = part.date
          ) as volume, date + coalesce(last_minute + 1, ${closeMinute("date")}) * interval '1 minute' as ended
        from price_periods as part
        where ${isUsedOn("part", "former")} and period in ('regular', 'day')
        order by date desc, period limit 1
      ) as bar
      where former.security = present.security order by date desc limit 1
    ) as newest on true
    cross join lateral (
      select greatest(
          (select min(starts) from symbol_periods as former where former.security = present.security),
          max(effective_date),
          case when exists (
            select from symbol_periods as former join recomputed using (ticker)
            where former.security = present.security
          ) then 'infinity'::date end
        ) as since,
        greatest(case when present.is_ambiguous then present.starts end, max(effective_date)) as compared_since
      from splits
      where splits.security = present.security and status = 'contradicted' and effective_date <= newest.date
    ) as known
    cross join lateral (
      select max(${adjustPrice("high", "present.security", "date", "newest.date")}) as high,
        min(${adjustPrice("low", "present.security", "date", "newest.date")}) as low
      from symbol_periods as former join price_periods as past on ${isUsedOn("past", "former")}
      where former.security = present.security and date > newest.date - ${yearDays} and period in ('regular', 'day')
        and newest.date - ${yearDays} >= coalesce(known.compared_since, '-infinity')
        and newest.date - ${yearDays} >= (
          select min(date) from price_periods as first where ${isCompleteDay("first.date")}
        )
    ) as extremes
    left join lateral (
      select case when count(volume) >= ${minUsualSessions} then round(avg(volume)) end as mean,
        case when count(volume) >= ${minUsualSessions} then round((
          percentile_disc(0.5) within group (order by volume)
          + percentile_disc(0.5) within group (order by volume desc)
        ) / 2.0) end as median
      from (
        select round(${sessionVolume} / ${splitFactor("present.security", "past.date", "newest.date")}) as volume
        from symbol_periods as former join price_periods as past on ${isUsedOn("past", "former")}
        where former.security = present.security and date >= newest.date - ${dependentDays} and date < newest.date
        group by date
      ) as sessions having count(volume) = count(*)
    ) as usual on true
    cross join lateral (
      select count(*) as count, round(avg(gap_percentage), 4) as mean
      from symbol_periods as former join gap_stats as gap on ${isUsedOn("gap", "former")}
      where former.security = present.security and gap_percentage > 0
    ) as gaps
    where newest.date is not null and present.security in (
        select security from symbol_periods as period join touched on ${isUsedOn("touched", "period")}
      )
      -- A row may have the prices of a company that, as is known by now, has given up the symbol.
      or newest.date is null and listed.ticker in (select ticker from recomputed)`,
}

/** The rows of each dataset that prices fill, in the order in which they are computed: later ones read earlier ones. */
export const computedRows = {
  daily_prices: dailyPrices,
  premarket_stats: premarketStats,
  afterhours_stats: afterhoursStats,
  gap_stats: gapStats,
  intraday_runners: intradayRunners,
  screener,
}

export type PriceDataset = keyof typeof computedRows

export const priceDatasets: ReadonlyArray<PriceDataset> = Record.keys(computedRows)
