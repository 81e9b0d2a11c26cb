-- Companies suspected of pump-and-dump schemes, with the evidence (§4.4). Decimal places: amounts 2, percentages 4.
-- last_updated is New York wall-clock time (D15: timestamps).
create table pump_and_dump_tracker (
  ticker                ticker primary key,
  company               text,
  ipo_date              fact_day,
  lock_up_expiration    fact_day,
  lock_up_shares        quantity,
  underwriters          text,
  known_underwriter     boolean not null,
  number_liquidations   tally not null,
  last_liquidation_date fact_day,
  liquidation_history   risk_level,
  tradable_float        quantity,
  outstanding_shares    quantity,
  market_cap            valuation,
  country               text check (country ~ '^[A-Z]{2}$'),
  exchange              text,
  sector                text,
  industry              text,
  is_adr                boolean not null,
  gain_1_day            figure,
  gain_7_day            figure,
  gain_14_day           figure,
  gain_30_day           figure,
  num_splits            tally not null,
  last_split_date       fact_day,
  underwriter_risk      risk_level,
  country_risk          risk_level,
  float_risk            risk_level,
  scam_risk             risk_level,
  scam_description      text,
  last_post_date        fact_day,
  document_url          text,
  filed_at              fact_day,
  effective_date        fact_day,
  last_updated          wall_time not null
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

select history.track('pump_and_dump_tracker');
