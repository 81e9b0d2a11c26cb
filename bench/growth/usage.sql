-- Generates the usage of three accounts, in the batches that the service writes four times per second. The first
-- account sent one request per minute for 13 months, and the second sent one per second for 31 days. The third sent
-- {{rows}} requests, at a thousand per second, in sessions of 100 seconds spread over 13 months.

-- step: requests
insert into accounts (name, tier, balance_microdollars)
select name, 'ultimate', 1000000000000000
from (select 'account ' || n as name from generate_series(1, 1000) as n
  union all select unnest(array['a minute', 'a second', 'thousand a second'])) as all_of_them
order by name not like 'account %', length(name), name;
select create_usage_partition(now() - month * interval '1 month') from generate_series(0, 13) as month;
create temporary table requests as
with times as (
  select 'a minute' as name, number, now() - number * interval '1 minute' as around, 60000 as every_ms
  from generate_series(1, 390 * 1440) as number
  union all
  select 'a second', number, now() - number * interval '1 second', 1000 from generate_series(1, 31 * 86400) as number
  union all
  select 'thousand a second', number, date_trunc('minute', now() - interval '12 hours'
      - number / 100000 * interval '390 days' / greatest(1, {{rows}} / 100000)) - (1 + number % 100000) * interval '1 ms', 1
  from generate_series(0, {{rows}} - 1) as number
)
select account_id, date_trunc('milliseconds', around + floor(every_ms * pg_temp.unit(number, 301)) * interval '1 ms')
    as requested_at,
  number, endpoint, (array[200, 304, 422, 503])[status]::smallint as status_code, status = 2 as cached,
  case status when 1 then 500 + floor(19000 * pg_temp.unit(number, 306)) else 0 end::bigint as bytes,
  case status when 1 then ceil((500 + floor(19000 * pg_temp.unit(number, 306))) / 100) else 0 end::bigint as cost,
  power(100, pg_temp.unit(number, 303))::int as duration, number % 4096 as id_number, status,
  -- A busy process writes batches of 250 requests, in rows of up to 100 requests.
  case when every_ms = 1 then number / 250 else number end as write,
  case when every_ms = 1 then number % 250 / 100 else 0 end as part
from times join accounts using (name) cross join lateral (
  select case when unit < 0.9 then 1 when unit < 0.98 then 2 when unit < 0.9999 then 3 else 4 end as status
  from pg_temp.unit(number, 302) as unit offset 0
) as chosen join unnest(array[
  '/v1/intraday-runners', '/v1/news', '/v1/screener', '/v1/ticker-changes', '/v1/dilution-data', '/v1/gap-stats',
  '/v1/float-outstanding', '/v1/registrations', '/v1/premarket-stats', '/v1/historical-float-pro', '/v1/ownership',
  '/v1/afterhours-stats', '/v1/research-reports', '/v1/split-status', '/v1/nasdaq-compliance'
]) with ordinality as endpoints (endpoint, rank) on rank = power(15.99, pg_temp.unit(number, 305))::int;
insert into usage_daily
select account_id, (requested_at at time zone 'America/New_York')::date, endpoint, count(*),
  count(*) filter (where status_code >= 400), sum(bytes), sum(cost)
from requests group by 1, 2, 3;

-- step: before
alter table usage disable trigger note_usage;
insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, records_returned, bytes,
  cost_microdollars, duration_ms, cached, deprecated)
select gen_random_uuid(), requested_at, account_id, 1, gen_random_uuid(), endpoint, status_code, 10, bytes, cost, duration,
  cached, false
from requests order by requested_at;
alter table usage enable trigger note_usage;
insert into usage_moments
select account_id, endpoint, status_code, moment_of(requested_at), count(*) from requests group by 1, 2, 3, 4 order by 4;
insert into usage_kinds select distinct account_id, endpoint, status_code from requests;

