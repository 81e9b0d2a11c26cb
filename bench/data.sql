-- Generates the benchmark data. The data is fictional and the same in every run. {{tickers}} tickers have runners.
-- Each value is derived from a hash of the row number, so it does not depend on the order in which PostgreSQL reads
-- rows.

-- step: tools
create function pg_temp.unit(place bigint, salt bigint) returns float8 language sql immutable
return (hashint8extended(place, salt) & 9007199254740991)::float8 / 9007199254740992.0;

create function pg_temp.pick(words text[], share float8) returns text language sql immutable
return words[1 + floor(share * cardinality(words))::int];

-- Functions that return symbols of four and six letters, as in symbols.ts. The factors are prime, so every number has a
-- different symbol.
create function pg_temp.symbol4(n bigint) returns text language sql immutable
return (
  select chr(65 + (m % 26)::int) || chr(65 + (m / 26 % 26)::int) || chr(65 + (m / 676 % 26)::int)
    || chr(65 + (m / 17576 % 26)::int)
  from (select n * 7919 % 456976 as m) as mixed
);

create function pg_temp.symbol6(n bigint) returns text language sql immutable
return (
  select chr(65 + (m % 26)::int) || chr(65 + (m / 26 % 26)::int) || chr(65 + (m / 676 % 26)::int)
    || chr(65 + (m / 17576 % 26)::int) || chr(65 + (m / 456976 % 26)::int) || chr(65 + (m / 11881376 % 26)::int)
  from (select n * 100003 % 308915776 as m) as mixed
);

create temporary table days as
select (row_number() over (order by day) - 1)::int as number, day::date as day
from generate_series(date '2016-11-14', date '2026-10-30', interval '1 day') as day
where extract(isodow from day) < 6 and to_char(day, 'MM-DD') not in ('01-01', '06-19', '07-04', '12-25')
order by day limit 2520;
create unique index on days (number);
analyze days;

create temporary table tickers as
select n, pg_temp.symbol4(n) as ticker, 0.4 + 60 * power(pg_temp.unit(n, 1), 3) as price,
  (1e6 + 80e6 * power(pg_temp.unit(n, 2), 3))::bigint as shares
from generate_series(1, 20000) as n;
create unique index on tickers (n);
analyze tickers;

-- step: intraday_runners
insert into intraday_runners
with places as (
  select ticker, (n * 1000 + session)::bigint as place,
    session * 25 + floor(25 * pg_temp.unit(n * 1000 + session, 3))::int as number,
    price * (0.5 + pg_temp.unit(n * 1000 + session, 4)) as close_before
  from tickers cross join generate_series(0, 99) as session
  where n <= {{tickers}}
), gaps as (
  select ticker, place, day, case when pg_temp.unit(place, 5) < 0.3 then 4 else 2 end as digits,
    greatest(close_before, 0.05) as before, -8 + 160 * power(pg_temp.unit(place, 6), 2) as gap
  from places join days using (number)
), prices as (
  select *, before * (1 + gap / 100) as open,
    before * (1 + gap / 100) * (1 + 1.2 * power(pg_temp.unit(place, 7), 2)) as high,
    before * (1 + gap / 100) * (1 - 0.3 * pg_temp.unit(place, 8)) as low,
    (2e5 + 9e7 * power(pg_temp.unit(place, 9), 4))::bigint as volume
  from gaps
), closes as (
  select *, low + (high - low) * pg_temp.unit(place, 10) as close from prices
)
select
  ticker,
  day,
  round(gap::numeric, digits),
  round(open::numeric, digits),
  round(before::numeric, digits),
  round((100 * (high / before - 1))::numeric, digits),
  round((100 * (high / open - 1))::numeric, digits),
  round(high::numeric, digits),
  case when pg_temp.unit(place, 11) < 0.95
    then day + interval '9:30' + floor(389 * pg_temp.unit(place, 12)) * interval '1 minute' end,
  round(low::numeric, digits),
  case when pg_temp.unit(place, 13) < 0.95
    then day + interval '9:30' + floor(389 * pg_temp.unit(place, 14)) * interval '1 minute' end,
  case when pg_temp.unit(place, 15) < 0.6
    then day + interval '4:00' + floor(54000 * pg_temp.unit(place, 16)) * interval '1 second' end,
  case when pg_temp.unit(place, 15) < 0.6 then round((open * 1.02)::numeric, digits) end,
  case when pg_temp.unit(place, 15) < 0.6 then floor(1 + 90 * pg_temp.unit(place, 17))::bigint end,
  case when pg_temp.unit(place, 18) < 0.3 then 5 * floor(1 + 8 * pg_temp.unit(place, 19))::bigint end,
  round((9.01 + 400 * power(pg_temp.unit(place, 20), 4))::numeric, digits),
  volume,
  round((volume * close)::numeric, 2),
  (volume * 0.8)::bigint,
  round((volume * 0.8 * close)::numeric, 2),
  round(close::numeric, digits),
  close < (high + low) / 2,
  case when pg_temp.unit(place, 21) < 0.8 then round((close * 1.01)::numeric, digits) end,
  case when pg_temp.unit(place, 21) < 0.8 then round((close * 1.08)::numeric, digits) end,
  case when pg_temp.unit(place, 21) < 0.8 then round((close * 0.95)::numeric, digits) end,
  case when pg_temp.unit(place, 21) < 0.8 then (volume * 0.05)::bigint end,
  case when pg_temp.unit(place, 21) < 0.8 then round((volume * 0.05 * close)::numeric, 2) end,
  case when pg_temp.unit(place, 22) < 0.9 then round((open * 0.99)::numeric, 4) end,
  case when pg_temp.unit(place, 22) < 0.9 then (volume * 0.15)::bigint end,
  case when pg_temp.unit(place, 22) < 0.9 then round((volume * 0.15 * open)::numeric, 2) end,
  case when pg_temp.unit(place, 22) < 0.9 then round((open * 1.07)::numeric, digits) end,
  case when pg_temp.unit(place, 22) < 0.9 then round((before * 0.98)::numeric, digits) end,
  case when pg_temp.unit(place, 23) < 0.9 then round((1e6 + 9e8 * power(pg_temp.unit(place, 24), 3))::numeric, 2) end,
  (array['8-K', 'S-3', '424B5', '6-K', 'S-1', 'EFFECT'])[1:floor(3.5 * pg_temp.unit(place, 25))::int],
  (array['low float', 'news', 'halted', 'short squeeze', 'offering', 'reverse split', 'sympathy'])
    [1 + floor(3 * pg_temp.unit(place, 26))::int:2 + floor(5 * pg_temp.unit(place, 27))::int],
  day + interval '20:05' + floor(3000 * pg_temp.unit(place, 28)) * interval '1 second',
  true
