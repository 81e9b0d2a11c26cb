-- The history of every dataset: which rows it contained, and when this database recorded them (decision 0113).
--
-- In each row, `recorded_in` is the id of the transaction that wrote the row. When a row is replaced or removed, it
-- moves to the table of the same name in the schema `history`, together with the id of the transaction that replaced or
-- removed it. A transaction's time is known only when it commits, so rows contain the transaction's id, and
-- `history.transactions` contains its time.
create schema history;

-- The ids of transactions in the history. The last value drawn in a session identifies the record of its current
-- transaction. Reading this value needs no table lookup, and only a role that may use the sequence can change it. Every
-- role may read it, because the trigger `history_insert` does so with the writer's privileges.
create sequence history.transaction_ids;
grant select on sequence history.transaction_ids to public;

-- The time of the newest transaction, in microseconds since 1970. It is stored in a sequence because a sequence returns
-- its current value at every isolation level.
create sequence history.newest_microsecond;

-- One record for each transaction that writes to datasets. The record is completed when the transaction commits, and
-- also when the client sets constraints immediate.
create table history.transactions (
  id          bigint primary key default nextval('history.transaction_ids'),
  -- The month of the history partitions that contain the transaction's rows.
  month       date not null,
  -- Unique, and in commit order. Null until the commit.
  recorded_at timestamptz unique,
  -- The highest transaction id that had been assigned at `recorded_at`. Transactions with an id from `id` to
  -- `highest_id` may have been running at that time.
  highest_id  bigint,
  -- Distinguishes transactions that have the same id because a backup was restored or a failover occurred.
  mark        uuid not null default gen_random_uuid(),
  -- The number of changes by dataset and kind, for example {"news": {"added": 3}}.
  changes     jsonb not null default '{}',
  -- The transaction id that PostgreSQL assigned.
  xact        xid8,
  -- The datasets that the transaction wrote to.
  written     text[],
  -- Whether the record must still be completed, or completed again, when the transaction commits or sets constraints
  -- immediate.
  is_pending  boolean not null default false
);

-- Finds the transactions that may have been running when a given transaction id was assigned: those whose range from
-- `id` to `highest_id` contains it.
create index transactions_range_idx on history.transactions using gist (int8range(id, highest_id, '[]'))
  where recorded_at is not null;

-- The entries of the change feed (`/v1/changes`): for each transaction and each key of a dataset that it changed, the
-- difference between the rows before and after the transaction.
create table history.changes (
  transaction  bigint not null,
  position     bigint not null,
  month        date not null,
  dataset      text not null,
  kind         text not null check (kind in ('added', 'corrected', 'removed')),
  ticker       text not null,
  -- A second symbol that the change affects: the symbol of a row before its symbol was corrected, or the old symbol of
  -- a ticker change.
  other_ticker text,
  key          jsonb not null,
  -- The id of the transaction that recorded the row, if that was an earlier one: a row can enter the feed on the day on
  -- which endpoints first show it, long after it was recorded. 0 if the row is older than the history.
  version      bigint,
  primary key (transaction, position, month)
) partition by range (month);

create index on history.changes (ticker, transaction, position);
create index on history.changes (other_ticker, transaction, position) where other_ticker is not null;
create index on history.changes (dataset, transaction, position) where kind = 'corrected';

-- The tables that have a history. `key_columns` identify a row. `columns` lists the columns that a program can write.
-- `shown_from` names the column that contains the first day on which endpoints show a row, if there is one.
create table history.datasets (
  dataset     text primary key,
  key_columns text[] not null,
  columns     text[] not null,
  shown_from  text
);

-- The start of the history, which is the earliest time at which the contents of the datasets are known. Retention moves
-- it forward.
create table history.beginning (
  only_one boolean primary key default true check (only_one),
  earliest timestamptz not null,
  moved_at timestamptz not null default now()
);

insert into history.beginning (earliest) values (clock_timestamp());

-- The month whose partitions new transactions use. Only `history.start_month` creates partitions, so writers never wait
-- for a new month.
create table history.current_month (
  only_one boolean primary key default true check (only_one),
  month    date not null
);

insert into history.current_month (month) values (date_trunc('month', now() at time zone 'UTC'));

