-- Balances, budgets, and the settlement of usage (D27: billing). Settling usage charges it and adds it to the daily
-- sums.

-- Returns an account's balance minus the cost of usage that has not been charged yet. Null if the account is postpaid.
create function current_balance(account accounts) returns bigint
language sql stable parallel safe
return case when (account).balance_microdollars is not null then (account).balance_microdollars - coalesce(
  (select sum(cost_microdollars) from unsettled_usage_of((account).account_id)), 0
)::bigint end;

-- Returns the time of the account's newest usage that cost something, including usage that has not been charged yet.
-- Null if there is none.
create function newest_charge(account accounts) returns timestamptz
language sql stable parallel safe
return greatest((account).last_charged_at, (
  select max(moment) from unsettled_usage_of((account).account_id) where cost_microdollars > 0
));

-- Returns the part of the monthly budget that the account has spent, including usage that has not been charged yet.
-- Null if the account has no budget.
create function budget_spent_this_month(account accounts) returns bigint
language sql stable parallel safe
return case when (account).budget_microdollars is not null then
  case when (account).budget_month >= date_trunc('month', now() at time zone 'America/New_York')
    then (account).budget_spent_microdollars else 0
  end + coalesce((
    select sum(cost_microdollars) from unsettled_usage_of((account).account_id)
    where (moment at time zone 'America/New_York')::date
      >= greatest((account).budget_month, date_trunc('month', now() at time zone 'America/New_York')::date)
  ), 0)::bigint
end;

-- Returns the amount that the account can still spend: the smaller of its prepaid balance and the rest of its budget,
-- if the budget stops requests. Null means no limit. Amounts reserved by exports are not subtracted.
create function spendable_microdollars(account accounts) returns bigint
language sql stable parallel safe
return least(
  current_balance(account),
  case when (account).budget_stops then (account).budget_microdollars - budget_spent_this_month(account) end
);

-- Amounts of prepaid balances that exports in progress have reserved, so that concurrent exports cannot spend more than
-- the balance (decision 119). The statement that records an export's usage also deletes the export's reservation.
create table balance_reservations (
  reservation_id      uuid primary key,
  account_id          bigint not null,
  amount_microdollars bigint not null check (amount_microdollars > 0),
  -- When the reservation expires. The process that sends the export keeps renewing it, unless the process has died.
  expires_at          timestamptz not null
);

create index on balance_reservations (account_id);

-- Creates or updates a reservation for an export. Reserves the amount `wanted`. If the account cannot spend that much,
-- reserves the amount that it can spend, provided that this is at least `needed`. Otherwise, `granted` is null and
-- nothing changes. For an account without a limit, all of `wanted` is granted. `balance` is the amount that the account
-- can spend, and `unrecorded` is the amount that the caller has not charged yet. The call can be repeated with the same
-- effect.
create function reserve_balance(
  account bigint, reservation uuid, needed bigint, wanted bigint, unrecorded bigint, lease interval,
  out granted bigint, out balance bigint, out reserved_elsewhere bigint
) language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Serializes reservations of the same account, so that two cannot reserve the same amount. The statements below see
  -- the reservations that were made before.
  perform from public.accounts where account_id = account for no key update;
  if not found then return; end if;
  delete from public.balance_reservations where reservation_id in (
    select reservation_id from public.balance_reservations where expires_at <= now() for update skip locked
  );
  -- A single statement sees either an export's reservation or its charge, never both or neither.
  select public.spendable_microdollars(accounts), (
    select coalesce(sum(amount_microdollars), 0) from public.balance_reservations
    where account_id = account and reservation_id <> reservation and expires_at > now()
  ) into balance, reserved_elsewhere
  from public.accounts where account_id = account;
  if balance - reserved_elsewhere - unrecorded < needed then return; end if;
  granted := least(wanted, balance - reserved_elsewhere - unrecorded);
  insert into public.balance_reservations values (reservation, account, granted, now() + lease)
  on conflict (reservation_id) do update
  set amount_microdollars = excluded.amount_microdollars, expires_at = excluded.expires_at;
end $$;

