-- Sums of the bars that `tickerline ingest prices` has read (decision 0127): one row per symbol, day and part of the
-- day. The rows of the datasets are computed from them. Only the role that owns the tables writes it.
create table price_periods (
  ticker        text not null,
  date          date not null,
  -- `day` is a bar of a whole day; the others are sums of minute bars.
  period        text not null check (period in ('day', 'premarket', 'regular', 'afterhours')),
  open          numeric(18, 4) not null,
  high          numeric(18, 4) not null,
  low           numeric(18, 4) not null,
  close         numeric(18, 4) not null,
  volume        bigint not null,
  trades        bigint,
  -- The following columns are null in rows of whole days. Minutes are counted from midnight in New York.
  dollar_volume numeric(20, 2),
  vwap          numeric(18, 4),
  high_minute   smallint,
  low_minute    smallint,
  first_minute  smallint,
  last_minute   smallint,
  spike_minute  smallint,
  spike_price   numeric(18, 4),
  -- The following columns are null outside of regular hours. `fill_minute` is when the price first returned to
  -- `fill_close`, the previous close at the time of the ingest.
  halt_minutes  smallint,
  fill_close    numeric(18, 4),
  fill_minute   smallint,
  primary key (ticker, date, period)
);

-- Find the days whose closes are known: those with day bars, or whose last minute bar is at the close.
create index on price_periods (date) where period = 'day';
create index on price_periods (date, last_minute);

-- Combines the ratios of several splits.
create aggregate product (numeric) (sfunc = numeric_mul, stype = numeric);