from closes;

-- step: ticker_changes
-- 50,000 chains of three events, 50,000 chains of twelve events, and 250,000 single events. Some of the single events
-- are unconfirmed.
insert into ticker_changes
with chains as (
  select c as chain, c * 4::bigint as first, 3 as length from generate_series(0, 49999) as c
  union all
  select 100000 + c, 200000 + c * 13::bigint, 12 from generate_series(0, 49999) as c
  union all
  select 200000 + c, 850000 + c * 2::bigint, 1 from generate_series(0, 249999) as c
)
select
  pg_temp.symbol6(first + event),
  pg_temp.symbol6(first + event + 1),
  date '2008-01-02' + event * 400 + floor(390 * pg_temp.unit(chain * 16 + event, 31))::int,
  case when pg_temp.unit(chain, 32) < 0.9 then lpad((1000000 + chain)::text, 10, '0') end,
  'Company ' || chain,
  case when length = 1 and pg_temp.unit(chain, 33) < 0.4
    then pg_temp.pick(array['estimated', 'reverted'], pg_temp.unit(chain, 34))
    else 'confirmed' end,
  pg_temp.pick(array['exchange notice', 'press release', 'filing'], pg_temp.unit(chain, 35))
from chains cross join lateral generate_series(0, length - 1) as event;

-- step: ticker_changes of tickers with runners
-- Chains of twelve ticker changes, which link thirteen consecutive tickers from the first half of the tickers that have
-- runners. The changes take place during the period of the runners. The tickers in the second half have no ticker
-- changes, so that computing the market cap of a filing requires the closes of only one symbol (D32).
insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
select
  pg_temp.symbol4(chain * 13 + event + 1),
  pg_temp.symbol4(chain * 13 + event + 2),
  date '2017-09-01' + (event * 270 + chain % 200)::int,
  'confirmed'
from generate_series(0::bigint, {{tickers}} / 2 / 13 - 1) as chain cross join generate_series(0, 11) as event;

