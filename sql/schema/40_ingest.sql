-- The state of `tickerline ingest edgar` (decisions 0104 and 0105). Only the role that owns these tables writes to
-- them.

-- The earliest time at which any process may send the next request to the SEC, and the end of the pause that the SEC
-- last requested.
create table edgar_access (
  only_one        boolean primary key default true check (only_one),
  next_request_at timestamptz not null default 'epoch',
  paused_until    timestamptz not null default 'epoch'
);

insert into edgar_access default values;

-- The validators (`ETag` and `Last-Modified`) of the last response from each URL of the SEC. The next request sends
-- them, so that the SEC sends an unchanged document only once.
create table edgar_validators (
  url           text primary key,
  etag          text,
  last_modified text,
  check (num_nonnulls(etag, last_modified) > 0)
);

-- One row for each run of the ingest, including a run in progress.
create table edgar_runs (
  run_id      bigint generated always as identity primary key,
  -- Whether the schedule in INGEST_EDGAR started the run, rather than a command.
  scheduled   boolean not null,
  -- The symbols to which the run is limited. Null if it covers all companies.
  tickers     text[],
  datasets    text[] not null,
  since       date not null,
  -- The day up to which the run read filings from the SEC's nightly archives instead of requesting them (decision
  -- 0128). Null if it did not read the archives. The next run reads the daily indexes from this day on.
  archive_day date,
  started_at  timestamptz(3) not null,
  -- The process that runs the ingest updates this time regularly. If the updates stop, the process has died.
  seen_at     timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  status      text not null default 'running'
              check (status in ('running', 'succeeded', 'incomplete', 'failed', 'interrupted')),
  error       text,
  documents   bigint not null default 0,
  rows        bigint not null default 0,
  rejections  bigint not null default 0
);

-- The progress of the ingest for each company and dataset.
create table edgar_progress (
  cik               cik not null,
  dataset           text not null,
  -- Filings from this day on have been ingested.
  since             date not null,
  last_accession    text,
  last_filing_date  date,
  -- The accession numbers of filings that were ingested for the most recent days. The SEC may still add filings to
  -- these days, and the next run finds them by comparing with these numbers.
  recent_accessions text[] not null,
  run_id            bigint not null,
  primary key (cik, dataset)
);

-- SEC documents that still have to be read. A row is inserted in the same transaction as the progress of its company,
-- and deleted in the same transaction that writes the document's rows.
create table edgar_work (
  -- The document's URL on the SEC's site. A fragment identifies one element of the document.
  url             text not null,
  -- The dataset to which a row from this document could not be added, and for which the document is read again later.
  -- Empty if the entry concerns the whole document.
  dataset         text not null default '',
  -- Null for documents that do not belong to a single company: the ticker list and the daily indexes.
  cik             cik,
  -- `form` and `instance`: a run over all companies has found an ownership form, a statement or an XBRL instance, but
  -- has not requested it yet (decision 0128).
  -- `decided`: an operator has decided about a suspicious value, or a missing close has become known. The values that
  -- depend on it must be computed again.
  -- `absent` and `rejected`: the SEC did not send the document, or sent something unreadable (decision 0105).
  kind            text not null check (kind in ('form', 'instance', 'decided', 'absent', 'rejected')),
  -- For a form: its entry in the company's list of filings.
  filing          jsonb,
  -- Why the document could not be read. Null unless `kind` is `absent` or `rejected`. Never contains text from the
  -- document.
  reason          text,
  attempts        int not null default 0 check (attempts >= 0),
  -- When the document is requested again. Null if only `--retry-rejected` or a newer parser causes a new request.
  next_try_at     timestamptz(3),
  first_failed_at timestamptz(3),
  last_failed_at  timestamptz(3),
  -- The version of the parser that added the document or set it aside.
  parser_version  int not null,
  primary key (url, dataset),
  check ((kind = 'form') = (filing is not null)),
  check (
    num_nulls(reason, first_failed_at, last_failed_at) = case when kind in ('absent', 'rejected') then 0 else 3 end
  )
);

create index on edgar_work (cik);

-- Finds the newest ownership forms and statements that are waiting to be requested. Each costs a request, so a run
-- requests them only after it has read the filing lists of all companies.
create index edgar_work_newest_forms_idx
  on edgar_work ((filing ->> 'filingDate') desc, (filing ->> 'accession') desc) where kind = 'form';

-- Copies of the SEC's ticker list as JSON, one per day (New York time). Differences between the copies reveal ticker
-- changes. A change is accepted only when the copies have agreed on it for a week, because the list may switch back and
-- forth for days.
create table edgar_ticker_lists (
  day       date primary key,
  row_count int not null,
  entries   text not null
);

-- The exact acceptance time of one filing per company, taken from the filing's index page. It shows whether the times
-- in the company's list of filings are in UTC or Eastern time, when the hours alone do not show it (decision 0102).
create table edgar_stamp_zones (
  cik         cik primary key,
  accession   text not null,
  accepted_at timestamptz(3) not null
);

