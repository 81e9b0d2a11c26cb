-- no transaction: each table is locked separately and briefly
-- The documents that a row comes from: one link per document, whose fragment names the element or fact (decision 0106).
-- Null means unknown. The column is named `source`, except in `ticker_changes`, whose `source` is a text.
do $$
declare
  dataset text;
  links   text;
  rule    text;
begin
  foreach dataset in array array['news', 'registrations', 'float_outstanding', 'historical_float_pro', 'ownership',
    'screener', 'ticker_changes']
  loop
    links := case dataset when 'ticker_changes' then 'source_links' else 'source' end;
    rule := format('%s_%s_printable', dataset, links);
    if not exists (
      select from pg_constraint where conrelid = format('public.%I', dataset)::regclass and conname = rule
    ) then
      -- Reads queue behind this lock, so the wait is short; the next run continues with the remaining tables.
      perform set_config('lock_timeout', '250ms', true);
      execute format(
        'alter table public.%1$I add column %2$I text[], add constraint %3$I check (coalesce(
          array_ndims(%2$I) = 1 and array_lower(%2$I, 1) = 1, true) and array_position(%2$I, null) is null) not valid',
        dataset, links, rule
      );
      commit;
    end if;
    -- Scans the table once, while reads and writes continue.
    execute format('alter table public.%I validate constraint %I', dataset, rule);
    commit;
  end loop;
end $$;
