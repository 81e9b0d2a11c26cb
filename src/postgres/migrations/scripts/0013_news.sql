-- News and filings (resources: news). news-basic returns fewer columns of the same rows (D30: tables).
-- form_type is `news` or a SEC form. created_at and last_updated are Eastern, filed_at_time is New York time (D15).
create table news (
  id               text primary key,
  ticker           text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  tickers          text[] not null default '{}',
  form_type        text not null,
  title            text,
  summary          text,
  body             text,
  author           text,
  publisher        text,
  tags             text[] not null default '{}',
  accession_number text,
  document_url     text,
  filed_at         date not null,
  filed_at_time    timestamp(3),
  created_at       timestamp(3) not null,
  last_updated     timestamp(3) not null,
  -- Searched by the `query` parameter. Truncated to stay within the size limit of a tsvector.
  search           tsvector generated always as (
    to_tsvector('english', left(coalesce(title, '') || ' ' || coalesce(summary, ''), 50000))
  ) stored
);

-- Newest first: all rows, one ticker, one form, one day.
create index on news (created_at desc, id);
create index on news (ticker, created_at desc, id);
create index on news (form_type, created_at desc, id);
create index on news (filed_at, created_at desc, id);
-- For hide_news, because filings may be rare. hide_filings filters by form_type, which has an index above.
create index on news (created_at desc, id) where form_type <> 'news';
create index on news using gin (tags);
create index on news using gin (search);
-- The planner chooses between this index and a scan by date from word frequencies, so it needs detailed statistics.
alter table news alter column search set statistics 1000;
