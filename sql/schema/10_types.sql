-- The extension, the types and the functions that tables need, and what the roles of the service may do.
--
-- The domains have the bounds of the values that tables accept, whichever program writes them (D34, D42). They are only
-- here: `load` and the ingests read them from the view `domain_bounds`. NaN is above every number. A domain's base type
-- is what clients and indexes see. An array of a domain would be a type of its own, so lists are domains over arrays of
-- base types. A null is in every domain; `not null` stands at the column.

-- Trigram indexes serve substring filters. The extension is trusted, so the database owner may create it.
create extension if not exists pg_trgm;

-- A symbol, as rows have it (D6).
create domain ticker as text check (value ~ '^[A-Z0-9.^-]{1,16}$');
create domain tickers as text[];
-- The SEC's number of a company, with its leading zeros.
create domain cik as text check (value ~ '^[0-9]{10}$');
-- USD per share.
create domain price as numeric(18, 4) check (value between 0.0001 and 9999999);
create domain floor_price as numeric(18, 3) check (value between 0.001 and 9999999);
-- Shares of a split, or shares that a receipt stands for.
create domain ratio as numeric(18, 4) check (value between 0.0001 and 99999999999999.9999);
-- USD of an offering or a volume.
create domain dollars as numeric(20, 2) check (value between 0 and 999999999999999999.99);
-- USD that were computed, such as the value of a company.
create domain valuation as numeric(20, 2) check (value between -999999999999999999.99 and 999999999999999999.99);
-- Shares, alone or as a volume. At most 2^53-1, so that JSON can represent it.
create domain quantity as bigint check (value between 0 and 9007199254740991);
-- Events, trades or minutes.
create domain tally as bigint check (value between 0 and 9007199254740991);
-- A percentage, a fraction or a multiple. May be negative.
create domain figure as numeric(18, 4) check (value between -99999999999999.9999 and 99999999999999.9999);
create domain fact_day as date check (value between '1900-01-01' and '2199-12-31');
-- A time in New York, as clocks there show it (D15).
create domain wall_time as timestamp(3) check (value between '1900-01-01 00:00:00' and '2199-12-31 23:59:59.999');
-- The same days at the offset -05:00, with which instants are printed.
create domain instant as timestamptz(3)
  check (value between '1900-01-01 00:00:00-05' and '2199-12-31 23:59:59.999-05');
-- A text of a column that is never missing. An empty text would be a missing value, which is null (D16).
create domain filled_text as text check (value <> '');
create domain risk_level as text check (value in ('high', 'medium', 'low'));
-- A list without nulls and nested lists, which responses could not represent. The list `source` of a table has a link
-- per document that a row comes from; the fragment names the element or fact (decision 0106).
create domain text_list as text[] check (
  coalesce(array_ndims(value) = 1 and array_lower(value, 1) = 1, true) and array_position(value, null) is null
);

-- The least and the greatest value of each domain over numbers, days or times, as text.
create view domain_bounds as
select contypid as domain, bounds[1] as least, bounds[2] as greatest
from pg_constraint cross join lateral regexp_match(
  pg_get_constraintdef(pg_constraint.oid), 'VALUE >= [('']*([^)'']+).*VALUE <= [('']*([^)'']+)'
) as bounds
where contypid <> 0 and bounds is not null;

-- Joins a text array into one text for substring indexes. PostgreSQL's array_to_string is not marked immutable,
-- because it accepts any element type; for text elements it is immutable.
create function joined(list text[]) returns text language sql immutable strict parallel safe
return array_to_string(list, E'\n');

-- Lower-cases the elements of an array, for filters that ignore case (D33), whose indexes are named `any_case`. The
-- array's text form is converted twice as fast as each element. Quotes and escapes have no letters; NULL has no case.
create function lowered(list text[]) returns text[] language sql immutable strict parallel safe
return lower(list::text)::text[];

-- Combines the ratios of several splits.
create aggregate product (numeric) (sfunc = numeric_mul, stype = numeric);

-- Makes an index on each of the columns, followed by the sort order of the list that it serves, if there is one.
-- Columns with few distinct values need the order: with it, a page is one range of the index.
create function index_each(indexed regclass, columns text[], sort_order text default null, any_case bool default false)
returns void language plpgsql as $$
begin
  execute (
    select string_agg(case when any_case
      then format('create index %1$s_%2$s_any_case_idx on %1$s (%3$s)', indexed, name,
        concat_ws(', ', format('lower(%s)', name), sort_order))
      else format('create index on %s (%s)', indexed, concat_ws(', ', name, sort_order)) end, ';' order by place)
    from unnest(columns) with ordinality as listed (name, place)
  );
end $$;

-- Creates the partition for a month of UTC, unless it exists. `create table … partition of` would block readers.
create function create_month_partition(whole regclass, month date) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  part text := whole || to_char(month, '_YYYY_MM');
begin
  if to_regclass(part) is not null then return; end if;
  execute format('create table %s (like %s including all)', part, whole);
  execute format('alter table %s attach partition %s for values from (%L) to (%L)', whole, part,
    to_char(month, 'YYYY-MM-DD"Z"'), to_char(month + interval '1 month', 'YYYY-MM-DD"Z"'));
end $$;

-- Returns the earliest month that has a partition. `materialized`: months are parsed from names of partitions only.
create function earliest_month(whole regclass) returns date
language sql stable set search_path = pg_catalog, pg_temp as $$
  with parts as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = whole
  )
  select min(to_date(right(relname, 7), 'YYYY_MM')) from parts
$$;

revoke execute on function index_each, create_month_partition, earliest_month from public;

-- What the roles may do to which `grant ROLE` gives privileges (docs/operations/deployment.md): the roles of the
-- service, and that of the admin API. Each file ends with the grants of what it creates. Both may read all tables and
-- views but those with the privilege `no select`.
create table role_privileges (
  purpose   text not null check (purpose in ('service', 'admin')),
  -- As in `grant`, such as `insert, update (holder, until)`.
  privilege text not null,
  -- The schema and the name of a table or function.
  object    text not null,
  primary key (purpose, object, privilege)
);

-- `doctor` reads it as a role to which nothing was granted.
grant select on role_privileges to public;
