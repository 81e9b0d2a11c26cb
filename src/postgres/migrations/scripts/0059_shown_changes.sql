-- The change feed lists a row while endpoints show it (decision 0121). Endpoints show some rows only from a date on,
-- such as a ticker change. `history.start_day` lists these rows when their day begins, because no transaction writes
-- them on that day.
alter table history.datasets add column shown_from text;
comment on column history.datasets.shown_from is 'The column with the first day on which endpoints show a row.';
update history.datasets set shown_from = 'effective_date' where dataset = 'ticker_changes';
update history.datasets set shown_from = 'date' where dataset = 'historical_tickers';

-- The transaction that recorded the row, if it is not the one that lists it. 0: the row is older than the history.
alter table history.changes add column version bigint;

-- The days of the feed in US Central time, and when each began. Rows of later days are not yet in the feed.
create table history.days (
  day         date primary key,
  recorded_at timestamptz not null unique
);

insert into history.days values ((now() at time zone 'America/Chicago')::date, '-infinity');

-- Begins a day of the feed, unless it has begun: lists the rows that endpoints may show from this day on, and from the
-- days since the last call. Whoever reads the feed decides whether endpoints show them.
create function history.start_day(today date) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- A service whose clock is fast cannot begin a day early.
  new_day  date := least(today, (clock_timestamp() at time zone 'America/Chicago')::date);
  last_day date;
  source   history.datasets;
  key_json text;
  current  bigint;
  instant  bigint;
  moment   timestamptz;
  counted  jsonb := '{}';
  listed   bigint := 0;
  number   bigint;
begin
  if new_day <= (select max(day) from history.days) then return; end if;
  -- Like other writers, locks the tables before it takes the lock of commits. Otherwise, a truncation might deadlock.
  for source in select * from history.datasets where shown_from is not null order by dataset loop
    execute format('select from public.%I limit 0', source.dataset);
  end loop;
  -- The transactions that have been recorded are visible to the next statements, and no other is recorded meanwhile.
  perform pg_advisory_xact_lock(7101886);
  select max(day) into last_day from history.days;
  if new_day <= last_day then return; end if;
  instant := nextval('history.newest_microsecond');
  if instant < extract(epoch from clock_timestamp()) * 1000000 then
    instant := extract(epoch from clock_timestamp()) * 1000000;
    perform setval('history.newest_microsecond', instant);
  end if;
  moment := timestamptz 'epoch' + instant * interval '1 microsecond';
  insert into history.days values (new_day, moment);

  current := nextval('history.transaction_ids');
  for source in select * from history.datasets where shown_from is not null order by dataset loop
    select string_agg(format('%L, %I', name, name), ', ' order by position) into key_json
    from unnest(source.key_columns) with ordinality as columns (name, position);
    execute format('insert into history.changes
        (transaction, position, month, dataset, kind, ticker, other_ticker, key, version)
      select $1, $2 + row_number() over (), month, %1$L, ''added'', %2$s, jsonb_build_object(%3$s),
        coalesce(recorded_in, 0)
      from public.%1$I, history.current_month where %4$I > $3 and %4$I <= $4',
      source.dataset, case source.dataset when 'ticker_changes' then 'new_ticker, old_ticker' else 'ticker, null' end,
      key_json, source.shown_from)
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

revoke execute on function history.start_day from public;
