-- Sums of the bars that `tickerline ingest prices` has read (decision 0127): one row per symbol, day and part of the
-- day. The rows of the datasets are computed from them. Only the role that owns the tables writes it.
create table price_periods (
  ticker        text not null,
  date          fact_day not null,
  -- `day` is a bar of a whole day; the others are sums of minute bars.
  period        text not null check (period in ('day', 'premarket', 'regular', 'afterhours')),
  open          price not null,
  high          price not null,
  low           price not null,
  close         price not null,
  volume        quantity not null,
  trades        tally,
  -- The following columns are null in rows of whole days. Minutes are counted from midnight in New York.
  dollar_volume dollars,
  vwap          price,
  high_minute   smallint,
  low_minute    smallint,
  first_minute  smallint,
  last_minute   smallint,
  spike_minute  smallint,
  spike_price   price,
  -- The following columns are null outside of regular hours. `fill_minute` is when the price first returned to
  -- `fill_close`, the previous close at the time of the ingest.
  halt_minutes  smallint,
  fill_close    price,
  fill_minute   smallint,
  primary key (ticker, date, period)
);

-- Find the days whose closes are known: those with day bars, or whose last minute bar is at the close.
create index on price_periods (date) where period = 'day';
create index on price_periods (date, last_minute);
