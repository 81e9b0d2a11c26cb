-- Spreads the datasets of a migrated database over the nodes of a Citus cluster, by ticker; what it costs, and what has
-- never been run, stands in README.md beside it. Once, on the coordinator, by the owner of the tables:
--   psql --set ON_ERROR_STOP=1 --single-transaction --file sql/citus/distribute.sql "$OWNER_URL"
do $$
declare
  -- Rows of one ticker on one node, those of all these tables on the same one.
  by_ticker text[] := array['intraday_runners', 'dilution_data', 'registrations', 'pump_and_dump_tracker',
    'split_status', 'nasdaq_compliance', 'news', 'gap_stats', 'premarket_stats', 'afterhours_stats',
    'research_reports', 'float_outstanding', 'historical_float_pro', 'daily_prices', 'ownership', 'screener'];
  -- Few rows, followed from symbol to symbol: whole on every node.
  everywhere text[] := array['ticker_changes', 'historical_tickers'];
  -- One statement writes usage, sums and balance, and triggers follow it: on the coordinator, as without Citus.
  here text[] := array['accounts', 'api_keys', 'credits', 'usage', 'usage_daily', 'usage_moments', 'usage_kinds',
    'dataset_versions', 'announcements', 'announcement_mails', 'announcement_sender', 'rate_limits', 'wrong_keys',
    'rate_limit_buckets', 'leases', 'tickerline_migrations'];
  stray text;
  name  text;
begin
  select string_agg(relname, ', ' order by relname) into stray from pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    and relname <> all (by_ticker || everywhere || here);
  if stray is not null then
    raise exception 'It is not said where these tables go: %', stray
      using hint = 'Name them in by_ticker, everywhere or here.';
  end if;

  -- A distributed table has no triggers. One that nobody counts is right, and never answered from memory.
  foreach name in array by_ticker || everywhere loop
    execute format('drop trigger note_change on public.%I', name);
  end loop;

  -- A node knows its own rows only, so what tells them apart has to name the ticker.
  foreach name in array array['dilution_data', 'registrations', 'split_status', 'nasdaq_compliance', 'news'] loop
    execute format('alter table public.%1$I drop constraint %2$I, add primary key (ticker, id)', name, name || '_pkey');
  end loop;
  alter table public.research_reports drop constraint research_reports_pkey, add primary key (ticker, report_id);

  foreach name in array by_ticker loop
    perform create_distributed_table(format('public.%I', name)::regclass, 'ticker',
      colocate_with => case name when by_ticker[1] then 'none' else 'public.' || by_ticker[1] end);
  end loop;
  foreach name in array everywhere loop
    perform create_reference_table(format('public.%I', name)::regclass);
  end loop;
end $$;
