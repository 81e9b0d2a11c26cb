-- Reports on tickers with large moves (resources.md, research-reports). /v1/research-reports returns all columns except
-- tldr_text, and needs the ultimate tier (D3). /v1/research-reports-tldr is open to every tier, and omits report_id
-- (§2.5, D30).
create table research_reports (
  report_id       filled_text primary key,
  ticker          ticker not null,
  gain_percentage change not null,
  report_text     filled_text not null,
  tldr_text       filled_text not null,
  volume          quantity,
  price           price,
  market_cap      dollars,
  tradable_float  quantity,
  outstanding     quantity,
  country         text,
  industry        text,
  post_url        text,
  created_at      instant not null,
  last_updated    instant not null
);

-- Sorts newest first, for all rows or for one ticker. Requests can also filter by created_at.
create index on research_reports (created_at desc, report_id);
create index on research_reports (ticker, created_at desc, report_id);
create index on research_reports (gain_percentage);

select history.track('research_reports');
