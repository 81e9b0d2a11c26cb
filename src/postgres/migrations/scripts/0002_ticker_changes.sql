-- Ticker change events (§2.2, D19 to D22: ticker lineage). An event's status and date decide whether it is eligible.
create table ticker_changes (
  old_ticker     text not null check (old_ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  new_ticker     text not null check (new_ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  effective_date date not null,
  cik            text check (cik ~ '^[0-9]{10}$'),
  company_name   text,
  status         text not null check (status in ('confirmed', 'estimated', 'backfill', 'reverted', 'blocked')),
  source         text,
  recorded_at    timestamptz(3) not null default now(),
  check (old_ticker <> new_ticker),
  -- Duplicate events are stored once; two missing CIKs count as equal (D22: duplicates).
  unique nulls not distinct (old_ticker, new_ticker, effective_date, cik)
);

create index on ticker_changes (old_ticker, effective_date) where status = 'confirmed';
create index on ticker_changes (new_ticker, effective_date) where status = 'confirmed';

-- Former tickers that are known without an event (D23: historical tickers).
create table historical_tickers (
  ticker        text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  former_ticker text not null check (former_ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date          date,
  unique nulls not distinct (ticker, former_ticker, date)
);
