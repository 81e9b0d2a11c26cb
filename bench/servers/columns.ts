/** The response columns, for the handwritten servers and PostGraphile. */

/**
 * How the values of a column are formatted. `eastern` and `newYork` are local timestamps without an offset
 * (`times.ts`).
 */
export type ColumnKind =
  | "text"
  | "decimal"
  | "whole"
  | "flag"
  | "words"
  | "eastern"
  | "newYork"

/** The columns of a response, in order. */
export type Columns = Readonly<Record<string, ColumnKind>>

/** The columns of `/v1/intraday-runners`. */
export const intradayRunner: Columns = {
  ticker: "text",
  date: "text",
  gap_percentage: "decimal",
  market_open: "decimal",
  previous_day_close: "decimal",
  percentage_gain: "decimal",
  open_to_high_pct: "decimal",
  high_price: "decimal",
  high_time: "newYork",
  low_price: "decimal",
  low_time: "newYork",
  spike_start_time: "newYork",
  spike_start_price: "decimal",
  spike_duration_minutes: "whole",
  est_halt_minutes: "whole",
  daily_volume_ratio: "decimal",
  volume: "whole",
  dollar_volume: "decimal",
  rth_volume: "whole",
  rth_dollar_volume: "decimal",
  market_close: "decimal",
  close_under_50pct_of_range: "flag",
  afterhours_close: "decimal",
  afterhours_high: "decimal",
  afterhours_low: "decimal",
  afterhours_volume: "whole",
  afterhours_dollar_volume: "decimal",
  premarket_vwap: "decimal",
  premarket_volume: "whole",
  premarket_dollar_volume: "decimal",
  premarket_high: "decimal",
  premarket_low: "decimal",
  market_cap: "decimal",
  filing_types: "words",
  all_tags: "words",
  last_updated: "eastern",
}

/** The columns of `/v1/screener`. */
export const screenerRow: Columns = {
  ticker: "text",
  company: "text",
  cik: "text",
  exchange: "text",
  sector: "text",
  industry: "text",
  country: "text",
  state: "text",
  city: "text",
  website: "text",
  ipo_date: "text",
  is_adr: "flag",
  price: "decimal",
  market_cap: "decimal",
  high_365: "decimal",
  low_365: "decimal",
  outstanding: "whole",
  float: "whole",
  tradable_float: "whole",
  insider_percent: "decimal",
  affiliate_percent: "decimal",
  institutions_percent: "decimal",
  ownership_source_url: "text",
  average_volume: "whole",
  median_volume_60: "whole",
  today_volume: "whole",
  volume_change_percentage: "decimal",
  short_interest: "whole",
  short_float: "decimal",
  days_to_cover: "decimal",
  shares_available: "whole",
  fee_rate: "decimal",
  gain_1_day: "decimal",
  gain_2_day: "decimal",
  gain_3_day: "decimal",
  gain_7_day: "decimal",
  gain_14_day: "decimal",
  gain_30_day: "decimal",
  gain_60_day: "decimal",
  gain_90_day: "decimal",
  gain_180_day: "decimal",
  gain_365_day: "decimal",
  num_gaps: "whole",
  num_runners: "whole",
  avg_gap: "decimal",
  ratio_debt_to_equity: "decimal",
  pending_s1: "flag",
  last_updated: "newYork",
}

/** The columns of `/v1/historical-float-pro`. */
export const historicalFloat: Columns = {
  ticker: "text",
  filed_at: "text",
  form_type: "text",
  document_url: "text",
  reported_date: "text",
  outstanding_shares: "whole",
  float: "whole",
  restricted_shares: "whole",
  tradable_float: "whole",
  affiliate_shares: "whole",
  insider_shares: "whole",
  affiliate_percent: "decimal",
  institutions_percent: "decimal",
  insider_percent: "decimal",
  market_cap: "decimal",
  cik: "text",
  is_adr: "flag",
  ads_ratio: "decimal",
  details: "text",
  last_updated: "newYork",
}
