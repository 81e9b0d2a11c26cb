/**
 * Computes the expected results of `ingest prices` from the definitions in docs/operations/ingest-prices.md alone. It
 * uses plain loops over arrays and integers, and none of the service's code. Prices are in ten-thousandths of a dollar.
 * It assumes that symbols never change and that the exchanges have no half days. For example:
 *
 * ```ts
 * const { gap_stats } = computeTables(bars, [{ ticker: "AAA", date: "2026-06-02", from: 10n, to: 1n }])
 * ```
 */

/** A minute bar. */
export interface OracleBar {
  readonly ticker: string
  /** The date in New York, as `YYYY-MM-DD`. */
  readonly date: string
  /** The start of the bar, in minutes after midnight in New York. */
  readonly minute: number
  readonly open: bigint
  readonly high: bigint
  readonly low: bigint
  readonly close: bigint
  readonly volume: bigint
  readonly trades: bigint
}

/** A split on `date` that turns `from` old shares into `to` new ones. */
export interface OracleSplit {
  readonly ticker: string
  readonly date: string
  readonly from: bigint
  readonly to: bigint
}

/** A row by column name, with every value as text. */
export type OracleRow = Readonly<Record<string, string | null>>

/** The expected rows of each dataset. */
export interface OracleTables {
  readonly daily_prices: ReadonlyArray<OracleRow>
  readonly premarket_stats: ReadonlyArray<OracleRow>
  readonly afterhours_stats: ReadonlyArray<OracleRow>
  readonly gap_stats: ReadonlyArray<OracleRow>
  readonly intraday_runners: ReadonlyArray<OracleRow>
}

/** Divides and rounds half away from zero. */
const divide = (numerator: bigint, denominator: bigint): bigint => {
  if (denominator < 0n) return divide(-numerator, -denominator)
  if (numerator < 0n) return -divide(-numerator, denominator)
  return (2n * numerator + denominator) / (2n * denominator)
}

/**
 * Formats an integer as a decimal with the given number of decimal places. The integer is in units of the last
 * decimal place.
 */
