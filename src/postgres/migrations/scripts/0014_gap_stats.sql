-- Days on which a ticker opened with a price gap (resources: gap-stats). gap-stats-advanced returns all columns (D30).
-- last_updated is an instant; the other times are New York wall-clock times (§2.1.4, D15: timestamps).
create table gap_stats (
  ticker                     text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date                       date not null,
  previous_day_close         numeric(18, 4) not null,
  market_open                numeric(18, 4) not null,
  gap_percentage             numeric(18, 4) not null,
  high_price                 numeric(18, 4) not null,
  low_price                  numeric(18, 4) not null,
  high_time                  timestamp(3),
  low_time                   timestamp(3),
  market_close               numeric(18, 4) not null,
  closed_over_vwap           boolean,
  volume                     bigint not null,
  dollar_volume              numeric(20, 2) not null,
  premarket_volume           bigint not null,
  premarket_dollar_volume    numeric(20, 2) not null,
  premarket_vwap             numeric(18, 4),
  afterhours_close           numeric(18, 4),
  market_cap                 numeric(20, 2),
  filing_types               text[] not null default '{}',
  all_tags                   text[] not null default '{}',
  spike_start_time           timestamp(3),
  last_updated               timestamptz(3) not null,
  -- The following columns are for gap-stats-advanced only.
  open_to_high_pct           numeric(18, 4) not null,
  open_to_low_pct            numeric(18, 4) not null,
  percentage_gain            numeric(18, 4) not null,
  spike_start_price          numeric(18, 4),
  spike_duration_minutes     bigint,
  est_halt_minutes           bigint,
  rth_volume                 bigint not null,
  rth_dollar_volume          numeric(20, 2) not null,
  premarket_high             numeric(18, 4),
  premarket_low              numeric(18, 4),
  afterhours_high            numeric(18, 4),
  afterhours_low             numeric(18, 4),
  afterhours_volume          bigint,
  close_under_50pct_of_range boolean not null,
  gap_filled                 boolean not null,
  gap_fill_time              timestamp(3),
  tradable_float             bigint,
  primary key (ticker, date)
);

-- Newest first. For one ticker, a backward scan of the primary key gives this order.
create index on gap_stats (date desc, ticker);
create index on gap_stats (closed_over_vwap, date desc, ticker);
create index on gap_stats (gap_percentage);
create index on gap_stats (volume);
create index on gap_stats (dollar_volume);
create index on gap_stats (market_cap);
create index on gap_stats using gin (all_tags);
create index on gap_stats using gin (filing_types);
