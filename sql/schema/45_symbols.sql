-- The symbols under which `ingest edgar` stores its rows (decision 0126). A row has the symbol that the company's
-- primary security used on the row's date. This symbol is derived from confirmed ticker changes. When these are
-- corrected, a trigger moves the rows to the right symbols.

-- The companies whose rows are ingested, as described by the SEC's ticker list.
create table edgar_companies (
  cik               cik primary key,
  -- The company's symbols, in list order, from the newest copy of the list that contains the company.
  tickers           tickers not null,
  -- The symbol of the company's primary security, from the newest copy of the list that contains one.
  primary_ticker    ticker not null,
  -- Earlier values of `primary_ticker`, oldest first.
  former_tickers    tickers not null default '{}',
  -- The last day on which the list contained the company (`listed_on`), and the last day on which it contained the
  -- primary symbol (`primary_listed_on`).
  listed_on         date not null,
  primary_listed_on date not null,
  -- The day of the copy that showed that `primary_ticker` had replaced the last of the former symbols. Null if there are
  -- none.
  primary_since     date,
  -- The company's symbols by period, oldest first: [{"ticker": "A", "until": "2026-06-01"}, {"ticker": "B", "from":
  -- …}].
  periods           jsonb not null default '[]'
);

select keep_spellings('edgar_companies');

-- The symbols of each company: those in the SEC's list, and those under which the company's rows are stored. A request
-- for the symbol `alias` also returns the rows stored under `ticker`, which is the company's symbol now, or `alias`
-- itself if another company uses it now.
create table company_symbols (
  alias  ticker not null,
  cik    text not null,
  ticker ticker not null,
  primary key (alias, cik)
);

create index on company_symbols (cik);

-- Requests with `as_of` use the symbols as they were at that time.
select history.track('company_symbols');

-- The last day whose ticker changes have been applied to the ingested rows (`placed_on`). A ticker change can be
-- confirmed before it takes effect, so a job applies it on the day of the change.
create table edgar_placement (
  only_one  boolean primary key default true check (only_one),
  placed_on date not null
);

insert into edgar_placement (placed_on) values ((now() at time zone 'America/Chicago')::date);

-- Returns the symbols of a company's primary security by period. Starts at the primary symbol of the SEC's list and
-- follows the eligible ticker changes (D19), first forward to the symbol that the security has now and then backward. A
-- change without a CIK is followed forward only if it leads to a symbol in the list. If no confirmed change leads to a
-- symbol, but another company gave it up earlier, the company cannot have used it before that day: for rows from before
-- that day, the company's previous symbol (`former_tickers`) is returned.
create function edgar_symbol_periods(company edgar_companies, today date)
returns table (ticker text, starts date, ends date)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  event  record;
  label  text   := company.primary_ticker;
  -- The symbol whose ticker changes are looked up next, on the way back in time. It differs from `label`, the symbol
  -- that is returned for the period, if no confirmed change connects the two.
  symbol text;
  since  date;
  bound  date   := 'infinity';
  -- The day on which another company gave up `label`. Before that day, it cannot have been this company's symbol.
  freed  date;
  others text[] := company.former_tickers || company.primary_ticker;
begin
  -- Forward: begins on the day on which the primary symbol was adopted, and follows each later change that gives up the
  -- symbol reached so far.
  select coalesce(max(effective_date), '-infinity') into since from public.eligible_changes(today)
  where new_ticker = label and coalesce(cik, company.cik) = company.cik;
  loop
    select new_ticker, effective_date into event from public.eligible_changes(today)
    where old_ticker = label and effective_date > since
      and (cik = company.cik or cik is null and new_ticker = any (company.tickers))
    order by effective_date, cik, new_ticker limit 1;
    exit when not found;
    label := event.new_ticker;
    since := event.effective_date;
  end loop;

  -- Backward: returns one period in each round, from the newest to the oldest. `bound` is the first day of the period
  -- that was returned last. `others` are the company's symbols in the list that have not been reached yet.
  symbol := label;
  loop
    others := array_remove(others, symbol);
    select old_ticker, effective_date into event from public.eligible_changes(today)
    where new_ticker = symbol and effective_date < bound
      and coalesce(cik, company.cik) = company.cik
    order by effective_date desc, cik, old_ticker limit 1;
    if found then
      return query select label, event.effective_date::date, bound;
      bound := event.effective_date;
      label := event.old_ticker;
      symbol := label;
    elsif others <> '{}' then
      -- No confirmed change leads to this symbol. The search continues with the company's previous symbol in the list.
      symbol := others[cardinality(others)];
      select max(effective_date) into freed from public.eligible_changes(today)
      where old_ticker = label and effective_date < bound
        and cik <> company.cik;
      if freed is not null then
        return query select label, freed, bound;
        bound := freed;
        label := symbol;
      end if;
    else
      return query select label, date '-infinity', bound;
      return;
    end if;
  end loop;
