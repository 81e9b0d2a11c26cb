-- Reported holdings (§2.7: ownership), with one row per owner. Each row repeats the columns of its filing. Amounts are
-- numbers of shares; percent_of_class is a fraction. Two owners may have the same name, but a row with the same values
-- in all key columns is a duplicate. If all owner columns (owner_name to event_date) are null, the filing is known, but
-- its owners are not.
create table ownership (
  ticker                         ticker not null,
  reported_date                  fact_day,
  filed_at                       fact_day not null,
  form_type                      filled_text not null,
  accession_number               filled_text not null,
  document_url                   text,
  owner_name                     text,
  owner_cik                      text,
  owner_type                     text
    check (owner_type in ('executive', 'director', 'ten_percent_owner', 'five_percent_owner')),
  title                          text,
  common_shares_amount           quantity,
  preferred_shares_amount        quantity,
  options_amount                 quantity,
  warrants_amount                quantity,
  shares_underlying_convertibles quantity,
  percent_of_class               proportion,
  sole_voting_shares             quantity,
  shared_voting_shares           quantity,
  event_date                     fact_day,
  last_updated                   wall_time not null,
  source                         text_list,
  unique nulls not distinct (ticker, accession_number, owner_name, owner_cik, owner_type, title, common_shares_amount,
    preferred_shares_amount, options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class,
    sole_voting_shares, shared_voting_shares, event_date)
);

-- A ticker's first entry in this index is its latest filing with known owners. The unique index then finds these
-- owners. Filters apply only to those few rows, so they need no indexes.
create index on ownership (ticker, filed_at desc, reported_date desc nulls last, accession_number desc)
  where num_nonnulls(owner_name, owner_cik, owner_type, title, common_shares_amount, preferred_shares_amount,
    options_amount, warrants_amount, shares_underlying_convertibles, percent_of_class, sole_voting_shares,
    shared_voting_shares, event_date) > 0;

select history.track('ownership');
