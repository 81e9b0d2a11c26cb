-- Usage records (D29). Each write adds one row per account to `usage_batches`, which contains the requests as packed
-- numbers (decision 0160). Usage tables have no foreign keys, because usage is kept after its account is deleted.
-- Partitions are calendar months in UTC, so that old months can be dropped.

-- Counts of requests that a process rejected with 429 because of a rate limit, with one row per account, endpoint and
-- minute. Only the first columns and `request_count` vary between rows. The other columns exist so that the view
-- `usage_requests` can combine these rows with other requests.
create table usage (
  usage_id          uuid not null,
  requested_at      timestamptz(3) not null,
  account_id        bigint not null,
  key_id            bigint not null,
  request_id        text not null,
  endpoint          text not null,
  status_code       smallint not null,
  records_returned  integer not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  duration_ms       integer not null,
  cached            boolean not null,
  deprecated        boolean not null,
  request_count     bigint not null default 1,
  -- How the requests were sent: `mcp` for a tool of /mcp, null for HTTP clients.
  via               text
) partition by range (requested_at);

-- Prevents duplicates, and provides the sort order of /v1/usage.
create unique index usage_key on usage (account_id, requested_at, usage_id);

-- The processes that have written batches.
create table usage_writers (
  writer     integer generated always as identity primary key,
  -- The common suffix of all request ids that this process assigns.
  id_suffix  text not null,
  started_at timestamptz(3) not null default now(),
  -- The number of the last batch that the process has written.
  written    integer not null default 0
);

-- The properties that many requests have in common, stored once (a kind). The price is 0 for requests that cost
-- nothing.
create table usage_request_kinds (
  kind_id                   integer generated always as identity primary key,
  endpoint                  text not null,
  status_code               smallint not null,
  cached                    boolean not null,
  deprecated                boolean not null,
  via                       text,
  price_per_gb_microdollars bigint not null,
  unique nulls not distinct (endpoint, status_code, cached, deprecated, via, price_per_gb_microdollars)
);

-- The requests of accounts, in batches. Each `bytea` column contains packed numbers, one per request or, for the
-- `group_` columns, one per group.
create table usage_batches (
  account_id bigint not null,
  -- The time of the newest request. All requests in a batch fall within the same five-second window, whose start
  -- `usage_window` returns.
  moment     timestamptz(3) not null,
  writer     integer not null,
  sequence   integer not null,
  part       smallint not null,
  requests   smallint not null,
  -- The milliseconds from the oldest to the newest request of the batch.
  span_ms    integer not null,
  -- The requests in a batch are grouped by kind and key. The `group_` columns contain one number per group.
  group_kinds    bytea not null,
  group_keys     bytea not null,
  group_requests bytea not null,
  group_bytes    bytea not null,
  group_costs    bytea not null,
  -- The following columns contain one number per request, in the order in which the requests ended. This one contains
  -- the position of the request's group among the groups, starting at 0.
  groups     bytea not null,
  -- The time from the request to `moment`, in milliseconds.
  ages       bytea not null,
  records    bytea not null,
  bytes      bytea not null,
  costs      bytea not null,
  durations  bytea not null,
  -- The number in the request id that the writer assigned, unless `own_ids` contains another id for the request. The
  -- ids in `own_ids` are separated by spaces. A UUID is stored as `=` followed by its base64 encoding without padding;
  -- other ids contain no `=`.
  id_numbers bytea not null,
  own_ids    text not null
) partition by range (moment);

-- Keeps values uncompressed and in the row itself. A row usually takes a quarter of a page, and never more than a page.
alter table usage_batches
  alter group_kinds set storage plain, alter group_keys set storage plain, alter group_requests set storage plain,
  alter group_bytes set storage plain, alter group_costs set storage plain, alter groups set storage plain,
  alter ages set storage plain, alter records set storage plain, alter bytes set storage plain,
  alter costs set storage plain, alter durations set storage plain, alter id_numbers set storage plain,
  alter own_ids set storage plain;

create index usage_batches_key on usage_batches (account_id, moment);

-- Batches that `settle_usage` has not yet charged and added to the daily sums.
create table unsettled_usage (
  writer      integer not null,
  sequence    integer not null,
  first_at    timestamptz(3) not null,
  last_at     timestamptz(3) not null,
  account_ids bigint[] not null,
  primary key (writer, sequence)
);

