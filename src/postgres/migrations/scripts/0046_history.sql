-- The history of every dataset: what its rows were, and when this database knew it (decision 0113).
--
-- A row keeps in `recorded_in` the transaction that recorded it; null means before this migration. A replaced or
-- removed row moves to the table of the same name in the schema `history`, with the transaction that ended it. The time
-- of a transaction is known only when it commits, so rows have its id, and `history.transactions` has the time.
create schema history;

create sequence history.transaction_ids;

-- The time of the newest recorded transaction, in microseconds since 1970. A sequence, because its value is current
-- under every isolation level.
create sequence history.newest_microsecond;

create table history.transactions (
  id          bigint primary key default nextval('history.transaction_ids'),
  -- The partitions with its rows.
  month       date not null,
  -- Unique and in commit order. Null until the commit.
  recorded_at timestamptz unique,
  -- The highest id that any transaction had at this time.
  highest_id  bigint,
  -- Tells transactions with the same id apart after a restored backup or a failover.
  mark        uuid not null default gen_random_uuid(),
  -- Numbers of changes by dataset and kind, such as {"news": {"added": 3}}.
  changes     jsonb not null default '{}'
);

-- Finds the transactions that were running when a certain id was the highest one.
create index transactions_range_idx on history.transactions using gist (int8range(id, highest_id, '[]'))
  where recorded_at is not null;

-- What each transaction changed, for the change feed: the net effect per key.
create table history.changes (
  transaction  bigint not null,
  position     bigint not null,
  month        date not null,
  dataset      text not null,
  kind         text not null check (kind in ('added', 'corrected', 'removed')),
  ticker       text not null,
  -- A second symbol of the change: the previous one of a corrected row, or the old one of a ticker change.
  other_ticker text,
  key          jsonb not null,
  primary key (transaction, position, month)
) partition by range (month);

create index on history.changes (ticker, transaction, position);
create index on history.changes (other_ticker, transaction, position) where other_ticker is not null;
create index on history.changes (dataset, transaction, position) where kind = 'corrected';

-- The tables with a history. `key_columns` identify a row, `columns` are those that accept values.
create table history.datasets (
  dataset     text primary key,
  key_columns text[] not null,
  columns     text[] not null
);

-- The earliest time at which the past is known. A retention period moves it.
create table history.beginning (
  only_one boolean primary key default true check (only_one),
  earliest timestamptz not null,
  moved_at timestamptz not null default now()
);

insert into history.beginning (earliest) values (clock_timestamp());

-- The month whose partitions new transactions use. It lags behind until a service calls `history.start_month`, so
-- writers never wait for a new partition.
create table history.current_month (
  only_one boolean primary key default true check (only_one),
  month    date not null
);

insert into history.current_month (month) values (date_trunc('month', now() at time zone 'UTC'));

create function history.create_partition(whole text, month date) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  part text := whole || to_char(month, '_YYYY_MM');
begin
  if to_regclass('history.' || part) is not null then return; end if;
  execute format('create table history.%I (like history.%I including all)', part, whole);
  -- Unlike `create table … partition of`, this blocks neither reads nor writes.
  execute format('alter table history.%I attach partition history.%I for values from (%L) to (%L)', whole, part,
    month, month + interval '1 month');
end $$;

-- Creates the partitions of the current month, and lets new transactions use them.
create function history.start_month() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this_month date := date_trunc('month', now() at time zone 'UTC');
begin
  perform pg_advisory_xact_lock(7101887);
  if this_month <= (select month from history.current_month) then return; end if;
  perform history.create_partition(whole, this_month)
  from (select 'changes' as whole union all select dataset from history.datasets) as tables;
  update history.current_month set month = this_month;
end $$;

select history.create_partition('changes', month) from history.current_month;

-- Begins the record of a transaction with its first statement that writes to a dataset.
create function history.begin_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current bigint := nullif(current_setting('tickerline.transaction', true), '')::bigint;
  written text   := current_setting('tickerline.written', true);
begin
  if current is null then
    insert into history.transactions (month) select month from history.current_month returning id into current;
    -- Ends with the transaction. A rollback to a savepoint also reverts it.
    perform set_config('tickerline.transaction', current::text, true);
    perform set_config('tickerline.written', tg_table_name, true);
  elsif tg_table_name <> all (string_to_array(written, ' ')) then
    perform set_config('tickerline.written', written || ' ' || tg_table_name, true);
  end if;
  return null;
end $$;

-- Stamps a row that an update has changed.
create function history.stamp_row() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.recorded_in := current_setting('tickerline.transaction')::bigint;
  return new;
end $$;

