-- The record of a transaction belongs to the transaction itself, and is complete whenever a client sets constraints
-- immediate (decision 0113). It was found by a setting that every client can change.
--
-- The session value of `history.transaction_ids` identifies the record: it needs no lookup, and only a role that may
-- use the sequence can change it. The trigger `history_insert` reads it with the rights of the writer.
grant select on sequence history.transaction_ids to public;

alter table history.transactions
  -- The transaction of PostgreSQL that wrote it.
  add column xact xid8,
  -- The datasets to which it wrote.
  add column written text[],
  -- Whether the record will be made or repeated: at the commit, or when constraints are set immediate.
  add column is_pending boolean not null default false;

drop trigger record_transaction on history.transactions;
create constraint trigger record_transaction after insert or update of is_pending on history.transactions
  deferrable initially deferred for each row when (new.is_pending) execute function history.record_transaction();
alter table history.transactions enable always trigger record_transaction;

-- Begins the record of a transaction with its first statement that writes to a dataset.
create or replace function history.begin_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current bigint;
  known   text[];
begin
  -- The truncation has locked the table, so whoever wrote to it before has drawn a time from the sequence. If this
  -- transaction has drawn one itself, because constraints were set immediate, it cannot tell whether others have.
  if tg_op = 'TRUNCATE' and current_setting('transaction_isolation') <> 'read committed' and (
    select is_called and last_value > (
      select coalesce(max(extract(epoch from recorded_at) * 1000000), 0) from history.transactions
      where xact is distinct from pg_current_xact_id()
    )
    from history.newest_microsecond
  ) then
    raise serialization_failure using
      message = 'could not serialize access due to concurrent update',
      detail = format('Rows that this transaction does not see may be in the table %I.', tg_table_name),
      hint = 'Try again before constraints are set immediate, or truncate under read committed.';
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
    select month, pg_current_xact_id(), array[tg_table_name], true from history.current_month
    returning id into current;
    -- The default of `recorded_in`. If a client changes the setting, `history_insert` corrects the rows.
    perform set_config('tickerline.transaction', current::text, true);
  elsif tg_table_name <> all (known) then
    update history.transactions set written = known || tg_table_name::text where id = current;
  end if;
  return null;
end $$;

-- Makes the record again if constraints were set immediate since the transaction's last write, or during this one.
create function history.end_statement() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current      bigint := currval('history.transaction_ids');
  will_be_made boolean;
begin
  select is_pending into will_be_made from history.transactions where id = current and xact = pg_current_xact_id();
  if will_be_made is null then
    raise object_not_in_prerequisite_state using
      message = 'the history has lost the record of this transaction',
      hint = 'Only the history may draw values from history.transaction_ids.';
  elsif not will_be_made then
    -- Constraints that are immediate would fire at once, and again after each further statement.
    set constraints history.record_transaction deferred;
    update history.transactions set is_pending = true where id = current;
  end if;
  return null;
end $$;

-- Stamps a row that an update has changed, or an inserted row that has another value in `recorded_in`.
create or replace function history.stamp_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  new.recorded_in := currval('history.transaction_ids');
  return new;
end $$;

-- Records a transaction when it commits, and earlier if a client sets constraints immediate: then each later record
-- replaces it. The lock is held until the commit is visible, so times are in commit order.
create or replace function history.record_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current history.transactions;
  dataset text;
  counts  jsonb;
  counted jsonb := '{}';
  listed  bigint := 0;
  is_used boolean := false;
  instant bigint;
begin
  select * into strict current from history.transactions where id = new.id;
  if current.recorded_at is not null then
    delete from history.changes where transaction = current.id and month = current.month;
  end if;
  foreach dataset in array current.written loop
    counts := history.list_changes(current, dataset, listed);
    continue when counts is null;
    is_used := true;
    continue when counts = '{}';
    counted := counted || jsonb_build_object(dataset, counts);
    listed := listed + (select sum(number::bigint) from jsonb_each_text(counts) as each (kind, number));
  end loop;
  if not is_used then
    -- The row stays until `history.start_month`: a statement that is still running may write with its id.
    update history.transactions set is_pending = false, recorded_at = null, highest_id = null, changes = '{}'
    where id = current.id;
    return null;
  end if;
  perform pg_advisory_xact_lock(7101886);
  instant := nextval('history.newest_microsecond');
  if instant < extract(epoch from clock_timestamp()) * 1000000 then
    instant := extract(epoch from clock_timestamp()) * 1000000;
    perform setval('history.newest_microsecond', instant);
  end if;
  update history.transactions set is_pending = false,
    recorded_at = timestamptz 'epoch' + instant * interval '1 microsecond',
    highest_id = (select last_value from history.transaction_ids), changes = counted
  where id = current.id;
  return null;
end $$;

-- Creates the partitions of the current month, and lets new transactions use them. Also deletes the records of
-- transactions that changed nothing; those of open transactions are not visible here.
create or replace function history.start_month() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this_month date := date_trunc('month', now() at time zone 'UTC');
begin
  perform pg_advisory_xact_lock(7101887);
  delete from history.transactions where recorded_at is null and xact is distinct from pg_current_xact_id();
  if this_month <= (select month from history.current_month) then return; end if;
  perform history.create_partition(whole, this_month)
  from (select 'changes' as whole union all select dataset from history.datasets) as tables;
  update history.current_month set month = this_month;
end $$;

-- Keeps the history of a table from now on. Run it again after a migration that adds columns, or to repair triggers.
create or replace function history.track(dataset text, copy_indexes boolean default true) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  live    regclass := format('public.%I', dataset)::regclass;
  columns text[];
  names   text;
  added   record;
  index   record;
