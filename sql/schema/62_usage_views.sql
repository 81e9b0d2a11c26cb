-- How usage is read: the requests in batches, and the daily sums with what is not settled.

-- Returns a number of packed numbers, which have their width in the first byte. Places are counted from 0. Not parallel
-- safe: PostgreSQL expects 1,000 numbers in each batch, and would start processes for a single one.
create function packed_number(packed bytea, place integer) returns bigint
language sql immutable
return case get_byte(packed, 0)
  when 0 then 0
  when 1 then get_byte(packed, 1 + place)
  when 2 then (get_byte(packed, 1 + 2 * place) << 8) + get_byte(packed, 2 + 2 * place)
  when 3 then (get_byte(packed, 1 + 3 * place) << 16) + (get_byte(packed, 2 + 3 * place) << 8)
    + get_byte(packed, 3 + 3 * place)
  when 4 then (get_byte(packed, 1 + 4 * place)::bigint << 24) + (get_byte(packed, 2 + 4 * place) << 16)
    + (get_byte(packed, 3 + 4 * place) << 8) + get_byte(packed, 4 + 4 * place)
  else (get_byte(packed, 1 + 7 * place)::bigint << 48) + (get_byte(packed, 2 + 7 * place)::bigint << 40)
    + (get_byte(packed, 3 + 7 * place)::bigint << 32) + (get_byte(packed, 4 + 7 * place)::bigint << 24)
    + (get_byte(packed, 5 + 7 * place) << 16) + (get_byte(packed, 6 + 7 * place) << 8) + get_byte(packed, 7 + 7 * place)
end;

-- The start of the five seconds to which all requests of a batch belong.
create function usage_window(moment timestamptz) returns timestamptz
language sql immutable parallel safe
return date_bin(interval '5 seconds', moment, timestamptz '1970-01-01 00:00:00Z');

-- Returns how many packed numbers there are, unless all are 0.
create function count_packed_numbers(packed bytea) returns integer
language sql immutable parallel safe
return (octet_length(packed) - 1) / get_byte(packed, 0);

-- The groups of batches, with their sums.
create view usage_batch_groups as
select account_id, moment, writer, sequence, part,
  packed_number(group_kinds, place)::integer as kind_id, packed_number(group_keys, place) as key_id,
  packed_number(group_requests, place) as requests, packed_number(group_bytes, place) as bytes,
  packed_number(group_costs, place) as cost_microdollars
from usage_batches cross join lateral generate_series(0, count_packed_numbers(group_requests) - 1) as place;

-- The requests of batches. `place` is the order in which they ended. An erased account has neither keys nor ids.
-- `offset 0` keeps PostgreSQL from calculating a number again wherever it is used.
create view usage_batch_requests as
select account_id, moment, batch.writer, sequence, part, place, requested_at, key_id,
  case
    when key_id = 0 then ''
    when left(own_id, 1) = '=' then encode(decode(substr(own_id, 2) || '==', 'base64'), 'hex')::uuid::text
    when own_id <> '' then own_id
    else overlay(lpad(to_hex((extract(epoch from requested_at) * 1000)::bigint), 12, '0') placing '-' from 9 for 0)
      || '-7' || lpad(to_hex(packed_number(id_numbers, place)), 3, '0') || id_suffix
  end as request_id,
  endpoint, status_code, packed_number(records, place)::integer as records_returned,
  packed_number(bytes, place) as bytes, packed_number(costs, place) as cost_microdollars,
  packed_number(durations, place)::integer as duration_ms, cached, deprecated, via, price_per_gb_microdollars, kind_id
from usage_batches as batch
cross join lateral generate_series(0, requests - 1) as place
cross join lateral (
  select packed_number(groups, place)::integer as group_place,
    moment - packed_number(ages, place) * interval '1 millisecond' as requested_at,
    split_part(own_ids, ' ', place + 1) as own_id
  offset 0
) as request
cross join lateral (
  select packed_number(group_keys, group_place) as key_id, packed_number(group_kinds, group_place)::integer as kind_id
  offset 0
) as grouped
join usage_request_kinds using (kind_id)
join usage_writers on usage_writers.writer = batch.writer;

-- All recorded requests, and the rows that count requests refused with 429. Add a condition on `moment` to one on
-- `requested_at`, so that it uses the index: it is at most five seconds later. The last columns give requests of the
-- same millisecond the order in which they ended.
create view usage_requests as
select account_id, moment, requested_at, key_id, request_id, endpoint, status_code, records_returned, bytes,
  cost_microdollars, duration_ms, cached, deprecated, via, 1::bigint as request_count, price_per_gb_microdollars,
  writer, sequence, part, place