-- Lists the net changes of a transaction to one dataset, after `listed` other changes. Returns their numbers by kind;
-- null if the transaction neither recorded nor ended a row.
create function history.list_changes(current history.transactions, dataset text, listed bigint) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_rename boolean := dataset = 'ticker_changes';
  symbol    text := case when is_rename then 'new_ticker' else 'ticker' end;
  key       text;
  key_json  text;
  content   text;
  has_begun boolean;
  has_ended boolean;
  counts    jsonb;
begin
  select string_agg(quote_ident(name), ', ' order by position),
    string_agg(format('%L, %I', name, name), ', ' order by position)
  into key, key_json
  from history.datasets, unnest(key_columns) with ordinality as listed (name, position)
  where datasets.dataset = list_changes.dataset;
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

  -- A row that was removed and added again without a change is no change: 128 bits compare the contents.
  select format('array[hash_record_extended(row(%1$s), 0), hash_record_extended(row(%1$s), 1)]',
    string_agg(quote_ident(name), ', ' order by position))
  into content
  from history.datasets, unnest(columns) with ordinality as listed (name, position)
  where datasets.dataset = list_changes.dataset;
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

-- Records a transaction when it commits. It holds the lock until the commit is visible, so times are in commit order.
create function history.record_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  written text[] := string_to_array(nullif(current_setting('tickerline.written', true), ''), ' ');
  dataset text;
  counts  jsonb;
  counted jsonb := '{}';
  listed  bigint := 0;
  is_used boolean := false;
  instant bigint;
begin
  foreach dataset in array written loop
    counts := history.list_changes(new, dataset, listed);
    continue when counts is null;
    is_used := true;
    continue when counts = '{}';
    counted := counted || jsonb_build_object(dataset, counts);
    listed := listed + (select sum(number::bigint) from jsonb_each_text(counts) as each (kind, number));
  end loop;
  -- A later statement begins a new record, if this one was made before the commit (`set constraints all immediate`).
  perform set_config('tickerline.transaction', '', true);
  if not is_used then
    delete from history.transactions where id = new.id;
    return null;
  end if;
  perform pg_advisory_xact_lock(7101886);
  instant := nextval('history.newest_microsecond');
  if instant < extract(epoch from clock_timestamp()) * 1000000 then
    instant := extract(epoch from clock_timestamp()) * 1000000;
    perform setval('history.newest_microsecond', instant);
  end if;
  update history.transactions set recorded_at = timestamptz 'epoch' + instant * interval '1 microsecond',
    highest_id = (select last_value from history.transaction_ids), changes = counted
  where id = new.id;
  return null;
end $$;

create constraint trigger record_transaction after insert on history.transactions
  deferrable initially deferred for each row execute function history.record_transaction();
alter table history.transactions enable always trigger record_transaction;

-- Keeps the history of a table from now on. Run it again after a migration that adds columns.
create function history.track(dataset text, copy_indexes boolean default true) returns void
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
  for added in
    select attname, format_type(atttypid, atttypmod) as type from pg_attribute
    where attrelid = live and attnum > 0 and not attisdropped and attname not in (
      select attname from pg_attribute where attrelid = format('history.%I', dataset)::regclass and not attisdropped
    )
  loop
    execute format('alter table history.%I add column %I %s', dataset, added.attname, added.type);
  end loop;

  -- Keeps the rows that a statement replaces or removes. Rows that the same transaction recorded were never visible.
  -- The function is made for the table, because PostgreSQL would plan dynamic SQL for each statement anew.
  names := (select string_agg(quote_ident(name), ', ' order by position)
    from unnest(columns) with ordinality as listed (name, position));
  execute format($sql$
    create or replace function history.keep_%1$s() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
    declare
      current       bigint := current_setting('tickerline.transaction')::bigint;
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
  execute format('create or replace trigger history_stamp before update on public.%I for each row
    when ((%s) is distinct from (%s)) execute function history.stamp_row()', dataset,
    (select string_agg(format('new.%I', name), ', ') from unnest(columns) as name),
    (select string_agg(format('old.%I', name), ', ') from unnest(columns) as name));
  execute format('create or replace trigger history_update after update on public.%I
    referencing old table as old_rows new table as new_rows
    for each statement execute function history.keep_%1$s()', dataset);
  execute format('create or replace trigger history_delete after delete on public.%I referencing old table as old_rows
    for each statement execute function history.keep_%1$s()', dataset);
  execute format('create or replace trigger history_truncate before truncate on public.%I
    for each statement execute function history.keep_%1$s()', dataset);
  -- Also during a restore or logical replication.
  for added in select unnest(array['begin', 'stamp', 'update', 'delete', 'truncate']) as name loop
    execute format('alter table public.%I enable always trigger history_%s', dataset, added.name);
  end loop;
end $$;

revoke all on all functions in schema history from public;
