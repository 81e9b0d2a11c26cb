-- The latest float and ownership figures per ticker (§2.5). Ownership figures are fractions: 0.15 is 15 %.
-- A reported 0 is stored as 0; null means that the figure is missing.
create table float_outstanding (
  ticker               text not null primary key check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  company              text,
  "float"              bigint,
  outstanding          bigint,
  tradable_float       bigint,
  market_cap           numeric(20, 2),
  insider_percent      numeric(18, 4),
  affiliate_percent    numeric(18, 4),
  institutions_percent numeric(18, 4),
  is_adr               boolean not null,
  ads_ratio            numeric(18, 4),
  country              text,
  sector               text,
  industry             text,
  exchange             text,
  reported_date        date,
  filed_at             date,
  ownership_source_url text,
  document_url         text,
  last_updated         timestamp(3) not null
);

-- Lists are sorted by the primary key; each filter has an index in that order.
create index on float_outstanding (country, ticker);
create index on float_outstanding (sector, ticker);
create index on float_outstanding (industry, ticker);
create index on float_outstanding (exchange, ticker);
create index on float_outstanding (is_adr, ticker);
create index on float_outstanding ("float", ticker);
create index on float_outstanding (outstanding, ticker);
create index on float_outstanding (tradable_float, ticker);
create index on float_outstanding (market_cap, ticker);
