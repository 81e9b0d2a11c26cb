-- Usage (D29). `usage_batches` has a row per account and write, with the requests as packed numbers
-- (docs/decisions/0160-usage-in-batches.md). There are no foreign keys: usage outlives its account. Months of UTC are
-- partitions, so that old ones are cheap to drop.

-- A row counts requests that a process refused with 429: per account, endpoint and minute. Only `request_count` and the
-- first columns differ; the others are those of `usage_requests`, so that one view shows both.
create table usage (
  usage_id          uuid not null,
  requested_at      timestamptz(3) not null,
  account_id        bigint not null,
  key_id            bigint not null,
  request_id        text not null,
  endpoint          text not null,
  status_code       smallint not null,
  records_returned  integer not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  duration_ms       integer not null,
  cached            boolean not null,
  deprecated        boolean not null,
  -- The number of requests that the row stands for.
  request_count     bigint not null default 1,
  -- How the requests were sent: `mcp` for a tool of /mcp, null for an HTTP client.
  via               text
) partition by range (requested_at);

-- Prevents duplicates, and has the sort order of /v1/usage.
create unique index usage_key on usage (account_id, requested_at, usage_id);

-- The processes that record usage.
create table usage_writers (
  writer     integer generated always as identity primary key,
  -- The end of the request ids that the process makes.
  id_suffix  text not null,
  started_at timestamptz(3) not null default now(),
  -- The number of the last batch that was written.
  written    integer not null default 0
);

-- What many requests have in common. The price is 0 for requests without cost.
create table usage_request_kinds (
  kind_id                   integer generated always as identity primary key,
  endpoint                  text not null,
  status_code               smallint not null,
  cached                    boolean not null,
  deprecated                boolean not null,
  via                       text,
  price_per_gb_microdollars bigint not null,
  unique nulls not distinct (endpoint, status_code, cached, deprecated, via, price_per_gb_microdollars)
);

-- Requests of an account. A column of type `bytea` has packed numbers, one per group or one per request.
create table usage_batches (
  account_id bigint not null,
  -- The newest time of a request. All times are in the same five seconds of `usage_window`.
  moment     timestamptz(3) not null,
  writer     integer not null,
  sequence   integer not null,
  part       smallint not null,
  requests   smallint not null,
  -- The time from the oldest to the newest request.
  span_ms    integer not null,
  -- Requests with the same kind and key are a group.
  group_kinds    bytea not null,
  group_keys     bytea not null,
  group_requests bytea not null,
  group_bytes    bytea not null,
  group_costs    bytea not null,
  -- One number per request, in the order in which the requests ended: the place of its group, and so on.
  groups     bytea not null,
  -- Milliseconds before `moment`.
  ages       bytea not null,
  records    bytea not null,
  bytes      bytea not null,
  costs      bytea not null,
  durations  bytea not null,
  -- A request id is that of the writer with this number, unless `own_ids` has another, separated by spaces. A UUID is
  -- there as `=` and its base64 without padding; other ids have no `=`.
  id_numbers bytea not null,
  own_ids    text not null
) partition by range (moment);

-- A row is read in place: usually a quarter of a page, and never more than a page.
alter table usage_batches
  alter group_kinds set storage plain, alter group_keys set storage plain, alter group_requests set storage plain,
  alter group_bytes set storage plain, alter group_costs set storage plain, alter groups set storage plain,
  alter ages set storage plain, alter records set storage plain, alter bytes set storage plain,
  alter costs set storage plain, alter durations set storage plain, alter id_numbers set storage plain,
  alter own_ids set storage plain;

create index usage_batches_key on usage_batches (account_id, moment);

-- Batches that `settle_usage` has not added to `usage_daily` and charged yet.
create table unsettled_usage (
  writer      integer not null,
  sequence    integer not null,
  first_at    timestamptz(3) not null,
  last_at     timestamptz(3) not null,
  account_ids bigint[] not null,
  primary key (writer, sequence)
);

-- The hours in which an account has requests of a kind, as far as they are settled.
create table usage_kind_hours (
  account_id bigint not null,
  kind_id    integer not null,
  hour       timestamptz(0) not null,
  primary key (account_id, kind_id, hour)
) partition by range (hour);

