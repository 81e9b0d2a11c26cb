-- no transaction: the index is made while rows are written. It tells trading days from other days (D32).
drop index concurrently if exists daily_prices_date_idx;
create index concurrently daily_prices_date_idx on daily_prices (date);
