-- State of `tickerline ingest edgar` (decisions 0104 and 0105). Only the role that owns the tables writes it.

-- When any process may next send a request to the SEC, and the end of a pause that the SEC demanded.
create table edgar_access (
  only_one        boolean primary key default true check (only_one),
  next_request_at timestamptz not null default 'epoch',
  paused_until    timestamptz not null default 'epoch'
);

insert into edgar_access default values;

-- Headers of the last response from each URL, for conditional requests.
create table edgar_validators (
  url           text primary key,
  etag          text,
  last_modified text,
  check (num_nonnulls(etag, last_modified) > 0)
);

-- One row for each run of the ingest, also while it is running.
create table edgar_runs (
  run_id      bigint generated always as identity primary key,
  -- Whether INGEST_EDGAR started the run, instead of a command.
  scheduled   boolean not null,
  -- Null if the run covers all companies.
  tickers     text[],
  datasets    text[] not null,
  since       date not null,
  -- The day up to which the SEC's nightly archives contain all filings, if the run has read them (decision 0128). The
  -- next run reads the daily indexes from this day on.
  archive_day date,
  started_at  timestamptz(3) not null,
  -- A running process updates this regularly. If it stops, the process has died.
  seen_at     timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  status      text not null default 'running'
              check (status in ('running', 'succeeded', 'incomplete', 'failed', 'interrupted')),
  error       text,
  documents   bigint not null default 0,
  rows        bigint not null default 0,
  rejections  bigint not null default 0
);

-- How far each dataset of a company was ingested.
create table edgar_progress (
  cik               cik not null,
  dataset           text not null,
  -- Filings from this day on were ingested.
  since             date not null,
  last_accession    text,
  last_filing_date  date,
  -- Ingested filings of the last days, in which late filings may still appear.
  recent_accessions text[] not null,
  run_id            bigint not null,
  primary key (cik, dataset)
);

-- SEC documents that still have to be read. A row is written with the progress of its company, and deleted with
-- the rows of its document, each in one transaction.
create table edgar_work (
  -- The SEC's address. A fragment names one element of the document.
  url             text not null,
  -- The dataset whose row was set aside; empty if the whole document is to be read.
  dataset         text not null default '',
  -- Null for the ticker list and the daily indexes.
  cik             cik,
  -- `form` and `instance`: a run over all companies has listed an ownership form, a statement or an XBRL instance, and
  -- has not requested it yet (decision 0128).
  -- `decided`: an operator has decided on a doubt, or a close has become known; what depends on it is computed again.
  -- `absent` and `rejected`: the SEC did not send the document, or sent something unreadable (decision 0105).
  kind            text not null check (kind in ('form', 'instance', 'decided', 'absent', 'rejected')),
  -- For a form: its filing, as the company's list of filings describes it.
  filing          jsonb,
  -- Why the document could not be read; null if it has not been requested yet. Contains no text from the document.
  reason          text,
  attempts        int not null default 0 check (attempts >= 0),
  -- Null if the document is requested again only by `--retry-rejected`, or by a newer parser.
  next_try_at     timestamptz(3),
  first_failed_at timestamptz(3),
  last_failed_at  timestamptz(3),
  -- The version of the parser that added or set aside the document.
  parser_version  int not null,
  primary key (url, dataset),
  check ((kind = 'form') = (filing is not null)),
  check (
    num_nulls(reason, first_failed_at, last_failed_at) = case when kind in ('absent', 'rejected') then 0 else 3 end
  )
);

create index on edgar_work (cik);

-- Finds the newest listed forms. A run requests them after it has visited all companies, because each form costs a
-- request.
create index edgar_work_newest_forms_idx
  on edgar_work ((filing ->> 'filingDate') desc, (filing ->> 'accession') desc) where kind = 'form';

-- The SEC's ticker list as JSON, one copy per day (New York). Comparing the copies shows ticker changes. A change
-- counts only once the copies have agreed on it for a week, because the list may switch back and forth for days.
create table edgar_ticker_lists (
  day       date primary key,
  row_count int not null,
  entries   text not null
);

