-- Registration statements, and the money raised under them (§4.4).
create table registrations (
  id                         filled_text primary key,
  ticker                     ticker not null,
  headline                   filled_text not null,
  type                       text not null check (type in ('shelf', 'equity_line', 'offering', 'resale')),
  form_type                  filled_text not null,
  file_no                    filled_text not null,
  filed_at                   fact_day not null,
  effective_date             fact_day,
  effective_status           boolean not null,
  expiration_date            fact_day,
  offering_amount            dollars,
  shares_registered          quantity,
  is_atm                     boolean not null default false,
  bank                       text,
  amount_remaining_atm       dollars,
  total_raised               dollars,
  amount_sold_to_date        dollars,
  amount_sold_12_months      dollars,
  high_60_day                price,
  baby_shelf_raisable_amount valuation,
  calculated_raisable_amount valuation,
  over_baby_shelf            boolean,
  price_to_exceed_baby_shelf price,
  details                    text,
  document_url               text,
  last_updated               wall_time not null,
  source                     text_list
);

create index on registrations (filed_at desc, id);
select index_each('registrations', '{ticker,type,effective_status,is_atm,over_baby_shelf}', 'filed_at desc, id');
select index_each('registrations', '{file_no,effective_date,expiration_date,offering_amount,total_raised,
  amount_sold_to_date,calculated_raisable_amount}');
create index on registrations using gin (bank gin_trgm_ops);
select index_each('registrations', '{form_type}', 'filed_at desc, id', any_case => true);

select history.track('registrations');
