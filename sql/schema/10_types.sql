-- The extension, types and functions that tables need, and the privileges of the service's roles.
--
-- The domains set the bounds of the values that tables accept, whichever program writes them (D34, D42). No other code
-- repeats the bounds: `load` and the ingests read them from the view `domain_bounds`. An upper bound also excludes NaN,
-- which PostgreSQL sorts above every number. Clients and indexes only see a domain's base type. An array of a domain
-- would be a different type to them, so lists are domains over arrays of base types. Every domain accepts null; columns
-- that do not are declared `not null`.

-- Trigram indexes support substring filters. The extension is trusted, so the database owner may create it.
create extension if not exists pg_trgm;

-- A ticker symbol, as rows contain it (D6).
create domain ticker as text check (value ~ '^[A-Z0-9.^-]{1,16}$');
create domain tickers as text[];
-- The SEC's number for a company, with leading zeros.
create domain cik as text check (value ~ '^[0-9]{10}$');
-- The CIK in a column that has it as a file spelled it, such as 1067983 or CIK0001067983. Null if the text is none.
create function normal_cik(written text) returns text language sql immutable parallel safe as $$
  select lpad(substring(written from '^(?:CIK)?0*([0-9]{1,10})$'), 10, '0')
$$;
-- USD per share.
create domain price as numeric(18, 4) check (value between 0.0001 and 9999999);
create domain floor_price as numeric(18, 3) check (value between 0.001 and 9999999);
-- The shares of a split, or the shares that one depositary receipt stands for.
create domain ratio as numeric(18, 4) check (value between 0.0001 and 99999999999999.9999);
-- USD, of an offering, of trading volume, or of all shares of a company.
create domain dollars as numeric(20, 2) check (value between 0 and 999999999999999999.99);
-- A computed amount in USD, which may be negative: what a company may still offer.
create domain valuation as numeric(20, 2) check (value between -999999999999999999.99 and 999999999999999999.99);
-- A number of shares, outstanding or traded. At most 2^53-1, so that JSON can represent it.
create domain quantity as bigint check (value between 0 and 9007199254740991);
-- A count of events, trades or minutes.
create domain tally as bigint check (value between 0 and 9007199254740991);
-- A percentage or a multiple that may be negative, such as debt divided by a negative equity.
create domain figure as numeric(18, 4) check (value between -99999999999999.9999 and 99999999999999.9999);
-- A part or a multiple of a number that is not negative: a fraction of the shares, or a volume divided by another.
create domain proportion as numeric(18, 4) check (value between 0 and 99999999999999.9999);
-- By how much a price or a volume has changed, in %. It can lose no more than all of its value.
create domain change as numeric(18, 4) check (value between -100 and 99999999999999.9999);
create domain fact_day as date check (value between '1900-01-01' and '2199-12-31');
-- A wall-clock time in New York (D15).
create domain wall_time as timestamp(3) check (value between '1900-01-01 00:00:00' and '2199-12-31 23:59:59.999');
-- An instant, within the same range of days at UTC-05:00, the offset with which instants are printed.
create domain instant as timestamptz(3)
  check (value between '1900-01-01 00:00:00-05' and '2199-12-31 23:59:59.999-05');
-- Text in a column that always has a value. An empty text would count as missing, and missing values are null (D16).
create domain filled_text as text check (value <> '');
create domain risk_level as text check (value in ('high', 'medium', 'low'));
-- A list without nulls and nested lists, which responses cannot represent. A table's `source` lists a link to each
-- document that a row is based on; the link's fragment names the element or fact (decision 0106).
create domain text_list as text[] check (
  coalesce(array_ndims(value) = 1 and array_lower(value, 1) = 1, true) and array_position(value, null) is null
);

-- The lower and the upper bound of each domain of numbers, days or times, as text.
create view domain_bounds as
select contypid as domain, bounds[1] as least, bounds[2] as greatest
from pg_constraint cross join lateral regexp_match(
  pg_get_constraintdef(pg_constraint.oid), 'VALUE >= [('']*([^)'']+).*VALUE <= [('']*([^)'']+)'
) as bounds
where contypid <> 0 and bounds is not null;

-- Joins an array of text into one text, for indexes on substrings. PostgreSQL's array_to_string is not marked
-- immutable, because that depends on the element type; for text it is.
create function joined(list text[]) returns text language sql immutable strict parallel safe
return array_to_string(list, E'\n');

-- Converts the elements of an array to lower case, for filters that ignore case (D33); their indexes are named
-- `any_case`. Converting the array's text form is twice as fast as converting each element, and safe: quotes
-- and escapes have no letters, and `null` still means NULL.
create function lowered(list text[]) returns text[] language sql immutable strict parallel safe
return lower(list::text)::text[];

-- Multiplies the ratios of several splits.
create aggregate product (numeric) (sfunc = numeric_mul, stype = numeric);

-- Creates an index on each of the columns, followed by the sort order of the list that uses it, if any. Columns with
-- few distinct values need that order: a page is then a contiguous range of the index.
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

-- Creates the partition for a month (UTC) unless it exists. `create table … partition of` would block readers.
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

-- Returns the earliest month that has a partition. `materialized` ensures that only names of partitions are parsed as
-- months.
create function earliest_month(whole regclass) returns date
language sql stable set search_path = pg_catalog, pg_temp as $$
  with parts as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = whole
  )
  select min(to_date(right(relname, 7), 'YYYY_MM')) from parts
$$;

revoke execute on function index_each, create_month_partition, earliest_month from public;

-- The privileges that `grant ROLE` gives (docs/operations/deployment.md) to the service's role and to the admin API's.
-- Each file of the schema ends with the grants for what it creates. Both roles may read all tables and views, except
-- those with the privilege `no select`.
create table role_privileges (
  purpose   text not null check (purpose in ('service', 'admin')),
  -- As in the statement `grant`, for example `insert, update (holder, until)`.
  privilege text not null,
  -- The schema and the name of a table or function.
  object    text not null,
  primary key (purpose, object, privilege)
);

-- `doctor` reads this table, even as a role without any grants.
grant select on role_privileges to public;
