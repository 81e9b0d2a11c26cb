-- Joins a text array into one text for substring indexes. PostgreSQL's array_to_string is not marked immutable,
-- because it accepts any element type; for text elements it is immutable.
create function joined(list text[]) returns text language sql immutable strict parallel safe
return array_to_string(list, E'\n');

-- Warrants and convertibles, distinguished by security_type (§2.5, §4.5: dilution data); columns of the other type are
-- null. Decimal places: prices 4 (floor price 3), amounts 2, percentages 4. last_updated is New York time (D15).
create table dilution_data (
  id                                      text primary key,
  ticker                                  text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  security_type                           text not null check (
    security_type in ('warrant', 'prefunded_warrant', 'convertible_note', 'convertible_preferred')
  ),
  details                                 text not null,
  floor_price                             numeric(18, 3),
  registered                              boolean,
  filed_at                                date not null,
  form_type                               text,
  accession_number                        text,
  document_url                            text,
  last_updated                            timestamp(3) not null,
  warrants_amount                         bigint,
  warrants_remaining                      bigint,
  warrants_exercise_price                 numeric(18, 4),
  prefunded_cost                          numeric(18, 4),
  exercisable_date                        date,
  expiration_date                         date,
  conversion_price                        numeric(18, 4),
  conversion_price_type                   text check (conversion_price_type in ('fixed', 'variable')),
  offering_amount                         numeric(20, 2),
  convertible_debt_remaining              numeric(20, 2),
  interest_rate_percentage                numeric(18, 4),
  convertible_date                        date,
  maturity_date                           date,
  underlying_shares_remaining             bigint,
  bank                                    text,
  owners                                  text[] not null default '{}',
  price_protection                        text,
  price_protection_clause                 text,
  reset_date                              date,
  beneficial_ownership_blocker_percentage numeric(18, 4),
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

-- Text and flag columns have few distinct values, so each index ends with the sort order: a page is one index range.
create index on dilution_data (filed_at desc, id);
create index on dilution_data (ticker, filed_at desc, id);
create index on dilution_data (security_type, filed_at desc, id);
create index on dilution_data (registered, filed_at desc, id);
create index on dilution_data (floor_price);
create index on dilution_data (underlying_shares_remaining);
create index on dilution_data (expiration_date);
create index on dilution_data (maturity_date);
create index on dilution_data using gin (joined(owners) gin_trgm_ops);
create index on dilution_data using gin (bank gin_trgm_ops);
create index on dilution_data using gin (price_protection gin_trgm_ops);
