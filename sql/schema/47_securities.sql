-- Determines which security used which symbol on which day (D20, D21, D45), and derives a security's splits and market
-- capitalization from that. Statements that compare prices, splits or share counts of different days use these
-- functions.

-- Divides the history of each symbol into periods at the ticker changes that involve the symbol, and assigns each
-- period to a security. The four arrays `old_tickers` to `ciks` contain the ticker changes, one per position; `symbols`
-- adds symbols without changes. If the changes that are connected through shared symbols form a chain, such as A to B
-- and later B to C (D21), the periods of these symbols belong to one security, and `is_linked` is true. Every other
-- period counts as a separate security, so that the data of different companies is never mixed. A security is named
-- after its newest period: the symbol and, if others used the symbol before, the first day of the period, as in
-- META@2022-06-09. `ends` is the day after the last day of the period. `is_ambiguous` means that the changes around the
-- symbol do not form a chain. `cik` is the issuer of the chain.
create function trace_securities(
  symbols text[], old_tickers text[], new_tickers text[], days date[], ciks text[]
) returns table (
  security text, ticker text, starts date, ends date, is_linked boolean, is_ambiguous boolean, cik text
)
-- Nested loops are disabled because PostgreSQL does not know the length of the arrays. A nested loop over 5,000 ticker
-- changes would take seconds.
language sql stable set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
  with recursive changes as materialized (
    -- Changes with the same symbols and day count as one change if they contain at most one CIK (D20).
    select row_number() over () as id, old_ticker, new_ticker, day, min(cik) as cik, max(cik) as other_cik,
      count(*) over (partition by old_ticker) > 1 as is_forked
    from unnest(old_tickers, new_tickers, days, ciks) as input (old_ticker, new_ticker, day, cik)
    group by old_ticker, new_ticker, day
  ),
  -- The successor of each change: a later change that gives up the symbol to which this one leads. If there are
  -- several, it does not matter which of them is used, because a symbol that is given up twice cannot be part of a
  -- chain.
  links as materialized (
    select former.id, next.id as next_id
    from changes as former join changes as next on next.old_ticker = former.new_ticker and next.day > former.day
    where not next.is_forked
  ),
  -- For each change without a predecessor (`first`), the changes that follow it one after the other. `hops` numbers
  -- them from 1. A path ends at its thirteenth change, which is enough to recognize that it is too long.
  paths (first, id, hops) as (
    select id, id, 1 from changes where not exists (select from links where next_id = changes.id)
    union all
    select first, next_id, hops + 1 from paths join links using (id) where hops <= 12
  ),
  -- The changes of each path, once with their old and once with their new symbol as `ticker`.
  path_symbols as materialized (
    select first, hops, ticker, changes.*
    from paths join changes using (id) cross join lateral (values (old_ticker), (new_ticker)) as both_sides (ticker)
  ),
  -- The symbols that a change connects directly with a symbol.
  neighbours as materialized (
    select old_ticker as ticker, new_ticker as neighbour from changes
    union select new_ticker, old_ticker from changes
  ),
  -- The symbols of all components, which are sets of changes connected through shared symbols, that are not chains. A
  -- component is a chain if it is a single path of at most twelve changes, all of one issuer, in which no symbol is
  -- given up twice.
  not_chains (ticker) as (
    (
      -- Symbols that are given up twice, symbols on several paths, and the symbols of paths that are too long or have
      -- changes of several issuers.
      select old_ticker from changes where is_forked
      union select ticker from path_symbols group by ticker having min(first) < max(first)
      union (
        with broken as (
          select first from path_symbols group by first having max(hops) > 12 or min(cik) < max(other_cik)
        )
        select ticker from path_symbols join broken using (first)
      )
    )
    union
    -- All other symbols of the same component.
    select neighbour from not_chains join neighbours using (ticker)
  ),
  -- The symbols are already distinct, but without `distinct` PostgreSQL would expect millions of rows and plan the next
  -- joins for them.
  ambiguous as materialized (select distinct ticker from not_chains),
  -- The rows of `path_symbols` that belong to chains.
  chain_symbols as materialized (
    select path_symbols.* from path_symbols
    where not exists (select from ambiguous where ambiguous.ticker = path_symbols.ticker)
  ),
  -- The issuer and the name of the security of each chain: the last symbol, and the day on which it was adopted.
  chains as (
    select first, max(cik) as cik,
      (array_agg(new_ticker || '@' || to_char(day, 'YYYY-MM-DD') order by day desc))[1] as security
    from chain_symbols group by first
  ),
  -- The start of each period that belongs to a chain: the day on which the symbol was adopted or, for the first symbol
  -- of the chain (`hops = 1`), minus infinity.
  linked as (
    select security, chains.cik, ticker, case when ticker = new_ticker then day else '-infinity' end as starts
    from chains join chain_symbols using (first) where ticker = new_ticker or hops = 1
  ),
  -- All periods. Each begins where a change involves the symbol, and ends where the next one begins.
  periods as (
    select ticker, starts, lead(starts, 1, 'infinity') over (partition by ticker order by starts) as ends
    from (
      select unnest(symbols) as ticker, date '-infinity' as starts
      union select ticker, '-infinity' from neighbours
      union select old_ticker, day from changes
      union select new_ticker, day from changes
    ) as boundaries
  )
  select coalesce(security, periods.ticker || coalesce('@' || to_char(nullif(starts, '-infinity'), 'YYYY-MM-DD'), '')),
    periods.ticker, starts, ends, security is not null, ambiguous.ticker is not null, linked.cik
  from periods left join linked using (ticker, starts) left join ambiguous on ambiguous.ticker = periods.ticker
$$;

-- Returns the periods of the given symbols and of all symbols connected with them by ticker changes that are eligible on
-- a day. A ticker change may be recorded for a day that is up to 30 days too early or too late. If bars show the old
-- symbol until one day and the new symbol only after it, the periods follow the bars, and `recorded` differs from
-- `starts`.
create function security_periods(symbols text[], today date)
returns table (
  security text, ticker text, starts date, ends date, is_linked boolean, is_ambiguous boolean, cik text, recorded date
)
language sql stable set search_path = pg_catalog, pg_temp as $$
  -- The given symbols, and all symbols that are connected with them by ticker changes.
  with recursive reached (ticker) as (
    select unnest(symbols)
    union
    select neighbour.ticker from reached cross join lateral (
      select new_ticker as ticker from public.eligible_changes(today) where old_ticker = reached.ticker
      union all
      select old_ticker from public.eligible_changes(today) where new_ticker = reached.ticker
    ) as neighbour
  ),
  recorded_periods as materialized (
    select periods.* from (
      select array_agg(old_ticker) as old_tickers, array_agg(new_ticker) as new_tickers,
        array_agg(effective_date) as days, array_agg(cik) as ciks
      from reached cross join lateral (
        select * from public.eligible_changes(today) where old_ticker = reached.ticker offset 0
      ) as change
    ) as found
      cross join lateral public.trace_securities(symbols, old_tickers, new_tickers, days, ciks) as periods
  ),
  -- The ticker changes of chains that took place on another day, according to the bars of the 30 days before and after
  -- the recorded day. If bars under the two symbols overlap, another company uses one of the symbols, so they prove
  -- nothing. A change is never moved past another change of one of its symbols. Another company may have used the new
  -- symbol until shortly before the change, or adopted the old one shortly after it. A change is therefore moved by
  -- more than ten days only if there are no bars under the new symbol in the 30 days before it, and none under the old
  -- symbol in the 30 days after it.
  --
  -- `day` is the recorded day of the change, and `shown` the day on which bars show the change: the first day with bars
  -- under the new symbol (`first_new`), if that is earlier than recorded, or the day after the last day with bars under
  -- the old symbol (`last_old`), if that is later. Each change has one row for each of its symbols (`ticker`).
  moved as materialized (
    select side.ticker, day, shown
    from (
      select security, former.ticker as old_ticker, next.ticker as new_ticker, next.starts as day
      from recorded_periods as former join recorded_periods as next using (security)
      where former.is_linked and former.ends = next.starts
    ) as change cross join lateral (
      select max(date) filter (where bar.ticker = old_ticker) as last_old,
        min(date) filter (where bar.ticker = new_ticker) as first_new
      from public.price_periods as bar
      where bar.ticker in (old_ticker, new_ticker) and date between day - 30 and day + 30
    ) as sessions cross join lateral (
      select case
        when last_old < first_new and first_new < day then first_new
        when last_old < first_new and last_old >= day then last_old + 1
      end as shown
    ) as dated cross join lateral (values (old_ticker), (new_ticker)) as side (ticker)
    where shown is not null and (
      first_new >= day - 10 and last_old <= day + 10
      or not exists (
        select from public.price_periods as bar
        where bar.ticker = new_ticker and date between first_new - 30 and first_new - 1
          or bar.ticker = old_ticker and date between last_old + 1 and last_old + 30
      )
    ) and not exists (
      select from recorded_periods as other
      where other.ticker in (old_ticker, new_ticker) and (
        other.is_linked and other.security <> change.security and day in (other.starts, other.ends)
        or other.starts <> day and other.starts between least(day, shown) and greatest(day, shown)
      )
    )
  )
  select security, periods.ticker, coalesce(new_start.shown, starts), coalesce(new_end.shown, ends), is_linked,
    is_ambiguous, cik, starts
  from recorded_periods as periods
    left join moved as new_start on new_start.ticker = periods.ticker and new_start.day = starts
    left join moved as new_end on new_end.ticker = periods.ticker and new_end.day = ends
