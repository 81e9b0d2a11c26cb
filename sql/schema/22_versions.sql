-- Versions of datasets, which invalidate caches (D17, caching). Every transaction that writes to a dataset, from any
-- program, adds 1 to the dataset's count, which becomes visible together with the written rows. A dataset may have
-- several rows here, and its count is their sum. Each writer inserts a row of its own and merges the unlocked rows into
-- it, so there are never many rows, and writers never wait. With a single row per dataset, writers would wait for each
-- other, and could deadlock.
create table dataset_versions (
  dataset    text not null,
  changes    bigint not null,
  -- Counts alone are ambiguous: a restored database, or a standby that was promoted without the last commits, can reach
  -- the same count with different data. All marks of a dataset's rows together are a globally unique version.
  mark       uuid not null default gen_random_uuid(),
  -- For monitoring. Every change inserts a new row, so the default is always right.
  changed_at timestamptz not null default now()
);

create function note_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted   text := coalesce(current_setting('tickerline.changed', true), '');
  this    text := ' ' || tg_table_name || ' ';
  earlier bigint := 0;
begin
  -- Counts only once per transaction. Rolling back to a savepoint reverts this setting too.
  if position(this in noted) > 0 then return null; end if;
  perform set_config('tickerline.changed', noted || this, true);
  -- Under stricter isolation, a concurrent merge would abort this transaction. An additional row does no harm.
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

-- Only the triggers may call this.
revoke all on function note_change() from public;
