-- Who holds how much, as filings report it (§2.7): one row an owner, with the columns of the filing repeated. A row
-- whose owner columns (owner_name to event_date) are all null is a placeholder: the filing is known, its table of
-- holders is not. Amounts are shares; percent_of_class is a fraction. Two owners may share a name; a row that says the
-- very same as another is the same fact told twice.
create table ownership (
  ticker                         text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  reported_date                  date,
  filed_at                       date not null,
  form_type                      text not null,
  accession_number               text not null,
  document_url                   text,
  owner_name                     text,
  owner_cik                      text,
  owner_type                     text
    check (owner_type in ('executive', 'director', 'ten_percent_owner', 'five_percent_owner')),
  title                          text,
  common_shares_amount           bigint,
  preferred_shares_amount        bigint,
  options_amount                 bigint,
  warrants_amount                bigint,
  shares_underlying_convertibles bigint,
  percent_of_class               numeric(18, 4),
  sole_voting_shares             bigint,
  shared_voting_shares           bigint,
  event_date                     date,
  last_updated                   timestamp(3) not null,
  unique nulls not distinct (ticker, accession_number, owner_name, owner_cik, owner_type, title, common_shares_amount,
    preferred_shares_amount, options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class,
    sole_voting_shares, shared_voting_shares, event_date)
);

-- A ticker's newest filing with a table of holders is the first entry of this; the unique index leads to its owners.
-- The filters choose among these few, so they need no index of their own.
create index on ownership (ticker, filed_at desc, reported_date desc nulls last, accession_number desc)
  where num_nonnulls(owner_name, owner_cik, owner_type, title, common_shares_amount, preferred_shares_amount,
    options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class, sole_voting_shares,
    shared_voting_shares, event_date) > 0;
