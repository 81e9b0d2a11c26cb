-- Unadjusted closing prices (§2.6), used to look up the last close on or before a day. No endpoint returns these rows
-- directly.
create table daily_prices (
  ticker ticker not null,
  date   fact_day not null,
  close  price not null,
  primary key (ticker, date)
);

-- Used to find the trading days, which are the days with closes (D32).
create index on daily_prices (date);

select history.track('daily_prices');
