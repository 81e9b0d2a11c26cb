-- no transaction: each table is scanned once, while reads and writes continue
-- Validates the constraints of 0029 (D34: stored values). A constraint that existing rows violate stays unvalidated
-- and applies to new rows only; `doctor` reports it with a query for these rows. Loading the dataset again fixes it.
do $$
declare
  dataset text;
  rules   text[];
  rule    text;
begin
  foreach dataset in array array['ticker_changes', 'historical_tickers', 'intraday_runners', 'dilution_data',
    'registrations', 'pump_and_dump_tracker', 'split_status', 'nasdaq_compliance', 'news', 'gap_stats',
    'premarket_stats', 'afterhours_stats', 'research_reports', 'float_outstanding', 'historical_float_pro',
    'daily_prices', 'ownership', 'screener']
  loop
    rules := array(
      select format('validate constraint %I', conname) from pg_constraint
      where conrelid = format('public.%I', dataset)::regclass and contype = 'c' and conname like '%\_printable'
        and not convalidated
      order by conname
    );
    begin
      -- One statement for all constraints, so that the table is scanned once.
      if rules <> '{}' then execute format('alter table public.%I %s', dataset, array_to_string(rules, ', ')); end if;
    exception when check_violation then
      foreach rule in array rules loop
        begin
          execute format('alter table public.%I %s', dataset, rule);
        exception when check_violation then
          raise warning '%: %', dataset, sqlerrm;
        end;
      end loop;
    end;
    commit;
  end loop;
end $$;
