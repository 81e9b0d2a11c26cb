-- no transaction: each table is locked separately and briefly
do $$
declare
  dataset text;
begin
  for dataset in select datasets.dataset from history.datasets order by 1 loop
    -- Writes queue behind this lock, so the wait is short; the next run continues with the remaining tables.
    perform set_config('lock_timeout', '250ms', true);
    perform history.index_versions(dataset);
    commit;
  end loop;
end $$;
