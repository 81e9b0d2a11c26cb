-- Indexes that find the version of a row that a transaction recorded or ended, even if the row has thousands of them.
-- The change feed compares `coalesce(…)`: by an index of only the transaction it would read all rows of a large one.
--
-- A partition that already has rows gets no index, because that would block writers; the next month has it. Run this
-- after `history.track` for a new table.
create function history.index_versions(dataset text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  key      text;
  ended    text;
  part     text;
  is_empty boolean;
begin
  select string_agg(quote_ident(column_name), ', ' order by position) into key
  from history.datasets, unnest(key_columns) with ordinality as listed (column_name, position)
  where datasets.dataset = index_versions.dataset;
  foreach ended in array array['recorded_in', 'replaced_in'] loop
    continue when to_regclass(format('history.%I', dataset || '_key_' || ended || '_idx')) is not null;
    execute format('create index %I on only history.%I (%s, coalesce(%I, 0))', dataset || '_key_' || ended || '_idx',
      dataset, key, ended);
    for part in
      select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = format('history.%I', dataset)::regclass
    loop
      execute format('select not exists (select from history.%I)', part) into is_empty;
      continue when not is_empty;
      execute format('create index %I on history.%I (%s, coalesce(%I, 0))', part || '_key_' || ended || '_idx',
        part, key, ended);
      execute format('alter index history.%I attach partition history.%I', dataset || '_key_' || ended || '_idx',
        part || '_key_' || ended || '_idx');
    end loop;
  end loop;
end $$;

revoke all on function history.index_versions from public;
