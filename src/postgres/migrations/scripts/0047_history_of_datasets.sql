-- no transaction: each table is locked separately and briefly, and indexes are built while writes continue
do $$
declare
  dataset text;
begin
  foreach dataset in array array['ticker_changes', 'historical_tickers', 'intraday_runners', 'dilution_data',
    'registrations', 'pump_and_dump_tracker', 'split_status', 'nasdaq_compliance', 'news', 'gap_stats',
    'premarket_stats', 'afterhours_stats', 'research_reports', 'float_outstanding', 'historical_float_pro',
    'daily_prices', 'ownership', 'screener']
  loop
    continue when exists (
      select from pg_trigger where tgrelid = format('public.%I', dataset)::regclass and tgname = 'history_truncate'
    );
    -- Reads queue behind this lock, so the wait is short; the next run continues with the remaining tables.
    perform set_config('lock_timeout', '250ms', true);
    -- The screener has an index for each of its columns, which would cost more than they save.
    perform history.track(dataset, copy_indexes => dataset <> 'screener');
    -- The triggers exist, and no transaction that wrote without them is open. So every later change is known.
    update history.beginning set earliest = clock_timestamp();
    commit;
  end loop;
end $$;

drop index concurrently if exists ticker_changes_recorded_in_idx;
create index concurrently ticker_changes_recorded_in_idx on ticker_changes (recorded_in);
drop index concurrently if exists historical_tickers_recorded_in_idx;
create index concurrently historical_tickers_recorded_in_idx on historical_tickers (recorded_in);
drop index concurrently if exists intraday_runners_recorded_in_idx;
create index concurrently intraday_runners_recorded_in_idx on intraday_runners (recorded_in);
drop index concurrently if exists dilution_data_recorded_in_idx;
create index concurrently dilution_data_recorded_in_idx on dilution_data (recorded_in);
drop index concurrently if exists registrations_recorded_in_idx;
create index concurrently registrations_recorded_in_idx on registrations (recorded_in);
drop index concurrently if exists pump_and_dump_tracker_recorded_in_idx;
create index concurrently pump_and_dump_tracker_recorded_in_idx on pump_and_dump_tracker (recorded_in);
drop index concurrently if exists split_status_recorded_in_idx;
create index concurrently split_status_recorded_in_idx on split_status (recorded_in);
drop index concurrently if exists nasdaq_compliance_recorded_in_idx;
create index concurrently nasdaq_compliance_recorded_in_idx on nasdaq_compliance (recorded_in);
drop index concurrently if exists news_recorded_in_idx;
create index concurrently news_recorded_in_idx on news (recorded_in);
drop index concurrently if exists gap_stats_recorded_in_idx;
create index concurrently gap_stats_recorded_in_idx on gap_stats (recorded_in);
drop index concurrently if exists premarket_stats_recorded_in_idx;
create index concurrently premarket_stats_recorded_in_idx on premarket_stats (recorded_in);
drop index concurrently if exists afterhours_stats_recorded_in_idx;
create index concurrently afterhours_stats_recorded_in_idx on afterhours_stats (recorded_in);
drop index concurrently if exists research_reports_recorded_in_idx;
create index concurrently research_reports_recorded_in_idx on research_reports (recorded_in);
drop index concurrently if exists float_outstanding_recorded_in_idx;
create index concurrently float_outstanding_recorded_in_idx on float_outstanding (recorded_in);
drop index concurrently if exists historical_float_pro_recorded_in_idx;
create index concurrently historical_float_pro_recorded_in_idx on historical_float_pro (recorded_in);
drop index concurrently if exists daily_prices_recorded_in_idx;
create index concurrently daily_prices_recorded_in_idx on daily_prices (recorded_in);
drop index concurrently if exists ownership_recorded_in_idx;
create index concurrently ownership_recorded_in_idx on ownership (recorded_in);
drop index concurrently if exists screener_recorded_in_idx;
create index concurrently screener_recorded_in_idx on screener (recorded_in);
