-- Reports on tickers with large moves (resources: research-reports). /v1/research-reports returns all columns except
-- tldr_text and needs the ultimate tier (D3); /v1/research-reports-tldr is open to all and omits report_id (§2.5, D30).
create table research_reports (
  report_id       text primary key,
  ticker          text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  gain_percentage numeric(18, 4) not null,
  report_text     text not null,
  tldr_text       text not null,
  volume          bigint,
  price           numeric(18, 4),
  market_cap      numeric(20, 2),
  tradable_float  bigint,
  outstanding     bigint,
  country         text,
  industry        text,
  post_url        text,
  created_at      timestamptz(3) not null,
  last_updated    timestamptz(3) not null
);

-- Newest first: all rows, and one ticker. created_at is also a filter.
create index on research_reports (created_at desc, report_id);
create index on research_reports (ticker, created_at desc, report_id);
create index on research_reports (gain_percentage);
