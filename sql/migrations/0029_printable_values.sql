-- no transaction: each table is locked by itself, for a moment, since its rows are not looked at yet
-- contract since 0.2.0: its `load` refuses these values, too
-- D34: what no response can print is refused, whichever program writes it: NaN and infinities, integers beyond 2^53-1,
-- lists that hold a null, hold lists or do not begin at 1, and times that do not print with a year from 1 to 9999.
-- Times print with the offset -05:00, so the last instant of 9999 has the year 10000 in UTC.
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
    with columns as (
      select attnum, attname, format('%s_%s_printable', dataset, attname) as name,
        case format_type(atttypid, null)
          when 'numeric' then '%1$I > ''-infinity'' and %1$I < ''infinity'''
          when 'bigint' then '%1$I between -9007199254740991 and 9007199254740991'
          when 'text[]' then
            'coalesce(array_ndims(%1$I) = 1 and array_lower(%1$I, 1) = 1, true) and array_position(%1$I, null) is null'
          when 'date' then '%1$I between ''0001-01-01'' and ''9999-12-31'''
          when 'timestamp without time zone' then
            '%1$I between ''0001-01-02 00:00:00'' and ''9999-12-31 23:59:59.999'''
          when 'timestamp with time zone' then
            '%1$I between ''0001-01-02 00:00:00+00'' and ''9999-12-31 23:59:59.999-05'''
        end as rule
      from pg_attribute
      where attrelid = format('public.%I', dataset)::regclass and attnum > 0 and not attisdropped
    )
    select string_agg(
      format('add constraint %I check (%s) not valid', name, format(rule, attname)), ', ' order by attnum
    ) into rules
    from columns
    where rule is not null and not exists (
      select from pg_constraint where conrelid = format('public.%I', dataset)::regclass and conname = name
    );
    continue when rules is null;
    -- Readers queue behind this lock, so it is given up soon; the next run goes on where this one stopped.
    perform set_config('lock_timeout', '250ms', true);
    execute format('alter table public.%I %s', dataset, rules);
    commit;
  end loop;
end $$;
