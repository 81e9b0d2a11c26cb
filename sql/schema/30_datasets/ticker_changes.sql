-- Ticker change events (§2.2, D19 to D22, ticker lineage). An event is eligible, which means that lineage uses it, if
-- its status is `confirmed` and its date has been reached (D19).
create table ticker_changes (
  old_ticker     ticker not null,
  new_ticker     ticker not null,
  effective_date fact_day not null,
  cik            cik,
  company_name   text,
  status         text not null check (status in ('confirmed', 'estimated', 'backfill', 'reverted', 'blocked')),
  source         text,
  recorded_at    instant not null default now(),
  source_links   text_list,
  check (old_ticker <> new_ticker),
  -- Duplicate events are stored only once. Two missing CIKs are considered equal (D22, duplicates).
  unique nulls not distinct (old_ticker, new_ticker, effective_date, cik)
);

create index on ticker_changes (old_ticker, effective_date) where status = 'confirmed';
create index on ticker_changes (new_ticker, effective_date) where status = 'confirmed';
create index on ticker_changes (new_ticker) where status in ('estimated', 'backfill');

select history.track('ticker_changes');
update history.datasets set shown_from = 'effective_date' where dataset = 'ticker_changes';

-- Returns the eligible ticker changes (D19). PostgreSQL can inline the function and use an index only if the function
-- has no settings, so it has no `set` clause.
create function eligible_changes(today date)
returns table (old_ticker text, new_ticker text, effective_date date, cik text)
language sql stable as $$
  select old_ticker, new_ticker, effective_date, cik from public.ticker_changes
  where status = 'confirmed' and effective_date <= today
$$;
