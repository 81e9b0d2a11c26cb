-- Companies suspected of pump-and-dump schemes, with the evidence (§4.4). Decimal places: amounts 2, percentages 4.
-- last_updated is New York wall-clock time (D15: timestamps).
create table pump_and_dump_tracker (
  ticker                text primary key check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  company               text,
  ipo_date              date,
  lock_up_expiration    date,
  lock_up_shares        bigint,
  underwriters          text,
  known_underwriter     boolean not null,
  number_liquidations   bigint not null,
  last_liquidation_date date,
  liquidation_history   text check (liquidation_history in ('high', 'medium', 'low')),
  tradable_float        bigint,
  outstanding_shares    bigint,
  market_cap            numeric(20, 2),
  country               text check (country ~ '^[A-Z]{2}$'),
  exchange              text,
  sector                text,
  industry              text,
  is_adr                boolean not null,
  gain_1_day            numeric(18, 4),
  gain_7_day            numeric(18, 4),
  gain_14_day           numeric(18, 4),
  gain_30_day           numeric(18, 4),
  num_splits            bigint not null,
  last_split_date       date,
  underwriter_risk      text check (underwriter_risk in ('high', 'medium', 'low')),
  country_risk          text check (country_risk in ('high', 'medium', 'low')),
  float_risk            text check (float_risk in ('high', 'medium', 'low')),
  scam_risk             text check (scam_risk in ('high', 'medium', 'low')),
  scam_description      text,
  last_post_date        date,
  document_url          text,
  filed_at              date,
  effective_date        date,
  last_updated          timestamp(3) not null
);

-- Text and flag columns have few distinct values, so each index ends with the sort order: a page is one index range.
create index on pump_and_dump_tracker (ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (country, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (underwriter_risk, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (country_risk, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (float_risk, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (scam_risk, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (known_underwriter, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker (is_adr, ipo_date desc nulls last, ticker);
create index on pump_and_dump_tracker using gin (underwriters gin_trgm_ops);
create index on pump_and_dump_tracker (number_liquidations);
create index on pump_and_dump_tracker (tradable_float);
create index on pump_and_dump_tracker (outstanding_shares);
create index on pump_and_dump_tracker (market_cap);
create index on pump_and_dump_tracker (gain_1_day);
create index on pump_and_dump_tracker (gain_7_day);
create index on pump_and_dump_tracker (gain_14_day);
create index on pump_and_dump_tracker (gain_30_day);
create index on pump_and_dump_tracker (filed_at);
create index on pump_and_dump_tracker (effective_date);
create index on pump_and_dump_tracker (last_liquidation_date);
create index on pump_and_dump_tracker (lock_up_expiration);