end $$;

-- Returns the result of `edgar_symbol_periods` as JSON, in the form of `edgar_companies.periods`.
create function edgar_list_periods(company edgar_companies, today date) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('ticker', ticker, 'from', nullif(starts, '-infinity'),
    'until', nullif(ends, 'infinity'))) order by starts)
  from public.edgar_symbol_periods(company, today)
$$;

-- Returns which ingested rows of the companies must be moved. A row stored under `symbol` whose day is at least
-- `starts` and before `ends` must have the symbol `ticker` instead. `links` is a pattern that matches links to the
-- company's filings. `rows 10` makes the planner use indexes to find the rows.
create function edgar_list_moves(companies text[])
returns table (cik text, symbol text, ticker text, starts date, ends date, links text)
language sql stable rows 10 set search_path = pg_catalog, pg_temp as $$
  select cik, known.alias, period.ticker, coalesce(period."from", '-infinity'), coalesce(period.until, 'infinity'),
    'https://www.sec.gov/Archives/edgar/data/' || ltrim(cik, '0') || '/%'
  from public.edgar_companies join public.company_symbols as known using (cik)
    cross join jsonb_to_recordset(periods) as period (ticker text, "from" date, until date)
  where cik = any (companies) and known.alias <> period.ticker
$$;

-- Moves the row of a company from `old_symbol` to `new_symbol`, in a dataset with one row per symbol. If the new symbol
-- already has a row of the same company, or a row that was not ingested, that row stays and only takes over the values
-- that it lacks. A default value counts as missing. A company that loses its row, or whose row takes over another one,
-- loses its progress in the dataset, too, so that the next run writes the row again, under the symbol that the company
-- has then, with the values of its newest documents.
create function edgar_move_row(dataset text, company text, old_symbol text, new_symbol text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  target_owner text;
  is_present   boolean;
begin
  execute format($sql$select true, substring(array_to_string(source, ' ') from '/submissions/CIK(\d{10})\.json')
    from public.%I where ticker = $1$sql$, dataset)
  into is_present, target_owner using new_symbol;
  if is_present and target_owner <> company then
    -- The row under the new symbol is another company's. If the SEC's newest list assigns the symbol to that company,
    -- its row stays, and the row under the old symbol is deleted. Otherwise, the other company's row is deleted.
    if exists (
      select from public.edgar_companies where cik = target_owner and new_symbol = any (tickers)
        and listed_on = (select max(listed_on) from public.edgar_companies)
    ) then
      execute format('delete from public.%I where ticker = $1', dataset) using old_symbol;
      delete from public.edgar_progress as progress where cik = company and progress.dataset = edgar_move_row.dataset;
      return;
    end if;
    execute format('delete from public.%I where ticker = $1', dataset) using new_symbol;
    delete from public.edgar_progress as progress
    where cik = target_owner and progress.dataset = edgar_move_row.dataset;
    is_present := false;
  end if;
  if is_present then
    execute format('update public.%I as kept set %s from public.%1$I as former where kept.ticker = $1
      and former.ticker = $2', dataset, (
      select string_agg(format('%1$I = coalesce(%2$s, %3$s, kept.%1$I)', attname, case
          when adbin is null then format('kept.%I', attname)
          else format('nullif(kept.%I, %s)', attname, pg_get_expr(adbin, adrelid))
        end, case
          -- The market capitalization of another share count.
          when attname = 'market_cap'
            then 'case when former.outstanding = coalesce(kept.outstanding, former.outstanding) then former.market_cap end'
          else format('former.%I', attname)
        end), ', ')
      from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
      where attrelid = format('public.%I', dataset)::regclass and attnum > 0 and not attisdropped
        and attgenerated = '' and attname not in ('ticker', 'recorded_in')
    )) using new_symbol, old_symbol;
    execute format('delete from public.%I where ticker = $1', dataset) using old_symbol;
    delete from public.edgar_progress as progress where cik = company and progress.dataset = edgar_move_row.dataset;
  else
    execute format('update public.%I set ticker = $1 where ticker = $2', dataset) using new_symbol, old_symbol;
  end if;
