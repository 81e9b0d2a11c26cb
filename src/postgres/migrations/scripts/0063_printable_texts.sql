-- no transaction: each table is locked separately and briefly, because existing rows are not checked yet
-- Rejects empty text in columns that are not nullable, from any program (D16, D34: stored values). A response cannot
-- represent it: a missing value is null. Columns with an enumeration or a pattern already reject it.
do $$
declare
  dataset text;
  rules   text;
begin
  foreach dataset in array array['ticker_changes', 'historical_tickers', 'intraday_runners', 'dilution_data',
    'registrations', 'pump_and_dump_tracker', 'split_status', 'nasdaq_compliance', 'news', 'gap_stats',
    'premarket_stats', 'afterhours_stats', 'research_reports', 'float_outstanding', 'historical_float_pro',
    'daily_prices', 'ownership', 'screener']
  loop
    select string_agg(
      format('add constraint %I check (%I <> '''') not valid', format('%s_%s_printable', dataset, attname), attname),
      ', ' order by attnum
    ) into rules
    from pg_attribute
    where attrelid = format('public.%I', dataset)::regclass and attnum > 0 and not attisdropped and attnotnull
      and atttypid = 'text'::regtype and not exists (
        select from pg_constraint
        where conrelid = attrelid and contype = 'c' and conkey = array[attnum]
      );
    continue when rules is null;
    -- Reads queue behind this lock, so the wait is short; the next run continues with the remaining tables.
    perform set_config('lock_timeout', '250ms', true);
    execute format('alter table public.%I %s', dataset, rules);
    commit;
  end loop;
end $$;