-- Creates the partitions for the current month, and makes new transactions use them. Also deletes the records of
-- transactions that changed nothing. It does not see, and so does not delete, the records of open transactions.
create function history.start_month() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this_month date := date_trunc('month', now() at time zone 'UTC');
begin
  perform pg_advisory_xact_lock(7101887);
  delete from history.transactions where recorded_at is null and xact is distinct from pg_current_xact_id();
  if this_month <= (select month from history.current_month) then return; end if;
  perform public.create_month_partition(format('history.%I', whole)::regclass, this_month)
  from (select 'changes' as whole union all select dataset from history.datasets) as tables;
  update history.current_month set month = this_month;
end $$;

select create_month_partition('history.changes', month) from history.current_month;

-- Creates the record of a transaction before the transaction's first write to a dataset.
create function history.begin_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current bigint;
  known   text[];
begin
  -- A truncation under a stricter isolation level than `read committed` could remove rows that this transaction does
  -- not see, and that it would therefore not copy to the history. The truncation has locked the table, so any
  -- transaction that wrote to it before has already drawn a time from the sequence. If that time is newer than every
  -- visible transaction, the table may contain such rows. If this transaction has drawn a time itself, because it set
  -- constraints immediate, it cannot tell whether other transactions have done so too.
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
    -- The column default of `recorded_in` reads this setting. If a client changes the setting, the trigger
    -- `history_insert` corrects the rows.
    perform set_config('tickerline.transaction', current::text, true);
  elsif tg_table_name <> all (known) then
    update history.transactions set written = known || tg_table_name::text where id = current;
  end if;
  return null;
end $$;

-- A trigger function that runs after each statement that writes to a dataset. If the transaction's record has already
-- been completed, because the client set constraints immediate, it marks the record as pending, so that the record is
-- completed again.
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
    -- With immediate constraints, `record_transaction` would fire right after this statement, and again after each
    -- later one.
    set constraints history.record_transaction deferred;
    update history.transactions set is_pending = true where id = current;
  end if;
  return null;
end $$;

-- A trigger function for rows of datasets. Sets `recorded_in` to the current transaction in a row that an update has
-- changed, or that was inserted with another value in this column.
create function history.stamp_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  new.recorded_in := currval('history.transaction_ids');
  return new;
end $$;

-- Returns an SQL list of the columns, each formatted with `template`.
create function history.list_columns(columns text[], template text default '%I') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select string_agg(format(template, name), ', ' order by position)
  from unnest(columns) with ordinality as listed (name, position)
$$;

-- Adds the net changes that a transaction made to one dataset to `history.changes`. `listed` is the number of entries
-- that the transaction already has there, for other datasets; the new entries get the positions after them. Returns the
-- number of changes of each kind, for example {"added": 3}, or null if the transaction neither recorded nor replaced a
-- row of the dataset.
create function history.list_changes(current history.transactions, dataset text, listed bigint) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_rename boolean := dataset = 'ticker_changes';
  symbol    text := case when is_rename then 'new_ticker' else 'ticker' end;
  source    history.datasets;
  key       text;
  key_json  text;
  content   text;
  has_begun boolean;
  has_ended boolean;
  counts    jsonb;
