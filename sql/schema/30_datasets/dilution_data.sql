-- Warrants and convertibles (§2.5, §4.5: dilution data). The columns for convertibles are null in rows for warrants,
-- and vice versa.
create table dilution_data (
  id                                      filled_text primary key,
  ticker                                  ticker not null,
  security_type                           text not null check (
    security_type in ('warrant', 'prefunded_warrant', 'convertible_note', 'convertible_preferred')
  ),
  details                                 filled_text not null,
  floor_price                             floor_price,
  registered                              boolean,
  filed_at                                fact_day not null,
  form_type                               text,
  accession_number                        text,
  document_url                            text,
  last_updated                            wall_time not null,
  warrants_amount                         quantity,
  warrants_remaining                      quantity,
  warrants_exercise_price                 price,
  prefunded_cost                          price,
  exercisable_date                        fact_day,
  expiration_date                         fact_day,
  conversion_price                        price,
  conversion_price_type                   text check (conversion_price_type in ('fixed', 'variable')),
  offering_amount                         dollars,
  convertible_debt_remaining              dollars,
  interest_rate_percentage                figure,
  convertible_date                        fact_day,
  maturity_date                           fact_day,
  underlying_shares_remaining             quantity,
  bank                                    text,
  owners                                  text_list not null default '{}',
  price_protection                        text,
  price_protection_clause                 text,
  reset_date                              fact_day,
  beneficial_ownership_blocker_percentage proportion,
  registration_file_no                    text,
  check (
    security_type in ('convertible_note', 'convertible_preferred') or num_nonnulls(
      conversion_price, conversion_price_type, offering_amount, convertible_debt_remaining, interest_rate_percentage,
      convertible_date, maturity_date
    ) = 0
  ),
  check (
    security_type in ('warrant', 'prefunded_warrant') or num_nonnulls(
      warrants_amount, warrants_remaining, warrants_exercise_price, prefunded_cost, exercisable_date, expiration_date
    ) = 0
  )
);

create index on dilution_data (filed_at desc, id);
select index_each('dilution_data', '{ticker,security_type,registered}', 'filed_at desc, id');
select index_each('dilution_data', '{floor_price,underlying_shares_remaining,expiration_date,maturity_date}');
create index on dilution_data using gin (joined(owners) gin_trgm_ops);
create index on dilution_data using gin (bank gin_trgm_ops);
create index on dilution_data using gin (price_protection gin_trgm_ops);

select history.track('dilution_data');
