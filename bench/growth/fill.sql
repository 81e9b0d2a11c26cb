-- Generates {{rows}} rows by copying the 20,000 rows that `../data.sql` generated, with different tickers and days.

-- step: tools
-- The trading days of twenty years, numbered backward from the newest day, which has the number 0.
create temporary table trading as
select (row_number() over (order by day desc) - 1)::int as back, day::date as day
from generate_series(date '2006-11-01', date '2026-10-30', interval '1 day') as day
where extract(isodow from day) < 6 and to_char(day, 'MM-DD') not in ('01-01', '06-19', '07-04', '12-25');
create unique index on trading (back);
analyze trading;

-- The number of days for which a ticker was listed follows a Zipf distribution: ticker n was listed for 1/n of the
-- longest period, limited to the number of days. No ticker was listed for less than a quarter of the average.
create temporary table listed as
select n, pg_temp.symbol4(n) as ticker, least(days, ceil(days * whole / n))::int as sessions
from (select count(*) as days, greatest(1, {{rows}} / count(*) / 2.386) as whole from trading) as total
cross join lateral generate_series(1, ceil(whole * 4)::int) as n;
analyze listed;

-- step: intraday_runners
create temporary table base as
select row_number() over () - 1 as place, * from intraday_runners order by ticker, date;
create unique index on base (place);
analyze base;
truncate intraday_runners;
-- The rows are inserted in day order, as in production. The API does not return a twentieth of them.
set local enable_mergejoin = off;
set local work_mem = '256MB';
insert into intraday_runners
select
  session.ticker, session.day, gap_percentage, market_open, previous_day_close, percentage_gain, open_to_high_pct,
  high_price, session.day + (high_time - date), low_price, session.day + (low_time - date),
  session.day + (spike_start_time - date), spike_start_price, spike_duration_minutes, est_halt_minutes,
  daily_volume_ratio, volume, dollar_volume, rth_volume, rth_dollar_volume, market_close, close_under_50pct_of_range,
  afterhours_close, afterhours_high, afterhours_low, afterhours_volume, afterhours_dollar_volume, premarket_vwap,
  premarket_volume, premarket_dollar_volume, premarket_high, premarket_low, market_cap, filing_types, all_tags,
  session.day + (last_updated - date), place % 20 <> 0
from (
  select ticker, day, abs(hashint8(n * 10000::bigint + back)) % 20000 as place
  from (select * from trading order by back desc offset 0) as trading join listed on sessions > back
  limit {{rows}}
) as session join base using (place);
drop table base;

-- step: historical_float_pro
create temporary table base as
select row_number() over () - 1 as place, * from historical_float_pro order by ticker, filed_at;
create unique index on base (place);
analyze base;
truncate historical_float_pro;
set local enable_mergejoin = off;
set local work_mem = '256MB';
-- 5,000 tickers have the same number of filings each. The filings are spread evenly over ten years, and were filed 40
-- days after the reported date.
insert into historical_float_pro
select
  filing.ticker, filing.day + 40, form_type, 'https://filings.example/' || filing.ticker || '/' || filing.number,
  filing.day, outstanding_shares, "float", restricted_shares, affiliate_shares, insider_shares, affiliate_percent,
  institutions_percent, insider_percent, cik, is_adr, ads_ratio, details, filing.day + (last_updated - filed_at)
from (
  select pg_temp.symbol4(1 + number % 5000) as ticker, number, abs(hashint8(number)) % 20000 as place,
    (select max(date) from daily_prices) - (number / 5000 * 3653 / greatest(1, {{rows}} / 5000))::int as day
  from generate_series(0::bigint, {{rows}} - 1) as number
) as filing join base using (place);
drop table base;

-- step: news
-- Word frequencies follow a Zipf distribution: the most frequent word occurs in a third of the texts, but most words
-- occur in only one of several thousand texts.
create temporary table base as
with words as (
  select place, array(
    select 'w' || to_hex((power(30000::float8, pg_temp.unit(place * 1000 + word, 201)))::bigint * 48271 % 1048573)
    from generate_series(1, 80) as word
  ) as words, pg_temp.unit(place, 202) < 0.7 as is_filing
  from generate_series(0::bigint, 19999) as place
), texts as (
  select place, is_filing,
    array_to_string(words[1:9 + (place % 5)::int], ' ') as title,
    case when not is_filing then array_to_string(words[10:30 + (place % 40)::int], ' ') end as summary,
    -- About one in seven texts has a body, whose average length is 2,000 characters.
    case when not is_filing and place % 2 = 0
      then (select string_agg(md5(place::text || n), ' ') from generate_series(1, 20 + place % 80) as n) end as body,
    case when is_filing
      then pg_temp.pick(array['4', '4', '4', '8-K', '8-K', '424B5', '10-Q', 'S-3', '6-K', 'SC 13G', 'EFFECT'],
        pg_temp.unit(place, 203))
      else 'news' end as form_type
  from words
)
select *, to_tsvector('english', coalesce(title, '') || ' ' || coalesce(summary, '')) as search,
  case when is_filing then null else pg_temp.pick(array['Newswire', 'Market Wire', 'The Ticker'], pg_temp.unit(place, 204)) end
    as publisher,
  (array['earnings', 'offering', 'fda', 'merger', 'halt', 'split', 'guidance', 'insider', 'dividend', 'contract'])
    [1 + floor(10 * power(pg_temp.unit(place, 205), 2))::int:1 + floor(11 * pg_temp.unit(place, 206))::int] as tags
from texts;
create unique index on base (place);
analyze base;
truncate news;
-- `search` is copied from the base rows. Computing it for each row would take hours.
alter table news alter column search drop expression;
set local enable_mergejoin = off;
set local work_mem = '256MB';
-- The rows are spread evenly over twenty years. Their 20,000 tickers follow a Zipf distribution.
insert into news (id, ticker, tickers, form_type, title, summary, body, author, publisher, tags, accession_number,
  document_url, filed_at, filed_at_time, created_at, last_updated, search)
select
  case when is_filing then 'f' else 'n' end || lpad(item.number::text, 12, '0'),
  ticker, array[ticker], form_type, title, summary, body, case when not is_filing then 'Staff writer' end, publisher, tags,
  case when is_filing then lpad(item.number::text, 10, '0') || '-26-' || lpad((item.number % 1000000)::text, 6, '0') end,
  'https://documents.example/' || ticker || '/' || item.number, at::date, date_trunc('milliseconds', at), at, at, search
from (
  select number, abs(hashint8(number)) % 20000 as place,
    pg_temp.symbol4(power(20000::float8, pg_temp.unit(number, 207))::bigint) as ticker,
    date_trunc('milliseconds', timestamp '2026-10-30 20:00' - interval '7300 days' * (number::float8 / {{rows}})) as at
  from generate_series({{rows}} - 1, 0::bigint, -1) as number
) as item join base using (place);
drop table base;
