/** Rows of premarket_stats and afterhours_stats: what was traded before the open and after the close. */
import { clock, dateOf, type Day, dayAt, hour, sessionOn } from "./Calendar.ts"
import { symbolOn } from "./Company.ts"
import { above, money, price, ratio } from "./Decimals.ts"
import type { History } from "./Market.ts"
import { around, capAt, floatAt, spikeOf } from "./SessionRows.ts"
import { isThin, type Trading } from "./Sessions.ts"

const extended = (history: History, day: Day, from: Day, trading: Trading, usual: number) => {
  const named = !isThin(trading)
  const session = sessionOn(day)
  return {
    ticker: symbolOn(history.company, day),
    date: dateOf(day),
    reference_close: price(trading.reference),
    open_price: named ? price(trading.open) : null,
    close_price: named ? price(trading.close) : null,
    high_price: price(trading.high),
    low_price: price(trading.low),
    high_time: named ? clock(day, trading.highTime) : null,
    low_time: named ? clock(day, trading.lowTime) : null,
    percentage_gain: above(trading.high, trading.reference),
    change_percentage: above(trading.close, trading.reference),
    vwap: named ? price(trading.vwap) : null,
    volume: trading.volume,
    dollar_volume: money(trading.dollars),
    volume_ratio: named ? ratio(trading.volume, usual) : null,
    trade_count: named ? trading.trades : null,
    ...spikeOf(trading, day),
    market_cap: named ? capAt(history, session, trading.reference) : null,
    tradable_float: floatAt(history, day),
    ...around(history, from, day),
  }
}

export const premarketStats = (history: History) =>
  history.prices.sessions.flatMap(({ premarket, session, usual }) => {
    if (premarket === null) return []
    const day = dayAt(session)
    const row = extended(history, day, dayAt(session - 1), premarket, usual)
    return [{ ...row, last_updated: clock(day, hour(9, 32)) }]
  })

/** Evenings of the days that gapped, and those on which the news of the next day's gap came. */
export const afterhoursStats = (history: History) =>
  [
    ...history.prices.evenings,
    ...history.prices.sessions.flatMap(({ afterHours: trading, session, usual }) =>
      trading === null ? [] : [{ session, trading, usual }]
    ),
  ].map(({ session, trading, usual }) => {
    const day = dayAt(session)
    return { ...extended(history, day, day, trading, usual), last_updated: clock(day, hour(20, 2)) }
  })
