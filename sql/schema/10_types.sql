-- Defines the extension, the types and the functions that the tables use, and the table of privileges for the service's
-- roles.
--
-- The domains limit the values that tables accept, no matter which program writes them (D34, D42). No other code
-- repeats these bounds: `load` and the ingests read them from the view `domain_bounds`. An upper bound also rejects
-- NaN, which PostgreSQL sorts above every number. Clients and indexes see only a domain's base type. They would treat
-- an array of a domain as a different type, so each list type is a domain over an array of a base type. Every domain
-- accepts null; columns that must not be null are declared `not null`.

-- Trigram indexes support substring filters. The extension is trusted, so the database owner may create it.
create extension if not exists pg_trgm;

-- A ticker symbol in the form that tables store (D6).
create domain ticker as text check (value ~ '^[A-Z0-9.^-]{1,16}$');
create domain tickers as text[];
-- The ten-digit number (CIK) that the SEC assigns to a company, with leading zeros.
create domain cik as text check (value ~ '^[0-9]{10}$');
-- Converts a CIK to its ten-digit form. Some columns store a CIK as the source file spelled it, such as 1067983 or
-- CIK0001067983. Returns null if the text is not a CIK. Vendors write 0 for an unknown one.
create function normal_cik(written text) returns text language sql immutable parallel safe as $$
  select lpad(substring(written from '^(?:CIK)?0*([1-9][0-9]{0,9})$'), 10, '0')
$$;
-- A price in USD per share.
create domain price as numeric(18, 4) check (value between 0.0001 and 9999999);
create domain floor_price as numeric(18, 3) check (value between 0.001 and 9999999);
-- One of the two share counts of a split, or the number of shares that one depositary receipt represents.
create domain ratio as numeric(18, 4) check (value between 0.0001 and 99999999999999.9999);
-- An amount in USD, such as an offering amount, a trading volume or a market capitalization.
create domain dollars as numeric(20, 2) check (value between 0 and 999999999999999999.99);
-- A computed amount in USD that may be negative, such as the amount that a company may still offer.
create domain valuation as numeric(20, 2) check (value between -999999999999999999.99 and 999999999999999999.99);
-- A number of shares, outstanding or traded. The limit is 2^53-1, the largest integer that JSON clients represent
-- exactly.
create domain quantity as bigint check (value between 0 and 9007199254740991);
-- A count of events, trades or minutes.
create domain tally as bigint check (value between 0 and 9007199254740991);
-- A percentage or a ratio that may be negative, such as the debt-to-equity ratio of a company with negative equity.
create domain figure as numeric(18, 4) check (value between -99999999999999.9999 and 99999999999999.9999);
-- A fraction or a ratio that is never negative, such as a fraction of the shares or one volume divided by another.
create domain proportion as numeric(18, 4) check (value between 0 and 99999999999999.9999);
-- A change in price or volume, in percent. The lower bound is -100, the loss of the entire value.
create domain change as numeric(18, 4) check (value between -100 and 99999999999999.9999);
create domain fact_day as date check (value between '1900-01-01' and '2199-12-31');
-- A local time in New York, without a time zone (D15).
create domain wall_time as timestamp(3) check (value between '1900-01-01 00:00:00' and '2199-12-31 23:59:59.999');
-- A point in time. It is limited to the same range of dates as `fact_day`, at UTC-05:00, which is the offset used in
-- responses.
create domain instant as timestamptz(3)
  check (value between '1900-01-01 00:00:00-05' and '2199-12-31 23:59:59.999-05');
-- Text in a column that never contains an empty string. An empty string would count as a missing value, and missing
-- values are stored as null (D16).
create domain filled_text as text check (value <> '');
create domain risk_level as text check (value in ('high', 'medium', 'low'));
-- A list of text without null elements or nested lists, because responses can represent neither. A table's `source`
-- column lists a link to each document on which a row is based; the link's fragment identifies the element or fact
-- (decision 0106).
create domain text_list as text[] check (
  coalesce(array_ndims(value) = 1 and array_lower(value, 1) = 1, true) and array_position(value, null) is null
);

-- The lower and upper bound, as text, of each domain of numbers, dates or times.
create view domain_bounds as
select contypid as domain, bounds[1] as least, bounds[2] as greatest
from pg_constraint cross join lateral regexp_match(
  pg_get_constraintdef(pg_constraint.oid), 'VALUE >= [('']*([^)'']+).*VALUE <= [('']*([^)'']+)'
) as bounds
where contypid <> 0 and bounds is not null;

-- Joins the elements of an array into one text, for substring indexes. PostgreSQL does not mark array_to_string as
-- immutable, because its behavior depends on the element type. For text elements it is immutable.
create function joined(list text[]) returns text language sql immutable strict parallel safe
return array_to_string(list, E'\n');

-- Converts the elements of an array to lower case, for filters that ignore case (D33). It converts the array's text
-- form at once, which is twice as fast as converting each element. This is safe: quotes and escapes contain no letters,
-- and an element NULL stays NULL, because `null` means NULL in the text form of an array, too.
create function lowered(list text[]) returns text[] language sql immutable strict parallel safe
return lower(list::text)::text[];

-- An aggregate that multiplies numbers. It combines the ratios of several splits of one security.
create aggregate product (numeric) (sfunc = numeric_mul, stype = numeric);

-- Creates an index on each column in `columns` of the table `indexed`. If `sort_order` is given, for example `filed_at
-- desc, id`, each index also contains these columns, in this order. A column with few distinct values needs this: each
-- page of a list that is filtered by the column is then a contiguous range of the index. If `any_case` is true, the
-- indexes contain the columns in lower case, and their names contain `any_case`.
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

-- Creates the partition of the table `whole` for a month (in UTC) if it does not exist, for example `usage_2026_03`.
-- The partition is created as a table and then attached, because `create table … partition of` would block readers.
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

-- Returns the first month for which the partitioned table `whole` has a partition. `materialized` ensures that only
-- names of partitions, such as `usage_2026_03`, are parsed as months.
create function earliest_month(whole regclass) returns date
language sql stable set search_path = pg_catalog, pg_temp as $$
  with parts as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = whole
  )
  select min(to_date(right(relname, 7), 'YYYY_MM')) from parts
$$;

revoke execute on function index_each, create_month_partition, earliest_month from public;

-- The privileges that the command `grant ROLE` grants to the service's role and to the admin API's role
-- (docs/operations/deployment.md). Each schema file ends by inserting the privileges on the objects that it creates.
-- Both roles may read all tables and views, except those listed with the privilege `no select`.
create table role_privileges (
  purpose   text not null check (purpose in ('service', 'admin')),
  -- The privilege as written in a `grant` statement, for example `insert, update (holder, until)`.
  privilege text not null,
  -- The schema-qualified name of a table or function.
  object    text not null,
  primary key (purpose, object, privilege)
);

-- `doctor` reads this table even when it runs as a role that has no other privileges.
grant select on role_privileges to public;
