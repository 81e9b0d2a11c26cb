-- Drops the history of the earliest month, if all of its transactions were recorded before the given time. Returns the
-- month. One per call, so that few partitions are locked at once; callers repeat it.
--
-- The first call for a month only moves the beginning of the history. The month is dropped by a later one, when all
-- requests have ended that compared their moment with the previous beginning.
create function history.drop_before(moment timestamptz) returns setof date
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  first_month date;
  newest      timestamptz;
  ends        timestamptz;
  dataset     text;
begin
  perform pg_advisory_xact_lock(7101887);
  -- `materialized` makes PostgreSQL select the partitions before it parses dates from their names.
  with partitions as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = 'history.changes'::regclass
  )
  select min(to_date(right(relname, 7), 'YYYY_MM')) into first_month from partitions;
  if first_month >= (select month from history.current_month)
    or (first_month + interval '1 month') at time zone 'UTC' > moment
  then
    return;
  end if;
  -- The partitions of a month may have later transactions, because new ones use them until the next month is started.
  select max(recorded_at) into newest from history.transactions where month <= first_month;
  if newest >= moment then return; end if;
  ends := greatest(newest, (first_month + interval '1 month') at time zone 'UTC');
  update history.beginning set earliest = ends, moved_at = clock_timestamp() where earliest < ends;
  if exists (select from history.beginning where moved_at > clock_timestamp() - interval '5 minutes') then return; end if;
  for dataset in select 'changes' union all select datasets.dataset from history.datasets loop
    execute format('drop table if exists history.%I', dataset || to_char(first_month, '_YYYY_MM'));
  end loop;
  -- The newest transaction remains, because it is the one before the earliest known time.
  delete from history.transactions where month <= first_month and recorded_at < newest;
  return next first_month;
end $$;

revoke execute on function history.drop_before from public;
