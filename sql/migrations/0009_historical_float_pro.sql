-- Unadjusted closing prices (§2.6): one row a ticker and trading day. Read through its key only, for the last close on
-- or before a day; no endpoint shows it.
create table daily_prices (
  ticker text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  date   date not null,
  close  numeric(18, 4) not null,
  primary key (ticker, date)
);

-- Share counts as they were reported at a point in time (§2.5), one row a filing, document and reported date.
-- Percentages are fractions. market_cap and tradable_float are computed by the query, never stored (§2.6).
-- What makes up tradable_float is not negative, so that the difference too is at most 2^53-1 (D16).
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

-- The order, of all tickers and of one: its first row is the ticker's newest.
create index on historical_float_pro (reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro (ticker, reported_date desc nulls last, filed_at desc, form_type, document_url);
create index on historical_float_pro (filed_at);
create index on historical_float_pro
  (is_adr, reported_date desc nulls last, filed_at desc, ticker, form_type, document_url);
create index on historical_float_pro ("float");
create index on historical_float_pro (outstanding_shares);
create index on historical_float_pro (("float" - restricted_shares));