end $$;

-- Moves the ingested rows of the companies to the symbols in `edgar_companies.periods`. Rows from other sources are not
-- moved: ingested rows are recognized by the CIK in their id or in their links to the SEC. If a filing, fact or holding
-- is stored under two symbols, only one copy remains. `former_symbols` contains, for each company, the symbol that it
-- had before its periods changed, or null if that is unknown.
create function edgar_move_rows(companies text[], former_symbols text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name      text;
  condition text;
  source    text;
  key       text[];
  move      record;
begin
  -- For each dataset with rows per filing: the condition that a row (`moved`) was ingested for the company (`target`),
  -- and a column that has the same value in two ingested rows for one filing.
  for name, condition, source in values
    ('news', $sql$moved.id = target.cik || '-' || moved.accession_number$sql$, 'id'),
    ('registrations', $sql$moved.id = target.cik || '-' || moved.file_no$sql$, 'id'),
    ('historical_float_pro', 'moved.cik = target.cik and moved.document_url like target.links', 'cik'),
    ('ownership', 'moved.document_url like target.links', 'document_url')
  loop
    condition := format('moved.ticker = target.symbol and %s and moved.filed_at >= target.starts
      and moved.filed_at < target.ends', condition);
    select array_remove(key_columns, 'ticker') into key from history.datasets where dataset = name;
    -- Deletes a row if the same row is also stored under the symbol to which this one would be moved (`kept`). The
    -- condition on the first key column, which is never null, lets PostgreSQL use an index on the ticker and this
    -- column; the comparison of the whole key cannot use one.
    execute format($sql$
      delete from public.%1$I as moved using public.edgar_list_moves($1) as target where %2$s and exists (
        select from public.company_symbols as known join public.%1$I as kept on kept.ticker = known.alias
        where known.cik = target.cik
          and (kept.ticker = target.ticker or kept.ticker < moved.ticker and kept.%3$I = moved.%3$I)
          and kept.%4$I = moved.%4$I and (%5$s) is not distinct from (%6$s)
      )$sql$, name, condition, source, key[1],
      history.list_columns(key, 'kept.%I'), history.list_columns(key, 'moved.%I')) using companies;
    execute format('update public.%I as moved set ticker = target.ticker
      from public.edgar_list_moves($1) as target where %s', name, condition) using companies;
  end loop;

  for move in
    select 'screener' as dataset, target.cik, target.symbol, target.ticker
    from public.edgar_list_moves(companies) as target join public.screener on screener.ticker = target.symbol
    where target.ends = 'infinity'
      and array_to_string(screener.source, ' ') like '%/submissions/CIK' || target.cik || '.json%'
    union all
    -- Each share class in the list has its own row with its own count. Such a row stays under the symbol of its class:
    -- only a row under the security's previous symbol, or under a symbol that is not in the list, is moved.
    select 'float_outstanding', target.cik, target.symbol, target.ticker
    from public.edgar_list_moves(companies) as target join public.edgar_companies using (cik)
      join unnest(companies, former_symbols) as former (cik, symbol) using (cik)
      join public.float_outstanding as counted on counted.ticker = target.symbol
    where target.ends = 'infinity' and (target.symbol = coalesce(former.symbol, target.symbol)
        or target.symbol <> all (tickers))
      and array_to_string(counted.source, ' ') like '%/submissions/CIK' || target.cik || '.json%'
  loop
    perform public.edgar_move_row(move.dataset, move.cik, move.symbol, move.ticker);
  end loop;
end $$;

-- Determines the companies' symbols, and moves their rows if the symbols have changed.
create function edgar_place_companies(companies text[], today date) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed text[];
  former  text[];
begin
  -- Locks rows in a fixed order, so that two transactions cannot deadlock. A running ingest batch holds the locks of
  -- its companies.
  perform from public.edgar_companies where cik = any (companies) order by cik for update;
  with recomputed as (
    select cik, periods -> -1 ->> 'ticker' as former_symbol, public.edgar_list_periods(company, today) as periods
    from public.edgar_companies as company where cik = any (companies)
  ), updated as (
    update public.edgar_companies as company set periods = recomputed.periods from recomputed
    where company.cik = recomputed.cik and company.periods <> recomputed.periods returning company.cik, former_symbol
  )
  select array_agg(cik), array_agg(former_symbol) into changed, former from updated;

  insert into public.company_symbols (alias, cik, ticker)
  select distinct symbol, cik, symbol from public.edgar_companies as company cross join lateral (
    select unnest(tickers || former_tickers || primary_ticker) as symbol
    union select period.ticker from jsonb_to_recordset(periods) as period (ticker text)
  ) as symbols
  where cik = any (companies)
  on conflict do nothing;

  -- Sets, for each symbol and company, the symbol under which a request for it finds more rows. Also updates the other
  -- companies that have one of these symbols, because a symbol leads only to the company that uses it now.
  update public.company_symbols as known set ticker = computed.ticker
  from (
    select symbols.alias, company.cik, case
      when symbols.alias = any (tickers) then current_ticker
      -- The list no longer assigns this symbol to any other company, and this company has no rows stored under it.
      when not periods @> jsonb_build_array(jsonb_build_object('ticker', symbols.alias)) and not exists (
        select from public.company_symbols as rival join public.edgar_companies as other using (cik)
        where rival.alias = symbols.alias and other.cik <> company.cik and rival.alias = any (other.tickers)
      ) then current_ticker
      else symbols.alias
    end as ticker
    from public.company_symbols as symbols join public.edgar_companies as company using (cik)
      cross join lateral (select periods -> -1 ->> 'ticker' as current_ticker) as last_period
    where symbols.alias in (select own.alias from public.company_symbols as own where own.cik = any (companies))
  ) as computed
  where known.alias = computed.alias and known.cik = computed.cik and known.ticker <> computed.ticker;

  if changed is not null then perform public.edgar_move_rows(changed, former); end if;
end $$;

-- Applies the ticker changes that were confirmed in advance and have taken effect by `today`: moves the ingested rows
-- of the affected companies. Does nothing if it has already run for this day.
create function edgar_place_due_companies(today date) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  last_day date := (select placed_on from public.edgar_placement);
  due      text[];
begin
  if last_day >= today then return; end if;
  due := array(
    select distinct known.cik from public.ticker_changes as event
      join public.company_symbols as known on known.alias in (event.old_ticker, event.new_ticker)
    where event.status = 'confirmed' and event.effective_date > last_day and event.effective_date <= today
      and coalesce(event.cik, known.cik) = known.cik
  );
  if due <> '{}' then perform public.edgar_place_companies(due, today); end if;
  update public.edgar_placement set placed_on = today where placed_on < today;
end $$;

-- A trigger function. Moves the ingested rows of the companies whose ticker changes a statement has added, corrected or
-- removed (the transition table `changed`).
create function edgar_follow_changes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  companies text[];
begin
  if not exists (select from public.edgar_companies) then return null; end if;
  if tg_op = 'TRUNCATE' then
    companies := array(select cik from public.edgar_companies);
  else
    companies := array(
      select distinct known.cik
      from changed as event join public.company_symbols as known on known.alias in (event.old_ticker, event.new_ticker)
      where event.status = 'confirmed' and coalesce(event.cik, known.cik) = known.cik
    );
  end if;
  if companies <> '{}' then
    perform public.edgar_place_companies(companies, (now() at time zone 'America/Chicago')::date);
  end if;
  return null;
end $$;

-- `changed` contains the rows before an update in one trigger, and the rows after it in the other. Both are needed,
-- because an update may change the symbols.
create trigger place_rows_after_insert after insert on ticker_changes referencing new table as changed
  for each statement execute function edgar_follow_changes();
create trigger place_rows_after_update_of after update on ticker_changes referencing old table as changed
  for each statement execute function edgar_follow_changes();
create trigger place_rows_after_update_to after update on ticker_changes referencing new table as changed
  for each statement execute function edgar_follow_changes();
create trigger place_rows_after_delete after delete on ticker_changes referencing old table as changed
  for each statement execute function edgar_follow_changes();
create trigger place_rows_after_truncate after truncate on ticker_changes
  for each statement execute function edgar_follow_changes();

-- Deletes the rows of companies whose securities no longer trade, in the datasets that describe only the present
-- (`screener` and `float_outstanding`). Also deletes the companies' progress in these datasets, so that the next run
-- creates the rows again if a company returns to the SEC's list.
create function edgar_remove_delisted(companies text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  dataset text;
  removed text[];
  move    record;
begin
  foreach dataset in array array['screener', 'float_outstanding'] loop
    -- If another company, such as a new holding company, continues the security under another symbol, the row moves to
    -- that symbol, because the new company may not have reported a share count yet. A company that gave up the symbol
    -- long before the SEC's list dropped this one, or before this one adopted it or reported a count under it, is one
    -- that used the symbol earlier. So is one whose new symbol was in the list together with this company.
    for move in execute format($sql$
      select distinct on (heir.cik) heir.cik, stored.ticker as symbol, heir.periods -> -1 ->> 'ticker' as ticker
      from public.%I as stored join public.company_symbols as known on known.alias = stored.ticker
        join public.edgar_companies as former on former.cik = known.cik
        join public.edgar_companies as heir
          on heir.periods @> jsonb_build_array(jsonb_build_object('ticker', stored.ticker))
        cross join jsonb_to_recordset(heir.periods) as period (ticker text, until date)
      where known.cik = any ($1) and heir.cik <> all ($1) and heir.periods -> -1 ->> 'ticker' <> stored.ticker
        and period.ticker = stored.ticker and period.until > former.listed_on - 60 and not exists (
          select from jsonb_to_recordset(former.periods) as own (ticker text, "from" date)
          where own.ticker = stored.ticker and own."from" >= period.until
        ) and not exists (
          select from public.historical_float_pro as report
          where report.ticker = stored.ticker and report.cik = known.cik and report.filed_at > period.until
        )
        -- The last copy of the list with this company does not contain the other one's symbol yet.
        and not exists (
          select from public.edgar_ticker_lists as copy
          where copy.day = former.listed_on and copy.entries like '%%"' || (heir.periods -> -1 ->> 'ticker') || '"%%'
        )
        and array_to_string(stored.source, ' ') like '%%/submissions/CIK' || known.cik || '.json%%'$sql$, dataset)
      using companies
    loop
      perform public.edgar_move_row(dataset, move.cik, move.symbol, move.ticker);
    end loop;
    execute format($sql$select array_agg(stored.ticker) from public.%I as stored join public.company_symbols as known
      on known.alias = stored.ticker where known.cik = any ($1)
        and array_to_string(stored.source, ' ') like '%%/submissions/CIK' || known.cik || '.json%%'$sql$, dataset)
    into removed using companies;
    -- Even a deletion that matches no rows would change the dataset's version and invalidate cached responses.
    if removed is not null then
      execute format('delete from public.%I where ticker = any ($1)', dataset) using removed;
    end if;
  end loop;
  delete from public.edgar_progress as progress
  where progress.cik = any (companies) and progress.dataset in ('screener', 'float_outstanding');
end $$;

revoke execute on function edgar_symbol_periods, edgar_list_periods, edgar_list_moves, edgar_move_row,
  edgar_move_rows, edgar_place_companies, edgar_place_due_companies, edgar_follow_changes, edgar_remove_delisted from
  public;

insert into role_privileges values ('service', 'execute', 'public.edgar_place_due_companies');