begin
  execute format('alter table public.%I add column if not exists recorded_in bigint', dataset);
  execute format($sql$alter table public.%I alter recorded_in
    set default nullif(current_setting('tickerline.transaction', true), '')::bigint$sql$, dataset);
  columns := array(
    select attname from pg_attribute
    where attrelid = live and attnum > 0 and not attisdropped and attgenerated = '' and attname <> 'recorded_in'
    order by attnum
  );
  insert into history.datasets values (
    dataset,
    array(
      select attname from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
      where indexrelid = (
        select indexrelid from pg_index
        where indrelid = live and indisunique and indpred is null and indexprs is null
        order by indisprimary desc, indexrelid limit 1
      )
      order by array_position(indkey::int2[], attnum)
    ),
    columns
  ) on conflict on constraint datasets_pkey do update set columns = excluded.columns;

  if to_regclass(format('history.%I', dataset)) is null then
    execute format('create table history.%I (like public.%I including generated, replaced_in bigint not null,
      replaced_month date not null) partition by range (replaced_month)', dataset, dataset);
    execute format('alter table history.%I alter recorded_in set not null', dataset);
    execute format('create index on history.%I (recorded_in)', dataset);
    execute format('create index on history.%I (replaced_in)', dataset);
    for index in
      select regexp_replace(pg_get_indexdef(indexrelid), '^.* USING (.*?)( NULLS NOT DISTINCT)?$', '\1') as definition
      from pg_index where indrelid = live and (copy_indexes or indisunique)
    loop
      execute format('create index on history.%I using %s', dataset, index.definition);
    end loop;
    perform history.create_partition(dataset, month) from history.current_month;
  end if;
  -- Earlier versions get what the current rows got when the table got the column, because the API may not expect null.
  for added in
    select attname, format_type(atttypid, atttypmod) || case
        when adbin is null then ''
        when attgenerated <> '' then format(' generated always as (%s) stored', pg_get_expr(adbin, adrelid))
        else format(' default %s', pg_get_expr(adbin, adrelid)) || case when attnotnull then ' not null' else '' end
      end as definition
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = live and attnum > 0 and not attisdropped and attname not in (
      select attname from pg_attribute where attrelid = format('history.%I', dataset)::regclass and not attisdropped
    )
  loop
    execute format('alter table history.%I add column %I %s', dataset, added.attname, added.definition);
  end loop;

  -- Keeps the rows that a statement replaces or removes. Rows that the same transaction recorded were never visible.
  -- The function is made for the table, because PostgreSQL would plan dynamic SQL for each statement anew.
  names := (select string_agg(quote_ident(name), ', ' order by position)
    from unnest(columns) with ordinality as listed (name, position));
  execute format($sql$
    create or replace function history.keep_%1$s() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
    declare
      current       bigint := currval('history.transaction_ids');
      current_month date   := (select month from history.transactions where id = current);
    begin
      if tg_op = 'UPDATE' then
        -- Without the rows that the update did not change.
        insert into history.%1$I (%2$s, recorded_in, replaced_in, replaced_month)
        select %2$s, coalesce(recorded_in, 0), current, current_month from (
          select %2$s, recorded_in from old_rows where recorded_in is distinct from current
          except all
          select %2$s, recorded_in from new_rows where recorded_in is distinct from current
        ) as ended;
      elsif tg_op = 'DELETE' then
        insert into history.%1$I (%2$s, recorded_in, replaced_in, replaced_month)
        select %2$s, coalesce(recorded_in, 0), current, current_month from old_rows
        where recorded_in is distinct from current;
      else
        insert into history.%1$I (%2$s, recorded_in, replaced_in, replaced_month)
        select %2$s, coalesce(recorded_in, 0), current, current_month from public.%1$I
        where recorded_in is distinct from current;
      end if;
      return null;
    end $body$
  $sql$, dataset, names);
  execute format('revoke all on function history.keep_%s from public', dataset);

  execute format('create or replace trigger history_begin before insert or update or delete or truncate on public.%I
    for each statement execute function history.begin_transaction()', dataset);
  execute format($sql$create or replace trigger history_insert before insert on public.%I for each row
    when (new.recorded_in is distinct from currval('history.transaction_ids'))
    execute function history.stamp_row()$sql$, dataset);
  execute format('create or replace trigger history_stamp before update on public.%I for each row
    when ((%s, new.recorded_in) is distinct from (%s, old.recorded_in)) execute function history.stamp_row()', dataset,
    (select string_agg(format('new.%I', name), ', ') from unnest(columns) as name),
    (select string_agg(format('old.%I', name), ', ') from unnest(columns) as name));
  execute format('create or replace trigger history_update after update on public.%I
    referencing old table as old_rows new table as new_rows
    for each statement execute function history.keep_%1$s()', dataset);
  execute format('create or replace trigger history_delete after delete on public.%I referencing old table as old_rows
    for each statement execute function history.keep_%1$s()', dataset);
  execute format('create or replace trigger history_truncate before truncate on public.%I
    for each statement execute function history.keep_%1$s()', dataset);
  -- Runs after `history_update`, because triggers of the same event run in the order of their names.
  execute format('create or replace trigger history_written after insert or update or delete or truncate on public.%I
    for each statement execute function history.end_statement()', dataset);
  -- Also during a restore or logical replication.
  for added in
    select unnest(array['begin', 'insert', 'stamp', 'update', 'delete', 'truncate', 'written']) as name
  loop
    execute format('alter table public.%I enable always trigger history_%s', dataset, added.name);
  end loop;
end $$;

revoke all on function history.end_statement from public;