from usage_batch_requests
union all
select account_id, requested_at, requested_at, key_id, request_id, endpoint, status_code, records_returned, bytes,
  cost_microdollars, duration_ms, cached, deprecated, via, request_count, 0,
  null, null, null, null
from usage;

-- Returns the batches with the newest requests of an account, newest first, until they have `wanted` requests of the
-- kinds (null: of any kind). A window of five seconds is returned as a whole, because its batches overlap.
create function find_usage_batches(
  account bigint, kinds integer[], since timestamptz, before timestamptz, wanted bigint
) returns table (moment timestamptz, writer integer, sequence integer, part smallint, span_ms integer, requests bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  hours  timestamptz[];
  hour   timestamptz;
  batch  record;
  oldest timestamptz;
  found_requests bigint := 0;
begin
  if kinds is null then
    hours := array[null];
  else
    hours := array(
      select known.hour from (
        select usage_kind_hours.hour from public.usage_kind_hours
        where account_id = account and kind_id = any (kinds)
        union
        select generate_series(date_trunc('hour', first_at, 'UTC'), last_at, interval '1 hour')
        from public.unsettled_usage
      ) as known
      where known.hour < before and known.hour > since - interval '1 hour'
      order by known.hour desc
    );
  end if;
  foreach hour in array hours loop
    for batch in
      select usage_batches.*, counted.requests as matching from public.usage_batches cross join lateral (
        select case when kinds is null then usage_batches.requests else (
          select coalesce(sum(public.packed_number(group_requests, place)), 0)
          from generate_series(0, public.count_packed_numbers(group_requests) - 1) as place
          where public.packed_number(group_kinds, place)::integer = any (kinds)
        ) end as requests
      ) as counted
      where account_id = account
        and usage_batches.moment >= greatest(since, coalesce(hour, since))
        and usage_batches.moment < least(before, coalesce(hour + interval '1 hour', before))
      order by usage_batches.moment desc
    loop
      if found_requests >= wanted and batch.moment < oldest then return; end if;
      continue when batch.matching = 0;
      found_requests := found_requests + batch.matching;
      oldest := public.usage_window(batch.moment);
      moment := batch.moment;
      writer := batch.writer;
      sequence := batch.sequence;
      part := batch.part;
      span_ms := batch.span_ms;
      requests := batch.matching;
      return next;
    end loop;
  end loop;
end $$;

-- Returns the groups of an account's batches that are not settled. PostgreSQL cannot inline this function.
-- Otherwise each key lookup would prepare to read all partitions, also for accounts without a limit.
create function unsettled_usage_of(account bigint)
returns table (moment timestamptz, kind_id integer, requests bigint, bytes bigint, cost_microdollars bigint)
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  oldest timestamptz := (select min(first_at) from public.unsettled_usage);
begin
  if oldest is null then return; end if;
  return query
  select batch.moment, batch.kind_id, batch.requests, batch.bytes, batch.cost_microdollars
  from public.usage_batch_groups as batch join public.unsettled_usage using (writer, sequence)
  where account_id = account and batch.moment >= oldest;
end $$;

-- The part of the daily sums that is not settled.
create view unsettled_usage_totals as
select account_id, (moment at time zone 'America/New_York')::date as usage_date, endpoint,
  sum(requests)::bigint as requests,
  coalesce(sum(requests) filter (where status_code >= 400), 0)::bigint as errors, sum(bytes)::bigint as bytes,
  sum(cost_microdollars)::bigint as cost_microdollars
from usage_batch_groups join unsettled_usage using (writer, sequence) join usage_request_kinds using (kind_id)
where moment >= (select min(first_at) from unsettled_usage)
group by 1, 2, 3;

-- `usage_daily`, with what is not settled. The unsettled sums are joined to each row, because grouping would read all
-- rows of an account for every page.
create view usage_totals as
select account_id, usage_date, endpoint, daily.requests + coalesce(unsettled.requests, 0) as requests,
  daily.errors + coalesce(unsettled.errors, 0) as errors, daily.bytes + coalesce(unsettled.bytes, 0) as bytes,
  daily.cost_microdollars + coalesce(unsettled.cost_microdollars, 0) as cost_microdollars
from usage_daily as daily left join unsettled_usage_totals as unsettled using (account_id, usage_date, endpoint)
union all
select account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars
from unsettled_usage_totals as unsettled
where not exists (
  select from usage_daily as daily
  where (daily.account_id, daily.usage_date, daily.endpoint)
    = (unsettled.account_id, unsettled.usage_date, unsettled.endpoint)
);