-- The exact acceptance time of one filing per company, from its index page. It shows whether the times in the company's
-- list of filings are UTC or Eastern, if their hours do not (decision 0102).
create table edgar_stamp_zones (
  cik         cik primary key,
  accession   text not null,
  accepted_at timestamptz(3) not null
);

-- Share counts in the XBRL instances of filings, for companies whose facts lack them because they state the counts per
-- class (decision 0103). Each instance is requested once.
create table edgar_instances (
  cik        cik not null,
  accession  text not null,
  -- The date of the counts, and each class with its member, symbol and number of shares, or why they cannot be read.
  -- Null if the instance has no counts.
  cover      jsonb,
  filed_on   fact_day not null,
  primary key (cik, accession)
);

-- The days of public floats for which no close was known when the counts of the company were assessed. When prices have
-- been loaded, the next run reads the facts of the company again.
create table edgar_awaited_closes (
  cik    cik primary key,
  ticker ticker not null,
  day    fact_day not null
);

select keep_spellings('edgar_awaited_closes');

-- Amounts of registrations from the fee exhibits of their statements and amendments, which are not read in the order in
-- which they were filed. The newest exhibit counts (decision 0103).
create table edgar_fees (
  cik               cik not null,
  accession         text not null,
  file_number       text not null,
  filing_date       date not null,
  offering_amount   numeric(20, 2),
  shares_registered bigint,
  source            text[] not null,
  primary key (cik, accession)
);

-- When registrations end (Rule 415(a)(5)). Each run ends the registrations whose last day has passed, because their
-- companies may have no new filing. Written with the rows of the company.
create table edgar_registration_ends (
  -- The `id` of the row in `registrations`.
  id               text primary key,
  cik              cik not null,
  -- The last day on which the registration can be effective. The row has no `expiration_date` if the day is not exact.
  last_day         date not null,
  -- The headline of the row until it expires. A row with another headline is from another source, and does not expire.
  headline         text not null,
  expired_headline text not null
);

create index on edgar_registration_ends (cik);

-- Implausible values in SEC documents, which are not published (operations/ingest-edgar). A document that is read
-- again replaces its doubts, except those that an operator has decided.
create table edgar_doubts (
  doubt_id    bigint generated always as identity primary key,
  cik         cik not null,
  dataset     text not null,
  -- The document with the element, as in the row's `source`.
  url         text not null,
  field       text not null,
  -- What the document states; empty if it states nothing.
  read        text not null,
  -- What the row has if the document is right; null if that is not clear, so that nothing can be confirmed.
  confirmable text,
  -- Whether it is decided together with the other doubts about the element.
  is_joint    boolean not null default false,
  -- What the row has instead.
  published   text,
  reason      text not null,
  decision    text check (decision in ('confirmed', 'corrected')),
  -- What the row has since the decision; null if the value is unknown.
  decided     text check (decision is not null or decided is null),
  unique (dataset, url, field, read)
);

create index on edgar_doubts (cik);

-- Totals of the bars that `tickerline ingest prices` has read (decision 0127): one row per symbol, day and part of the
-- day. The rows of the datasets are computed from them. Only the role that owns the tables writes it.
create table price_periods (
  ticker        ticker not null,
  date          fact_day not null,
  -- `day` is a bar of a whole day; the others are totals of minute bars.
  period        text not null check (period in ('day', 'premarket', 'regular', 'afterhours')),
  open          price not null,
  high          price not null,
  low           price not null,
  close         price not null,
  volume        quantity not null,
  trades        tally,
  -- The following columns are null in rows of whole days. Minutes are counted from midnight in New York.
  dollar_volume dollars,
  vwap          price,
  high_minute   smallint,
  low_minute    smallint,
  first_minute  smallint,
  last_minute   smallint,
  spike_minute  smallint,
  spike_price   price,
  -- The following columns are null outside of regular hours. `fill_minute` is when the price first returned to
  -- `fill_close`, the previous close at the time of the ingest.
  halt_minutes  smallint,
  fill_close    price,
  fill_minute   smallint,
  primary key (ticker, date, period)
);

-- These find the days whose closes are known: days with day bars, or with a last minute bar at the close.
create index on price_periods (date) where period = 'day';
create index on price_periods (date, last_minute);

select keep_spellings('price_periods');