-- step: screener
insert into screener
select
  ticker,
  'Company ' || n || ' Inc.',
  lpad((2000000 + n)::text, 10, '0'),
  pg_temp.pick(array['NASDAQ', 'NYSE', 'AMEX'], pg_temp.unit(n, 41)),
  pg_temp.pick(array['Healthcare', 'Technology', 'Energy', 'Industrials', 'Utilities'], pg_temp.unit(n, 42)),
  'Industry ' || floor(60 * pg_temp.unit(n, 43))::int,
  pg_temp.pick(array['US', 'US', 'US', 'CN', 'IL', 'CA', 'SG'], pg_temp.unit(n, 44)),
  case when pg_temp.unit(n, 45) < 0.6
    then pg_temp.pick(array['CA', 'NY', 'TX', 'FL', 'MA', 'NJ'], pg_temp.unit(n, 46)) end,
  'City ' || floor(500 * pg_temp.unit(n, 47))::int,
  'https://company-' || n || '.example',
  case when pg_temp.unit(n, 48) < 0.9 then date '1990-01-01' + floor(13000 * pg_temp.unit(n, 49))::int end,
  pg_temp.unit(n, 50) < 0.08,
  round(price::numeric, 4),
  round((price * shares)::numeric, 2),
  round((price * 3)::numeric, 4),
  round((price / 3)::numeric, 4),
  shares,
  (shares * 0.8)::bigint,
  case when pg_temp.unit(n, 51) < 0.9 then (shares * 0.7)::bigint end,
  round(pg_temp.unit(n, 52)::numeric, 4),
  round(pg_temp.unit(n, 53)::numeric, 3),
  case when pg_temp.unit(n, 54) < 0.9 then round(pg_temp.unit(n, 55)::numeric, 2) end,
  'https://filings.example/' || n,
  (1e4 + 5e6 * power(pg_temp.unit(n, 56), 3))::bigint,
  (1e4 + 5e6 * power(pg_temp.unit(n, 57), 3))::bigint,
  (1e4 + 5e7 * power(pg_temp.unit(n, 58), 4))::bigint,
  round((900 * pg_temp.unit(n, 59) - 100)::numeric, 2),
  (shares * 0.1 * pg_temp.unit(n, 60))::bigint,
  round((0.5 * pg_temp.unit(n, 60))::numeric, 4),
  round((12 * pg_temp.unit(n, 61))::numeric, 2),
  case when pg_temp.unit(n, 62) < 0.7 then floor(1e6 * pg_temp.unit(n, 63))::bigint end,
  round((300 * power(pg_temp.unit(n, 64), 4))::numeric, 2),
  round((40 * pg_temp.unit(n, 65) - 18)::numeric, 4),
  round((50 * pg_temp.unit(n, 66) - 24)::numeric, 4),
  round((60 * pg_temp.unit(n, 67) - 28)::numeric, 4),
  round((80 * pg_temp.unit(n, 68) - 38)::numeric, 4),
  round((90 * pg_temp.unit(n, 69) - 42)::numeric, 4),
  round((120 * pg_temp.unit(n, 70) - 58)::numeric, 4),
  round((160 * pg_temp.unit(n, 71) - 78)::numeric, 4),
  round((200 * pg_temp.unit(n, 72) - 90)::numeric, 4),
  case when pg_temp.unit(n, 73) < 0.9 then round((300 * pg_temp.unit(n, 74) - 95)::numeric, 4) end,
  case when pg_temp.unit(n, 75) < 0.8 then round((500 * pg_temp.unit(n, 76) - 97)::numeric, 4) end,
  floor(40 * pg_temp.unit(n, 77))::bigint,
  floor(15 * pg_temp.unit(n, 78))::bigint,
  round((60 * pg_temp.unit(n, 79))::numeric, 2),
  case when pg_temp.unit(n, 80) < 0.8 then round((4 * pg_temp.unit(n, 81))::numeric, 3) end,
  pg_temp.unit(n, 82) < 0.1,
  timestamp '2026-10-30 20:05:00' + floor(5000 * pg_temp.unit(n, 83)) * interval '1 second'
from tickers;

-- step: daily_prices
insert into daily_prices
select ticker, day, round((price * (1 + 0.4 * sin(number / 60.0 + n)) *
  (0.95 + 0.1 * pg_temp.unit(n * 10000 + number, 91)))::numeric, 4)
from tickers cross join days
where n <= 5000
order by n, number;

-- step: historical_float_pro
insert into historical_float_pro
with filings as (
  select ticker, n * 100 + filing as place, shares + filing * 1000000 as shares, n,
    day, day + 30 + floor(15 * pg_temp.unit(n * 100 + filing, 92))::int as filed
  from tickers cross join generate_series(0, 39) as filing join days on number = filing * 62
  where n <= 5000
)
select
  ticker,
  filed,
  pg_temp.pick(array['10-Q', '10-Q', '10-Q', '10-K', '20-F'], pg_temp.unit(place, 93)),
  'https://filings.example/' || ticker || '/' || place,
  case when pg_temp.unit(place, 94) < 0.98 then day end,
  shares,
  (shares * 0.8)::bigint,
  case when pg_temp.unit(place, 95) < 0.9 then (shares * 0.1)::bigint end,
  case when pg_temp.unit(place, 96) < 0.9 then (shares * 0.12)::bigint end,
  (shares * 0.08)::bigint,
  round((0.3 * pg_temp.unit(place, 97))::numeric, 4),
  round((0.6 * pg_temp.unit(place, 98))::numeric, 4),
  round((0.2 * pg_temp.unit(place, 99))::numeric, 3),
  lpad((2000000 + n)::text, 10, '0'),
  pg_temp.unit(n, 50) < 0.08,
  case when pg_temp.unit(n, 50) < 0.08 then floor(1 + 20 * pg_temp.unit(n, 100)) end,
  case when pg_temp.unit(place, 101) < 0.3 then 'Cover page of the filing' end,
  filed + interval '21:10' + floor(3000 * pg_temp.unit(place, 102)) * interval '1 second'
from filings;
