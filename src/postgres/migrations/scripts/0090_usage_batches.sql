-- Usage in batches: one row per account and write has its requests as packed numbers
-- (docs/decisions/0160-usage-in-batches.md). `usage` has the counts of requests refused with 429.

-- The processes that record usage.
create table usage_writers (
  writer     integer generated always as identity primary key,
  -- The end of the request ids that the process makes.
  id_suffix  text not null,
  started_at timestamptz(3) not null default now(),
  -- The number of the last batch that was written.
  written    integer not null default 0
);

-- What many requests have in common. The price is 0 for requests without cost.
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

-- Requests of an account. A column of type `bytea` has packed numbers, one per group or one per request.
create table usage_batches (
  account_id bigint not null,
  -- The newest time of a request. All times are in the same five seconds of `usage_window`.
  moment     timestamptz(3) not null,
  writer     integer not null,
  sequence   integer not null,
  part       smallint not null,
  requests   smallint not null,
  -- The time from the oldest to the newest request.
  span_ms    integer not null,
  -- Requests with the same kind and key are a group.
  group_kinds    bytea not null,
  group_keys     bytea not null,
  group_requests bytea not null,
  group_bytes    bytea not null,
  group_costs    bytea not null,
  -- One number per request, in the order in which the requests ended: the place of its group, and so on.
  groups     bytea not null,
  -- Milliseconds before `moment`.
  ages       bytea not null,
  records    bytea not null,
  bytes      bytea not null,
  costs      bytea not null,
  durations  bytea not null,
  -- A request id is that of the writer with this number, unless `own_ids` has another, separated by spaces. A UUID is
  -- there as `=` and its base64 without padding; other ids have no `=`.
  id_numbers bytea not null,
  own_ids    text not null
) partition by range (moment);

-- A row is read in place: usually a quarter of a page, and never more than a page.
alter table usage_batches
  alter group_kinds set storage plain, alter group_keys set storage plain, alter group_requests set storage plain,
  alter group_bytes set storage plain, alter group_costs set storage plain, alter groups set storage plain,
  alter ages set storage plain, alter records set storage plain, alter bytes set storage plain,
  alter costs set storage plain, alter durations set storage plain, alter id_numbers set storage plain,
  alter own_ids set storage plain;

create index usage_batches_key on usage_batches (account_id, moment);

-- Batches that `settle_usage` has not added to `usage_daily` and charged yet.
create table unsettled_usage (
  writer      integer not null,
  sequence    integer not null,
  first_at    timestamptz(3) not null,
  last_at     timestamptz(3) not null,
  account_ids bigint[] not null,
  primary key (writer, sequence)
);

-- The hours in which an account has requests of a kind, as far as they are settled.
create table usage_kind_hours (
  account_id bigint not null,
  kind_id    integer not null,
  hour       timestamptz(0) not null,
  primary key (account_id, kind_id, hour)
) partition by range (hour);

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

-- What the account has left: its balance minus the cost that is not settled. Null: postpaid.
create function current_balance(account accounts) returns bigint
language sql stable parallel safe
return case when (account).balance_microdollars is not null then (account).balance_microdollars - coalesce(
  (select sum(cost_microdollars) from unsettled_usage_of((account).account_id)), 0
)::bigint end;

-- The time of the newest batch with a cost.
create function newest_charge(account accounts) returns timestamptz
language sql stable parallel safe
return greatest((account).last_charged_at, (
  select max(moment) from unsettled_usage_of((account).account_id) where cost_microdollars > 0
));

-- As before; also counts what is not settled.
create or replace function budget_spent_this_month(account accounts) returns bigint
language sql stable parallel safe
return case when (account).budget_microdollars is not null then
  case when (account).budget_month >= date_trunc('month', now() at time zone 'America/New_York')
    then (account).budget_spent_microdollars else 0
  end + coalesce((
    select sum(cost_microdollars) from unsettled_usage_of((account).account_id)
    where (moment at time zone 'America/New_York')::date
      >= greatest((account).budget_month, date_trunc('month', now() at time zone 'America/New_York')::date)
  ), 0)::bigint
end;

create or replace function spendable_microdollars(account accounts) returns bigint
language sql stable parallel safe
return least(
  current_balance(account),
  case when (account).budget_stops then (account).budget_microdollars - budget_spent_this_month(account) end
);

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

