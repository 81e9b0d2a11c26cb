-- Counts of requests refused with 429 (D29: usage records): one row per process, account, endpoint and minute,
-- partitioned by UTC month so that old months are cheap to drop. Other requests are in `usage_batches`. The service
-- generates usage_id, because clients choose request ids and may repeat them.
--
-- There are no foreign keys: a usage row outlives its account.
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
  deprecated        boolean not null
) partition by range (requested_at);

-- Prevents duplicates, and has the sort order of /v1/usage.
create unique index usage_key on usage (account_id, requested_at, usage_id);

-- Usage per account and New York day, kept forever.
create table usage_daily (
  account_id        bigint not null,
  usage_date        date not null,
  endpoint          text not null,
  requests          bigint not null,
  errors            bigint not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  primary key (account_id, usage_date, endpoint)
);

create index on usage_daily (account_id, endpoint, usage_date);

-- The service role may not create tables; these functions let it create and drop partitions.
create function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  name      text := 'usage_' || to_char(first_day, 'YYYY_MM');
begin
  perform pg_advisory_xact_lock(7101885);
  if to_regclass('public.' || name) is not null then return; end if;
  execute format('create table public.%I (like public.usage including all)', name);
  -- Unlike `create table … partition of`, this blocks neither reads nor writes.
  execute format('alter table public.usage attach partition public.%I for values from (%L) to (%L)', name,
    first_day at time zone 'UTC', (first_day + interval '1 month') at time zone 'UTC');
end $$;

-- Drops partitions that end before the given time, but never those of the last 31 days. Returns their names.
create function drop_usage_partitions(before timestamptz) returns setof text
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
    return next name;
  end loop;
end $$;

revoke execute on function create_usage_partition, drop_usage_partitions from public;
