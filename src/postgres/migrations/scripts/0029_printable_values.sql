-- no transaction: each table is locked separately and briefly, because existing rows are not checked yet
-- Rejects values that no response can represent, from any program (D34: stored values): NaN, infinities, integers
-- beyond 2^53-1, arrays that contain null, are nested or do not start at 1, and times outside the years 1 to 9999.
--
-- Times are printed with the offset -05:00, so the last instant of 9999 falls into the year 10000 in UTC.
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
    -- Reads queue behind this lock, so the wait is short; the next run continues with the remaining tables.
    perform set_config('lock_timeout', '250ms', true);
    execute format('alter table public.%I %s', dataset, rules);
    commit;
  end loop;
end $$;