$$;

-- Returns the splits of the securities that used the symbols, with one row per security and day. The status `applied`
-- means that the split took place on this day. `repeated` means that the record is about a split that took place on
-- another day. `contradicted` means that the record disagrees with other records or with price bars, so prices before
-- and after the day cannot be compared. A contradicted split may also be returned for a day that no record contains, if
-- bars show the split on that day.
create function security_splits(symbols text[], today date)
returns table (security text, effective_date date, split_from numeric, split_to numeric, status text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  with periods as materialized (select * from public.security_periods(symbols, today)),
  -- The records of splits that have taken effect, each with the period of the symbol that contains its day.
  records as (
    select split.ticker, split.effective_date, split.split_from, split.split_to, split.filed_at, split.id,
      period.security, period.starts, period.ends, period.is_linked
    from periods as period join public.split_status as split on split.ticker = period.ticker
      and split.effective_date >= period.starts and split.effective_date < period.ends
    where split.executed and split.action_type = 'split_effective'
      and coalesce(split.split_from <> split.split_to, true)
  ),
  -- The records that belong to another security than the one that used the symbol on the recorded day: a split may be
  -- recorded under a symbol that the security adopted later, or gave up a few days before. If bars or closes show that
  -- the symbol was traded around that day, the split belongs to the company that used the symbol then.
  moved as (
    select distinct records.id, chain.security
    from records join (select * from periods where is_linked) as chain on chain.ticker = records.ticker
    cross join lateral (
      select greatest(records.starts, records.effective_date - 30) as first,
        least(records.ends - 1, records.effective_date + 30) as last
    ) as around
    where not records.is_linked
      and (records.effective_date < chain.starts or records.effective_date between chain.ends and chain.ends + 5)
      and not exists (
        select from public.price_periods as traded
        where traded.ticker = records.ticker and traded.date between first and last
      )
      and not exists (
        select from public.daily_prices as traded
        where traded.ticker = records.ticker and traded.date between first and last
      )
  ),
  -- The records with the security to which they belong. `ratio` is the factor by which the number of shares decreases
  -- and the price rises: 100 for a 1-for-100 split.
  owned as (
    select coalesce(moved.security, records.security) as security, records.effective_date, records.split_from,
      records.split_to, records.filed_at, round(records.split_from / records.split_to, 12) as ratio
    from records left join moved using (id)
  ),
  -- One row for all records of a security and day.
  by_day as (
    select security, effective_date, (array_agg(split_from order by split_from))[1] as split_from,
      (array_agg(split_to order by split_from))[1] as split_to, max(filed_at) as filed_at, ln(min(ratio)) as change,
      -- True if no record states the ratio, or if the records for this day state different ratios.
      count(ratio) = 0 or min(ratio) < max(ratio) as is_contradicted
    from owned group by security, effective_date
  ),
  -- Numbers the splits, so that all records about one split have the same number. Records with the same ratio are about
  -- one split if each is at most 30 days after the previous one, unless bars show several splits. Records with
  -- different ratios in the same direction are about one split if they are at most five days apart.
  spaced as (
    select *, effective_date - lag(effective_date) over same
        > case when change = lag(change) over same then 30 else 5 end as is_new
    from by_day window same as (partition by security, is_contradicted, sign(change) order by effective_date)
  ),
  -- `number` identifies the split among the splits of the security in the same direction.
  numbered as (
    select *, count(*) filter (where is_new) over same as number
    from spaced window same as (partition by security, is_contradicted, sign(change) order by effective_date)
  ),
  -- Each record with the changes that all records about the same split imply (`changes`).
  grouped as (
    select *, min(change) over same < max(change) over same as has_several_ratios,
      array_agg(change) over same as changes
    from numbered window same as (partition by security, is_contradicted, sign(change), number)
  ),
  -- Each security's periods, collected in arrays, because a join with `periods` would read all of it for every split.
  used as (
    select security, array_agg(ticker) as tickers, array_agg(starts) as starts, array_agg(ends) as ends
    from periods group by security
  ),
  -- `seen` is the price change that bars show for the day, from the last close before to the open, as a logarithm like
  -- `change`, which is the change that the split's ratio implies. If the day has no bars, such as a Saturday, it is the
  -- change on `seen_on`, the first day with bars in the 30 days after it. It is null if there is no such day, or if
  -- there are no bars in the 30 days before the split.
  observed as (
    select grouped.*, tickers, starts, ends, ln(today.open / before.close) as seen,
      today.date as seen_on
    from grouped join used using (security) left join lateral (
      select bar.open, bar.date
      from unnest(tickers, starts, ends) as period (ticker, starts, ends)
        join public.price_periods as bar on bar.ticker = period.ticker
          and bar.date between grouped.effective_date and grouped.effective_date + 30
      where bar.date >= period.starts and bar.date < period.ends and bar.period in ('regular', 'day')
      order by bar.date, bar.period desc limit 1
    ) as today on not is_contradicted left join lateral (
      select bar.close
      from unnest(tickers, starts, ends) as period (ticker, starts, ends) cross join lateral (
        select known.date, known.close, known.period from public.price_periods as known
        where known.ticker = period.ticker and known.date < grouped.effective_date
          and known.date >= grouped.effective_date - 30 and known.date >= period.starts and known.date < period.ends
          and known.period in ('regular', 'day')
        order by known.date desc, known.period limit 1
      ) as bar
      order by bar.date desc, bar.period limit 1
    ) as before on not is_contradicted
  ),
  -- Whether bars confirm the split (`is_shown`): the price changed by an amount closer to what the ratio implies than
  -- to no change, and no other ratio among the split's records fits better.
  judged as (
    select *, abs(seen - change) < abs(change) / 2
        and abs(seen - change) <= (select min(abs(seen - other)) from unnest(changes) as other) as is_shown,
      -- Null unless bars contradict the record: the price hardly changed on the recorded day, or it changed in the
      -- opposite direction, as for a ratio that was written upside down. Otherwise the days on which bars show the split
      -- instead: days nearby on which the price changed as the ratio implies (possibly none), or the recorded day. A
      -- ratio of less than 1.4 cannot be contradicted, because prices change that much without a split.
      case
        when abs(change) < ln(1.4) then null
        when abs(seen) < abs(change) / 5 then (
          select coalesce(array_agg(date), '{}')
          from (
            select date, ln(open / lag(close) over (order by date)) as seen
            from (
              select distinct on (bar.date) bar.date, bar.open, bar.close
              from unnest(tickers, starts, ends) as period (ticker, starts, ends)
                join public.price_periods as bar on bar.ticker = period.ticker
                  and bar.date >= greatest(period.starts, effective_date - 60)
                  and bar.date <= least(period.ends - 1, effective_date + 30)
              where bar.period in ('regular', 'day') order by bar.date, bar.period desc
            ) as sessions
          ) as day
          where date >= effective_date - 30 and abs(day.seen - change) < abs(change) / 4
        )
        when abs(seen + change) < abs(change) / 2 then array[seen_on]
      end as right_days
    from observed
  ),
  -- Whether a contradicted record is about a split that was postponed or brought forward, by at most 180 days
  -- (`is_postponed`): bars confirm a record of a split in the same direction for another day, and do not show a day
  -- without such a record on which this split could have taken place. If the confirmed record has another ratio and is
  -- more than 60 days away, it is about another split. `shown_days` are the confirmed days, and `shown_changes` contains
  -- the changes that their records state.
  compared as (
    select *, coalesce(right_days <@ shown_days and exists (
        select from unnest(shown_days, shown_changes) as shown (day, shown_change)
        where abs(day - effective_date) <= case when shown_change = change then 180 else 60 end
      ), false) as is_postponed
    from (
      select *, array_agg(seen_on) filter (where is_shown) over same as shown_days,
        array_agg(change) filter (where is_shown) over same as shown_changes
      from judged window same as (partition by security, sign(change))
    ) as judged
  ),
  -- The status of each record. If bars confirm any of the records about a split, it took place on those days, and the
  -- other records are repetitions. Otherwise, the most plausible record counts, unless the records state several
  -- ratios, or bars contradict all of them.
  resolved as (
    select *, case
        when is_contradicted then 'contradicted'
        -- Records for a Saturday and for the next Monday are confirmed by the same bar, but are about one split.
        when bool_or(is_shown) over same then case when is_shown and row_number() over (
            partition by security, is_contradicted, sign(change), number, is_shown, seen_on order by effective_date desc
          ) = 1 then 'applied' else 'repeated' end
        when bool_and(is_postponed) over same then 'repeated'
        when has_several_ratios or bool_and(right_days is not null) over same then 'contradicted'
        when row_number() over (
          partition by security, is_contradicted, sign(change), number
          -- Several records of one split count once, on the day of the first record in this order. False sorts before
          -- true, so days on which the price may have changed come before days on which it hardly changed.
          order by coalesce(abs(seen) < abs(change) / 5, false), filed_at desc, effective_date desc
        ) = 1 then 'applied'
        else 'repeated'
      end as status
    from compared window same as (partition by security, is_contradicted, sign(change), number)
  )
  select security, effective_date, split_from, split_to, status from resolved
  union
  select security, day, split_from, split_to, status from resolved cross join unnest(right_days) as day
  where status = 'contradicted' and not exists (
    select from resolved as known where known.security = resolved.security and known.effective_date = day
  )
$$;

-- The first day on which a row of `screener` or `float_outstanding` had the `outstanding` that it has now. A market
-- capitalization needs a date for each share count, and uses this one if no filing gives a date (D44). `last_updated`
-- cannot be used, because price ingests change it. The record stays when the row is removed, because the row may
-- return, or the company may have changed its symbol.
create table share_counts (
  -- Uses the same collation as `tg_table_name`, so that lookups by `tg_table_name` can use the index.
  dataset     text collate "C" not null,
  ticker      ticker not null,
  outstanding quantity not null,
  since       fact_day not null,
  primary key (dataset, ticker)
);

select keep_spellings('share_counts');

-- A trigger function for `screener` and `float_outstanding`. Records in `share_counts` the count of a new or changed
-- row. Sequential scans are disabled because PostgreSQL keeps a statement's plan for a whole load. A plan made while
-- the table was empty would scan the table for each row.
create function note_share_count() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  -- Keeps the earlier date if the row, under its present or former symbol, already had this count.
  insert into public.share_counts
  select tg_table_name, new.ticker, new.outstanding, least(new.last_updated::date, min(since))
  from public.share_counts
  where dataset = tg_table_name and ticker in (old.ticker, new.ticker) and outstanding = new.outstanding
  on conflict (dataset, ticker) do update set outstanding = excluded.outstanding, since = excluded.since;
  return null;
end $$;

-- A trigger function. Deletes the records about a dataset whose table has been truncated.
create function forget_share_counts() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.share_counts where dataset = tg_table_name;
  return null;
end $$;

do $$
declare
  dataset text;
begin
  foreach dataset in array array['screener', 'float_outstanding'] loop
    execute format($sql$
      create trigger note_count_after_insert after insert on %1$I for each row
        when (new.outstanding is not null) execute function note_share_count();
      create trigger note_count_after_update after update on %1$I for each row
        when (new.outstanding is not null and ((new.ticker, new.outstanding) is distinct from
          (old.ticker, old.outstanding) or new.last_updated < old.last_updated)) execute function note_share_count();
      create trigger forget_counts after truncate on %1$I for each statement execute function forget_share_counts();
    $sql$, dataset);
  end loop;
end $$;

revoke execute on function note_share_count, forget_share_counts from public;

-- Returns the splits of the securities that the companies' current symbols denote, oldest first, with the number of
-- shares that one share became. `ratio` is null if it is unknown, or if sources disagree. `companies` is an array of
-- objects with `cik`, the current symbol (`ticker`) and all symbols that the company has used (`symbols`).
create function find_company_splits(companies jsonb, today date)
returns table (cik text, day date, ratio numeric)
language sql stable set search_path = pg_catalog, pg_temp as $$
  with used as materialized (
    select company.cik, company.ticker as present, symbol
    from jsonb_to_recordset(companies) as company (cik text, ticker text, symbols jsonb)
      cross join lateral jsonb_array_elements_text(symbols) as symbol
  ),
  current_securities as materialized (
    select used.cik, security
    from used join public.security_periods(array(select distinct symbol from used), today) as period
      on period.ticker = symbol
    where symbol = present and ends = 'infinity' and not is_ambiguous and coalesce(period.cik, used.cik) = used.cik
  )
  select current_securities.cik, effective_date,
    case when status = 'applied' then round(split_to / split_from, 12) end
  from current_securities
    join public.security_splits(array(select distinct symbol from used), today) as split using (security)
  where status <> 'repeated' order by effective_date
$$;

-- Returns the newest stored number of ordinary shares per depositary receipt. The one in the row with the current count
-- takes precedence over those of filings. Null if it is unknown.
create function find_shares_per_receipt(company_cik text, present text, symbols text[]) returns float8
language sql stable set search_path = pg_catalog, pg_temp as $$
  select ads_ratio::float8 from (
    select ads_ratio, 'infinity' as stated_on from public.float_outstanding where ticker = present
    union all
    select ads_ratio, coalesce(reported_date, filed_at) from public.historical_float_pro
    where ticker = any (symbols) and cik = company_cik
  ) as stated
  where ads_ratio is not null order by stated_on desc limit 1
$$;

-- Returns the companies for which splits or the number of shares per receipt have changed since their share counts were
-- assessed (`edgar_assessments`).
create function find_outdated_assessments(today date) returns setof text
language sql stable set search_path = pg_catalog, pg_temp as $$
  with companies as materialized (
    select assessment.*, primary_ticker as ticker,
      array(select distinct period ->> 'ticker' from jsonb_array_elements(periods) as period) as symbols
    from public.edgar_assessments as assessment join public.edgar_companies using (cik)
  ),
  -- Most companies have no splits.
  splitting as materialized (
    select * from companies
    where splits <> '[]' or exists (select from public.split_status as split where split.ticker = any (symbols))
  ),
  known as materialized (
    select cik, jsonb_agg(jsonb_build_object('day', to_char(day, 'YYYY-MM-DD'), 'ratio', ratio) order by day) as splits
    from public.find_company_splits((
        select coalesce(jsonb_agg(jsonb_build_object('cik', cik, 'ticker', ticker, 'symbols', symbols)), '[]')
        from splitting
      ), today)
    group by cik
  )
  select splitting.cik from splitting left join known using (cik)
  where splitting.splits <> coalesce(known.splits, '[]')
  union
  select cik from companies
  where is_receipt and ads_ratio is distinct from public.find_shares_per_receipt(cik, ticker, symbols)
$$;

-- Returns whether the symbols of a company show that several classes of its common shares are listed: two of them differ
-- only by a letter, as BF-A and BF-B or LEN and LEN-B do. The letters P, R, U and W do not count, because they stand for
-- preferred shares, rights, units and warrants. `hasClassSymbols` does the same in TypeScript.
create function has_class_symbols(symbols text[]) returns boolean language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
return (
  select count(distinct symbol) > count(distinct regexp_replace(symbol, '-[^PRUW]$', ''))
  from unnest(symbols) as listed (written) cross join lateral public.symbol_key(written) as symbol
);

-- Returns the symbol of the company that a cover page states, or null if the company has no such symbol. Some companies
-- omit the separator (BFA for BF-A). Such a symbol is accepted if it can be only one of the company's. `findOwnSymbol`
-- does the same in TypeScript.
create function find_stated_symbol(company_cik text, stated text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when bool_or(is_exact) then min(alias) filter (where is_exact) when count(*) = 1 then min(alias) end
  from (
    select alias, alias = public.stored_symbol(stated) as is_exact
    from public.company_symbols
    where cik = company_cik
      and (alias = public.stored_symbol(stated) or replace(public.symbol_key(alias), '-', '') = stated)
  ) as own
$$;

-- Returns the share counts from the symbols' rows in `screener` and `float_outstanding` (`dataset`, `ticker`), with
-- the symbol of the shares that they count (`symbol`). If a count is the sum of several share classes, there is one
-- row for each class. `shares` is null if there are, or may be, several classes that do not add up to the count: if a
-- cover page states only a total although several classes are listed, if an operator corrected the count and a cover
-- page of the year before states several classes, if the count was loaded or comes from a balance sheet, or if the
-- cover page cannot be read. `counted_on` is the date of the count, and `filed_on` the day on which it was filed.
-- `counted_splits` says for the days of splits whether the count is stated in the shares after them, as far as the
-- ingest of filings has assessed it (`edgar_assessments`). If `is_receipt` is true, `symbol` denotes depositary
-- receipts, and each receipt has represented `ads_ratio` shares since `ratio_on` or earlier. `ambiguous_before` is the
-- first day of the symbol's present use, if lineage is ambiguous before. Counts and ratios are looked up under all
-- symbols of the security, because rows from filings keep the symbol of their date (D38).
create function find_share_counts(symbols text[], today date)
returns table (
  dataset text, ticker text, symbol text, shares numeric, counted_on date, filed_on date, counted_splits jsonb,
  is_receipt boolean, ads_ratio numeric, ratio_on date, ambiguous_before date
)
language sql stable set search_path = pg_catalog, pg_temp as $$
  with periods as materialized (select * from public.security_periods(symbols, today)),
  -- For each symbol, all symbols that its security has used, by period. In datasets with one row per symbol, a row
  -- belongs to the security from `owned_from` on. The row for the current symbol always belongs to the security. If a
  -- former symbol has a row next to the current symbol's row, the former symbol's row never belongs to the security,
  -- because another company uses that symbol now.
  used as materialized (
    select symbol, former.ticker, former.starts, former.ends, former.is_linked,
      case when present.is_ambiguous then present.starts end as ambiguous_before, case
        when former.ticker = symbol then '-infinity'
        when exists (select from public.screener as listed where listed.ticker = former.ticker) then 'infinity'
        else former.starts
      end as owned_from
    from unnest(symbols) as symbol join periods as present on present.ticker = symbol and present.ends = 'infinity'
      join periods as former using (security)
  ),
  -- The periods of former symbols, with the present symbol of the security.
  renamed as materialized (
    select former.ticker, former.starts, former.ends, present.ticker as symbol
    from periods as former join periods as present using (security)
    where former.is_linked and present.ends = 'infinity' and present.ticker <> former.ticker
  ),
  -- The periods in which a security did not use one of its symbols (`is_used` is false), and lineage knows no other
  -- company that did, together with the periods in which the security used them.
  listed_periods as (
    select symbol, ticker, starts, ends, owned_from, ambiguous_before, true as is_used from used
    union all
    select distinct used.symbol, ticker, other.starts, other.ends, null::date, null::date, false
    from used join periods as other using (ticker) where used.is_linked and not other.is_linked
  ),
  -- The rows of the two datasets that belong to the securities. `is_own` marks the row under the requested symbol. The
  -- date and `is_whole` are taken from all rows with the same count.
  present_rows as (
    select used.symbol, used.ticker = used.symbol and used.ends = 'infinity' as is_own, listed.dataset,
      listed.outstanding, listed.cik,
      bool_or(listed.is_adr) over (partition by used.symbol) as is_receipt,
      max(listed.stated_on) over same_count as stated_on, max(listed.filed_at) over same_count as filed_at,
      -- The company whose filing states the count. A successor may have inherited the count.
      lpad(substring(array_to_string(source, ' ') from '/edgar/data/(\d+)/'), 10, '0') as stated_by,
      -- The SEC's company facts contain a count from a cover page only if the cover page does not divide it by class.
      bool_or(array_to_string(source, ' ') like '%#dei/EntityCommonStockSharesOutstanding/%') over same_count as is_whole
    from used join (
      select 'screener' as dataset, screener.ticker, outstanding, lpad(cik, 10, '0') as cik, is_adr,
        null::date as stated_on, null::date as filed_at, last_updated, source
      from public.screener
      union all
      select 'float_outstanding', current.ticker, outstanding, null, is_adr, coalesce(reported_date, filed_at),
        filed_at, last_updated, source
      from public.float_outstanding as current
    ) as listed using (ticker)
    where coalesce(stated_on, last_updated::date) >= used.owned_from
      and coalesce(stated_on, last_updated::date) < used.ends
    window same_count as (partition by used.symbol, listed.outstanding)
  ),
  -- The rows under the requested symbols, with the symbols that the security has used collected in arrays.
  counted as materialized (
    select dataset, symbol, outstanding, cik, stated_by, is_receipt, stated_on, filed_at, is_whole, tickers, starts, ends,
      owned_from, ambiguous_before, other_tickers, other_starts, other_ends
    from present_rows join (
      select symbol, array_agg(ticker) filter (where is_used) as tickers,
        array_agg(starts) filter (where is_used) as starts, array_agg(ends) filter (where is_used) as ends,
        array_agg(owned_from) filter (where is_used) as owned_from, max(ambiguous_before) as ambiguous_before,
        array_agg(ticker) filter (where not is_used) as other_tickers,
        array_agg(starts) filter (where not is_used) as other_starts,
        array_agg(ends) filter (where not is_used) as other_ends
      from listed_periods group by symbol
    ) as histories using (symbol)
    where is_own and outstanding is not null
  ),
  -- For each count, the cover page of a filing whose share classes add up to the count or, if there is none, the
  -- company's newest cover page. `are_classes_unknown` means that the count may be the total of several classes whose
  -- numbers are not known.
  covered as materialized (
    select counted.*, cover_cik, case when is_sum then cover end as cover, case
        when is_sum and jsonb_array_length(cover -> 'classes') > 1 then false
        when (is_sum or is_whole) and not is_receipt and are_listed then true
        when is_sum then false
        when is_whole and coalesce(stated_on > least((cover ->> 'date')::date, filed_on), true) and not is_corrected
          then false
        -- The cover page may have forgotten a class that one in the year before states.
        when (cover ->> 'hasClasses')::boolean or exists (
            select from public.edgar_instances as stated
            where stated.cik = cover_cik and jsonb_array_length(stated.cover -> 'classes') > 1
              and stated.filed_on > coalesce(counted.filed_at, counted.stated_on, newest.filed_on) - 400
          ) then true
        -- A balance sheet states the total for all classes. A filing's count comes from its balance sheet only if its
        -- cover page has none.
        else exists (
          select from unnest(tickers, starts, ends) as period (ticker, starts, ends)
            join public.historical_float_pro as filing using (ticker)
          where filing.outstanding_shares = counted.outstanding
            and filing.filed_at >= period.starts and filing.filed_at < period.ends
            and array_to_string(filing.source, ' ') like '%#us-gaap/CommonStockSharesOutstanding/%'
        )
      end as are_classes_unknown
    from counted left join lateral (
      select cover, instance.cik as cover_cik, filed_on, coalesce(counted.outstanding = (
          select sum((class ->> 'shares')::numeric) from jsonb_array_elements(cover -> 'classes') as class
        ), false) as is_sum
      from public.edgar_instances as instance
      where cover is not null and instance.cik in (
          select counted.cik
          union select counted.stated_by
          union select known.cik from public.company_symbols as known where known.alias = counted.symbol
        )
      order by is_sum desc, cik = counted.cik desc nulls last, filed_on desc, accession desc limit 1
    ) as newest on true
    cross join lateral (
      select exists (
        select from public.edgar_doubts as doubt
        where doubt.cik = cover_cik and dataset = 'historical_float_pro' and field = 'outstanding_shares'
          and decision = 'corrected' and decided = counted.outstanding::text
      ) as is_corrected
    ) as decisions
    -- Whether several classes of the company are listed, so that a total does not tell its value. If the row does not
    -- state the company, it is the one to which the SEC's list gave the symbol last.
    cross join lateral (
      select coalesce(bool_or(public.has_class_symbols(company.tickers) or (
        select count(distinct own.symbol) > 1
        from public.edgar_instances as stated cross join jsonb_array_elements(stated.cover -> 'classes') as class
          cross join lateral public.find_stated_symbol(company.cik, class ->> 'symbol') as own (symbol)
        where stated.cik = company.cik and own.symbol = any (company.tickers)
          and stated.filed_on > coalesce(counted.filed_at, counted.stated_on, newest.filed_on) - 400
      )), false) as are_listed
      from (
        select listed.* from public.edgar_companies as listed
        where listed.cik in (
          select counted.cik
          union select known.cik from public.company_symbols as known where known.alias = counted.symbol
        )
        order by listed.cik = counted.cik desc nulls last, counted.symbol = any (tickers) desc, listed_on desc limit 1
      ) as company
    ) as classes
  )
  select dataset, covered.symbol,
    case when class is null then covered.symbol else own_symbol end,
    case when not are_classes_unknown then coalesce(class ->> 'shares', outstanding::text)::numeric end,
    -- If `float_outstanding` has no date, uses the date in a filing with this count, then the date of the cover page,
    -- then the first day on which a row had the count.
    coalesce(
      covered.stated_on,
      filing.stated_on,
      (cover ->> 'date')::date,
      (
        select min(since)
        from unnest(tickers, owned_from, ends) as period (ticker, owned_from, ends)
          join public.share_counts as known using (ticker)
        where known.outstanding = covered.outstanding and since >= period.owned_from and since < period.ends
      )
    ),
    coalesce(covered.filed_at, filing.filed_at),
    assessed.counted_splits, is_receipt, unit.ads_ratio, unit.stated_on, ambiguous_before
  from covered
    -- The newest filing with this count, preferably one with a date: a number that is repeated without one may be a copy.
    -- If there is none, a filing that is listed under a symbol which the security adopted later or had given up. For
    -- example, vendors list old filings under the present symbol. The filing must have the company's CIK. If one of the
    -- two CIKs is unknown, there must be no sign that anybody traded under the symbol around its date.
    left join lateral (
      select coalesce(stated.reported_date, stated.filed_at) as stated_on, stated.filed_at
      from (
        select *, true as is_used from unnest(tickers, starts, ends) as used_period (ticker, starts, ends)
        union all
        select *, false from unnest(other_tickers, other_starts, other_ends) as other_period (ticker, starts, ends)
      ) as period
        join public.historical_float_pro as stated using (ticker)
        cross join lateral (
          select greatest(period.starts, coalesce(stated.reported_date, stated.filed_at) - 30) as first,
            least(period.ends - 1, coalesce(stated.reported_date, stated.filed_at) + 30) as last
        ) as around
      where (covered.stated_on is null or covered.filed_at is null) and stated.outstanding_shares = covered.outstanding
        and (covered.stated_on is null or covered.stated_on = coalesce(stated.reported_date, stated.filed_at))
        and stated.filed_at >= period.starts and stated.filed_at < period.ends
        and (is_used or coalesce(lpad(stated.cik, 10, '0') = covered.cik, not exists (
            select from public.price_periods as traded
            where traded.ticker = period.ticker and traded.date between around.first and around.last
          ) and not exists (
            select from public.daily_prices as traded
            where traded.ticker = period.ticker and traded.date between around.first and around.last
          )))
      order by is_used desc, stated.reported_date is null, stated_on desc, stated.filed_at desc limit 1
    ) as filing on true
    left join lateral (
      select assessment.counted_splits from public.edgar_assessments as assessment
      where assessment.outstanding = covered.outstanding and assessment.cik in (
          select covered.cik
          union select known.cik from public.company_symbols as known where known.alias = covered.symbol
        )
      order by assessment.cik = covered.cik desc nulls last limit 1
    ) as assessed on true
    left join lateral jsonb_array_elements(cover -> 'classes') as class
      on jsonb_array_length(cover -> 'classes') > 1
    -- A class has the close of its symbol only if the company has this symbol (D32), or the one that continues it, and no
    -- other class states it. If a ticker change has replaced the symbol since the cover page, the present one counts,
    -- even if the SEC's list does not contain it yet.
    left join lateral (
      select coalesce(renamed.symbol, written.symbol) as own_symbol
      from public.find_stated_symbol(covered.cover_cik, class ->> 'symbol') as written (symbol)
        left join renamed on renamed.ticker = written.symbol
          and (cover ->> 'date')::date >= renamed.starts and (cover ->> 'date')::date < renamed.ends
      where (
        select count(*) from jsonb_array_elements(cover -> 'classes') as other
        where other ->> 'symbol' = class ->> 'symbol'
      ) = 1 and coalesce((
        select owner.cik = covered.cover_cik or covered.symbol = any (owner.tickers)
        from public.company_symbols as known join public.edgar_companies as owner using (cik)
        where known.alias = coalesce(renamed.symbol, written.symbol) and known.alias = any (owner.tickers)
        order by owner.listed_on desc, owner.cik = covered.cover_cik desc limit 1
      ), renamed.symbol is not null)
    ) as stated on true
    left join lateral (
      select ratio.ads_ratio, ratio.stated_on
      from unnest(tickers, starts, ends, owned_from) as period (ticker, starts, ends, owned_from) cross join lateral (
        select current.ads_ratio, coalesce(reported_date, filed_at, last_updated::date) as stated_on, true as is_current
        from public.float_outstanding as current
        where current.ticker = period.ticker
          and coalesce(reported_date, filed_at, last_updated::date) >= period.owned_from
          and coalesce(reported_date, filed_at, last_updated::date) < period.ends
        union all
        select filing.ads_ratio, coalesce(reported_date, filed_at), false
        from public.historical_float_pro as filing
        where filing.ticker = period.ticker and filed_at >= period.starts and filed_at < period.ends
      ) as ratio
      where covered.is_receipt and ratio.ads_ratio is not null
      order by is_current desc, ratio.stated_on desc limit 1
    ) as unit on true
$$;

-- Returns the close of a symbol on a day, or null if none is known. Whatever reads closes from both `daily_prices` and
-- bars must use this function. The close in `daily_prices` takes precedence: a price ingest stores the closes of its
-- bars there, so a different one is a correction, which stays until bars for the symbol and day are ingested again.
-- Without `set search_path`, PostgreSQL can inline the function.
create function find_close(symbol text, day date) returns table (close numeric) language sql stable as $$
  select coalesce(
    (select known.close from public.daily_prices as known where known.ticker = symbol and known.date = day),
    (
      select bar.close from public.price_periods as bar
      where bar.ticker = symbol and bar.date = day and bar.period in ('regular', 'day')
      order by bar.period limit 1 -- 'day' comes first
    )
  )::numeric
$$;

-- Returns the newest close of the security that now uses each symbol, even if the security was traded under another
-- symbol on the day of that close. During a session, this is the price so far.
create function find_newest_closes(symbols text[], today date)
returns table (symbol text, security text, date date, close numeric)
-- Nested loops are disabled because PostgreSQL does not know the length of the array. For thousands of symbols, they
-- would compare every period with every other one.
language sql stable set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
  with periods as materialized (select * from public.security_periods(symbols, today)),
  -- The newest day with a close in each period. It is materialized so that it is computed once per period.
  dated as materialized (
    select security, ticker, greatest(
      (
        select bar.date from public.price_periods as bar
        where bar.ticker = period.ticker and bar.date >= period.starts and bar.date < period.ends
          and bar.period in ('regular', 'day')
        order by bar.date desc limit 1
      ),
      (
        select known.date from public.daily_prices as known
        where known.ticker = period.ticker and known.date >= period.starts and known.date < period.ends
        order by known.date desc limit 1
      )
    )::date as date
    from periods as period
  )
  select symbol, security, newest.date, found.close
  from (
    select distinct on (symbol) symbol, security, dated.ticker, dated.date
    from unnest(symbols) as symbol join periods as present on present.ticker = symbol and present.ends = 'infinity'
      join dated using (security)
    where dated.date is not null
    order by symbol, dated.date desc
  ) as newest cross join lateral public.find_close(newest.ticker, newest.date) as found
$$;

-- Returns the market capitalizations (D44) for the symbols' rows in `screener` and `float_outstanding`, and for the
-- rows of the same companies' other symbols. A market capitalization is the newest close times the number of shares as
-- of that day. Returns no row if the count or the close is unknown. If the market capitalization cannot be computed for
-- another reason, it is null, and `reason` explains why.
create function find_market_caps(symbols text[], today date)
returns table (dataset text, ticker text, market_cap numeric, reason text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive counts as materialized (
    select row_number() over () as id, counted.* from public.find_share_counts(array(
      select unnest(symbols)
      union
      select other.alias from public.company_symbols as known join public.company_symbols as other using (cik)
      where known.alias = any (symbols)
    ), today) as counted
  ),
  -- The companies whose symbols in the SEC's list are those of counts. If several companies have had a symbol, the one
  -- that had it last owns it (`is_owner`).
  listed as materialized (
    select company.*, rank() over (partition by symbol order by listed_on desc) = 1 as is_owner
    from (
      select unnest(tickers) as symbol, cik, listed_on, former_tickers, primary_since from public.edgar_companies
    ) as company
    where symbol in (select symbol from counts union select ticker from counts)
  ),
  histories as materialized (
    select * from public.security_periods(array(select distinct symbol from counts), today)
  ),
  -- The ticker changes that are not confirmed, and those that only the SEC's list shows, with the last possible day.
  -- Those that lineage knows, directly or by several changes, are left out.
  unconfirmed as materialized (
    select * from (
      select old_ticker, new_ticker, cik, effective_date from public.ticker_changes
      where status in ('estimated', 'backfill') and effective_date <= today
        and (old_ticker in (select symbol from counts) or new_ticker in (select ticker from histories))
      union
      select former, symbol, cik, coalesce(primary_since, today)
      from listed cross join unnest(former_tickers) as former where is_owner and former <> symbol
    ) as reported
    -- Unlike `not exists`, `not in` compares all rows at once.
    where (old_ticker, new_ticker) not in (
      select former.ticker, present.ticker from histories as former join histories as present using (security)
      where former.is_linked
    )
  ),
  -- The symbols that the security may have had before an unconfirmed change, until a day (`until`), if it is not before
  -- the first count (`since`). If many changes lead to a symbol, only the last ones are followed.
  possible as (
    select counted.symbol, old_ticker as ticker, effective_date as until, since
    from (
      select symbol, min(counted_on) - 5 as since from counts group by symbol
    ) as counted join histories as present on present.ticker = counted.symbol and present.ends = 'infinity'
      join histories as used using (security) join unconfirmed on new_ticker = used.ticker
    where effective_date < used.ends and effective_date > since
    union
    select symbol, change.old_ticker, change.effective_date, since
    from possible cross join lateral (
      select * from (
        -- Each of the two selects uses an index on the symbol. Without "offset 0", PostgreSQL would read the changes in
        -- the order of their days until three have the symbol.
        (
          select old_ticker, effective_date from public.ticker_changes
          where new_ticker = possible.ticker and status = 'confirmed' offset 0
        ) union all (
          select old_ticker, effective_date from public.ticker_changes
          where new_ticker = possible.ticker and status in ('estimated', 'backfill') offset 0
        )
      ) as former
      where effective_date < until and effective_date > since order by effective_date desc limit 3
    ) as change
  ),
  -- The last day (`passed_on`) on which the SEC's list gave the symbol to another company than now. If lineage does not
  -- know the change, closes and splits until then may be those of that company, unless the row shows by its sources that
  -- the company has inherited the count of the other one.
  passed as materialized (
    select owner.symbol, max(former.last_day) as passed_on
    from listed as owner join (
      select symbol, cik, listed_on as last_day from listed
      union all select primary_ticker, cik, primary_listed_on from public.edgar_companies
      union all select old_ticker, cik, effective_date - 1 from unconfirmed where cik is not null
    ) as former using (symbol)
    where former.cik <> owner.cik and former.last_day < owner.listed_on and symbol in (select symbol from counts)
      and not exists (
        select from public.float_outstanding as counted
        where counted.ticker = symbol and array_to_string(source, ' ') like '%/CIK' || former.cik || '%'
      )
      -- The SEC's list may follow a change that lineage knows weeks later.
      and not exists (
        select from public.eligible_changes(today) as known
        where known.old_ticker = symbol and known.effective_date > former.last_day - 100
      ) and not exists (
        select from public.eligible_changes(today) as known
        where known.new_ticker = symbol and known.effective_date > former.last_day - 100
      )
    group by owner.symbol
  ),
  -- The rows whose sources show that they are not those of the symbol's owner. All closes under the symbol may be the
  -- owner's, so `since` is minus infinity. If the company of the row has a new symbol, and nobody is known to have the
  -- old one, closes after `since`, the last day on which the company had it, may be somebody else's.
  taken as materialized (
    select dataset, ticker, min(case
        when owner.cik <> stated.cik then '-infinity'
        when owner.cik is null then company.primary_listed_on
      end) as since
    from (
      select dataset, ticker, substring(array_to_string(source, ' ') from '/submissions/CIK(\d{10})\.json') as cik
      from (
        select 'screener' as dataset, ticker, source from public.screener
        union all select 'float_outstanding', ticker, source from public.float_outstanding
      ) as listed_row
      where ticker in (select ticker from counts)
    ) as stated left join listed as owner on owner.symbol = ticker and owner.is_owner
      left join public.edgar_companies as company on company.cik = stated.cik and company.primary_ticker = ticker
    group by dataset, ticker having not coalesce(bool_or(owner.cik = stated.cik), false)
  ),
  -- The counts with the newest close of their security. The close is null if there is none. `has_unknown_splits` means
  -- that the count is from before an ambiguous ticker change, so that a split since then may be the security's or not.
  -- `other_until` is `passed_on` if the close or a split since the count is from before that day. `unconfirmed_on` is
  -- the day of a split since the count under a symbol that the company may have had.
  priced as materialized (
    select counts.*, newest.security, newest.date, newest.close, coalesce(newest.date > taken.since, false) as is_taken, case
        when newest.date <= passed_on or exists (
          select from public.split_status as split
          where split.ticker = symbol and split.effective_date > counted_on and split.effective_date <= passed_on
        ) then passed_on
      end as other_until, unconfirmed_on, counted_on < ambiguous_before and exists (
        select from public.split_status as split
        where split.effective_date > counted_on and split.effective_date <= ambiguous_before and split.ticker in (
          select symbol
          union all select old_ticker from public.eligible_changes(today) where new_ticker = symbol
        )
      ) as has_unknown_splits
    from counts left join public.find_newest_closes((select array_agg(distinct symbol) from counts), today) as newest
      using (symbol) left join passed using (symbol) left join taken using (dataset, ticker) left join (
        select counts.id, min(split.effective_date) as unconfirmed_on
        from counts join possible using (symbol) join public.split_status as split on split.ticker = possible.ticker
        where split.effective_date > counted_on and split.effective_date <= until + 5 and not exists (
          -- Some sources list a split under all symbols of the security.
          select from public.split_status as own
          where own.ticker = counts.symbol and own.split_from * split.split_to = own.split_to * split.split_from
            and abs(own.effective_date - split.effective_date) <= 5
        )
        group by counts.id
      ) as unclear using (id)
  ),
  -- The splits between the count, the ratio of a receipt, and the close, or around the date of the count. `is_counted`
  -- says whether the count is stated in the shares after the split. It is null if the split took place between the date
  -- of the count and its filing, and the ingest of filings has not found out whether the filing restated the count.
  crossed as (
    select id, is_receipt, date, split.*, case
        when counted_splits ? to_char(split.effective_date, 'YYYY-MM-DD')
          then (counted_splits ->> to_char(split.effective_date, 'YYYY-MM-DD'))::boolean
        when split.effective_date > counted_on and split.effective_date <= filed_on then null
        else split.effective_date <= coalesce(counted_on, date)
      end as is_counted
    from priced join public.security_splits((select array_agg(distinct symbol) from counts), today) as split
      using (security)
    where status <> 'repeated' and (counted_splits ? to_char(split.effective_date, 'YYYY-MM-DD')
      or split.effective_date > least(counted_on, ratio_on, date)
      and split.effective_date <= greatest(counted_on, filed_on, ratio_on, date))
  ),
  -- What is needed to restate the count as of the day of the close: the product of the ratios of the splits between the
  -- two days, or of the reverse ratios if the count is newer than the close.
  restated as (
    select id, min(effective_date) filter (where is_receipt) as split_on,
      min(effective_date) filter (where status = 'contradicted' and is_counted is distinct from effective_date <= date)
        as contradicted_on,
      min(effective_date) filter (where is_counted is null) as unclear_on,
      public.product(case when is_counted then split_from else split_to end)
        filter (where is_counted <> (effective_date <= date)) as multiplier,
      public.product(case when is_counted then split_to else split_from end)
        filter (where is_counted <> (effective_date <= date)) as divisor
    from crossed group by id
  ),
  -- One row for each row of the datasets: the sum over its share classes, and the reason why it cannot be computed.
  capped as (
    select dataset, ticker,
      round(sum(close * shares * coalesce(multiplier, 1) / coalesce(divisor, 1)
        / case when is_receipt then ads_ratio else 1 end), 2) as amount,
      case
        when count(*) = 1 and min(close) is null then 'no close'
        when min(contradicted_on) is not null
          then 'a split on ' || to_char(min(contradicted_on), 'YYYY-MM-DD') || ' whose ratio is unknown or contradicted'
        when bool_or(has_unknown_splits)
          then 'an ambiguous ticker history before ' || to_char(min(ambiguous_before), 'YYYY-MM-DD')
        when bool_or(is_taken) then 'another company that may have the symbol now'
        when min(other_until) is not null
          then 'another company that had the symbol until ' || to_char(min(other_until), 'YYYY-MM-DD')
        when min(unconfirmed_on) is not null
          then 'a split on ' || to_char(min(unconfirmed_on), 'YYYY-MM-DD') || ' before an unconfirmed ticker change'
        when bool_or(shares is null) then 'an unknown number of shares of each class'
        when bool_or(is_receipt and ads_ratio is null) then 'an unknown number of shares per receipt'
        -- The split can be one of the shares, or a change in the number of shares per receipt. Records do not tell
        -- which, so the number of shares per receipt is unknown.
        when min(split_on) is not null then 'a split of receipts on ' || to_char(min(split_on), 'YYYY-MM-DD')
        when min(unclear_on) is not null
          then 'a split on ' || to_char(min(unclear_on), 'YYYY-MM-DD') || ', which the share count may include already'
        when count(close) < count(*) or min(date) < max(date) - 30
          then 'a class of shares without a close'
      end as reason
    from priced left join restated using (id) group by dataset, ticker
  )
  select dataset, ticker, case when reason is null then amount end, reason
  from capped
  -- An amount that does not fit the column results from an impossible number of shares.
  where reason is distinct from 'no close' and (reason is not null or amount < 1e18)
$$;

-- Writes market capitalizations returned by `find_market_caps` to the rows of `float_outstanding` and `screener` that
-- have another value.
create function store_market_caps(caps jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  name    text;
  changed text[];
begin
  foreach name in array array['float_outstanding', 'screener'] loop
    execute format($sql$select array_agg(ticker)
      from jsonb_to_recordset($1) as cap (dataset text, ticker text, market_cap numeric)
        join public.%1$I as listed using (ticker)
      where dataset = %1$L and listed.market_cap is distinct from cap.market_cap$sql$, name) into changed using caps;
    -- Even an update that matches no rows would change the dataset's version and invalidate cached responses.
    continue when changed is null;
    execute format($sql$update public.%1$I as listed set market_cap = cap.market_cap
      from jsonb_to_recordset($1) as cap (dataset text, ticker text, market_cap numeric)
      where dataset = %1$L and listed.ticker = cap.ticker and listed.ticker = any ($2)$sql$, name) using caps, changed;
  end loop;
end $$;

-- Returns rules that determine which closes belong to a dataset row, based on its symbol, day and CIK (D32). The rules
-- cover all symbols of the components that the given changes form. If a row's symbol is `symbol`, its day is at least
-- `since` and before `until`, and its CIK satisfies `rule`, it gets the closes of `ticker` from `starts` until before
-- `ends`. If no rule gives a row any closes, the row may belong to a company whose symbols are missing in the lineage.
-- The values of `rule`:
-- - `same`: the row's CIK is `cik`.
-- - `unknown`: the row's CIK or `cik` is null.
-- - `same or unknown`: one of these two conditions is true.
-- - `other`: the row's CIK is not null, and is not `cik`.
-- - `untraded`: like `unknown`, but only if `symbol` has no close between `since` and `until` near the row's day. A
--   close would mean that someone used the symbol then, and lineage does not show who.
create function find_row_periods(old_tickers text[], new_tickers text[], days date[], ciks text[])
returns table (
  symbol text, cik text, rule text, since date, until date, ticker text, starts date, ends date
)
language sql stable set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
  with recursive changes as materialized (
    -- A change that is recorded both with and without a CIK counts as having the CIK (D20).
    select distinct old_ticker, new_ticker, day, cik
    from (
      select *, bool_or(cik is not null) over (partition by old_ticker, new_ticker, day) as has_cik
      from unnest(old_tickers, new_tickers, days, ciks) as input (old_ticker, new_ticker, day, cik)
    ) as input
    where cik is not null or not has_cik
  ),
  periods as materialized (
    select * from public.trace_securities('{}', old_tickers, new_tickers, days, ciks)
  ),
  -- The symbols of each security whose changes form a chain, each with the day on which the security gave it up.
  members as materialized (
    select distinct ticker as symbol, security, cik, given_up
    from (select *, max(ends) over (partition by ticker, security) as given_up from periods) as periods
    where is_linked
  ),
  -- The changes of components that are not chains.
  unclear as materialized (
    select changes.* from changes
    where exists (select from periods where is_ambiguous and periods.ticker = changes.old_ticker)
  ),
  -- Where lineage is ambiguous, the changes of a single issuer may still form a chain (D21, candidates). Before
  -- tracing, each symbol is prefixed with the issuer's ten-digit CIK, so that changes of different issuers are not
  -- connected.
  issued as materialized (
    select left(period.ticker, 10) as cik, substr(period.ticker, 12) as ticker, starts, ends, security, is_linked,
      is_ambiguous
    from (
      select array_agg(cik || ' ' || old_ticker) as old_tickers, array_agg(cik || ' ' || new_ticker) as new_tickers,
        array_agg(day) as days
      from unclear where cik is not null having count(*) > 0
    ) as prefixed cross join lateral public.trace_securities(
      '{}', prefixed.old_tickers, prefixed.new_tickers, prefixed.days, null
    )
      as period
  ),
  -- The symbols of components without candidates. A component has candidates only if all of its changes have an issuer,
  -- and the changes of each issuer form a chain.
  without_candidates (symbol) as (
    (
      select old_ticker from unclear where cik is null
      union select ticker from issued where is_ambiguous
    )
    union
    select neighbour from without_candidates join (
      select old_ticker as symbol, new_ticker as neighbour from unclear
      union select new_ticker, old_ticker from unclear
    ) as connected using (symbol)
  ),
  -- The periods of the chains of single issuers, in components with candidates.
  candidates as materialized (
    select cik, ticker, starts, ends, security
    from issued where is_linked and not exists (select from without_candidates where symbol = issued.ticker)
  ),
  -- The periods of the candidates' symbols. They are shortened at changes of other issuers, because another company may
  -- have used the symbol before, or from a later day on.
  candidate_periods as (
    select candidates.security, candidates.cik, candidates.ticker,
      greatest(starts, max(day) filter (where old_ticker = candidates.ticker and day < ends)) as starts,
      least(ends, min(day) filter (where new_ticker = candidates.ticker and day >= starts)) as ends
    from candidates left join (
      select old_ticker as symbol, * from unclear union all select new_ticker, * from unclear
    ) as change on change.symbol = candidates.ticker and change.cik <> candidates.cik
    group by candidates.security, candidates.cik, candidates.ticker, candidates.starts, candidates.ends
  )
  -- A row with the CIK of the security's issuer gets the closes of the whole security.
  select symbol, members.cik, 'same', date '-infinity', date 'infinity', ticker, starts, ends
  from members join (select security, ticker, starts, ends from periods) as own using (security)
  where members.cik is not null
  union all
  -- For rows without a CIK: filings from before the company adopted the symbol may be listed under the symbol.
  select symbol, members.cik, case when used.is_linked then 'unknown' else 'untraded' end, used.starts, used.ends,
    own.ticker, own.starts, own.ends
  from members join periods as used on used.ticker = symbol and used.starts < given_up
    join periods as own on own.security = members.security
  union all
  -- A row from after the company gave up the symbol belongs to another company, unless its CIK shows otherwise.
  select symbol, members.cik, 'unknown', starts, ends, symbol, starts, ends
  from members join periods on periods.ticker = symbol and not is_linked
  where starts >= given_up
  union all
  -- A row with another CIK gets the closes under its symbol from periods in which the security did not use the symbol.
  select symbol, members.cik, 'other', starts, ends, symbol, starts, ends
  from members join periods on periods.ticker = symbol and not is_linked
  where members.cik is not null
  union all
  -- Where lineage is ambiguous, a row with the CIK of a candidate gets the closes of the candidate's chain.
  select symbol, cik, 'same', '-infinity', 'infinity', ticker, starts, ends
  from (select distinct ticker as symbol, security from candidates) as listed join candidate_periods using (security)
  union all
  -- Only the company of the last change is known to have used the symbol since that change.
  select periods.ticker, newest.cik, 'same or unknown', starts, ends, periods.ticker, starts, ends
  from periods join (
    select new_ticker as ticker, day as starts, min(cik) as cik from changes group by 1, 2 having count(*) = 1
  ) as newest using (ticker, starts)
  where is_ambiguous and ends = 'infinity'
$$;

-- Changes to ticker changes, splits, closes and share counts since the last price ingest, unless a price ingest made
-- them. The next price ingest deletes these rows and recomputes everything that depends on the changes. For
-- `ticker_changes` and `split_status`, that is all sessions of the securities. For `daily_prices`, it is the sessions
-- from `day` until some time after `last_day`. For `screener` and `float_outstanding`, it is the values that are
-- computed from prices in their rows. The table has no key. With a key, a writer would wait for an ingest that is
-- deleting a row with the same symbol, and could deadlock.
create table price_corrections (
  dataset     text not null,
  ticker      ticker not null,
  -- The first day that the change affects.
  day         fact_day,
  last_day    fact_day,
  -- For a change to `ticker_changes`, the row's other symbol.
  counterpart ticker
);

-- A trigger function for `ticker_changes` and `split_status`. Records in `price_corrections` the symbol and day of each
-- row that a statement has added, changed or removed.
create function note_price_corrections() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- A row of `ticker_changes` has two symbols, and so adds two rows here, each with the other symbol as `counterpart`;
  -- a row of `split_status` adds one. Only the branch for truncation uses dynamic SQL, which is planned on every call:
  -- a truncation has no transition table, so the statement must name the dataset's table.
  if tg_op = 'TRUNCATE' then
    execute format($sql$
      insert into public.price_corrections (dataset, ticker, day, counterpart)
      select $1, cells ->> name, effective_date, cells ->> counterpart
      from %s as changed cross join to_jsonb(changed) as cells cross join (
        values ('ticker', null), ('old_ticker', 'new_ticker'), ('new_ticker', 'old_ticker')
      ) as symbols (name, counterpart)
      where cells ? name
    $sql$, tg_relid::regclass) using tg_table_name;
  else
    insert into public.price_corrections (dataset, ticker, day, counterpart)
    select tg_table_name, cells ->> name, effective_date, cells ->> counterpart
    from changed cross join to_jsonb(changed) as cells cross join (
      values ('ticker', null), ('old_ticker', 'new_ticker'), ('new_ticker', 'old_ticker')
    ) as symbols (name, counterpart)
    where cells ? name;
  end if;
  return null;
end $$;

-- Returns whether a statement's changes to closes and counts must be recorded in `price_corrections`. Without bars,
-- nothing depends on closes or counts. A price ingest recomputes everything that depends on its own changes, so it sets
-- `tickerline.ingests_prices` in its transaction, and nothing is recorded.
create function are_closes_noted() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select current_setting('tickerline.ingests_prices', true) is distinct from 'on'
    and exists (select from public.price_periods)
$$;

-- A trigger function for `daily_prices`. Records in `price_corrections` the symbols whose closes a statement has added,
-- changed or removed, each with the first and the last day.
create function note_changed_closes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not public.are_closes_noted() then return null; end if;
  case tg_op
    when 'UPDATE' then
      insert into public.price_corrections
      select tg_table_name, ticker, min(date), max(date)
      from (
        (select ticker, date, close from changed except select ticker, date, close from former)
        union all
        (select ticker, date, close from former except select ticker, date, close from changed)
      ) as differing
      group by ticker;
    when 'TRUNCATE' then
      insert into public.price_corrections
      select tg_table_name, ticker, min(date), max(date) from public.daily_prices group by ticker;
    else
      insert into public.price_corrections
      select tg_table_name, ticker, min(date), max(date) from changed group by ticker;
  end case;
  return null;
end $$;

-- A trigger function. Records the symbols of all rows in `screener` and `float_outstanding` that were added, changed or
-- removed, because their values computed from prices may be missing or wrong. Does the same for the filings in
-- `historical_float_pro`, because market capitalizations depend on their dates and ratios.
create function note_changed_counts() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not public.are_closes_noted() then return null; end if;
  case tg_op
    when 'UPDATE' then
      insert into public.price_corrections (dataset, ticker)
      select tg_table_name, cells ->> 'ticker' from (
        select to_jsonb(changed) - 'last_updated' as cells from changed
        except select to_jsonb(former) - 'last_updated' from former
      ) as differing;
    when 'TRUNCATE' then
      execute format($sql$
        insert into public.price_corrections (dataset, ticker) select distinct $1, ticker from %s
      $sql$, tg_relid::regclass) using tg_table_name;
    else
      insert into public.price_corrections (dataset, ticker) select distinct tg_table_name, ticker from changed;
  end case;
  return null;
end $$;

-- A trigger function. Removes the market capitalization that was computed from a number of shares, when a row loses that
-- number. Otherwise, the row would keep it, because nothing is computed without a number of shares.
create function remove_uncounted_cap() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.market_cap := null;
  return new;
end $$;

-- `changed` contains the rows that a statement wrote. For `ticker_changes` and `split_status`, an update has two
-- triggers, for the rows before and after it, because it may change the symbols.
do $$
declare
  dataset text;
begin
  foreach dataset in array array['ticker_changes', 'split_status'] loop
    execute format($sql$
      create trigger note_prices_after_insert after insert on %1$I referencing new table as changed
        for each statement execute function note_price_corrections();
      create trigger note_prices_after_update_of after update on %1$I referencing old table as changed
        for each statement execute function note_price_corrections();
      create trigger note_prices_after_update_to after update on %1$I referencing new table as changed
        for each statement execute function note_price_corrections();
      create trigger note_prices_after_delete after delete on %1$I referencing old table as changed
        for each statement execute function note_price_corrections();
      create trigger note_prices_before_truncate before truncate on %1$I
        for each statement execute function note_price_corrections();
    $sql$, dataset);
  end loop;
  create trigger note_prices_after_insert after insert on daily_prices referencing new table as changed
    for each statement execute function note_changed_closes();
  create trigger note_prices_after_update after update on daily_prices
    referencing old table as former new table as changed
    for each statement execute function note_changed_closes();
  create trigger note_prices_after_delete after delete on daily_prices referencing old table as changed
    for each statement execute function note_changed_closes();
  create trigger note_prices_before_truncate before truncate on daily_prices
    for each statement execute function note_changed_closes();
  foreach dataset in array array['screener', 'float_outstanding', 'historical_float_pro'] loop
    execute format($sql$
      create trigger note_prices_after_insert after insert on %1$I referencing new table as changed
        for each statement execute function note_changed_counts();
      create trigger note_prices_after_update after update on %1$I
        referencing old table as former new table as changed
        for each statement execute function note_changed_counts();
      create trigger note_prices_after_delete after delete on %1$I referencing old table as changed
        for each statement execute function note_changed_counts();
      create trigger note_prices_before_truncate before truncate on %1$I
        for each statement execute function note_changed_counts();
    $sql$, dataset);
  end loop;
  foreach dataset in array array['screener', 'float_outstanding'] loop
    execute format($sql$
      create trigger remove_uncounted_cap before update on %1$I for each row
        when (old.outstanding is not null and new.outstanding is null and new.market_cap = old.market_cap)
        execute function remove_uncounted_cap();
    $sql$, dataset);
  end loop;
end $$;

revoke execute on function note_price_corrections, note_changed_closes, note_changed_counts, are_closes_noted,
  remove_uncounted_cap from public;
