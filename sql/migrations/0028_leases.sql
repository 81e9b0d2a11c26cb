-- Jobs that one process at a time does (README, jobs): whoever holds the lease of its name, and has renewed it. Rows are
-- made by the processes that know the job; one that released its lease leaves no holder.
create table leases (
  name   text primary key check (name <> ''),
  holder uuid,
  until  timestamptz(3) not null default '-infinity'
);

-- As before, but a month at a time: its caller asks until there is none left, so that no more than two partitions are
-- locked at once, and what was dropped stays dropped when the next has to wait. The names are told apart from those of
-- other relations before a date is read from them: of many, PostgreSQL would otherwise read it from all.
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
  execute format('drop table if exists public.%I', 'usage_moments_' || right(name, 7));
  return next name;
end $$;
