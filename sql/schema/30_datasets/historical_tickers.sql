-- Former tickers for which no change event is known (D23, historical tickers).
create table historical_tickers (
  ticker        ticker not null,
  former_ticker ticker not null,
  date          fact_day,
  unique nulls not distinct (ticker, former_ticker, date)
);

select history.track('historical_tickers');
update history.datasets set shown_from = 'date' where dataset = 'historical_tickers';
