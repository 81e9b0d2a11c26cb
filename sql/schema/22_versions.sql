-- Dataset versions, which invalidate caches (D17, caching). Each transaction that writes to a dataset, from any
-- program, adds 1 to the dataset's change count. The new count becomes visible together with the written rows. A
-- dataset may have several rows here, and its change count is their sum. Each writer inserts a row and merges all
-- unlocked rows of the dataset into it. So there are never many rows, and writers never wait for each other. With a
-- single row per dataset, writers would wait and could deadlock.
create table dataset_versions (
  dataset    text not null,
  changes    bigint not null,
  -- Change counts alone are ambiguous: a restored database, or a standby promoted without the last commits, can reach
  -- the same count with different data. The marks of all of a dataset's rows together identify a version uniquely.
  mark       uuid not null default gen_random_uuid(),
  -- When the dataset last changed, for monitoring. Every change inserts a new row, so the default is always correct.
  changed_at timestamptz not null default now()
);

-- A trigger function. Adds 1 to the change count of the dataset that a statement has written to, once per transaction.
create function note_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted   text := coalesce(current_setting('tickerline.changed', true), '');
  this    text := ' ' || tg_table_name || ' ';
  earlier bigint := 0;
begin
  -- `tickerline.changed` lists the tables that the transaction has already counted, so that several statements count
  -- once. A rollback to a savepoint reverts the count and this setting together.
  if position(this in noted) > 0 then return null; end if;
  perform set_config('tickerline.changed', noted || this, true);
  -- Merges the dataset's rows that no other transaction has locked into the new row. Under a stricter isolation level,
  -- two transactions that merge the same rows would abort one of them, so the rows stay; a later change merges them.
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

-- Only triggers may call this function.
revoke all on function note_change() from public;
