-- One row per ticker and trading session (§2.4).
create table intraday_runners (
  ticker                     ticker not null,
  date                       fact_day not null,
  gap_percentage             change not null,
  market_open                price not null,
  previous_day_close         price not null,
  percentage_gain            change not null,
  open_to_high_pct           change not null,
  high_price                 price not null,
  high_time                  wall_time,
  low_price                  price not null,
  low_time                   wall_time,
  spike_start_time           wall_time,
  spike_start_price          price,
  spike_duration_minutes     tally,
  est_halt_minutes           tally,
  daily_volume_ratio         proportion not null,
  volume                     quantity,
  dollar_volume              dollars,
  rth_volume                 quantity,
  rth_dollar_volume          dollars,
  market_close               price not null,
  close_under_50pct_of_range boolean not null,
  afterhours_close           price,
  afterhours_high            price,
  afterhours_low             price,
  afterhours_volume          quantity,
  afterhours_dollar_volume   dollars,
  premarket_vwap             price,
  premarket_volume           quantity,
  premarket_dollar_volume    dollars,
  premarket_high             price,
  premarket_low              price,
  market_cap                 dollars,
  filing_types               text_list not null default '{}',
  all_tags                   text_list not null default '{}',
  last_updated               wall_time not null,
  anomaly_flagged            boolean not null,
  primary key (ticker, date)
);

-- The endpoint lists flagged sessions with more than nine times the usual volume, newest first. These indexes have the
-- same condition and order.
create index on intraday_runners (date desc, ticker) where anomaly_flagged and daily_volume_ratio > 9;
create index on intraday_runners (ticker, date desc) where anomaly_flagged and daily_volume_ratio > 9;
create index on intraday_runners (gap_percentage) where anomaly_flagged and daily_volume_ratio > 9;

select history.track('intraday_runners');
