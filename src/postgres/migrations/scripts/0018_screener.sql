-- One row per ticker: company, price, float, volume, short interest and gains (§2.5). Gains, gaps, fee_rate and
-- volume_change_percentage are percentages (15 is 15 %); ownership and short figures are fractions (0.15 is 15 %).
create table screener (
  ticker                   text not null primary key check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  company                  text,
  cik                      text,
  exchange                 text,
  sector                   text,
  industry                 text,
  country                  text,
  state                    text,
  city                     text,
  website                  text,
  ipo_date                 date,
  is_adr                   boolean not null,
  price                    numeric(18, 4),
  market_cap               numeric(20, 2),
  high_365                 numeric(18, 4),
  low_365                  numeric(18, 4),
  outstanding              bigint,
  "float"                  bigint,
  tradable_float           bigint,
  insider_percent          numeric(18, 4),
  affiliate_percent        numeric(18, 4),
  institutions_percent     numeric(18, 4),
  ownership_source_url     text,
  average_volume           bigint,
  median_volume_60         bigint,
  today_volume             bigint,
  volume_change_percentage numeric(18, 4),
  short_interest           bigint,
  short_float              numeric(18, 4),
  days_to_cover            numeric(18, 4),
  shares_available         bigint,
  fee_rate                 numeric(18, 4),
  gain_1_day               numeric(18, 4),
  gain_2_day               numeric(18, 4),
  gain_3_day               numeric(18, 4),
  gain_7_day               numeric(18, 4),
  gain_14_day              numeric(18, 4),
  gain_30_day              numeric(18, 4),
  gain_60_day              numeric(18, 4),
  gain_90_day              numeric(18, 4),
  gain_180_day             numeric(18, 4),
  gain_365_day             numeric(18, 4),
  num_gaps                 bigint not null,
  num_runners              bigint not null,
  avg_gap                  numeric(18, 4),
  ratio_debt_to_equity     numeric(18, 4),
  pending_s1               boolean not null,
  last_updated             timestamp(3) not null
);

create index on screener (exchange, ticker);
create index on screener (sector, ticker);
create index on screener (industry, ticker);
create index on screener (country, ticker);
create index on screener (state, ticker);
create index on screener (is_adr, ticker);
create index on screener (pending_s1, ticker);
create index on screener (ipo_date, ticker);

-- Every number is sortable in both directions with nulls last, so it needs two indexes; the first also serves filters.
create index on screener (ticker desc nulls last);
do $$
declare
  field name;
begin
  for field in
    select attname from pg_attribute
    where attrelid = 'screener'::regclass and atttypid in ('numeric'::regtype, 'bigint'::regtype) order by attnum
  loop
    execute format('create index on screener (%I, ticker)', field);
    execute format('create index on screener (%I desc nulls last, ticker)', field);
  end loop;
end
$$;
