-- Amounts of registrations from the fee exhibits of their statements and amendments, which are not read in the order in
-- which they were filed. The newest exhibit counts (decision 0103).
create table edgar_fees (
  cik               text not null check (cik ~ '^[0-9]{10}$'),
  accession         text not null,
  file_number       text not null,
  filing_date       date not null,
  offering_amount   numeric(20, 2),
  shares_registered bigint,
  source            text[] not null,
  primary key (cik, accession)
);

-- Statements wait in `edgar_forms` as ownership forms do. Their fees belong to the registration with this number.
alter table edgar_forms add column file_number text;

-- The next run visits the companies again, because it has not read the exhibits of the statements that it knows.
delete from edgar_progress where dataset = 'registrations';