-- Sets an account's monthly budget, or removes it if `budget` is null. This is a function for two reasons: the budget
-- columns must change together, and the spent amount must be read in a snapshot that starts after the lock on the
-- account was granted, so that it includes all usage that was settled before.
create function set_budget(account bigint, budget bigint, stops boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  month date;
begin
  perform from public.accounts where account_id = account for no key update;
  if budget is not null then
    -- A process's clock may be fast, so the newest usage may already be in the next month.
    select date_trunc('month', greatest(max(usage_date), (clock_timestamp() at time zone 'America/New_York')::date))
    into month from public.usage_daily where account_id = account;
  end if;
  update public.accounts
  set budget_microdollars = budget, budget_stops = budget is not null and stops, budget_month = month,
    budget_spent_microdollars = case when budget is not null then (
      select coalesce(sum(cost_microdollars), 0) from public.usage_daily
      where account_id = account and usage_date >= month
    ) end
  where account_id = account;
end $$;

-- Budget thresholds that accounts have reached. Each is recorded at most once per account, month and budget.
create table budget_alerts (
  account_id          bigint not null references accounts on delete cascade,
  month               date not null,
  budget_microdollars bigint not null,
  percent             smallint not null,
  spent_microdollars  bigint not null,
  stops               boolean not null,
  recorded_at         timestamptz(3) not null default now(),
  primary key (account_id, month, budget_microdollars, percent)
);

create index on budget_alerts (recorded_at);

-- Returns the highest budget threshold, in percent, that `spent` has reached. Returns 0 if it has reached none, and
-- null if there is no budget.
create function budget_threshold(spent bigint, budget bigint) returns integer
language sql immutable parallel safe
return case
  when budget is null then null
  when spent >= budget then 100
  when spent * 100 >= budget * 90 then 90
  when spent * 100 >= budget * 75 then 75
  else 0
end;

-- Records the thresholds that an account has just reached, and queues webhooks for them, all in the transaction that
-- reached them.
create function record_budget_alerts() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  threshold integer := public.budget_threshold(new.budget_spent_microdollars, new.budget_microdollars);
  reached   integer;
begin
  if (old.budget_month, old.budget_microdollars) = (new.budget_month, new.budget_microdollars)
    and threshold = public.budget_threshold(old.budget_spent_microdollars, old.budget_microdollars) then return null;
  end if;
  for reached in
    insert into public.budget_alerts (account_id, month, budget_microdollars, percent, spent_microdollars, stops)
    select new.account_id, new.budget_month, new.budget_microdollars, percent, new.budget_spent_microdollars,
      new.budget_stops
    from unnest(array[75, 90, 100]) as percent where percent <= threshold order by percent
    on conflict do nothing returning budget_alerts.percent
  loop
    perform public.enqueue_webhook_event(
      new.account_id, case reached when 100 then 'budget.exhausted' else 'budget.warning' end,
      json_build_object('month', to_char(new.budget_month, 'YYYY-MM'), 'percent', reached,
        'budget_microdollars', new.budget_microdollars, 'spent_microdollars', new.budget_spent_microdollars,
        'stops', new.budget_stops)
    );
  end loop;
  return null;
end $$;

-- The condition uses plain operators instead of a function, because PostgreSQL prepares the condition in every
-- statement, even for accounts without a budget.
create trigger budget_alerts after update of budget_spent_microdollars on accounts
  for each row when (new.budget_spent_microdollars * 100 >= new.budget_microdollars * 75)
  execute function record_budget_alerts();

-- Usage to be added to the daily sums, as passed to `add_daily_sums`.
create type usage_sum as (
  account_id bigint, usage_date date, endpoint text, kind text, price bigint, requests bigint, errors bigint,
  bytes bigint, cost bigint
);

-- Adds the amounts to `usage_daily` and `usage_daily_prices`, which are kept forever. The caller must have locked the
-- accounts.
create function add_daily_sums(sums usage_sum[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- `merge` is cheaper here than an insert of all rows with `on conflict`.
  merge into public.usage_daily as daily
  using (
    select account_id, usage_date, endpoint, sum(requests) as requests, sum(errors) as errors, sum(bytes) as bytes,
      sum(cost) as cost
    from unnest(sums) group by account_id, usage_date, endpoint
  ) as added
  on (daily.account_id, daily.usage_date, daily.endpoint) = (added.account_id, added.usage_date, added.endpoint)
  when matched then update set requests = daily.requests + added.requests, errors = daily.errors + added.errors,
    bytes = daily.bytes + added.bytes, cost_microdollars = daily.cost_microdollars + added.cost
  when not matched then insert (account_id, usage_date, endpoint, requests, errors, bytes, cost_microdollars)
    values (account_id, usage_date, endpoint, requests, errors, bytes, cost);

  merge into public.usage_daily_prices as daily
  using (
    select account_id, usage_date, endpoint, kind, price, sum(requests) as requests, sum(bytes) as bytes,
      sum(cost) as cost
    from unnest(sums) group by account_id, usage_date, endpoint, kind, price
  ) as added
  on (daily.account_id, daily.usage_date, daily.endpoint, daily.kind, daily.price_per_gb_microdollars)
    = (added.account_id, added.usage_date, added.endpoint, added.kind, added.price)
  when matched then update set requests = daily.requests + added.requests, bytes = daily.bytes + added.bytes,
    cost_microdollars = daily.cost_microdollars + added.cost
  when not matched then insert
    (account_id, usage_date, endpoint, kind, price_per_gb_microdollars, requests, bytes, cost_microdollars)
    values (account_id, usage_date, endpoint, kind, price, requests, bytes, cost);
end $$;

-- Charges unsettled usage to balances and budgets, and adds it to the daily sums. Returns the number of batches.
create function settle_usage() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settling public.unsettled_usage[];
  sums     public.usage_sum[];
begin
  with due as (
    delete from public.unsettled_usage where (writer, sequence) in (
      select writer, sequence from public.unsettled_usage order by first_at limit 2000 for update skip locked
    ) returning unsettled_usage
  )
  select array_agg(unsettled_usage) into settling from due;
  if settling is null then return 0; end if;

  -- Everything that writes daily sums locks the accounts first, in this order. The statements below see all earlier
  -- writes.
  perform from public.accounts
  where account_id in (select unnest(account_ids) from unnest(settling))
  order by account_id for no key update;

  with due as materialized (select * from unnest(settling)), touched as materialized (
    select account_id, min(first_at) as first_at, max(last_at) as last_at
    from due cross join unnest(account_ids) as account_id group by account_id
  ), hourly as materialized (
    -- Converting the time zone of each row would be much slower. An hour starts at the same time in UTC and in New
    -- York.
    select touched.account_id, date_trunc('hour', moment, 'UTC') as hour, kind_id, sum(requests) as requests,
      sum(bytes) as bytes, sum(cost_microdollars) as cost,
      max(moment) filter (where cost_microdollars > 0) as charged_at
    from touched cross join lateral (
      select * from public.usage_batch_groups as batch
      where batch.account_id = touched.account_id and moment between touched.first_at and touched.last_at
        -- Selects the batches that are being settled. `is true` keeps PostgreSQL from turning the condition into a
        -- join, which might hash the batches again for each account.
        and ((batch.writer, batch.sequence) in (select writer, sequence from due)) is true
      offset 0
    ) as batch
    group by touched.account_id, hour, kind_id
  ), noted as (
    insert into public.usage_kind_hours (account_id, kind_id, hour)
    select account_id, kind_id, hour from hourly on conflict do nothing
  ), daily as materialized (
    select account_id, (hour at time zone 'America/New_York')::date as usage_date, endpoint,
      case when cost > 0 then 'charged' when status_code >= 400 then 'refused' else 'free' end as kind,
      case when cost > 0 then price_per_gb_microdollars else 0 end as price, requests,
      case when status_code >= 400 then requests else 0 end as errors,
      bytes, cost, charged_at
    from hourly join public.usage_request_kinds using (kind_id)
  ), monthly as materialized (
    select account_id, date_trunc('month', usage_date)::date as month, sum(cost)::bigint as cost,
      max(charged_at) as charged_at
    from daily group by 1, 2 having sum(cost) > 0
  ), charged as (
    -- Finds the latest month of each account. A budget applies to one month, so costs in earlier months no longer count
    -- toward it.
    select account_id, max(month) as month, sum(cost)::bigint as cost, max(charged_at) as charged_at,
      (array_agg(cost order by month desc))[1] as month_cost
    from monthly group by account_id
  ), updated as (
    update public.accounts
    set balance_microdollars = balance_microdollars - charged.cost,
      last_charged_at = greatest(last_charged_at, charged.charged_at),
      budget_month = case when budget_microdollars is not null then greatest(budget_month, charged.month) end,
      budget_spent_microdollars = case when budget_microdollars is not null then
        case when budget_month >= charged.month then budget_spent_microdollars else 0 end
        + case when budget_month > charged.month then 0 else charged.month_cost end
      end
    from charged where accounts.account_id = charged.account_id
  )
  select array_agg(
    (account_id, usage_date, endpoint, kind, price, requests, errors, bytes, cost)::public.usage_sum
  ) into sums from daily;
  perform public.add_daily_sums(sums);

  -- Anonymizes requests of an erased account that `continue_erasure` may have missed, because they were recorded later.
  -- The lock prevents `continue_erasure` from changing the same batches now.
  perform from public.account_erasures
  where account_id in (select unnest(account_ids) from unnest(settling)) order by account_id for update;
  if found then
    update public.usage_batches as batch set group_keys = '\x00', id_numbers = '\x00', own_ids = ''
    from unnest(settling) as due
    where (batch.writer, batch.sequence) = (due.writer, due.sequence)
      and batch.moment between due.first_at and due.last_at
      and batch.account_id = any (due.account_ids)
      and exists (select from public.account_erasures where account_erasures.account_id = batch.account_id);
  end if;
  return cardinality(settling);
end $$;

-- Records a credit, such as a payment, and adds it to the account's balance. Returns the new balance, or null if the
-- account already has a credit with this reference.
create function add_credit(account bigint, amount bigint, payment text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  balance bigint;
begin
  insert into public.credits (account_id, amount_microdollars, reference) values (account, amount, payment)
  on conflict do nothing;
  if not found then return null; end if;
  update public.accounts set balance_microdollars = coalesce(balance_microdollars, 0) + amount
  where account_id = account returning public.current_balance(accounts) into balance;
  return balance;
end $$;

-- Invoices, one per account and closed month (docs/operations/invoices.md, decision 162).
create table invoices (
  account_id        bigint not null references accounts,
  month             text not null check (month ~ '^\d{4}-(0[1-9]|1[0-2])$'),
  closed_at         timestamptz(3) not null default now(),
  -- No invoice of the account contains usage before this day. Null means that all of its usage is invoiced.
  usage_from        date,
  lines             bigint not null,
  requests          bigint not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  -- The SHA-256 hash of the result of `invoice_csv`, in hexadecimal.
  digest            text not null,
  primary key (account_id, month)
);

-- The lines of invoices: sums by day, endpoint, kind of request and price.
create table invoice_lines (
  account_id                bigint not null,
  month                     text not null,
  line                      bigint not null,
  usage_date                date not null,
  endpoint                  text not null,
  -- A kind from `usage_daily_prices`, or `unitemized` for corrections, which exist only in `usage_daily`.
  kind                      text not null check (kind in ('charged', 'free', 'refused', 'unitemized')),
  requests                  bigint not null,
  bytes                     bigint not null,
  price_per_gb_microdollars bigint check ((price_per_gb_microdollars is null) = (kind = 'unitemized')),
  cost_microdollars         bigint not null,
  primary key (account_id, month, line),
  foreign key (account_id, month) references invoices deferrable initially deferred
);

-- Returns an invoice's lines as CSV, with exactly the bytes that `/v1/account/invoice-lines` exports. The format must
-- never change, because the digests of closed invoices would no longer match.
create function invoice_csv(account bigint, closed_month text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  -- The text starts with a byte order mark, as the export does. `concat` omits nulls.
  select chr(65279) || 'month,line,usage_date,endpoint,kind,requests,bytes,price_per_gb_microdollars,cost_microdollars'
    || E'\r\n' || coalesce(string_agg(
      concat(month, ',', line, ',', to_char(usage_date, 'YYYY-MM-DD'), ',', endpoint, ',', kind, ',', requests, ',',
        bytes, ',', price_per_gb_microdollars, ',', cost_microdollars, E'\r\n'),
      '' order by line
    ), '')
  from public.invoice_lines where account_id = account and month = closed_month
$$;

-- Closes a month for an account: creates an invoice for everything in the daily sums up to the end of the month that is
-- not in an earlier invoice. Returns false if this month or a later one is already closed. `first_day` becomes
-- `usage_from` if this is the account's first invoice.
create function close_invoice(account bigint, closing text, first_day date) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  next_month date := (closing || '-01')::date + interval '1 month';
  latest     public.invoices;
begin
  if next_month > (clock_timestamp() at time zone 'America/New_York')::date then
    raise 'The month % is not over in New York.', closing;
  end if;
  -- `settle_usage` takes the same lock, so it cannot add to the closed month now. The statements below see everything
  -- that was settled before.
  perform from public.accounts where account_id = account for no key update;
  select * into latest from public.invoices where account_id = account order by month desc limit 1;
  if latest.month >= closing then return false; end if;
  if latest.month <> to_char((closing || '-01')::date - interval '1 month', 'YYYY-MM') then
    raise 'The month before % is not closed.', closing;
  end if;
  if latest.month is not null then first_day := latest.usage_from; end if;

  insert into public.invoice_lines
  select account, closing, row_number() over (order by usage_date, endpoint collate "C", kind, price), usage_date,
    endpoint, kind, sum(requests), sum(bytes), price, sum(cost)
  from (
    select usage_date, endpoint, kind, price_per_gb_microdollars, requests, bytes, cost_microdollars
    from public.usage_daily_prices where account_id = account
    union all
    select usage_date, endpoint, 'unitemized', null, requests, bytes, cost_microdollars
    from public.usage_daily where account_id = account
    union all
    select usage_date, endpoint, 'unitemized', null, -requests, -bytes, -cost_microdollars
    from public.usage_daily_prices where account_id = account
    union all
    select usage_date, endpoint, kind, price_per_gb_microdollars, -requests, -bytes, -cost_microdollars
    from public.invoice_lines where account_id = account
  ) as sums (usage_date, endpoint, kind, price, requests, bytes, cost)
  where usage_date >= coalesce(first_day, '-infinity') and usage_date < next_month
  group by usage_date, endpoint, kind, price
  having sum(requests) <> 0 or sum(bytes) <> 0 or sum(cost) <> 0;

  insert into public.invoices (account_id, month, usage_from, lines, requests, bytes, cost_microdollars, digest)
  select account, closing, first_day, count(*), coalesce(sum(requests), 0), coalesce(sum(bytes), 0),
    coalesce(sum(cost_microdollars), 0), encode(sha256(convert_to(public.invoice_csv(account, closing), 'UTF8')), 'hex')
  from public.invoice_lines where account_id = account and month = closing;
  return true;
end $$;

-- A trigger function. Rejects changes to closed invoices and their lines. Lines can still be inserted before their
-- invoice is.
create function refuse_invoice_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    raise 'Closed invoices cannot be changed.' using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- Closing a month locks the account too. If a month is being closed right now, this waits until it is closed.
  perform from public.accounts where account_id in (select account_id from added) order by account_id for no key update;
  if exists (select from added join public.invoices using (account_id, month)) then
    raise 'A closed invoice gets no more lines.' using errcode = 'object_not_in_prerequisite_state';
  end if;
  return null;
end $$;

create trigger refuse_change before update or delete or truncate on invoices
  for each statement execute function refuse_invoice_change();
create trigger refuse_change before update or delete or truncate on invoice_lines
  for each statement execute function refuse_invoice_change();
create trigger refuse_more_lines after insert on invoice_lines referencing new table as added
  for each statement execute function refuse_invoice_change();

create trigger audit after insert or delete or update on invoices
  for each row execute function audit_row('invoice', 'month');

revoke execute on function set_budget, record_budget_alerts, add_daily_sums, settle_usage, add_credit, close_invoice,
  refuse_invoice_change from public;

insert into role_privileges values
  ('service', 'insert, update, delete', 'public.balance_reservations'),
  ('service', 'execute', 'public.add_daily_sums'),
  ('service', 'execute', 'public.settle_usage'),
  ('admin', 'execute', 'public.add_credit'),
  ('admin', 'execute', 'public.set_budget');
