-- Documents of the SEC that still have to be read, because a run could not read them (decision 0105). A row is deleted
-- in the transaction that loads the document's rows.
create table edgar_work (
  -- The SEC's address. A fragment names one element of the document.
  url             text not null,
  -- The dataset whose row was set aside; empty if the whole document was.
  dataset         text not null default '',
  -- Null for the ticker list and the daily indexes.
  cik             text check (cik ~ '^[0-9]{10}$'),
  -- Contains no text of the document.
  reason          text not null,
  -- Whether the SEC did not send the document, or sent something unreadable.
  kind            text not null check (kind in ('absent', 'rejected')),
  attempts        int not null check (attempts >= 0),
  -- Null if only `--retry-rejected` or a newer parser puts the document back.
  next_try_at     timestamptz(3),
  first_failed_at timestamptz(3) not null,
  last_failed_at  timestamptz(3) not null,
  -- The version of the parser that set the document aside.
  parser_version  int not null,
  primary key (url, dataset)
);

create index edgar_work_cik_idx on edgar_work (cik);

-- Earlier rejections were final. As their version is 0, the next run requests the documents again.
insert into edgar_work (url, cik, reason, kind, attempts, first_failed_at, last_failed_at, parser_version)
select url, lpad(coalesce(substring(url from 'CIK(\d{10})'), substring(url from '/data/(\d{1,10})/')), 10, '0'),
  reason, 'rejected', 1, first_rejected_at, last_rejected_at, 0
from edgar_rejections;

-- The document's name is not known, but the accession number in the path identifies the filing.
insert into edgar_work (url, cik, reason, kind, attempts, next_try_at, first_failed_at, last_failed_at, parser_version)
select format('https://www.sec.gov/Archives/edgar/data/%s/%s/', ltrim(cik, '0'), replace(accession, '-', '')), cik,
  'could not be downloaded', 'absent', 1, now(), now(), now(), 0
from edgar_progress cross join lateral unnest(failed_accessions) as accession
on conflict do nothing;

-- squawk-ignore ban-drop-table
drop table edgar_rejections;
-- squawk-ignore ban-drop-column
alter table edgar_progress drop column failed_accessions;

-- A run that does not update `seen_at` has died.
-- squawk-ignore adding-field-with-default
alter table edgar_runs add column seen_at timestamptz(3) not null default now();
alter table edgar_runs drop constraint edgar_runs_status_check;
-- squawk-ignore constraint-missing-not-valid, prefer-robust-stmts
alter table edgar_runs add constraint edgar_runs_status_check
  check (status in ('running', 'succeeded', 'incomplete', 'failed', 'interrupted'));
