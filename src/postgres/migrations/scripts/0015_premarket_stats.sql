-- One row per ticker and premarket session (resources: premarket-stats); same shape as afterhours_stats.
-- reference_close is the previous day's close. last_updated is Eastern wall-clock time, others are New York (D15).
create table premarket_stats (
  ticker                 text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date                   date not null,
  reference_close        numeric(18, 4) not null,
  open_price             numeric(18, 4),
  close_price            numeric(18, 4),
  high_price             numeric(18, 4) not null,
  low_price              numeric(18, 4) not null,
  high_time              timestamp(3),
  low_time               timestamp(3),
  percentage_gain        numeric(18, 4) not null,
  change_percentage      numeric(18, 4) not null,
  vwap                   numeric(18, 4),
  volume                 bigint not null,
  dollar_volume          numeric(20, 2) not null,
  volume_ratio           numeric(18, 4),
  trade_count            bigint,
  spike_start_time       timestamp(3),
  spike_start_price      numeric(18, 4),
  spike_duration_minutes bigint,
  est_halt_minutes       bigint,
  market_cap             numeric(20, 2),
  tradable_float         bigint,
  filing_types           text[] not null default '{}',
  all_tags               text[] not null default '{}',
  last_updated           timestamp(3) not null,
  primary key (ticker, date)
);

-- Newest first. For one ticker, a backward scan of the primary key gives this order.
create index on premarket_stats (date desc, ticker);
create index on premarket_stats (percentage_gain);
create index on premarket_stats (change_percentage);
create index on premarket_stats (volume);
create index on premarket_stats (dollar_volume);
create index on premarket_stats (market_cap);
create index on premarket_stats (tradable_float);
create index on premarket_stats using gin (all_tags);