-- Share counts from the XBRL instances of filings. They are needed for companies that report one count per share class,
-- because the SEC's company facts do not contain such counts (decision 0103). Each instance is requested only once.
create table edgar_instances (
  cik        cik not null,
  accession  text not null,
  -- The date of the counts and, for each share class, its member, symbol and number of shares, or the reason why they
  -- cannot be read. Null if the instance contains no counts.
  cover      jsonb,
  filed_on   fact_day not null,
  primary key (cik, accession)
);

-- Companies that reported a public float, in dollars, as of a day whose close was not yet known. The check of this
-- amount against the share counts needs the close. Once prices have been loaded, the next run reads the company's facts
-- again.
create table edgar_awaited_closes (
  cik    cik primary key,
  ticker ticker not null,
  day    fact_day not null
);

select keep_spellings('edgar_awaited_closes');

-- What the newest assessment of a company's share counts was based on, and what it found out about its current count
-- (decision 0103). If splits or the number of shares per receipt have changed since, the next run reads the company's
-- facts again.
create table edgar_assessments (
  cik            cik primary key,
  -- The splits that were known, oldest first, as returned by `find_company_splits`.
  splits         jsonb not null,
  is_receipt     boolean not null,
  -- The number of shares per depositary receipt. Null if it is unknown, or if the security is not a receipt.
  ads_ratio      float8,
  -- The current count. Null if it is unknown.
  outstanding    quantity,
  -- For the day of each split around the date of this count, whether the count is stated in the shares after it. Null
  -- if neither the dates nor other counts decide it.
  counted_splits jsonb not null
);

-- Amounts from the fee exhibits of registration statements and their amendments. The exhibits are not read in filing
-- order, so they are stored here to find the newest one, which determines the amounts (decision 0103).
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

-- The last days of registrations (Rule 415(a)(5)). Each run ends the registrations whose last day has passed, because
-- their companies may have no new filing that would trigger an update. Rows are written together with the company's
-- other rows.
create table edgar_registration_ends (
  -- The `id` of the row in `registrations`.
  id               text primary key,
  cik              cik not null,
  -- The last day on which the registration can be effective. If this day is not exact, the row in `registrations` has
  -- no `expiration_date`.
  last_day         date not null,
  -- The headline of the row in `registrations` until it expires. A row with a different headline comes from another
  -- source, so the ingest does not expire it.
  headline         text not null,
  expired_headline text not null
);

create index on edgar_registration_ends (cik);

-- Suspicious values in SEC documents. They are not published unless an operator confirms them
-- (operations/ingest-edgar). When a document is read again, its rows are replaced, except those that an operator has
-- already decided.
create table edgar_doubts (
  doubt_id    bigint generated always as identity primary key,
  cik         cik not null,
  dataset     text not null,
  -- The document's URL, with a fragment for the element, as in `source` of the dataset's row.
  url         text not null,
  field       text not null,
  -- The value that the document states. Empty if it states none.
  read        text not null,
  -- The value to publish if the document is right. Null if that value is unclear, so that it cannot be confirmed.
  confirmable text,
  -- Whether the value is decided together with all other suspicious values of the same element.
  is_joint    boolean not null default false,
  -- The value that the dataset's row contains in place of the one in the document.
  published   text,
  reason      text not null,
  decision    text check (decision in ('confirmed', 'corrected')),
  -- The value that the dataset's row contains since the decision. Null if the value is unknown.
  decided     text check (decision is not null or decided is null),
  unique (dataset, url, field, read)
);

create index on edgar_doubts (cik);

-- Totals of the price bars that `tickerline ingest prices` has read (decision 0127), with one row per symbol, day and
-- part of the day. The rows of the price datasets are computed from these totals. Only the role that owns the table
-- writes to it.
create table price_periods (
  ticker        ticker not null,
  date          fact_day not null,
  -- `day` is a bar for the whole day. The other values are totals of minute bars.
  period        text not null check (period in ('day', 'premarket', 'regular', 'afterhours')),
  open          price not null,
  high          price not null,
  low           price not null,
  close         price not null,
  volume        quantity not null,
  trades        tally,
  -- The following columns are null if `period` is `day`. Minutes are counted from midnight in New York.
  dollar_volume dollars,
  vwap          price,
  high_minute   smallint,
  low_minute    smallint,
  first_minute  smallint,
  last_minute   smallint,
  -- The start of the last bar of any symbol on this day in the file that contained the row's bars. If it is before the
  -- close, so are the row's bars, and `close` may not be the close of the day.
  covered_until smallint,
  spike_minute  smallint,
  spike_price   price,
  -- The following columns are null unless `period` is `regular`. `fill_minute` is the minute in which the price first
  -- returned to `fill_close`, which is the previous close as known at the time of the ingest.
  halt_minutes  smallint,
  fill_close    price,
  fill_minute   smallint,
  primary key (ticker, date, period)
);

create index on price_periods (date, last_minute);

select keep_spellings('price_periods');
