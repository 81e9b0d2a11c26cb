-- One row per ticker and trading session (§2.4). Decimal places: prices, ratios and percentages 4, amounts 2.
-- Times without a zone: last_updated is Eastern, others are New York wall-clock times (D15: timestamps).
create table intraday_runners (
  ticker                     text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date                       date not null,
  gap_percentage             numeric(18, 4) not null,
  market_open                numeric(18, 4) not null,
  previous_day_close         numeric(18, 4) not null,
  percentage_gain            numeric(18, 4) not null,
  open_to_high_pct           numeric(18, 4) not null,
  high_price                 numeric(18, 4) not null,
  high_time                  timestamp(3),
  low_price                  numeric(18, 4) not null,
  low_time                   timestamp(3),
  spike_start_time           timestamp(3),
  spike_start_price          numeric(18, 4),
  spike_duration_minutes     bigint,
  est_halt_minutes           bigint,
  daily_volume_ratio         numeric(18, 4) not null,
  volume                     bigint,
  dollar_volume              numeric(20, 2),
  rth_volume                 bigint,
  rth_dollar_volume          numeric(20, 2),
  market_close               numeric(18, 4) not null,
  close_under_50pct_of_range boolean not null,
  afterhours_close           numeric(18, 4),
  afterhours_high            numeric(18, 4),
  afterhours_low             numeric(18, 4),
  afterhours_volume          bigint,
  afterhours_dollar_volume   numeric(20, 2),
  premarket_vwap             numeric(18, 4),
  premarket_volume           bigint,
  premarket_dollar_volume    numeric(20, 2),
  premarket_high             numeric(18, 4),
  premarket_low              numeric(18, 4),
  market_cap                 numeric(20, 2),
  filing_types               text[] not null default '{}',
  all_tags                   text[] not null default '{}',
  last_updated               timestamp(3) not null,
  anomaly_flagged            boolean not null,
  primary key (ticker, date)
);

-- The endpoint lists flagged sessions with over nine times the usual volume, newest first; the indexes match it.
create index on intraday_runners (date desc, ticker) where anomaly_flagged and daily_volume_ratio > 9;
create index on intraday_runners (ticker, date desc) where anomaly_flagged and daily_volume_ratio > 9;
create index on intraday_runners (gap_percentage) where anomaly_flagged and daily_volume_ratio > 9;
