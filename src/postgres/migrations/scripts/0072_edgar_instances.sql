-- Share counts in the XBRL instances of filings, for companies whose facts lack them because they state the counts per
-- class (decision 0103). Each instance is requested once.
create table edgar_instances (
  cik        text not null check (cik ~ '^[0-9]{10}$'),
  accession  text not null,
  -- Whether a first load has listed the instance, but not requested it yet (decision 0128).
  is_waiting boolean not null,
  -- The date of the counts, and each class with its member, symbol and number of shares. Null if the instance has no
  -- usable counts, or does not exist.
  cover      jsonb,
  primary key (cik, accession)
);
