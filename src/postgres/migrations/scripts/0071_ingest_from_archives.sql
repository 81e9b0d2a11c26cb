-- The day up to which the SEC's nightly archives contain all filings, if the run has read them (decision 0128). The next
-- run reads the daily indexes from this day on.
alter table edgar_runs add column archive_day date;

-- Ownership forms that a run over all companies has listed but not downloaded yet. They follow when all companies have
-- been visited, newest first, because each is a request. A row is deleted in the transaction that loads the form's rows.
create table edgar_forms (
  cik              text not null check (cik ~ '^[0-9]{10}$'),
  accession        text not null,
  form             text not null,
  filing_date      date not null,
  -- Null if the time or its time zone is unknown.
  accepted_at      timestamptz(3),
  primary_document text not null,
  primary key (cik, accession)
);

create index edgar_forms_newest_idx on edgar_forms (filing_date desc, accession desc);
