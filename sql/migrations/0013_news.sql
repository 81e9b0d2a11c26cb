-- News and filings (resources: news); news-basic shows fewer columns of the same rows (D30).
-- form_type is `news`, or the SEC form of a filing.
-- created_at and last_updated are Eastern wall clock, filed_at_time is New York's (§2.1.4, D15).
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
  -- What `query` looks in; the cut keeps a freak text below the size a tsvector may have.
  search           tsvector generated always as (
    to_tsvector('english', left(coalesce(title, '') || ' ' || coalesce(summary, ''), 50000))
  ) stored
);

-- Newest first, of all, of a ticker, of a form, of a day.
create index on news (created_at desc, id);
create index on news (ticker, created_at desc, id);
create index on news (form_type, created_at desc, id);
create index on news (filed_at, created_at desc, id);
-- hide_news: filings may be rare among news; hide_filings is a form_type and has its index above.
create index on news (created_at desc, id) where form_type <> 'news';
create index on news using gin (tags);
create index on news using gin (search);
-- Whether a word is rare decides between that index and reading from the latest on; so 10,000 words are counted.
alter table news alter column search set statistics 1000;
