/** Builds a row of `premarket_stats` or `afterhours_stats`. */
export const makeSessionRow = (ticker: string, date: string, volume = 1) => ({
  ticker,
  date,
  reference_close: 1,
  high_price: 1,
  low_price: 1,
  percentage_gain: 1,
  change_percentage: 1,
  volume,
  dollar_volume: 1,
  filing_types: [],
  all_tags: [],
  last_updated: "2026-06-01 20:05:00",
})