-- Usage per account and New York day, kept forever. Half of each page stays free for the next versions of its rows, so
-- that updates change no index.
create table usage_daily (
  account_id        bigint not null,
  usage_date        date not null,
  endpoint          text not null,
  requests          bigint not null,
  errors            bigint not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  primary key (account_id, usage_date, endpoint)
) with (fillfactor = 50);

create index on usage_daily (account_id, endpoint, usage_date);

-- The sums of `usage_daily` by kind of request and by price, kept forever.
create table usage_daily_prices (
  account_id                bigint not null,
  usage_date                date not null,
  endpoint                  text not null,
  -- `charged`: with a cost; otherwise `refused`: with a status of 400 or higher; otherwise `free`.
  kind                      text not null,
  -- 0 unless the kind is `charged`.
  price_per_gb_microdollars bigint not null,
  requests                  bigint not null,
  bytes                     bigint not null,
  cost_microdollars         bigint not null,
  primary key (account_id, usage_date, endpoint, kind, price_per_gb_microdollars)
) with (fillfactor = 50);

-- The service role may not create tables; these functions let it create and drop partitions.
create function create_usage_partition(moment timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  whole     text;
  name      text;
begin
  perform pg_advisory_xact_lock(7101885);
  foreach whole in array array['usage', 'usage_batches', 'usage_kind_hours'] loop
    name := whole || '_' || to_char(first_day, 'YYYY_MM');
    continue when to_regclass('public.' || name) is not null;
    execute format('create table public.%I (like public.%I including all)', name, whole);
    -- Unlike `create table … partition of`, this blocks neither reads nor writes.
    execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', whole, name,
      first_day at time zone 'UTC', (first_day + interval '1 month') at time zone 'UTC');
  end loop;
end $$;

-- Drops the partitions of the earliest month that ends before the given time, but never those of the last 31 days, nor
-- of months with usage that is not settled. Returns the name of the month. One per call, so that few partitions are
-- locked at once; callers repeat it. `materialized` makes PostgreSQL select the partitions before it parses dates from
-- their names.
create function drop_usage_partitions(before timestamptz) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms' as $$
declare
  latest timestamptz := least(before, now() - interval '31 days');
  name   text;
  whole  text;
begin
  perform pg_advisory_xact_lock(7101885);
  perform public.settle_usage() from public.unsettled_usage where first_at < latest limit 1;
  with months as materialized (
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'public.usage'::regclass
  )
  select relname into name from months
  where (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC'
    <= least(latest, (select min(first_at) from public.unsettled_usage))
  order by relname limit 1;
  if name is null then return; end if;
  foreach whole in array array['usage', 'usage_batches', 'usage_kind_hours'] loop
    execute format('drop table if exists public.%I', whole || right(name, 8));
  end loop;
  return next name;
end $$;

-- Anonymizes counts that are recorded after their account was erased. None escapes: the writer locks the account before
-- it adds rows, and `erase_account` waits for that lock.
create function anonymize_late_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from public.account_erasures where account_id = new.account_id) then
    new.key_id := 0;
    new.request_id := '';
  end if;
  return new;
end $$;

create trigger anonymize_late_usage before insert on usage for each row execute function anonymize_late_usage();

revoke execute on function create_usage_partition, drop_usage_partitions, anonymize_late_usage from public;

insert into role_privileges values
  ('service', 'insert, update (bytes, request_count)', 'public.usage'),
  ('service', 'insert', 'public.usage_batches'),
  ('service', 'insert', 'public.unsettled_usage'),
  ('service', 'insert', 'public.usage_request_kinds'),
  ('service', 'insert', 'public.usage_kind_hours'),
  ('service', 'insert (id_suffix), update (written)', 'public.usage_writers'),
  ('service', 'insert, update', 'public.usage_daily'),
  ('service', 'insert, update', 'public.usage_daily_prices'),
  ('service', 'execute', 'public.create_usage_partition'),
  ('service', 'execute', 'public.drop_usage_partitions');
