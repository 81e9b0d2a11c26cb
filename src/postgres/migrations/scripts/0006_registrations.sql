-- Registration statements and the money raised under them (§4.4). Decimal places: prices 4, amounts 2.
-- last_updated is New York wall-clock time (D15: timestamps).
create table registrations (
  id                         text primary key,
  ticker                     text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  headline                   text not null,
  type                       text not null check (type in ('shelf', 'equity_line', 'offering', 'resale')),
  form_type                  text not null,
  file_no                    text not null,
  filed_at                   date not null,
  effective_date             date,
  effective_status           boolean not null,
  expiration_date            date,
  offering_amount            numeric(20, 2),
  shares_registered          bigint,
  is_atm                     boolean not null,
  bank                       text,
  amount_remaining_atm       numeric(20, 2),
  total_raised               numeric(20, 2),
  amount_sold_to_date        numeric(20, 2),
  amount_sold_12_months      numeric(20, 2),
  high_60_day                numeric(18, 4),
  baby_shelf_raisable_amount numeric(20, 2),
  calculated_raisable_amount numeric(20, 2),
  over_baby_shelf            boolean,
  price_to_exceed_baby_shelf numeric(18, 4),
  details                    text,
  document_url               text,
  last_updated               timestamp(3) not null
);

-- Text and flag columns have few distinct values, so each index ends with the sort order: a page is one index range.
create index on registrations (filed_at desc, id);
create index on registrations (ticker, filed_at desc, id);
create index on registrations (type, filed_at desc, id);
create index on registrations (form_type, filed_at desc, id);
create index on registrations (file_no);
create index on registrations (effective_status, filed_at desc, id);
create index on registrations (is_atm, filed_at desc, id);
create index on registrations (over_baby_shelf, filed_at desc, id);
create index on registrations using gin (bank gin_trgm_ops);
create index on registrations (effective_date);
create index on registrations (expiration_date);
create index on registrations (offering_amount);
create index on registrations (total_raised);
create index on registrations (amount_sold_to_date);
create index on registrations (calculated_raisable_amount);