-- The sums of `usage_daily` by kind of request and by price, kept forever.
create table usage_daily_prices (
  account_id                bigint not null,
  usage_date                date not null,
  endpoint                  text not null,
  -- `charged`: with a cost; otherwise `refused`: with a status of 400 or higher; otherwise `free`.
  kind                      text not null,
  -- 0 unless the kind is `charged`.
  price_per_gb_microdollars bigint not null,
  requests                  bigint not null,
  bytes                     bigint not null,
  cost_microdollars         bigint not null,
  primary key (account_id, usage_date, endpoint, kind, price_per_gb_microdollars)
);

-- Half of each page stays free for the next versions of its rows, so that updates change no index.
alter table usage_daily set (fillfactor = 50);
alter table usage_daily_prices set (fillfactor = 50);
alter table accounts set (fillfactor = 50);

-- What is added to the daily sums.
create type usage_sum as (
  account_id bigint, usage_date date, endpoint text, kind text, price bigint, requests bigint, errors bigint,
  bytes bigint, cost bigint
);

-- Adds to the sums that are kept forever. The caller has locked the accounts.
create function add_daily_sums(sums usage_sum[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Cheaper than `on conflict` for all rows.
  with daily as materialized (
    select account_id, usage_date, endpoint, sum(requests) as requests, sum(errors) as errors, sum(bytes) as bytes,
      sum(cost) as cost
    from unnest(sums) group by account_id, usage_date, endpoint
  ), summed as (
    update public.usage_daily as existing set
      requests = existing.requests + daily.requests,
      errors = existing.errors + daily.errors,
      bytes = existing.bytes + daily.bytes,
      cost_microdollars = existing.cost_microdollars + daily.cost
    from daily
    where (existing.account_id, existing.usage_date, existing.endpoint)
      = (daily.account_id, daily.usage_date, daily.endpoint)
    returning existing.account_id, existing.usage_date, existing.endpoint
  )
  insert into public.usage_daily (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
  select account_id, usage_date, endpoint, requests, errors, bytes, cost from daily
  where (account_id, usage_date, endpoint) not in (select account_id, usage_date, endpoint from summed);

  with daily as materialized (
    select account_id, usage_date, endpoint, kind, price, sum(requests) as requests, sum(bytes) as bytes,
      sum(cost) as cost
    from unnest(sums) group by account_id, usage_date, endpoint, kind, price
  ), summed as (
    update public.usage_daily_prices as existing set
      requests = existing.requests + daily.requests,
      bytes = existing.bytes + daily.bytes,
      cost_microdollars = existing.cost_microdollars + daily.cost
    from daily
    where (existing.account_id, existing.usage_date, existing.endpoint, existing.kind,
        existing.price_per_gb_microdollars)
      = (daily.account_id, daily.usage_date, daily.endpoint, daily.kind, daily.price)
    returning existing.account_id, existing.usage_date, existing.endpoint, existing.kind,
      existing.price_per_gb_microdollars as price
  )
  insert into public.usage_daily_prices
    (account_id, usage_date, endpoint, kind, price_per_gb_microdollars, requests, bytes, cost_microdollars)
  select account_id, usage_date, endpoint, kind, price, requests, bytes, cost from daily
  where (account_id, usage_date, endpoint, kind, price) not in (
    select account_id, usage_date, endpoint, kind, price from summed
  );
end $$;

revoke execute on function add_daily_sums from public;

-- Adds usage that is not settled to the daily sums, and charges it to balances and budgets. Returns how many batches.
create function settle_usage() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settling public.unsettled_usage[];
  sums     public.usage_sum[];
begin
  with due as (
    delete from public.unsettled_usage where (writer, sequence) in (
      select writer, sequence from public.unsettled_usage order by first_at limit 2000 for update skip locked
    ) returning unsettled_usage
  )
  select array_agg(unsettled_usage) into settling from due;
  if settling is null then return 0; end if;

  -- All writers of sums lock the accounts first, in this order. The statements below see what was written before.
  perform from public.accounts
  where account_id in (select unnest(account_ids) from unnest(settling))
  order by account_id for no key update;

  with due as materialized (select * from unnest(settling)), touched as materialized (
    select account_id, min(first_at) as first_at, max(last_at) as last_at
    from due cross join unnest(account_ids) as account_id group by account_id
  ), hourly as materialized (
    -- Sums by hour before the time zone is converted, because a conversion per row is much slower. The hours of UTC and
    -- of New York begin at the same times.
    select touched.account_id, date_trunc('hour', moment, 'UTC') as hour, kind_id, sum(requests) as requests,
      sum(bytes) as bytes, sum(cost_microdollars) as cost,
      max(moment) filter (where cost_microdollars > 0) as charged_at
    from touched cross join lateral (
      select * from public.usage_batch_groups as batch
      where batch.account_id = touched.account_id and moment between touched.first_at and touched.last_at
        -- `is true` prevents a join, which PostgreSQL may plan to hash the batches again for each account.
        and ((batch.writer, batch.sequence) in (select writer, sequence from due)) is true
      offset 0
    ) as batch
    group by touched.account_id, hour, kind_id
  ), noted as (
    insert into public.usage_kind_hours (account_id, kind_id, hour)
    select account_id, kind_id, hour from hourly on conflict do nothing
  ), daily as materialized (
    select account_id, (hour at time zone 'America/New_York')::date as usage_date, endpoint,
      case when cost > 0 then 'charged' when status_code >= 400 then 'refused' else 'free' end as kind,
      case when cost > 0 then price_per_gb_microdollars else 0 end as price, requests,
      case when status_code >= 400 then requests else 0 end as errors,
      bytes, cost, charged_at
    from hourly join public.usage_request_kinds using (kind_id)
  ), monthly as materialized (
    select account_id, date_trunc('month', usage_date)::date as month, sum(cost)::bigint as cost,
      max(charged_at) as charged_at
    from daily group by 1, 2 having sum(cost) > 0
  ), charged as (
    -- The newest month of each account. Costs of the months before it no longer count towards budgets.
    select account_id, max(month) as month, sum(cost)::bigint as cost, max(charged_at) as charged_at,
      (array_agg(cost order by month desc))[1] as month_cost
    from monthly group by account_id
  ), updated as (
    update public.accounts
    set balance_microdollars = balance_microdollars - charged.cost,
      last_charged_at = greatest(last_charged_at, charged.charged_at),
      budget_month = case when budget_microdollars is not null then greatest(budget_month, charged.month) end,
      budget_spent_microdollars = case when budget_microdollars is not null then
        case when budget_month >= charged.month then budget_spent_microdollars else 0 end
        + case when budget_month > charged.month then 0 else charged.month_cost end
      end
    from charged where accounts.account_id = charged.account_id
  )
  select array_agg(
    (account_id, usage_date, endpoint, kind, price, requests, errors, bytes, cost)::public.usage_sum
  ) into sums from daily;
  perform public.add_daily_sums(sums);

  -- Requests of an erased account that `continue_erasure` may have missed, because they were recorded later. The lock
  -- keeps it from changing the same batches.
  perform from public.account_erasures
  where account_id in (select unnest(account_ids) from unnest(settling)) order by account_id for update;
  if found then
    update public.usage_batches as batch set group_keys = '\x00', id_numbers = '\x00', own_ids = ''
    from unnest(settling) as due
    where (batch.writer, batch.sequence) = (due.writer, due.sequence)
      and batch.moment between due.first_at and due.last_at
      and batch.account_id = any (due.account_ids)
      and exists (select from public.account_erasures where account_erasures.account_id = batch.account_id);
  end if;
  return cardinality(settling);
end $$;

revoke execute on function settle_usage from public;

-- As before, with the partitions of all tables of usage.
create or replace function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  whole     text;
  name      text;
begin
  perform pg_advisory_xact_lock(7101885);
  foreach whole in array array['usage', 'usage_batches', 'usage_kind_hours'] loop
    name := whole || '_' || to_char(first_day, 'YYYY_MM');
    continue when to_regclass('public.' || name) is not null;
    execute format('create table public.%I (like public.%I including all)', name, whole);
    -- Unlike `create table … partition of`, this blocks neither reads nor writes.
    execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', whole, name,
      first_day at time zone 'UTC', (first_day + interval '1 month') at time zone 'UTC');
  end loop;
end $$;

-- As before, but settles first, and keeps months with usage that is not settled.
create or replace function drop_usage_partitions(before timestamptz) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  latest timestamptz := least(before, now() - interval '31 days');
  name   text;
  whole  text;
begin
  perform pg_advisory_xact_lock(7101885);
  perform public.settle_usage() from public.unsettled_usage where first_at < latest limit 1;
  with months as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'public.usage'::regclass
  )
  select relname into name from months
  where (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC'
    <= least(latest, (select min(first_at) from public.unsettled_usage))
  order by relname limit 1;
  if name is null then return; end if;
  foreach whole in array array['usage', 'usage_batches', 'usage_kind_hours'] loop
    execute format('drop table if exists public.%I', whole || right(name, 8));
  end loop;
  return next name;
end $$;

-- As before, but locks the account first, so that the balance and what is not settled are read at the same moment.
create or replace function reserve_balance(
  account bigint, reservation uuid, needed bigint, wanted bigint, unrecorded bigint, lease interval,
  out granted bigint, out balance bigint, out reserved_elsewhere bigint
) language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Reservations of the account wait for each other here. The statements below see the earlier ones.
  perform from public.accounts where account_id = account for no key update;
  if not found then return; end if;
  delete from public.balance_reservations where reservation_id in (
    select reservation_id from public.balance_reservations where expires_at <= now() for update skip locked
  );
  -- One statement, so that it sees either the reservation of an export or its charge.
  select public.spendable_microdollars(accounts), (
    select coalesce(sum(amount_microdollars), 0) from public.balance_reservations
    where account_id = account and reservation_id <> reservation and expires_at > now()
  ) into balance, reserved_elsewhere
  from public.accounts where account_id = account;
  if balance - reserved_elsewhere - unrecorded < needed then return; end if;
  granted := least(wanted, balance - reserved_elsewhere - unrecorded);
  insert into public.balance_reservations values (reservation, account, granted, now() + lease)
  on conflict (reservation_id) do update
  set amount_microdollars = excluded.amount_microdollars, expires_at = excluded.expires_at;
end $$;

-- Batches of usage up to this time are anonymous.
alter table account_erasures add column batches_until timestamptz(3) not null default '-infinity';

-- Erases the next rows of an erased account: first its usage, then its webhook messages, at last its audit log. Returns
-- how many, about `max_rows` at most: none if another process is erasing a batch, and null when all is erased. Requests
-- that are recorded later are anonymized by `settle_usage` and `anonymize_late_usage`.
create function continue_erasure(account bigint, max_rows int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  erasure   public.account_erasures;
  batch_end timestamptz;
  erased    bigint;
begin
  select * into erasure from public.account_erasures where account_id = account and finished_at is null
  for update skip locked;
  if not found then
    -- Another process erases a batch, or all is erased.
    return (select 0 from public.account_erasures where account_id = account and finished_at is null);
  end if;

  select max(requested_at) into batch_end from (
    select requested_at from public.usage where account_id = account and requested_at > erasure.usage_until
    order by requested_at limit max_rows
  ) as batch;
  if batch_end is not null then
    update public.usage set key_id = 0, request_id = ''
    where account_id = account and requested_at > erasure.usage_until and requested_at <= batch_end;
    get diagnostics erased = row_count;
    update public.account_erasures set usage_until = batch_end where account_id = account;
    return erased;
  end if;

  select max(moment) into batch_end from (
    select moment from public.usage_batches where account_id = account and moment > erasure.batches_until
    order by moment limit max_rows
  ) as batch;
  if batch_end is not null then
    update public.usage_batches set group_keys = '\x00', id_numbers = '\x00', own_ids = ''
    where account_id = account and moment > erasure.batches_until and moment <= batch_end;
    get diagnostics erased = row_count;
    update public.account_erasures set batches_until = batch_end where account_id = account;
    return erased;
  end if;

  delete from public.webhook_messages where message_id in (
    select message_id from public.webhook_messages join public.webhook_endpoints using (endpoint_id)
    where account_id = account limit max_rows
  );
  get diagnostics erased = row_count;
  if erased > 0 then return erased; end if;
  delete from public.webhook_endpoints where account_id = account;

  update public.audit
  set subject = case subject_type when 'account' then (select name from public.accounts where account_id = account)
      else subject end,
    before = public.redact_customer_data(before), after = public.redact_customer_data(after)
  where account_id = account;
  update public.account_erasures set finished_at = now() where account_id = account;
  return null;
end $$;

revoke execute on function continue_erasure from public;

-- Anonymizes counts that are recorded after their account was erased. None escapes: the writer locks the account before
-- it adds rows, and `erase_account` waits for that lock.
create function anonymize_late_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from public.account_erasures where account_id = new.account_id) then
    new.key_id := 0;
    new.request_id := '';
  end if;
  return new;
end $$;

revoke execute on function anonymize_late_usage from public;

create trigger anonymize_late_usage before insert on usage for each row execute function anonymize_late_usage();