-- The hours in which an account sent requests of a kind. Only usage that `settle_usage` has processed is included.
create table usage_kind_hours (
  account_id bigint not null,
  kind_id    integer not null,
  hour       timestamptz(0) not null,
  primary key (account_id, kind_id, hour)
) partition by range (hour);

-- Usage per account, endpoint and day (New York time), kept forever. Half of each page stays free, so that updates do
-- not have to change any index.
create table usage_daily (
  account_id        bigint not null,
  usage_date        date not null,
  endpoint          text not null,
  requests          bigint not null,
  errors            bigint not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  primary key (account_id, usage_date, endpoint)
) with (fillfactor = 50);

create index on usage_daily (account_id, endpoint, usage_date);

-- The sums in `usage_daily`, broken down by kind of request and price, and kept forever.
create table usage_daily_prices (
  account_id                bigint not null,
  usage_date                date not null,
  endpoint                  text not null,
  -- `charged` if the requests cost something. Otherwise, `refused` if the status is 400 or higher, or else `free`.
  kind                      text not null,
  -- 0 unless the kind is `charged`.
  price_per_gb_microdollars bigint not null,
  requests                  bigint not null,
  bytes                     bigint not null,
  cost_microdollars         bigint not null,
  primary key (account_id, usage_date, endpoint, kind, price_per_gb_microdollars)
) with (fillfactor = 50);

-- The service role may not create or drop tables, so this function and the next one create and drop partitions on its
-- behalf.
create function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(7101885);
  perform public.create_month_partition(whole, date_trunc('month', moment at time zone 'UTC')::date)
  from unnest('{public.usage,public.usage_batches,public.usage_kind_hours}'::regclass[]) as whole;
end $$;

-- Drops the partitions of the earliest month if that month ended before the given time, and returns the month's name.
-- Never drops partitions from the last 31 days, or from a month with usage that has not been charged yet. Each call
-- drops at most one month, so that few partitions are locked at a time; callers repeat the call.
create function drop_usage_partitions(before timestamptz) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  latest timestamptz := least(before, now() - interval '31 days');
  month  date;
  whole  text;
begin
  perform pg_advisory_xact_lock(7101885);
  perform public.settle_usage() from public.unsettled_usage where first_at < latest limit 1;
  latest := least(latest, (select min(first_at) from public.unsettled_usage));
  month := public.earliest_month('public.usage');
  if ((month + interval '1 month') at time zone 'UTC' <= latest) is not true then return; end if;
  foreach whole in array array['usage', 'usage_batches', 'usage_kind_hours'] loop
    execute format('drop table if exists public.%I', whole || to_char(month, '_YYYY_MM'));
  end loop;
  return next 'usage' || to_char(month, '_YYYY_MM');
end $$;

-- A trigger function for `usage`. Removes the data that identifies the customer from request counts that are recorded
-- after their account was erased. No count can be missed: a writer locks the account before it adds rows, and
-- `erase_account` waits for that lock.
create function anonymize_late_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from public.account_erasures where account_id = new.account_id) then
    new.key_id := 0;
    new.request_id := '';
  end if;
  return new;
end $$;

create trigger anonymize_late_usage before insert on usage for each row execute function anonymize_late_usage();

-- Returns the number at a position, starting at 0, of a column of packed numbers. The first byte contains the width of
-- the numbers in bytes; if it is 0, all numbers are 0. The function is not marked parallel safe: PostgreSQL expects
-- 1,000 numbers per batch, and would start parallel workers for a single one.
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

-- Returns the start of the five-second window that contains a time. All requests in a row of `usage_batches` fall
-- within the same window.
create function usage_window(moment timestamptz) returns timestamptz
language sql immutable parallel safe
return date_bin(interval '5 seconds', moment, timestamptz '1970-01-01 00:00:00Z');

-- Returns how many numbers a column of packed numbers contains. Cannot be used if all of them are 0, because they then
-- have a width of 0.
create function count_packed_numbers(packed bytea) returns integer
language sql immutable parallel safe
return (octet_length(packed) - 1) / get_byte(packed, 0);

