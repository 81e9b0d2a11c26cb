-- no transaction: each table is read once, while others read and write it
-- D34: looks for rows that break the rules of 0029. Such rows stay, and their rule stays unvalidated: it holds for what
-- is written from now on, and `doctor` names it with a query that finds the rows. A `load` of the dataset mends it, too.
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
      -- All rules in one statement, which reads the table once.
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
