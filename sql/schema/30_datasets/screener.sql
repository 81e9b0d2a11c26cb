-- One row per ticker: company, price, float, volume, short interest and gains (§2.5). Gains, gaps, fee_rate and
-- volume_change_percentage are percentages (15 is 15 %); ownership and short figures are fractions (0.15 is 15 %).
create table screener (
  ticker                   ticker not null primary key,
  company                  text,
  cik                      text,
  exchange                 text,
  sector                   text,
  industry                 text,
  country                  text,
  state                    text,
  city                     text,
  website                  text,
  ipo_date                 fact_day,
  is_adr                   boolean not null,
  price                    price,
  market_cap               dollars,
  high_365                 price,
  low_365                  price,
  outstanding              quantity,
  "float"                  quantity,
  tradable_float           quantity,
  insider_percent          proportion,
  affiliate_percent        proportion,
  institutions_percent     proportion,
  ownership_source_url     text,
  average_volume           quantity,
  median_volume_60         quantity,
  today_volume             quantity,
  volume_change_percentage change,
  short_interest           quantity,
  short_float              proportion,
  days_to_cover            proportion,
  shares_available         quantity,
  fee_rate                 figure,
  gain_1_day               change,
  gain_2_day               change,
  gain_3_day               change,
  gain_7_day               change,
  gain_14_day              change,
  gain_30_day              change,
  gain_60_day              change,
  gain_90_day              change,
  gain_180_day             change,
  gain_365_day             change,
  num_gaps                 tally not null default 0,
  num_runners              tally not null default 0,
  avg_gap                  change,
  ratio_debt_to_equity     figure,
  pending_s1               boolean not null,
  last_updated             wall_time not null,
  source                   text_list
);

select index_each('screener', '{is_adr,pending_s1,ipo_date}', 'ticker');

-- Lists can be sorted by any numeric column in either direction, with nulls last. This takes two indexes per column;
-- the first one also supports filters.
create index on screener (ticker desc nulls last);
select index_each('screener', array_agg(quote_ident(attname) || direction order by attnum, direction), 'ticker')
from pg_attribute cross join unnest(array['', ' desc nulls last']) as direction
where attrelid = 'screener'::regclass and attnum > 0
  and (select typcategory from pg_type where pg_type.oid = atttypid) = 'N';
select index_each('screener', '{exchange,sector,industry,country,state}', 'ticker', any_case => true);

select history.track('screener', copy_indexes => false);
