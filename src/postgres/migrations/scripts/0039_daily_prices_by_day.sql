-- no transaction: the index is built while writes continue. It identifies trading days (D32: trading days).
drop index concurrently if exists daily_prices_date_idx;
create index concurrently daily_prices_date_idx on daily_prices (date);
