-- The tables that `/v1/changes` and the correction counts need in addition to `history.changes`.

-- The days of the change feed, in US Central time, and when each day was started. Rows that become visible on later
-- days are not in the feed yet.
create table history.days (
  day         date primary key,
  recorded_at timestamptz not null unique
);

insert into history.days values ((now() at time zone 'America/Chicago')::date, '-infinity');

-- Starts a day of the change feed if it has not been started. A row of a dataset with `shown_from` enters the feed on
-- the day from which endpoints may show it, not when it is recorded. This adds the rows whose day is `today`, or lies
-- between the last day started before and `today`. Readers of the feed check whether endpoints actually show these
-- rows.
create function history.start_day(today date) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The database clock keeps a service whose clock is fast from starting a day early.
  new_day  date := least(today, (clock_timestamp() at time zone 'America/Chicago')::date);
  last_day date;
  source   history.datasets;
  current  bigint;
  moment   timestamptz;
  counted  jsonb := '{}';
  listed   bigint := 0;
  number   bigint;
begin
  if new_day <= (select max(day) from history.days) then return; end if;
  -- Reading a table locks it until the end of the transaction. Other writers lock the table first and then take the
  -- advisory lock; in the reverse order, this function and a truncation could deadlock.
  for source in select * from history.datasets where shown_from is not null order by dataset loop
    execute format('select from public.%I limit 0', source.dataset);
  end loop;
  -- While this transaction holds the lock, no other transaction can be recorded, and the statements below see all
  -- recorded transactions.
  perform pg_advisory_xact_lock(7101886);
  select max(day) into last_day from history.days;
  if new_day <= last_day then return; end if;
  moment := history.draw_time();
  insert into history.days values (new_day, moment);

  current := nextval('history.transaction_ids');
  for source in select * from history.datasets where shown_from is not null order by dataset loop
    execute format('insert into history.changes
        (transaction, position, month, dataset, kind, ticker, other_ticker, key, version)
      select $1, $2 + row_number() over (), month, %1$L, ''added'', %2$s, jsonb_build_object(%3$s),
        coalesce(recorded_in, 0)
      from public.%1$I, history.current_month where %4$I > $3 and %4$I <= $4',
      source.dataset, case source.dataset when 'ticker_changes' then 'new_ticker, old_ticker' else 'ticker, null' end,
      history.list_columns(source.key_columns, '%1$L, %1$I'), source.shown_from)
    using current, listed, last_day, new_day;
    get diagnostics number = row_count;
    continue when number = 0;
    listed := listed + number;
    counted := counted || jsonb_build_object(source.dataset, jsonb_build_object('added', number));
  end loop;
  if listed > 0 then
    insert into history.transactions (id, month, recorded_at, highest_id, changes)
    select current, month, moment, (select last_value from history.transaction_ids), counted from history.current_month;
  end if;
end $$;

-- The number of rows added, corrected and removed in each dataset, so that buyers can judge data quality (decision
-- 118). A job reads the change feed in order and adds up the changes, so that requests read only these small tables.
create table history.change_counts (
  dataset text not null,
  -- The day of the change at UTC-05:00, which is the offset used in responses.
  day     date not null,
  kind    text not null check (kind in ('added', 'corrected', 'removed')),
  -- For corrections, the class of the time between recording and correcting the row, such as `within_hour`. Empty for
  -- other kinds of changes.
  delay   text not null,
  changes bigint not null,
  primary key (dataset, day, kind, delay)
);

-- The number of corrections by dataset, month and corrected field.
create table history.corrected_fields (
  dataset     text not null,
  month       date not null,
  field       text not null,
  corrections bigint not null,
  primary key (dataset, month, field)
);

-- The position in the change feed up to which changes have been counted.
create table history.counting_place (
  only_one      boolean primary key default true check (only_one),
  -- Only changes after this time are counted.
  since         timestamptz not null,
  -- A cursor in the format of `/v1/changes`. Null means that nothing has been counted yet.
  cursor        text,
  -- The time of the newest change that has been counted.
  counted_until timestamptz
);

insert into history.counting_place (since) select earliest from history.beginning;

revoke execute on function history.start_day from public;

insert into role_privileges values
  ('service', 'execute', 'history.start_day'),
  ('service', 'insert, update', 'history.change_counts'),
  ('service', 'insert, update', 'history.corrected_fields'),
  ('service', 'update (cursor, counted_until)', 'history.counting_place');
