-- Historical share counts, with one row per filing, document and reported date (§2.5). Percentages are stored as
-- fractions. Responses also contain market_cap and tradable_float, which queries compute from these columns and a close
-- (§2.6). None of these values is negative, so the results fit into 2^53-1 (D16).
create table historical_float_pro (
  ticker               ticker not null,
  filed_at             fact_day not null,
  form_type            text,
  document_url         text,
  reported_date        fact_day,
  outstanding_shares   quantity,
  "float"              quantity,
  restricted_shares    quantity,
  affiliate_shares     quantity,
  insider_shares       quantity,
  affiliate_percent    proportion,
  institutions_percent proportion,
  insider_percent      proportion,
  cik                  text,
  is_adr               boolean not null,
  ads_ratio            ratio,
  details              text,
  last_updated         wall_time not null,
  source               text_list,
  unique nulls not distinct (ticker, filed_at, form_type, document_url, reported_date)
);

-- The sort order of lists, for all tickers and for a single ticker. A ticker's first row is its latest.
create index on historical_float_pro (reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro (ticker, reported_date desc nulls last, filed_at desc, form_type, document_url);
select index_each('historical_float_pro', '{filed_at,float,outstanding_shares}');
create index on historical_float_pro
  (is_adr, reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro (("float" - restricted_shares));

select history.track('historical_float_pro');