begin
  select * into source from history.datasets where datasets.dataset = list_changes.dataset;
  key_json := history.list_columns(source.key_columns, '%1$L, %1$I');
  execute format('select exists (select from public.%1$I where recorded_in = $1),
    exists (select from history.%1$I where replaced_in = $1 and replaced_month = $2)', dataset)
  into has_begun, has_ended using current.id, current.month;
  if not has_begun and not has_ended then return null; end if;

  if not has_ended then
    execute format('insert into history.changes (transaction, position, month, dataset, kind, ticker, other_ticker, key)
      select $1, $3 + row_number() over (), $2, %L, ''added'', %I, %s, jsonb_build_object(%s)
      from public.%1$I where recorded_in = $1',
      dataset, symbol, case when is_rename then 'old_ticker' else 'null' end, key_json)
    using current.id, current.month, listed;
    get diagnostics listed = row_count;
    return jsonb_build_object('added', listed);
  end if;

  -- `versions` contains each row that the transaction recorded (`is_new`) or replaced. Grouping it by key gives the
  -- state before and after the transaction. A row that was removed and added again with the same content counts as
  -- unchanged. Contents are compared by 128-bit hashes.
  key := history.list_columns(source.key_columns);
  content := format('array[hash_record_extended(row(%1$s), 0), hash_record_extended(row(%1$s), 1)]',
    history.list_columns(source.columns));
  execute format($sql$
    with versions (%1$s, is_new, symbol, former_symbol, content) as (
      select %1$s, true, %2$I, null, %3$s from public.%4$I where recorded_in = $1
      union all
      select %1$s, false, null, %2$I, %3$s from history.%4$I where replaced_in = $1 and replaced_month = $2
    ), net (%1$s, is_present, was_present, symbol, former_symbol) as (
      select %1$s, bool_or(is_new), bool_or(not is_new), max(symbol), max(former_symbol)
      from versions group by %1$s having count(*) = 1 or min(content) <> max(content)
    ), listed as (
      insert into history.changes (transaction, position, month, dataset, kind, ticker, other_ticker, key)
      select $1, $3 + row_number() over (), $2, %4$L,
        case when not was_present then 'added' when is_present then 'corrected' else 'removed' end,
        coalesce(symbol, former_symbol), %5$s, jsonb_build_object(%6$s)
      from net
      returning kind
    )
    select coalesce(jsonb_object_agg(kind, number), '{}')
    from (select kind, count(*) as number from listed group by kind) as numbers
  $sql$, key, symbol, content, dataset,
    case when is_rename then 'old_ticker' else 'nullif(former_symbol, coalesce(symbol, former_symbol))' end, key_json)
  into counts using current.id, current.month, listed;
  return counts;
end $$;

-- Returns a time for a transaction, later than all times returned before. The caller must hold the advisory lock that
-- orders commits.
create function history.draw_time() returns timestamptz language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  instant bigint := nextval('history.newest_microsecond');
begin
  if instant < extract(epoch from clock_timestamp()) * 1000000 then
    instant := setval('history.newest_microsecond', (extract(epoch from clock_timestamp()) * 1000000)::bigint);
  end if;
  return timestamptz 'epoch' + instant * interval '1 microsecond';
end $$;

-- Completes the record of a transaction at its commit. If a client sets constraints immediate, the record is completed
-- at that point, and again after later writes. The advisory lock is held until the commit is visible, so times are in
-- commit order.
create function history.record_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current history.transactions;
  dataset text;
  counts  jsonb;
  counted jsonb := '{}';
  listed  bigint := 0;
  is_used boolean := false;
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
    -- The transaction neither recorded nor replaced a row. Its record is deleted later, by `history.start_month`,
    -- because a statement that is still running may write rows with this id.
    update history.transactions set is_pending = false, recorded_at = null, highest_id = null, changes = '{}'
    where id = current.id;
    return null;
  end if;
  perform pg_advisory_xact_lock(7101886);
  update history.transactions set is_pending = false, recorded_at = history.draw_time(),
    highest_id = (select last_value from history.transaction_ids), changes = counted
  where id = current.id;
  return null;
end $$;

create constraint trigger record_transaction after insert or update of is_pending on history.transactions
  deferrable initially deferred for each row when (new.is_pending) execute function history.record_transaction();
alter table history.transactions enable always trigger record_transaction;

-- Writes an audit log entry for each transaction that changes datasets. The entry contains the number of changes and
-- the details that a load provides, such as its file. If constraints are set immediate, the entry can still change
-- until the commit.
create function audit_datasets() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  details jsonb := nullif(current_setting('tickerline.audit_details', true), '')::jsonb;
begin
  if new.changes = '{}' then
    delete from public.audit where transaction = new.id;
    return null;
  end if;
  if jsonb_typeof(details) is distinct from 'object' then details := '{}'; end if;
  perform public.write_audit(
    'dataset', (select string_agg(key, ', ' order by key) from jsonb_each(new.changes)), 'changed', null,
    details || new.changes, null, new.id
  );
  return null;
end $$;

create trigger audit after update of changes on history.transactions
  for each row when (old.changes <> new.changes) execute function audit_datasets();

-- Makes a table a dataset: from now on, its changes are counted, its replaced and removed rows are kept in the history,
-- and its symbols are spelled as in the other datasets. Must be called again after a migration that adds columns. Can
-- also be called to repair the triggers.
create function history.track(dataset text, copy_indexes boolean default true) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  live    regclass := format('public.%I', dataset)::regclass;
  key     text[];
  columns text[];
  added   record;
  index   record;
begin
  execute format($sql$
    alter table public.%1$I add column if not exists recorded_in bigint;
    alter table public.%1$I alter recorded_in
      set default nullif(current_setting('tickerline.transaction', true), '')::bigint;
  $sql$, dataset);
  columns := array(
    select attname from pg_attribute
    where attrelid = live and attnum > 0 and not attisdropped and attgenerated = '' and attname <> 'recorded_in'
    order by attnum
  );
  key := array(
    select attname from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where indexrelid = (
      select indexrelid from pg_index
      where indrelid = live and indisunique and indpred is null and indexprs is null
      order by indisprimary desc, indexrelid limit 1
    )
    order by array_position(indkey::int2[], attnum)
  );
  insert into history.datasets values (dataset, key, columns)
  on conflict on constraint datasets_pkey do update set columns = excluded.columns;

  if to_regclass(format('history.%I', dataset)) is null then
    execute format($sql$
      create table history.%1$I (like public.%1$I including generated, replaced_in bigint not null,
        replaced_month date not null) partition by range (replaced_month);
      alter table history.%1$I alter recorded_in set not null;
      create index on history.%1$I (recorded_in);
      create index on history.%1$I (replaced_in);
    $sql$, dataset);
    -- In the history, each index that has a sort order also contains the transaction columns. A query for a past page
    -- can then seek to its position in the index, and read only the row versions that were visible.
    for index in
      select regexp_replace(pg_get_indexdef(indexrelid), '^.* USING (.*?)( NULLS NOT DISTINCT)?$', '\1') as definition,
        indnatts > 1 or indisunique as is_ordered
      from pg_index where indrelid = live and (copy_indexes or indisunique) order by indexrelid
    loop
      execute format('create index on history.%I using %s', dataset, case when index.is_ordered then regexp_replace(
        index.definition, '^(btree \(.*?)\)( WHERE .*)?$', '\1, replaced_in, recorded_in) include (replaced_month)\2'
      ) else index.definition end);
    end loop;
    -- These indexes find the row version that a transaction recorded or replaced, even if the row has thousands of
    -- versions. Both the indexes and the change feed use `coalesce(…)`. This keeps PostgreSQL from using an index on
    -- the transaction alone, which would read all rows of a large transaction.
    execute format($sql$
      create index %1$s_key_recorded_in_idx on history.%1$I (%2$s, coalesce(recorded_in, 0));
      create index %1$s_key_replaced_in_idx on history.%1$I (%2$s, coalesce(replaced_in, 0));
    $sql$, dataset, history.list_columns(key));
    perform public.create_month_partition(format('history.%I', dataset)::regclass, month) from history.current_month;
  end if;
  -- Adds new columns to the history table. Earlier row versions get the value that existing rows got when the column
  -- was added, because the API may not expect null.
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

  -- Copies the rows that a statement replaces or removes to the history. Rows that the same transaction recorded are
  -- left out, because they were never visible. A separate function is generated for each table, because PostgreSQL
  -- would plan dynamic SQL again for each statement. The last argument of `format` is the beginning of the function's
  -- insert statements.
  execute format($sql$
    create or replace function history.keep_%1$s() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
    declare
      current       bigint := currval('history.transaction_ids');
      current_month date   := (select month from history.transactions where id = current);
    begin
      if tg_op = 'UPDATE' then
        -- Leaves out rows that the update did not change.
        %3$s (
          select %2$s, recorded_in from old_rows where recorded_in is distinct from current
          except all
          select %2$s, recorded_in from new_rows where recorded_in is distinct from current
        ) as ended;
      elsif tg_op = 'DELETE' then
        %3$s old_rows where recorded_in is distinct from current;
      else
        %3$s public.%1$I where recorded_in is distinct from current;
      end if;
      return null;
    end $body$;
    revoke all on function history.keep_%1$s from public;
  $sql$, dataset, history.list_columns(columns), format('insert into history.%I
        (%2$s, recorded_in, replaced_in, replaced_month)
        select %2$s, coalesce(recorded_in, 0), current, current_month from',
    dataset, history.list_columns(columns)));

  -- Triggers for the same event run in alphabetical order: `history_begin` creates the transaction's record before
  -- `history_truncate` uses it, and `history_written` runs after `history_delete` and `history_update`.
  execute format($sql$
    create or replace trigger history_begin before insert or update or delete or truncate on public.%1$I
      for each statement execute function history.begin_transaction();
    create or replace trigger history_insert before insert on public.%1$I for each row
      when (new.recorded_in is distinct from currval('history.transaction_ids')) execute function history.stamp_row();
    create or replace trigger history_stamp before update on public.%1$I for each row
      when ((%2$s, new.recorded_in) is distinct from (%3$s, old.recorded_in)) execute function history.stamp_row();
    create or replace trigger history_update after update on public.%1$I
      referencing old table as old_rows new table as new_rows for each statement execute function history.keep_%1$s();
    create or replace trigger history_delete after delete on public.%1$I
      referencing old table as old_rows for each statement execute function history.keep_%1$s();
    create or replace trigger history_truncate before truncate on public.%1$I
      for each statement execute function history.keep_%1$s();
    create or replace trigger history_written after insert or update or delete or truncate on public.%1$I
      for each statement execute function history.end_statement();
    create or replace trigger note_change after insert or update or delete or truncate on public.%1$I
      for each statement execute function public.note_change();
  $sql$, dataset, history.list_columns(columns, 'new.%I'), history.list_columns(columns, 'old.%I'));
  -- Makes the triggers fire for rows from a restore or logical replication, too.
  execute (
    select format('alter table public.%I ', dataset) || string_agg(format('enable always trigger %I', tgname), ', ')
    from pg_trigger where tgrelid = live and (tgname like 'history\_%' or tgname = 'note_change')
  );

  perform public.keep_spellings(live);
  execute format('create index if not exists %I on public.%I (recorded_in)', dataset || '_recorded_in_idx', dataset);
end $$;

-- Drops the history of the earliest month if all of its transactions were recorded before the given time, and returns
-- that month. Each call drops at most one month, so that few partitions are locked at a time; callers repeat the call.
-- Because service roles may call this function, it never drops the last 31 days.
--
-- The first call for a month only moves the start of the history past that month. A later call drops the month, after
-- the requests that were checked against the previous start have ended.
create function history.drop_before(moment timestamptz) returns setof date
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  first_month date;
  newest      timestamptz;
  ends        timestamptz;
  dataset     text;
begin
  -- 744 hours (31 days) is the shortest HISTORY_RETENTION. The interval is in hours because the length of a day depends
  -- on the session's time zone.
  if (moment <= now() - interval '744 hours') is not true then
    raise invalid_parameter_value using message = 'the history of the last 31 days cannot be dropped';
  end if;
  perform pg_advisory_xact_lock(7101887);
  first_month := public.earliest_month('history.changes');
  if first_month >= (select month from history.current_month)
    or (first_month + interval '1 month') at time zone 'UTC' > moment
  then
    return;
  end if;
  -- The partitions of a month may also contain later transactions, because new transactions use them until the next
  -- month is started.
  select max(recorded_at) into newest from history.transactions where month <= first_month;
  if newest >= moment then return; end if;
  ends := greatest(newest, (first_month + interval '1 month') at time zone 'UTC');
  update history.beginning set earliest = ends, moved_at = clock_timestamp() where earliest < ends;
  if exists (select from history.beginning where moved_at > clock_timestamp() - interval '5 minutes') then
    return;
  end if;
  for dataset in select 'changes' union all select datasets.dataset from history.datasets loop
    execute format('drop table if exists history.%I', dataset || to_char(first_month, '_YYYY_MM'));
  end loop;
  -- Keeps the record of the newest of these transactions, which is the last one before the start of the history.
  delete from history.transactions where month <= first_month and recorded_at < newest;
  return next first_month;
end $$;

revoke all on all functions in schema history from public;

revoke execute on function audit_datasets from public;

insert into role_privileges values
  ('service', 'execute', 'history.start_month'),
  ('service', 'execute', 'history.drop_before');
