-- Reported holdings, one row per owner, with the filing's columns repeated (§2.7: ownership). Amounts are shares;
-- percent_of_class is a fraction. Two owners may share a name, but a fully identical row is a duplicate.
--
-- If all owner columns (owner_name to event_date) are null, the filing is known but its table of owners is not.
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

-- Its first entry for a ticker is the latest filing with known owners; the unique index then finds these owners.
-- Filters apply to these few rows, so they need no indexes.
create index on ownership (ticker, filed_at desc, reported_date desc nulls last, accession_number desc)
  where num_nonnulls(owner_name, owner_cik, owner_type, title, common_shares_amount, preferred_shares_amount,
    options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class, sole_voting_shares,
    shared_voting_shares, event_date) > 0;
