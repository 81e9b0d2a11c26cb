-- What answers from memory depend on (D17): how often each dataset was changed. Every transaction that writes to one,
-- of whatever program, adds 1 to it, and that becomes visible in the same moment as what it wrote.
-- The number is the sum of a dataset's rows. A writer folds those that no other writer holds into its own, so they stay
-- few, and nobody waits for anybody: a single row to be raised would make writers of one dataset wait for each other
-- until they commit, and deadlock on two.
create table dataset_versions (
  dataset text not null,
  changes bigint not null
);

create function note_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted   text := coalesce(current_setting('tickerline.changed', true), '');
  this    text := ' ' || tg_table_name || ' ';
  earlier bigint := 0;
begin
  -- Once a transaction is enough. A setting forgets with a savepoint what the savepoint takes back.
  if position(this in noted) > 0 then return null; end if;
  perform set_config('tickerline.changed', noted || this, true);
  -- Under a stricter isolation another's fold would end this transaction; a row more does no harm.
  if current_setting('transaction_isolation') = 'read committed' then
    with folded as (
      delete from public.dataset_versions
      where ctid = any (array(
        select ctid from public.dataset_versions where dataset = tg_table_name for update skip locked
      ))
      returning changes
    )
    select coalesce(sum(changes), 0) into earlier from folded;
  end if;
  insert into public.dataset_versions values (tg_table_name, earlier + 1);
  return null;
end $$;

-- Nobody but the triggers counts.
revoke all on function note_change() from public;

do $$
declare
  dataset text;
begin
  foreach dataset in array array['ticker_changes', 'historical_tickers', 'intraday_runners', 'dilution_data',
    'registrations', 'pump_and_dump_tracker', 'split_status', 'nasdaq_compliance', 'news', 'gap_stats',
    'premarket_stats', 'afterhours_stats', 'research_reports', 'float_outstanding', 'historical_float_pro',
    'daily_prices', 'ownership', 'screener']
  loop
    execute format('create trigger note_change after insert or update or delete or truncate on %I
      for each statement execute function note_change()', dataset);
    -- Also where a restore or a replica writes.
    execute format('alter table %I enable always trigger note_change', dataset);
  end loop;
end $$;
