-- Packing the requests that earlier releases recorded (docs/decisions/0160-usage-in-batches.md). A job moves them from
-- `usage` to `usage_batches`, in short transactions.

-- Requests in `usage` that are not packed yet: those of an account in a period, and perhaps others.
create table unconverted_usage (
  account_id bigint not null,
  first_at   timestamptz(3) not null,
  last_at    timestamptz(3) not null,
  -- Processes of the previous release do not list packed requests, so they get an hour to end. Also longer than any
  -- transaction that was open during this migration and noted nothing here.
  due_at     timestamptz not null default now() + interval '1 hour'
);

create index on unconverted_usage (due_at);
create index on unconverted_usage (account_id);

-- Packed requests have this writer. Its number is the lowest, so that pages keep the order of requests with the same
-- time.
insert into usage_writers (writer, id_suffix) overriding system value values (0, '');

-- As before; also notes requests that processes of the previous release record, and anonymizes those of accounts that
-- are erased already. None escapes: their writer locks the account before it adds rows, and `erase_account` waits for
-- that lock.
create or replace function note_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  erased bigint[];
  late   record;
begin
  with noted as (
    insert into public.usage_moments as kept (account_id, endpoint, status_code, moment, requests)
    select account_id, endpoint, status_code, public.moment_of(requested_at), count(*)
    from added group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (account_id, endpoint, status_code, moment) do update set requests = kept.requests + excluded.requests
    returning account_id, endpoint, status_code
  )
  insert into public.usage_kinds select distinct account_id, endpoint, status_code from noted order by 1, 2, 3
  on conflict do nothing;

  insert into public.unconverted_usage (account_id, first_at, last_at)
  select account_id, min(requested_at), max(requested_at) from added where status_code <> 429 group by account_id;

  erased := array(
    select account_id from public.account_erasures where account_id in (select account_id from added)
  );
  if erased <> '{}' then
    for late in select account_id, requested_at, usage_id from added where account_id = any (erased) loop
      update public.usage set key_id = 0, request_id = ''
      where account_id = late.account_id and requested_at = late.requested_at and usage_id = late.usage_id;
    end loop;
  end if;
  return null;
end $$;

insert into unconverted_usage (account_id, first_at, last_at)
select distinct account_id, timestamptz '-infinity', now() + interval '1 hour' from usage_kinds
where status_code <> 429;

-- Deletes and returns the next requests to pack, about `max_rows`. The caller must insert them into `usage_batches` in
-- the same transaction. Requests of an account with the same time are returned together. A count of requests refused
-- with 429 is not a request. Returns no rows if the accounts that were due had none.
create function take_unconverted_usage(max_rows integer) returns setof usage
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  account   bigint;
  since     timestamptz;
  until     timestamptz;
  batch_end timestamptz;
  taken     integer;
  remaining integer := max_rows;
begin
  -- Other processes wait here.
  perform from public.usage_writers where writer = 0 for no key update;
  for place in 1..100 loop
    exit when remaining <= 0;
    select account_id into account from public.unconverted_usage where due_at <= now() order by due_at limit 1;
    exit when not found;
    select min(first_at), max(last_at) into since, until from public.unconverted_usage
    where account_id = account and due_at <= now();
    select requested_at into batch_end from public.usage
    where account_id = account and requested_at between since and until and status_code <> 429
    order by requested_at offset remaining - 1 limit 1;
    until := coalesce(batch_end, until);
    return query
      delete from public.usage
      where account_id = account and requested_at between since and until and status_code <> 429
      returning usage.*;
    get diagnostics taken = row_count;
    remaining := remaining - taken;
    delete from public.unconverted_usage where account_id = account and due_at <= now() and last_at <= until;
    update public.unconverted_usage set first_at = until + interval '1 millisecond'
    where account_id = account and due_at <= now() and first_at <= until;
  end loop;
end $$;

revoke execute on function take_unconverted_usage from public;
