-- Unadjusted closing prices, one row per ticker and trading day (§2.6). Used only to look up the last close on or
-- before a day; no endpoint lists this table.
create table daily_prices (
  ticker text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date   date not null,
  close  numeric(18, 4) not null,
  primary key (ticker, date)
);

-- Historical share counts, one row per filing, document and reported date (§2.5). Percentages are fractions.
-- Queries compute market_cap and tradable_float (§2.6); their operands are not negative, so results fit 2^53-1 (D16).
create table historical_float_pro (
  ticker               text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  filed_at             date not null,
  form_type            text,
  document_url         text,
  reported_date        date,
  outstanding_shares   bigint,
  "float"              bigint check ("float" >= 0),
  restricted_shares    bigint check (restricted_shares >= 0),
  affiliate_shares     bigint,
  insider_shares       bigint,
  affiliate_percent    numeric(18, 4),
  institutions_percent numeric(18, 4),
  insider_percent      numeric(18, 4),
  cik                  text,
  is_adr               boolean not null,
  ads_ratio            numeric(18, 4),
  details              text,
  last_updated         timestamp(3) not null,
  unique nulls not distinct (ticker, filed_at, form_type, document_url, reported_date)
);

-- The sort order for all tickers and for one; the first row of a ticker is its latest.
create index on historical_float_pro (reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro (ticker, reported_date desc nulls last, filed_at desc, form_type, document_url);
create index on historical_float_pro (filed_at);
create index on historical_float_pro
  (is_adr, reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro ("float");
create index on historical_float_pro (outstanding_shares);
create index on historical_float_pro (("float" - restricted_shares));
