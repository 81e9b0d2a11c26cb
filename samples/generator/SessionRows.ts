/** Rows of gap_stats and intraday_runners: one day seen twice. */
import { clock, dateOf, type Day, dayAt, hour, instant } from "./Calendar.ts"
import { symbolOn } from "./Company.ts"
import { above, maybe, money, price, ratio } from "./Decimals.ts"
import { isNews } from "./Documents.ts"
import { knownOn } from "./Floats.ts"
import { capOf, type History } from "./Market.ts"
import { dollarsOf, type Session, type Trading, volumeOf } from "./Sessions.ts"

/** What was filed and said from the evening before on: the forms and tags of a session. */
export const around = ({ documents }: History, from: Day, to: Day) => {
  const near = documents.filter(({ day }) => day >= from && day <= to)
  return {
    filing_types: [...new Set(near.filter((document) => !isNews(document)).map(({ form }) => form))],
    all_tags: [...new Set(near.flatMap(({ tags }) => tags ?? []))],
  }
}

/** Some days nobody kept the times of, nor the value of the company. */
const isKept = ({ gap: { session, topic } }: Session) => topic !== null || session % 5 !== 0

export const capAt = (history: History, session: number, close: number) =>
  maybe(capOf(close, history.prices.outstanding[session]), money)

export const floatAt = (history: History, day: Day) => knownOn(history.floats, day)?.tradable ?? null

const percentages = ({ regular: { high, low, open, reference } }: Session) => ({
  gap_percentage: above(open, reference),
  percentage_gain: above(high, reference),
  open_to_high_pct: above(high, open),
  open_to_low_pct: above(low, open),
})

export const spikeOf = ({ halts, spike }: Trading, day: Day) => ({
  spike_start_time: maybe(spike, ({ start }) => clock(day, start)),
  spike_start_price: maybe(spike, (rise) => price(rise.price)),
  spike_duration_minutes: maybe(spike, ({ minutes }) => minutes),
  est_halt_minutes: spike === null ? null : halts,
})

const premarketOf = ({ premarket }: Session) => ({
  premarket_vwap: maybe(premarket, ({ vwap }) => price(vwap)),
  premarket_high: maybe(premarket, ({ high }) => price(high)),
  premarket_low: maybe(premarket, ({ low }) => price(low)),
})

const afterHoursOf = ({ afterHours }: Session) => ({
  afterhours_close: maybe(afterHours, ({ close }) => price(close)),
  afterhours_high: maybe(afterHours, ({ high }) => price(high)),
  afterhours_low: maybe(afterHours, ({ low }) => price(low)),
  afterhours_volume: maybe(afterHours, ({ volume }) => volume),
})

/** The columns that gap_stats and intraday_runners share. */
const dayOf = (history: History, session: Session) => {
  const day = dayAt(session.session)
  const { close, high, highTime, low, lowTime, open, reference } = session.regular
  const kept = isKept(session)
  return {
    ticker: symbolOn(history.company, day),
    date: dateOf(day),
    ...percentages(session),
    previous_day_close: price(reference),
    market_open: price(open),
    high_price: price(high),
    high_time: kept ? clock(day, highTime) : null,
    low_price: price(low),
    low_time: kept ? clock(day, lowTime) : null,
    market_close: price(close),
    close_under_50pct_of_range: 2 * close < high + low,
    ...spikeOf(session.regular, day),
    ...premarketOf(session),
    ...afterHoursOf(session),
    market_cap: kept ? capAt(history, session.session, close) : null,
    ...around(history, dayAt(session.session - 1), day),
  }
}

/** The price came back to the close before: by the low of a gap up, by the high of a gap down. */
const filled = ({ regular: { high, low, open, reference } }: Session) =>
  open > reference ? low <= reference : high >= reference

export const gapStats = (history: History) =>
  history.prices.sessions.map((session) => {
    const { gap, premarket, regular } = session
    const day = dayAt(session.session)
    const row = dayOf(history, session)
    return {
      ...row,
      closed_over_vwap: isKept(session) ? regular.close > regular.vwap : null,
      volume: volumeOf(session),
      dollar_volume: money(dollarsOf(session)),
      premarket_volume: premarket?.volume ?? 0,
      premarket_dollar_volume: money(premarket?.dollars ?? 0),
      rth_volume: regular.volume,
      rth_dollar_volume: money(regular.dollars),
      gap_filled: filled(session),
      gap_fill_time: filled(session) ? (gap.open > 0 ? row.low_time : row.high_time) : null,
      tradable_float: floatAt(history, day),
      last_updated: instant(day, hour(20, 15) + (session.session % 60)),
    }
  })

/** A day that stood out enough for the detector to look at. */
const stoodOut = ({ gap: { volume } }: Session) => volume >= 4

export const intradayRunners = (history: History) =>
  history.prices.sessions.filter(stoodOut).map((session) => {
    const { afterHours, gap, premarket, regular, usual } = session
    const { open_to_low_pct: _, ...row } = dayOf(history, session)
    const kept = isKept(session)
    return {
      ...row,
      daily_volume_ratio: ratio(volumeOf(session), usual),
      volume: kept ? volumeOf(session) : null,
      dollar_volume: kept ? money(dollarsOf(session)) : null,
      rth_volume: kept ? regular.volume : null,
      rth_dollar_volume: kept ? money(regular.dollars) : null,
      afterhours_dollar_volume: maybe(afterHours, ({ dollars }) => money(dollars)),
      premarket_volume: maybe(premarket, ({ volume }) => volume),
      premarket_dollar_volume: maybe(premarket, ({ dollars }) => money(dollars)),
      last_updated: clock(dayAt(session.session), hour(20, 5) + (session.session % 60)),
      anomaly_flagged: gap.flagged,
    }
  })
