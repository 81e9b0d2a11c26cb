-- Companies suspected of pump-and-dump schemes, with the evidence (§4.4).
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
  market_cap            dollars,
  country               text check (country ~ '^[A-Z]{2}$'),
  exchange              text,
  sector                text,
  industry              text,
  is_adr                boolean not null,
  gain_1_day            change,
  gain_7_day            change,
  gain_14_day           change,
  gain_30_day           change,
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

create index on pump_and_dump_tracker (ipo_date desc nulls last, ticker);
select index_each('pump_and_dump_tracker', '{country,underwriter_risk,country_risk,float_risk,scam_risk,
  known_underwriter,is_adr}', 'ipo_date desc nulls last, ticker');
create index on pump_and_dump_tracker using gin (underwriters gin_trgm_ops);
select index_each('pump_and_dump_tracker', '{number_liquidations,tradable_float,outstanding_shares,market_cap,
  gain_1_day,gain_7_day,gain_14_day,gain_30_day,filed_at,effective_date,last_liquidation_date,lock_up_expiration}');

select history.track('pump_and_dump_tracker');
