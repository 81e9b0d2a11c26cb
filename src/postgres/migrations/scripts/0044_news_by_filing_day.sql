-- no transaction: the index is built while writes continue. It finds the omitted items of a followed company (D35).
-- The condition, which all rows satisfy, keeps other statements from using it: a page would sort all items of a symbol.
drop index concurrently if exists news_ticker_filed_at_idx;
create index concurrently news_ticker_filed_at_idx on news (ticker, filed_at) where filed_at > '-infinity';
