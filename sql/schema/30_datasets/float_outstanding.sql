-- The latest float and ownership figures for each ticker (§2.5). Ownership figures are fractions: 0.15 is 15 %. A
-- reported 0 is stored as 0; null means that the figure is missing.
create table float_outstanding (
  ticker               ticker not null primary key,
  company              text,
  "float"              quantity,
  outstanding          quantity,
  tradable_float       quantity,
  market_cap           dollars,
  insider_percent      proportion,
  affiliate_percent    proportion,
  institutions_percent proportion,
  is_adr               boolean not null,
  ads_ratio            ratio,
  country              text,
  sector               text,
  industry             text,
  exchange             text,
  reported_date        fact_day,
  filed_at             fact_day,
  ownership_source_url text,
  document_url         text,
  last_updated         wall_time not null,
  source               text_list
);

-- Lists are sorted by the primary key, so each index for a filter also contains the ticker.
select index_each('float_outstanding', '{is_adr,float,outstanding,tradable_float,market_cap}', 'ticker');
select index_each('float_outstanding', '{country,sector,industry,exchange}', 'ticker', any_case => true);

select history.track('float_outstanding');
