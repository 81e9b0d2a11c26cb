-- One report on a ticker that ran (resources: research-reports). research-reports shows all columns but tldr_text and
-- needs the ultimate tier (D3); research-reports-tldr shows the same rows to all, without report_id (§2.5, D30).
-- Both times are instants (§2.1.4, D15).
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

-- Newest first, of all and of a ticker; created_at is a filter too.
create index on research_reports (created_at desc, report_id);
create index on research_reports (ticker, created_at desc, report_id);
create index on research_reports (gain_percentage);
