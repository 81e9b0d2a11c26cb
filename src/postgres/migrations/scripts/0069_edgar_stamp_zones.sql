-- The exact acceptance time of one filing per company, from its index page. It shows whether the times in the company's
-- list of filings are UTC or Eastern, if their hours do not (decision 0102).
create table edgar_stamp_zones (
  cik         text primary key check (cik ~ '^[0-9]{10}$'),
  accession   text not null,
  accepted_at timestamptz(3) not null
);
