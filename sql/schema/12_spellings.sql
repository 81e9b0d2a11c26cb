-- The same symbol can be spelled in several ways (D41: spelling of symbols). A dot and a hyphen are the same separator:
-- BRK.B and BRK-B are one symbol. The consolidated tape marks warrants and units with WS and U, and the SEC marks them
-- with WT and UN: ACHR.WS and ACHR-WT are one symbol. All tables use one spelling of each symbol, the one that was
-- stored first, no matter which program writes. Statements can therefore compare symbols with `=`, and a symbol cannot
-- have several rows that differ only in spelling.

-- Returns a key that is the same for all spellings of a symbol. `toSymbolKey` does the same in TypeScript.
create function symbol_key(symbol text) returns text language sql immutable strict parallel safe
return regexp_replace(regexp_replace(replace(symbol, '.', '-'), '-WS$', '-WT'), '-U$', '-UN');

-- The spelling of each symbol that contains a separator. A row is never changed or deleted, even if no dataset contains
-- the symbol anymore, because rows in the history still use the spelling.
create table symbol_spellings (
  -- The result of `symbol_key`, which is the same for all spellings of a symbol.
  key      text primary key,
  spelling ticker not null,
  check (key = symbol_key(spelling))
);

-- A trigger function. Rejects updates and deletions of stored spellings.
create function refuse_respelling() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise restrict_violation using message = 'the spelling of a symbol cannot change, because the history has it';
end $$;

create trigger refuse_respelling before update or delete or truncate on symbol_spellings
  for each statement execute function refuse_respelling();

-- Returns the spelling of a symbol that the tables use. If no spelling is stored, returns the symbol unchanged.
create function stored_symbol(symbol text) returns text language sql stable strict parallel safe
set search_path = pg_catalog, pg_temp
return coalesce((select spelling from public.symbol_spellings where key = public.symbol_key(symbol)), symbol);

-- Returns the spelling under which a symbol must be stored. If the symbol is new, stores the given spelling. The table
-- lock makes a concurrent transaction with another new symbol wait for this one. With one lock per symbol, two
-- transactions that add the same symbols in a different order could deadlock. `enable_seqscan` is off because
-- PostgreSQL keeps a statement's plan for a whole load. A plan made while the table is small would otherwise scan the
-- whole table for each new symbol.
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
  -- Because this is a separate statement, it also sees a spelling that another transaction stored while this one waited
  -- for the lock.
  return (select spelling from public.symbol_spellings where key = public.symbol_key(symbol));
end $$;

-- A trigger function. Replaces the symbols in the columns that the trigger's arguments name with the spellings from
-- `symbol_spellings`.
create function spell_symbols() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  new_values jsonb := to_jsonb(new);
  result     jsonb := '{}';
  name       text;
begin
  foreach name in array tg_argv loop
    result := result || jsonb_build_object(name, case jsonb_typeof(new_values -> name)
      when 'array' then (
        select coalesce(jsonb_agg(public.spell_symbol(symbol) order by number), '[]')
        from jsonb_array_elements_text(new_values -> name) with ordinality as element (symbol, number)
      )
      else to_jsonb(public.spell_symbol(new_values ->> name))
    end);
  end loop;
  return jsonb_populate_record(new, result);
end $$;

-- Creates a trigger on a table that replaces the symbols in columns of type `ticker` or `tickers` with their stored
-- spellings. The trigger's condition avoids function calls for rows whose symbols contain no separator. Triggers run in
-- alphabetical order, and the name `apply_spellings` sorts before the triggers that compare an updated row with its
-- previous version.
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
      -- Makes the trigger fire for rows from logical replication, too.
      alter table %1$s enable always trigger apply_spellings;
    $sql$, spelled, string_agg(quote_ident(name), ', '),
      string_agg(format($sql$new.%I::text ~ '[.-]'$sql$, name), ' or '), string_agg(quote_literal(name), ', '))
    from unnest(columns) as name
  );
end $$;

revoke execute on function spell_symbol, spell_symbols, keep_spellings from public;
