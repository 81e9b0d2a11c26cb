-- How symbols are spelled (D41: spelling of symbols). A dot and a hyphen in a symbol are one separator: BRK.B is BRK-B.
-- The consolidated tape marks warrants and units by WS and U, the SEC by WT and UN: ACHR.WS is ACHR-WT. The tables have
-- one spelling of each symbol, whichever program writes: the one that was stored first. Statements can therefore compare
-- symbols with `=`, and a key cannot have a row for each spelling.

-- Returns the text that all spellings of a symbol have in common, like `toSymbolKey`.
create function symbol_key(symbol text) returns text language sql immutable strict parallel safe
return regexp_replace(regexp_replace(replace(symbol, '.', '-'), '-WS$', '-WT'), '-U$', '-UN');

-- Symbols without a separator have no row. A spelling never changes, and its row stays when the last row with the
-- symbol is removed, because rows in the history have the spelling.
create table symbol_spellings (
  -- Equal for all spellings of a symbol.
  key      text primary key,
  spelling ticker not null,
  check (key = symbol_key(spelling))
);

create function refuse_respelling() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise restrict_violation using message = 'the spelling of a symbol cannot change, because the history has it';
end $$;

create trigger refuse_respelling before update or delete or truncate on symbol_spellings
  for each statement execute function refuse_respelling();

-- Returns a symbol in the spelling that the tables use. If no table has the symbol, returns it unchanged.
create function stored_symbol(symbol text) returns text language sql stable strict parallel safe
set search_path = pg_catalog, pg_temp
return coalesce((select spelling from public.symbol_spellings where key = public.symbol_key(symbol)), symbol);

-- Returns how to spell a symbol that is about to be stored, and keeps the spelling if it is the first one. The lock
-- makes a concurrent transaction that also has a new symbol wait for this one. With a lock per symbol instead, two
-- transactions with the same new symbols in different orders would deadlock. PostgreSQL keeps the plan of a statement
-- for a whole load; with few symbols before, it would otherwise be one that scans the table for each new symbol.
create function spell_symbol(symbol text) returns text
language plpgsql strict security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  known text;
begin
  if symbol !~ '[.-]' then return symbol; end if;
  select spelling into known from public.symbol_spellings where key = public.symbol_key(symbol);
  if found then return known; end if;
  lock table public.symbol_spellings in share row exclusive mode;
  insert into public.symbol_spellings values (public.symbol_key(symbol), symbol) on conflict do nothing;
  -- A separate statement also sees a spelling that another transaction stored while this one waited for the lock.
  return (select spelling from public.symbol_spellings where key = public.symbol_key(symbol));
end $$;

-- Spells the symbols in the columns that the arguments name.
create function spell_symbols() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  given  jsonb := to_jsonb(new);
  result jsonb := '{}';
  name   text;
begin
  foreach name in array tg_argv loop
    result := result || jsonb_build_object(name, case jsonb_typeof(given -> name)
      when 'array' then (
        select coalesce(jsonb_agg(public.spell_symbol(symbol) order by place), '[]')
        from jsonb_array_elements_text(given -> name) with ordinality as listed (symbol, place)
      )
      else to_jsonb(public.spell_symbol(given ->> name))
    end);
  end loop;
  return jsonb_populate_record(new, result);
end $$;

-- Keeps one spelling of each symbol in the columns of a table whose domain is `ticker` or `tickers`. Because of
-- its condition, the trigger calls no function for rows without a separator. Its name sorts before the names of the
-- triggers that compare an updated row with the previous one, so it runs first.
create function keep_spellings(spelled regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  columns text[] := array(
    select attname from pg_attribute
    where attrelid = spelled and attnum > 0 and not attisdropped
      and atttypid in ('public.ticker'::regtype, 'public.tickers'::regtype)
    order by attnum
  );
begin
  if columns = '{}' then return; end if;
  execute (
    select format($sql$
      create or replace trigger apply_spellings before insert or update of %2$s on %1$s for each row
        when (%3$s) execute function public.spell_symbols(%4$s);
      -- Also during logical replication.
      alter table %1$s enable always trigger apply_spellings;
    $sql$, spelled, string_agg(quote_ident(name), ', '),
      string_agg(format($sql$new.%I::text ~ '[.-]'$sql$, name), ' or '), string_agg(quote_literal(name), ', '))
    from unnest(columns) as name
  );
end $$;

revoke execute on function spell_symbol, spell_symbols, keep_spellings from public;
