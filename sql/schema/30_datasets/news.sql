-- News and filings (resources.md, news). news-basic returns fewer columns of the same rows (D30: tables). form_type is
-- `news` or an SEC form type.
create table news (
  id               filled_text primary key,
  ticker           ticker not null,
  tickers          text_list not null default '{}',
  form_type        filled_text not null,
  title            text,
  summary          text,
  body             text,
  author           text,
  publisher        text,
  tags             text_list not null default '{}',
  accession_number text,
  document_url     text,
  filed_at         fact_day not null,
  filed_at_time    wall_time,
  created_at       wall_time not null,
  last_updated     wall_time not null,
  source           text_list,
  -- The text searched by the parameter `query`, truncated to stay within the size limit of a tsvector.
  search           tsvector generated always as (
    to_tsvector('english', left(coalesce(title, '') || ' ' || coalesce(summary, ''), 50000))
  ) stored
);

-- These indexes sort newest first, for all rows or for one ticker, form type or day.
create index on news (created_at desc, id);
select index_each('news', '{ticker,form_type,filed_at}', 'created_at desc, id');
-- Used for the parameter hide_news: filings may be rare, so they have a separate index. The parameter hide_filings uses
-- the index on form_type above.
create index on news (created_at desc, id) where form_type <> 'news';
create index on news using gin (search);
-- The planner uses word frequencies to choose between this index and a scan by date, so it needs detailed statistics.
alter table news alter column search set statistics 1000;
select index_each('news', '{form_type}', 'created_at desc, id', any_case => true);
create index news_tags_any_case_idx on news using gin (lowered(tags));

-- Counts the items that a list leaves out when it follows a company's ticker changes: those filed outside the period in
-- which the company used the symbol (D35). The condition is true for every row. Its purpose is to keep other statements
-- from using this index: to return one page, they would sort all items of a symbol.
create index news_ticker_filed_at_idx on news (ticker, filed_at) where filed_at > '-infinity';

select history.track('news');
