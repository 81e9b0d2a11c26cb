-- State of `tickerline ingest edgar` (decisions 0104 and 0105). Only the role that owns the tables writes it.

-- The next moment at which a process may send a request to the SEC, and the end of a pause that the SEC demanded.
-- All processes share this row.
create table edgar_access (
  only_one        boolean primary key default true check (only_one),
  next_request_at timestamptz not null default 'epoch',
  paused_until    timestamptz not null default 'epoch'
);

insert into edgar_access default values;

-- Headers of the last answer, for conditional requests.
create table edgar_validators (
  url           text primary key,
  etag          text,
  last_modified text,
  check (num_nonnulls(etag, last_modified) > 0)
);

-- One row per run that loads. A run without `finished_at` is still running or was killed.
create table edgar_runs (
  run_id      bigint generated always as identity primary key,
  -- Started by INGEST_EDGAR, not by a command.
  scheduled   boolean not null,
  -- Null if the run covers all companies.
  tickers     text[],
  datasets    text[] not null,
  since       date not null,
  started_at  timestamptz(3) not null,
  finished_at timestamptz(3),
  status      text not null default 'running' check (status in ('running', 'succeeded', 'failed', 'interrupted')),
  error       text,
  documents   bigint not null default 0,
  rows        bigint not null default 0,
  rejections  bigint not null default 0
);

-- How far each dataset of a company was ingested.
create table edgar_progress (
  cik               text not null check (cik ~ '^[0-9]{10}$'),
  dataset           text not null,
  -- Filings of this day and later were ingested.
  since             date not null,
  last_accession    text,
  last_filing_date  date,
  -- Ingested filings of the last days, in which late filings may still appear.
  recent_accessions text[] not null,
  -- Filings whose document could not be downloaded; the next run requests it again.
  failed_accessions text[] not null,
  run_id            bigint not null,
  primary key (cik, dataset)
);

-- Documents that were set aside. The reason contains no text of the document.
create table edgar_rejections (
  url               text primary key,
  reason            text not null,
  first_rejected_at timestamptz(3) not null,
  last_rejected_at  timestamptz(3) not null
);

-- One copy of the SEC's ticker list per day (New York), as JSON, to find changes on which a week of copies agrees.
create table edgar_ticker_lists (
  day       date primary key,
  row_count int not null,
  entries   text not null
);
