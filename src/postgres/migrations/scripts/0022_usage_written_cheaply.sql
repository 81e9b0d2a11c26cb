-- Makes usage cheaper to write: each index on `usage` cost more per row than all other work. One index remains; it
-- prevents duplicates and gives /v1/usage its order. Filters by endpoint or status use the table usage_moments instead.

-- Requests per account, endpoint, status and tenth of a second (`moment` is its start). Many requests share a row under
-- load. Partitioned like `usage`, and dropped together with it.
create table usage_moments (
  account_id  bigint not null,
  endpoint    text not null,
  status_code smallint not null,
  moment      timestamptz(3) not null,
  requests    bigint not null
) partition by range (moment);

-- The endpoints and statuses that occur in an account's usage.
create table usage_kinds (
  account_id  bigint not null,
  endpoint    text not null,
  status_code smallint not null,
  primary key (account_id, endpoint, status_code)
);

create function moment_of(requested_at timestamptz) returns timestamptz
language sql immutable parallel safe
return date_bin(interval '100 milliseconds', requested_at, timestamptz '1970-01-01 00:00:00Z');

-- Fills both tables in the transaction that writes usage, also for writers of an earlier release.
create function note_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  with noted as (
    insert into public.usage_moments as kept (account_id, endpoint, status_code, moment, requests)
    select account_id, endpoint, status_code, public.moment_of(requested_at), count(*)
    from added group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (account_id, endpoint, status_code, moment) do update set requests = kept.requests + excluded.requests
    returning account_id, endpoint, status_code
  )
  insert into public.usage_kinds select distinct account_id, endpoint, status_code from noted order by 1, 2, 3
  on conflict do nothing;
  return null;
end $$;

revoke execute on function note_usage from public;

-- Creates the partitions of both tables for the month of the given time.
create or replace function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  whole     text;
  name      text;
begin
  perform pg_advisory_xact_lock(7101885);
  foreach whole in array array['usage', 'usage_moments'] loop
    name := whole || '_' || to_char(first_day, 'YYYY_MM');
    continue when to_regclass('public.' || name) is not null;
    execute format('create table public.%I (like public.%I including all)', name, whole);
    -- Unlike `create table … partition of`, this blocks neither reads nor writes.
    execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', whole, name,
      first_day at time zone 'UTC', (first_day + interval '1 month') at time zone 'UTC');
  end loop;
end $$;

-- As before; also drops the matching partitions of usage_moments.
create or replace function drop_usage_partitions(before timestamptz) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  latest timestamptz := least(before, now() - interval '31 days');
  name   text;
begin
  perform pg_advisory_xact_lock(7101885);
  for name in
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = 'public.usage'::regclass
      and (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC' <= latest
    order by relname
  loop
    execute format('drop table public.%I', name);
    execute format('drop table if exists public.%I', 'usage_moments_' || right(name, 7));
    return next name;
  end loop;
end $$;

-- Converts existing rows. Past months block neither reads nor writes. For the current month, services buffer new usage
-- in memory until this transaction ends: about a second per million rows. Locks are taken in the writers' order.
do $$
declare
  yesterday timestamptz := now() - interval '1 day';
  months    text[];
  over      text[];
  month     text;
begin
  -- Prevents concurrent creation or removal of partitions.
  perform pg_advisory_xact_lock(7101885);
  months := array(
    select right(relname, 7) from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = 'usage'::regclass order by relname
  );
  over := array(
    select name from unnest(months) as name
    where (to_date(name, 'YYYY_MM') + interval '1 month') at time zone 'UTC' < yesterday
  );
  foreach month in array months loop
    perform create_usage_partition((to_date(month, 'YYYY_MM') + interval '12 hours') at time zone 'UTC');
    execute format('insert into %I select account_id, endpoint, status_code, moment_of(requested_at), count(*)
      from %I where requested_at < moment_of(%L) group by 1, 2, 3, 4 order by 1, 2, 3, 4',
      'usage_moments_' || month, 'usage_' || month, yesterday);
    continue when month <> all (over);
    execute format('create unique index on %I (account_id, requested_at, usage_id)', 'usage_' || month);
  end loop;
  lock table usage in share row exclusive mode;
  foreach month in array months loop
    continue when month = any (over);
    execute format('create unique index on %I (account_id, requested_at, usage_id)', 'usage_' || month);
    execute format('insert into %I select account_id, endpoint, status_code, moment_of(requested_at), count(*)
      from %I where requested_at >= moment_of(%L) group by 1, 2, 3, 4 order by 1, 2, 3, 4',
      'usage_moments_' || month, 'usage_' || month, yesterday);
  end loop;
end $$;

insert into usage_kinds select distinct account_id, endpoint, status_code from usage_moments;

-- Created last, because building an index once is faster than maintaining it. It includes the partitions' indexes.
create unique index on usage_moments (account_id, endpoint, status_code, moment);
create unique index usage_key on usage (account_id, requested_at, usage_id);

create trigger note_usage after insert on usage
  referencing new table as added for each statement execute function note_usage();

drop index usage_account_id_requested_at_usage_id_idx, usage_account_id_endpoint_requested_at_usage_id_idx,
  usage_account_id_status_code_requested_at_usage_id_idx;
alter table usage drop constraint usage_pkey;
