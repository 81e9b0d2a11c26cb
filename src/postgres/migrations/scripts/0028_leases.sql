-- Leases that make each background job run in one process at a time. Processes insert a row for each job they know.
-- Releasing a lease sets `holder` to null.
create table leases (
  name   text primary key check (name <> ''),
  holder uuid,
  until  timestamptz(3) not null default '-infinity'
);

-- Drops one month per call, so that at most two partitions are locked at once. Callers repeat it.
-- `materialized` makes PostgreSQL select the partitions before it parses dates from their names.
create or replace function drop_usage_partitions(before timestamptz) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  latest timestamptz := least(before, now() - interval '31 days');
  name   text;
begin
  perform pg_advisory_xact_lock(7101885);
  with months as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'public.usage'::regclass
  )
  select relname into name from months
  where (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC' <= latest
  order by relname limit 1;
  if name is null then return; end if;
  execute format('drop table public.%I', name);
  return next name;
end $$;
