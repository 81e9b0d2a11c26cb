-- Under repeatable read or serializable, a transaction does not see rows that were committed after its snapshot, but a
-- truncation removes them, so the history would lose them. It fails like an update of such a row does.
create or replace function history.begin_transaction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current bigint := nullif(current_setting('tickerline.transaction', true), '')::bigint;
  written text   := current_setting('tickerline.written', true);
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