const format = (value: bigint, decimals: number) => {
  const digits = String(value < 0n ? -value : value).padStart(decimals + 1, "0")
  return `${value < 0n ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

const price = (ticks: bigint) => format(ticks, 4)
const money = (cents: bigint) => format(cents, 2)

/** Returns the change from `base` to `value`, in percent. */
const percent = (value: bigint, base: bigint) => format(divide((value - base) * 1_000_000n, base), 4)

const sum = (values: ReadonlyArray<bigint>) => values.reduce((total, value) => total + value, 0n)
const least = (values: ReadonlyArray<bigint>) => values.reduce((one, other) => other < one ? other : one)
const greatest = (values: ReadonlyArray<bigint>) => values.reduce((one, other) => other > one ? other : one)

/** The boundaries of the sessions of a day, in minutes after midnight. */
const [premarketOpen, open, close, afterHoursEnd] = [4 * 60, 9 * 60 + 30, 16 * 60, 20 * 60]

/** Converts a `YYYY-MM-DD` date to days since 1970. */
const toDay = (date: string) => Date.parse(date) / 86_400_000

/**
 * Returns how many hours New York is behind UTC on a day in 2026. Daylight saving time lasts from 8 March to 31
 * October.
 */
export const getUtcOffset = (date: string) => date >= "2026-03-08" && date < "2026-11-01" ? 4 : 5

const twoDigits = (value: number) => String(value).padStart(2, "0")

const wallClock = (date: string, minute: number) =>
  `${date} ${twoDigits(Math.floor(minute / 60))}:${twoDigits(minute % 60)}:00`

/** Formats a New York time as wall-clock time at -05:00, without the offset. */
const fixedOffset = (date: string, minute: number) => wallClock(date, minute - 60 * (5 - getUtcOffset(date)))

/** The summary of the bars in one part of a day. */
interface Period {
  readonly open: bigint
  readonly high: bigint
  readonly low: bigint
  readonly close: bigint
  readonly volume: bigint
  readonly trades: bigint
  /** The traded value in cents. */
  readonly cents: bigint
  readonly vwap: bigint
  readonly highMinute: number
  readonly lowMinute: number
  readonly lastMinute: number
  readonly spike: { readonly minute: number; readonly price: bigint } | undefined
  readonly haltMinutes: number
  readonly bars: ReadonlyArray<OracleBar>
}

/** Summarizes bars, which must be sorted by minute. Returns undefined if there are none. */
const summarize = (bars: ReadonlyArray<OracleBar>): Period | undefined => {
  const [first, last] = [bars[0], bars.at(-1)]
  if (first === undefined || last === undefined) return undefined
  const high = greatest(bars.map((bar) => bar.high))
  const low = least(bars.map((bar) => bar.low))
  const highBar = bars.find((bar) => bar.high === high) ?? first
  const lowBar = bars.find((bar) => bar.low === low) ?? first
  const volume = sum(bars.map((bar) => bar.volume))
  // Three times the traded value. The typical price of a bar is a third of the sum of its high, low and close, so
  // dividing later avoids fractions.
  const tripleValue = sum(bars.map((bar) => bar.volume * (bar.high + bar.low + bar.close)))
  let start = { minute: highBar.minute, price: highBar.open }
  for (const bar of bars.toReversed()) {
    if (bar.minute < highBar.minute && bar.low < start.price) start = { minute: bar.minute, price: bar.low }
  }
  let haltMinutes = 0
  for (const [index, bar] of bars.entries()) {
    const next = bars[index + 1]
    const fifth = bars[index - 4]
    if (next === undefined || fifth === undefined || bar.minute - fifth.minute !== 4) continue
    const missing = next.minute - bar.minute - 1
    if (missing >= 5) haltMinutes += missing
  }
  return {
    open: first.open,
    high,
    low,
    close: last.close,
    volume,
    trades: sum(bars.map((bar) => bar.trades)),
    cents: divide(tripleValue, 300n),
    vwap: divide(tripleValue, 3n * volume),
    highMinute: highBar.minute,
    lowMinute: lowBar.minute,
    lastMinute: last.minute,
    spike: high * 10n >= start.price * 11n ? start : undefined,
    haltMinutes,
    bars,
  }
}

/** A symbol's trading on one day. A part of the day without trades is undefined. */
interface Session {
  readonly ticker: string
  readonly date: string
  readonly premarket: Period | undefined
  readonly regular: Period | undefined
  readonly afterHours: Period | undefined
}

const partsOf = ({ afterHours, premarket, regular }: Session) =>
  [premarket, regular, afterHours].filter((part) => part !== undefined)

const volumeOf = (session: Session) => sum(partsOf(session).map(({ volume }) => volume))

/** Groups bars that have a volume by symbol, day and part of the day. The sessions are sorted by symbol and day. */
const makeSessions = (bars: ReadonlyArray<OracleBar>): ReadonlyArray<Session> => {
  const groups = Map.groupBy(bars.filter(({ volume }) => volume > 0n), ({ date, ticker }) => `${ticker} ${date}`)
  return Array.from(groups, ([key, group]) => {
    const [ticker = "", date = ""] = key.split(" ")
    const sorted = group.toSorted((one, other) => one.minute - other.minute)
    const between = (from: number, to: number) =>
      summarize(sorted.filter(({ minute }) => minute >= from && minute < to))
    return {
      ticker,
      date,
      premarket: between(premarketOpen, open),
      regular: between(open, close),
      afterHours: between(close, afterHoursEnd),
    }
  }).toSorted((one, other) => `${one.ticker} ${one.date}` < `${other.ticker} ${other.date}` ? -1 : 1)
}

/** Everything that the rows of a session may depend on. */
interface OracleMarket {
  /** All sessions, sorted by symbol and day. */
  readonly sessions: ReadonlyArray<Session>
  readonly splits: ReadonlyArray<OracleSplit>
  /** The days on which trading reached the close. */
  readonly completeDays: ReadonlySet<string>
}

/** Returns the complete days, on which the last bar of all symbols starts at 15:59 or later. */
const findCompleteDays = (sessions: ReadonlyArray<Session>): ReadonlySet<string> => {
  const lastMinutes = Map.groupBy(
    sessions.flatMap((session) => partsOf(session).map(({ lastMinute }) => ({ date: session.date, lastMinute }))),
    ({ date }) => date,
  )
  return new Set(
    Array.from(lastMinutes).flatMap(([date, parts]) => {
      const last = Math.max(...parts.map(({ lastMinute }) => lastMinute))
      return last >= close - 1 ? [date] : []
    }),
  )
}

/** Returns the splits of a symbol after the day `after`, up to and including the day `until`. */
const splitsBetween = ({ splits }: OracleMarket, ticker: string, after: string, until: string) =>
  splits.filter((split) => split.ticker === ticker && split.date > after && split.date <= until)

/**
 * Returns the last close in the 30 days before a session, adjusted for splits up to the session. Returns undefined if
 * there is no close.
 */
const previousClose = (market: OracleMarket, { date, ticker }: Session) => {
  const { completeDays, sessions } = market
  const before = sessions.findLast((other) =>
    other.ticker === ticker && other.date < date && toDay(other.date) >= toDay(date) - 30 &&
    other.regular !== undefined && completeDays.has(other.date)
  )
  if (before?.regular === undefined) return undefined
  const between = splitsBetween(market, ticker, before.date, date)
  return divide(
    before.regular.close * between.reduce((product, { from }) => product * from, 1n),
    between.reduce((product, { to }) => product * to, 1n),
  )
}

/**
 * Returns the volumes of the sessions in the 60 days before a session, converted by splits to shares as of the
 * session's day.
 */
const volumesBefore = (market: OracleMarket, session: Session, getVolume: (session: Session) => bigint) =>
  market.sessions.filter(({ date, ticker }) =>
    ticker === session.ticker && date < session.date && toDay(date) >= toDay(session.date) - 60
  ).map((other) =>
    splitsBetween(market, session.ticker, other.date, session.date).reduce(
      (volume, { from, to }) => volume * to / from,
      getVolume(other),
    )
  )

/**
 * Returns a volume as a multiple of the average volume, in ten-thousandths. Returns undefined if the average is
 * unknown.
 */
const ratio = (volume: bigint, before: ReadonlyArray<bigint>) => {
  const total = sum(before)
  return before.length < 10 || total < BigInt(before.length)
    ? undefined
    : divide(volume * BigInt(before.length) * 10_000n, total)
}

/** Returns the columns for spikes and halts. Halts are estimated only for regular hours. */
const spikeColumns = (date: string, { haltMinutes, highMinute, spike }: Period, hasHalts: boolean) => ({
  spike_start_time: spike === undefined ? null : wallClock(date, spike.minute),
  spike_start_price: spike === undefined ? null : price(spike.price),
  spike_duration_minutes: spike === undefined ? null : String(highMinute - spike.minute),
  est_halt_minutes: hasHalts ? String(haltMinutes) : null,
})

/**
 * Returns a row of `premarket_stats` or `afterhours_stats`. `getVolume` returns the volume in the same part of another
 * day.
 */
const extendedHours = (
  market: OracleMarket,
  session: Session,
  part: Period,
  reference: bigint,
  getVolume: (session: Session) => bigint,
) => {
  const usual = ratio(part.volume, volumesBefore(market, session, getVolume))
  return {
    ticker: session.ticker,
    date: session.date,
    reference_close: price(reference),
    open_price: price(part.open),
    close_price: price(part.close),
    high_price: price(part.high),
    low_price: price(part.low),
    high_time: wallClock(session.date, part.highMinute),
    low_time: wallClock(session.date, part.lowMinute),
    percentage_gain: percent(part.high, reference),
    change_percentage: percent(part.close, reference),
    vwap: price(part.vwap),
    volume: String(part.volume),
    dollar_volume: money(part.cents),
    volume_ratio: usual === undefined ? null : format(usual, 4),
    trade_count: String(part.trades),
    ...spikeColumns(session.date, part, false),
    last_updated: fixedOffset(session.date, part.lastMinute + 1),
  }
}

/** Returns the columns that are common to `gap_stats` and `intraday_runners`. */
const regularColumns = (session: Session, regular: Period, previous: bigint) => ({
  ticker: session.ticker,
  date: session.date,
  previous_day_close: price(previous),
  market_open: price(regular.open),
  gap_percentage: percent(regular.open, previous),
  percentage_gain: percent(regular.high, previous),
  open_to_high_pct: percent(regular.high, regular.open),
  high_price: price(regular.high),
  low_price: price(regular.low),
  high_time: wallClock(session.date, regular.highMinute),
  low_time: wallClock(session.date, regular.lowMinute),
  market_close: price(regular.close),
  close_under_50pct_of_range: String(2n * regular.close < regular.high + regular.low),
  volume: String(volumeOf(session)),
  dollar_volume: money(sum(partsOf(session).map(({ cents }) => cents))),
  rth_volume: String(regular.volume),
  rth_dollar_volume: money(regular.cents),
  premarket_vwap: session.premarket === undefined ? null : price(session.premarket.vwap),
  premarket_high: session.premarket === undefined ? null : price(session.premarket.high),
  premarket_low: session.premarket === undefined ? null : price(session.premarket.low),
  afterhours_close: session.afterHours === undefined ? null : price(session.afterHours.close),
  afterhours_high: session.afterHours === undefined ? null : price(session.afterHours.high),
  afterhours_low: session.afterHours === undefined ? null : price(session.afterHours.low),
  afterhours_volume: session.afterHours === undefined ? null : String(session.afterHours.volume),
  ...spikeColumns(session.date, regular, true),
})

const lastMinuteOf = (session: Session) => Math.max(...partsOf(session).map(({ lastMinute }) => lastMinute))

/**
 * Returns the row of `gap_stats` if the session opens at least 3% above or below the previous close. Otherwise returns
 * no row.
 */
const gapRow = (market: OracleMarket, session: Session): ReadonlyArray<OracleRow> => {
  const { premarket, regular } = session
  const previous = previousClose(market, session)
  if (regular === undefined || previous === undefined || previous === 0n) return []
  const gap = divide((regular.open - previous) * 1_000_000n, previous)
  if (gap < 30_000n && gap > -30_000n) return []
  const isFilledBy = (bar: OracleBar) => regular.open > previous ? bar.low <= previous : bar.high >= previous
  const fill = regular.bars.find(isFilledBy)
  const end = Date.parse(`${session.date}T00:00Z`) +
    (lastMinuteOf(session) + 1 + getUtcOffset(session.date) * 60) * 60_000
  return [{
    ...regularColumns(session, regular, previous),
    closed_over_vwap: String(regular.close > regular.vwap),
    premarket_volume: String(premarket?.volume ?? 0n),
    premarket_dollar_volume: money(premarket?.cents ?? 0n),
    open_to_low_pct: percent(regular.low, regular.open),
    gap_filled: String(fill !== undefined),
    gap_fill_time: fill === undefined ? null : wallClock(session.date, fill.minute),
    last_updated: new Date(end).toISOString().slice(0, 19).replace("T", " "),
  }]
}

/** Returns the row of `intraday_runners` if the volume is far above the average volume. Otherwise returns no row. */
const runnerRow = (market: OracleMarket, session: Session): ReadonlyArray<OracleRow> => {
  const { afterHours, premarket, regular } = session
  const previous = previousClose(market, session)
  const before = volumesBefore(market, session, volumeOf)
  const volume = volumeOf(session)
  const found = ratio(volume, before)
  if (regular === undefined || previous === undefined || previous === 0n || found === undefined) return []
  const count = BigInt(before.length)
  const total = sum(before)
  const deviation = count * volume - total
  const isAnomaly = deviation ** 2n > 9n * (count * sum(before.map((one) => one ** 2n)) - total ** 2n)
  if (found <= 90_000n || !isAnomaly) return []
  return [{
    ...regularColumns(session, regular, previous),
    daily_volume_ratio: format(found, 4),
    premarket_volume: premarket === undefined ? null : String(premarket.volume),
    premarket_dollar_volume: premarket === undefined ? null : money(premarket.cents),
    afterhours_dollar_volume: afterHours === undefined ? null : money(afterHours.cents),
    last_updated: fixedOffset(session.date, lastMinuteOf(session) + 1),
    anomaly_flagged: "true",
  }]
}

/** Computes the rows of all datasets except `screener`. The input must have at most one bar per symbol and minute. */
export const computeTables = (bars: ReadonlyArray<OracleBar>, splits: ReadonlyArray<OracleSplit>): OracleTables => {
  const sessions = makeSessions(bars)
  const market: OracleMarket = { sessions, splits, completeDays: findCompleteDays(sessions) }
  return {
    daily_prices: sessions.flatMap(({ date, regular, ticker }) =>
      regular === undefined || !market.completeDays.has(date) ? [] : [{ ticker, date, close: price(regular.close) }]
    ),
    premarket_stats: sessions.flatMap((session) => {
      const previous = previousClose(market, session)
      return session.premarket === undefined || previous === undefined || previous === 0n
        ? []
        : [extendedHours(market, session, session.premarket, previous, ({ premarket }) => premarket?.volume ?? 0n)]
    }),
    afterhours_stats: sessions.flatMap((session) =>
      session.afterHours === undefined || session.regular === undefined ? [] : [
        extendedHours(
          market,
          session,
          session.afterHours,
          session.regular.close,
          ({ afterHours }) => afterHours?.volume ?? 0n,
        ),
      ]
    ),
    gap_stats: sessions.flatMap((session) => gapRow(market, session)),
    intraday_runners: sessions.flatMap((session) => runnerRow(market, session)),
  }
}
