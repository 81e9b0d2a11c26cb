-- Citus is not to be had here. What its documentation says that it refuses is refused here too, and nothing more is done.
create table public.citus_placed (name regclass primary key, kind text not null, colocated_with text);

create function public.citus_refuse(name regclass, col text) returns void language plpgsql as $$
declare
  found text;
begin
  if exists (select from public.citus_placed as placed where placed.name = citus_refuse.name) then
    raise exception 'table % is already distributed', name;
  end if;
  select tgname into found from pg_trigger where tgrelid = name and not tgisinternal limit 1;
  if found is not null then
    raise exception 'cannot distribute relation % because it has triggers: %', name, found;
  end if;
  select conname into found from pg_constraint where contype = 'f' and (conrelid = name or confrelid = name) limit 1;
  if found is not null then
    raise exception 'foreign key % between a distributed and a local table', found;
  end if;
  if col is null then return; end if;
  if not exists (select from pg_attribute where attrelid = name and attname = col and attnotnull) then
    raise exception 'column % of % is not there, or may be null', col, name;
  end if;
  select indexrelid::regclass::text into found from pg_index
  where indrelid = name and (indisunique or indisexclusion) and not exists (
    select from pg_attribute where attrelid = name and attname = col and attnum = any (indkey::int2[])
  ) limit 1;
  if found is not null then
    raise exception 'cannot create constraint on %: % does not include the distribution column %', name, found, col;
  end if;
end $$;

create function public.create_distributed_table(name regclass, col text, colocate_with text default 'default')
returns void language plpgsql as $$
begin
  perform public.citus_refuse(name, col);
  if colocate_with not in ('default', 'none')
    and not exists (select from public.citus_placed as placed where placed.name = colocate_with::regclass) then
    raise exception 'relation % is not distributed', colocate_with;
  end if;
  insert into public.citus_placed values (name, 'by ' || col, colocate_with);
end $$;

create function public.create_reference_table(name regclass) returns void language plpgsql as $$
begin
  perform public.citus_refuse(name, null);
  insert into public.citus_placed values (name, 'everywhere', null);
end $$;
