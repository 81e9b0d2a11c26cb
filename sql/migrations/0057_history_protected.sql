-- No table reads the setting `tickerline.transaction` any longer, so it is no longer set (decision 0113).
create or replace function history.begin_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current bigint;
  known   text[];
begin
  -- The truncation has locked the table, so whoever wrote to it before has drawn a time from the sequence.
  if tg_op = 'TRUNCATE' and current_setting('transaction_isolation') <> 'read committed' and (
    select is_called and last_value > (
      select coalesce(max(extract(epoch from recorded_at) * 1000000), 0) from history.transactions
    )
    from history.newest_microsecond
  ) then
    raise serialization_failure using
      message = 'could not serialize access due to concurrent update',
      detail = format('Rows that this transaction does not see may be in the table %I.', tg_table_name),
      hint = 'Try again, or truncate under read committed.';
  end if;
  begin
    current := currval('history.transaction_ids');
  exception when object_not_in_prerequisite_state then
    null; -- The session has not written before.
  end;
  select written into known from history.transactions where id = current and xact = pg_current_xact_id();
  if known is null then
    set constraints history.record_transaction deferred;
    insert into history.transactions (month, xact, written, is_pending)
    select month, pg_current_xact_id(), array[tg_table_name], true from history.current_month;
  elsif tg_table_name <> all (known) then
    update history.transactions set written = known || tg_table_name::text where id = current;
  end if;
  return null;
end $$;

-- Drops the history of the earliest month, if all of its transactions were recorded before the given time. Returns the
-- month. One per call, so that few partitions are locked at once; callers repeat it.
--
-- The first call for a month only moves the beginning of the history. The month is dropped by a later one, when all
-- requests have ended that compared their moment with the previous beginning.
--
-- Service roles may call this, so it keeps the last 31 days.
create or replace function history.drop_before(moment timestamptz) returns setof date
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  first_month date;
  newest      timestamptz;
  ends        timestamptz;
  dataset     text;
begin
  -- The shortest HISTORY_RETENTION. Hours, because days depend on the time zone of the session.
  if (moment <= now() - interval '744 hours') is not true then
    raise invalid_parameter_value using message = 'the history of the last 31 days cannot be dropped';
  end if;
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
