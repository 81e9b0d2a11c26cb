-- Monthly budgets of accounts (docs/operations/accounts.md, decision 156). Months are those of New York, like the days
-- of `usage_daily`. Without a budget, all columns but `budget_stops` are null.
alter table accounts
  add column budget_microdollars bigint,
  -- Whether requests for data are refused once the budget is used up.
  add column budget_stops boolean not null default false,
  -- The first day of the month that `budget_spent_microdollars` counts: the newest month with a cost, or that in which
  -- the budget was set.
  add column budget_month date,
  -- The sum of `usage_daily` in that month. The statement that writes usage changes both.
  add column budget_spent_microdollars bigint,
  add constraint accounts_budget_check check (
    case when budget_microdollars is null then not budget_stops
    else budget_microdollars > 0 and budget_month is not null and budget_spent_microdollars is not null end
  ) not valid;

create function budget_spent_this_month(account accounts) returns bigint
language sql stable parallel safe
return case
  when (account).budget_month >= date_trunc('month', now() at time zone 'America/New_York')
    then (account).budget_spent_microdollars
  when (account).budget_microdollars is not null then 0
end;

-- Returns what the account can still spend: its prepaid balance, or the rest of a budget that stops it if that is less.
-- Null: no limit. Reservations of exports are not subtracted.
create function spendable_microdollars(account accounts) returns bigint
language sql stable parallel safe
return least(
  (account).balance_microdollars,
  case when (account).budget_stops then (account).budget_microdollars - public.budget_spent_this_month(account) end
);

-- As before, but reserves what the account can still spend, and everything if nothing limits it any more. `balance` is
-- what it can spend.
create or replace function reserve_balance(
  account bigint, reservation uuid, needed bigint, wanted bigint, unrecorded bigint, lease interval,
  out granted bigint, out balance bigint, out reserved_elsewhere bigint
) language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Charges and reservations of the account wait for each other here. The statements below see the earlier ones.
  select public.spendable_microdollars(accounts) into balance
  from public.accounts where account_id = account for no key update;
  if not found then return; end if;
  delete from public.balance_reservations where reservation_id in (
    select reservation_id from public.balance_reservations where expires_at <= now() for update skip locked
  );
  select coalesce(sum(amount_microdollars), 0) into reserved_elsewhere from public.balance_reservations
  where account_id = account and reservation_id <> reservation and expires_at > now();
  if balance - reserved_elsewhere - unrecorded < needed then return; end if;
  granted := least(wanted, balance - reserved_elsewhere - unrecorded);
  insert into public.balance_reservations values (reservation, account, granted, now() + lease)
  on conflict (reservation_id) do update
  set amount_microdollars = excluded.amount_microdollars, expires_at = excluded.expires_at;
end $$;

-- Sets the budget of an account, or removes it if `budget` is null. It is a function because it takes two snapshots:
-- the sum must contain what was written before the lock.
create function set_budget(account bigint, budget bigint, stops boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  month date;
begin
  perform from public.accounts where account_id = account for no key update;
  if budget is not null then
    -- The clock of a process may be ahead, so the newest usage may already be in the next month.
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

-- Thresholds of budgets that were reached, each once per account, month and budget.
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

-- Returns the highest threshold, in percent, that a sum has reached; 0 if none, null without a budget.
create function budget_threshold(spent bigint, budget bigint) returns integer
language sql immutable parallel safe
return case
  when budget is null then null
  when spent >= budget then 100
  when spent * 100 >= budget * 90 then 90
  when spent * 100 >= budget * 75 then 75
  else 0
end;

-- Records the thresholds that an account has newly reached and queues webhooks, in the transaction that reaches them.
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
      json_build_object(
        'month', to_char(new.budget_month, 'YYYY-MM'),
        'percent', reached,
        'budget_microdollars', new.budget_microdollars,
        'spent_microdollars', new.budget_spent_microdollars,
        'stops', new.budget_stops
      )
    );
  end loop;
  return null;
end $$;

revoke execute on function record_budget_alerts from public;

-- Plain operators, because PostgreSQL prepares the condition in each statement, also for accounts without a budget.
create trigger budget_alerts after update of budget_spent_microdollars on accounts
  for each row when (new.budget_spent_microdollars * 100 >= new.budget_microdollars * 75)
  execute function record_budget_alerts();

create or replace trigger audit after insert or delete
  or update of name, contact_email, tier, news, budget_microdollars, budget_stops on accounts
  for each row
  execute function audit_row('account', 'name', 'last_charged_at', 'budget_month', 'budget_spent_microdollars');
create or replace trigger audit_prepaid after update of balance_microdollars on accounts
  for each row when (
    (old.balance_microdollars is null) <> (new.balance_microdollars is null)
    or new.balance_microdollars > old.balance_microdollars
  )
  execute function audit_row('account', 'name', 'last_charged_at', 'budget_month', 'budget_spent_microdollars');
