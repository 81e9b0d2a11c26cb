-- Restores the note_change trigger (0021) on tables replaced by an earlier `load`, which had dropped it.
do $$
declare
  dataset text;
begin
  foreach dataset in array array['ticker_changes', 'historical_tickers', 'intraday_runners', 'dilution_data',
    'registrations', 'pump_and_dump_tracker', 'split_status', 'nasdaq_compliance', 'news', 'gap_stats',
    'premarket_stats', 'afterhours_stats', 'research_reports', 'float_outstanding', 'historical_float_pro',
    'daily_prices', 'ownership', 'screener']
  loop
    continue when exists (select from pg_trigger where tgrelid = dataset::regclass and tgname = 'note_change');
    execute format('create trigger note_change after insert or update or delete or truncate on %I
      for each statement execute function note_change()', dataset);
    execute format('alter table %I enable always trigger note_change', dataset);
  end loop;
end $$;