-- step: after
insert into usage_writers (id_suffix) values ('-8000-000000000001');
insert into usage_request_kinds (endpoint, status_code, cached, deprecated, via, price_per_gb_microdollars)
select distinct endpoint, status_code, cached, false, null, case status_code when 200 then 10000000 else 0 end from requests;
insert into usage_kind_hours
select distinct account_id, kind_id, date_trunc('hour', requested_at, 'UTC')
from requests join usage_request_kinds using (endpoint, status_code);
create function pg_temp.two_bytes(number bigint) returns bytea language sql immutable
return substr(int4send(number::int), 3);
create function pg_temp.pack(number bigint) returns bytea language sql immutable
return case when number = 0 then '\x00' when number < 256 then '\x01'::bytea || substr(int4send(number::int), 4)
  else '\x02'::bytea || pg_temp.two_bytes(number) end;
-- Requests that are each stored in a separate row.
insert into usage_batches
select account_id, requested_at, 1, number, 0, 1, 0, pg_temp.pack(kind_id), '\x0101', '\x0101', pg_temp.pack(bytes),
  pg_temp.pack(cost), '\x00', '\x00', '\x010a', pg_temp.pack(bytes), pg_temp.pack(cost), pg_temp.pack(duration),
  pg_temp.pack(id_number), ''
from requests join usage_request_kinds using (endpoint, status_code)
where account_id <> (select account_id from accounts where name = 'thousand a second')
order by requested_at;
-- Requests that are stored together, several per row.
with grouped as (
  select *, dense_rank() over (partition by write, part order by kind_id) - 1 as group_place
  from requests join usage_request_kinds using (endpoint, status_code)
  where account_id = (select account_id from accounts where name = 'thousand a second')
), groups as (
  select write, part, kind_id, count(*) as requests, sum(bytes)::bigint as bytes, sum(cost)::bigint as cost
  from grouped group by write, part, kind_id
), packed_groups as (
  select write, part, '\x01'::bytea || string_agg(substr(int4send(kind_id), 4), '' order by kind_id) as kinds,
    '\x01'::bytea || string_agg('\x01'::bytea, '') as keys,
    '\x01'::bytea || string_agg(substr(int4send(requests::int), 4), '' order by kind_id) as requests,
    '\x03'::bytea || string_agg(substr(int4send(bytes::int), 2), '' order by kind_id) as bytes,
    '\x02'::bytea || string_agg(pg_temp.two_bytes(cost), '' order by kind_id) as costs
  from groups group by write, part
), timed as (
  select *, max(requested_at) over (partition by write, part) as moment from grouped
), packed as (
  select account_id, moment, write, part, count(*) as requests,
    extract(milliseconds from moment - min(requested_at))::int as span_ms,
    '\x01'::bytea || string_agg(substr(int4send(group_place::int), 4), '' order by number desc) as groups,
    '\x02'::bytea || string_agg(pg_temp.two_bytes(extract(milliseconds from moment - requested_at)::int), ''
      order by number desc) as ages,
    '\x01'::bytea || string_agg('\x0a'::bytea, '') as records,
    '\x02'::bytea || string_agg(pg_temp.two_bytes(bytes), '' order by number desc) as bytes,
    '\x01'::bytea || string_agg(substr(int4send(cost::int), 4), '' order by number desc) as costs,
    '\x01'::bytea || string_agg(substr(int4send(duration), 4), '' order by number desc) as durations,
    '\x02'::bytea || string_agg(pg_temp.two_bytes(id_number), '' order by number desc) as id_numbers
  from timed group by account_id, moment, write, part
)
insert into usage_batches
select account_id, moment, 1, 10000000 + write, part, packed.requests, span_ms, kinds, keys, packed_groups.requests,
  packed_groups.bytes, packed_groups.costs, groups, ages, records, packed.bytes, packed.costs, durations, id_numbers, ''
from packed join packed_groups using (write, part) order by moment;