-- The groups of requests in the batches, with one row per group and its numbers unpacked.
create view usage_batch_groups as
select account_id, moment, writer, sequence, part,
  packed_number(group_kinds, group_index)::integer as kind_id, packed_number(group_keys, group_index) as key_id,
  packed_number(group_requests, group_index) as requests, packed_number(group_bytes, group_index) as bytes,
  packed_number(group_costs, group_index) as cost_microdollars
from usage_batches cross join lateral generate_series(0, count_packed_numbers(group_requests) - 1) as group_index;

-- The individual requests in batches. `place` is the order in which the requests ended. Requests of an erased account
-- have no keys and no ids. `offset 0` keeps PostgreSQL from unpacking a number again wherever it is used.
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

-- All recorded requests, plus the rows that count requests refused with 429. Queries that filter by `requested_at`
-- should also filter by `moment`, which is indexed and at most five seconds later. The last columns order requests
-- within the same millisecond by when they ended.
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

-- Returns an account's batches, newest first, until they contain at least `wanted` requests of the given kinds. If
-- `kinds` is null, all kinds count. The batches in a five-second window overlap, so a window is always returned
-- completely.
create function find_usage_batches(
  account bigint, kinds integer[], since timestamptz, before timestamptz, wanted bigint
) returns table (moment timestamptz, writer integer, sequence integer, part smallint, span_ms integer, requests bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  hours  timestamptz[];
  hour   timestamptz;
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
    for moment, writer, sequence, part, span_ms, requests in
      select usage_batches.moment, usage_batches.writer, usage_batches.sequence, usage_batches.part,
        usage_batches.span_ms, counted.requests
      from public.usage_batches cross join lateral (
        select case when kinds is null then usage_batches.requests else (
          select coalesce(sum(public.packed_number(group_requests, group_index)), 0)
          from generate_series(0, public.count_packed_numbers(group_requests) - 1) as group_index
          where public.packed_number(group_kinds, group_index)::integer = any (kinds)
        ) end as requests
      ) as counted
      where account_id = account
        and usage_batches.moment >= greatest(since, coalesce(hour, since))
        and usage_batches.moment < least(before, coalesce(hour + interval '1 hour', before))
      order by usage_batches.moment desc
    loop
      if found_requests >= wanted and moment < oldest then return; end if;
      continue when requests = 0;
      found_requests := found_requests + requests;
      oldest := public.usage_window(moment);
      return next;
    end loop;
  end loop;
end $$;

-- Returns the groups in an account's batches that `settle_usage` has not processed yet. The function is written in
-- PL/pgSQL so that PostgreSQL cannot inline it. Otherwise, each key lookup would prepare to read all partitions, even
-- for accounts without a limit.
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

-- The requests, bytes and costs that `settle_usage` has not added to the daily sums yet.
create view unsettled_usage_totals as
select account_id, (moment at time zone 'America/New_York')::date as usage_date, endpoint,
  sum(requests)::bigint as requests,
  coalesce(sum(requests) filter (where status_code >= 400), 0)::bigint as errors, sum(bytes)::bigint as bytes,
  sum(cost_microdollars)::bigint as cost_microdollars
from usage_batch_groups join unsettled_usage using (writer, sequence) join usage_request_kinds using (kind_id)
where moment >= (select min(first_at) from unsettled_usage)
group by 1, 2, 3;

-- `usage_daily`, including usage that `settle_usage` has not processed yet. The view joins the two, because grouping
-- their union would read all rows of an account for every page.
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

revoke execute on function create_usage_partition, drop_usage_partitions, anonymize_late_usage from public;

insert into role_privileges values
  ('service', 'insert, update (bytes, request_count)', 'public.usage'),
  ('service', 'insert', 'public.usage_batches'),
  ('service', 'insert', 'public.unsettled_usage'),
  ('service', 'insert', 'public.usage_request_kinds'),
  ('service', 'insert', 'public.usage_kind_hours'),
  ('service', 'insert (id_suffix), update (written)', 'public.usage_writers'),
  ('service', 'insert, update', 'public.usage_daily'),
  ('service', 'insert, update', 'public.usage_daily_prices'),
  ('service', 'execute', 'public.create_usage_partition'),
  ('service', 'execute', 'public.drop_usage_partitions');
