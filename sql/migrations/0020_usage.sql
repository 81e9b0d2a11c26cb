-- What was asked, answered and charged (D29): a row for each request that came with a key, in a partition for each
-- month (UTC), so that old ones are dropped whole. `usage_id` is made by the service, because a request id may be the
-- client's, who may send one twice. No references: a row says what happened, whatever becomes of the account.
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
  primary key (usage_id, requested_at)
) partition by range (requested_at);

-- Each starts with the account and ends with the order of /v1/usage.
create index on usage (account_id, requested_at, usage_id);
create index on usage (account_id, endpoint, requested_at, usage_id);
create index on usage (account_id, status_code, requested_at, usage_id);

-- The sums of an account's days in New York, kept for ever.
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

-- The role that serves may not create tables; of these it makes what it needs through the two functions below.
create function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  name      text := 'usage_' || to_char(first_day, 'YYYY_MM');
begin
  perform pg_advisory_xact_lock(7101885);
  if to_regclass('public.' || name) is not null then return; end if;
  execute format('create table public.%I (like public.usage including all)', name);
  -- Unlike `create … partition of`, this keeps nobody from reading or writing meanwhile.
  execute format('alter table public.usage attach partition public.%I for values from (%L) to (%L)', name,
    first_day at time zone 'UTC', (first_day + interval '1 month') at time zone 'UTC');
end $$;

-- Partitions that end before the moment; never those of the last 31 days, whoever asks. Answers their names.
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
