-- Invoices (docs/operations/invoices.md, decision 162): the months that are closed.
create table invoices (
  account_id        bigint not null references accounts,
  month             text not null check (month ~ '^\d{4}-(0[1-9]|1[0-2])$'),
  closed_at         timestamptz(3) not null default now(),
  -- Usage before this day is in no invoice of the account. Null: all of its usage is.
  usage_from        date,
  lines             bigint not null,
  requests          bigint not null,
  bytes             bigint not null,
  cost_microdollars bigint not null,
  -- SHA-256 of `invoice_csv`, in hexadecimal digits.
  digest            text not null,
  primary key (account_id, month)
);

create table invoice_lines (
  account_id                bigint not null,
  month                     text not null,
  line                      bigint not null,
  usage_date                date not null,
  endpoint                  text not null,
  -- As in `usage_daily_prices`, or `unitemized`: corrections, which only `usage_daily` has.
  kind                      text not null check (kind in ('charged', 'free', 'refused', 'unitemized')),
  requests                  bigint not null,
  bytes                     bigint not null,
  price_per_gb_microdollars bigint check ((price_per_gb_microdollars is null) = (kind = 'unitemized')),
  cost_microdollars         bigint not null,
  primary key (account_id, month, line),
  foreign key (account_id, month) references invoices deferrable initially deferred
);

-- Returns the lines of an invoice as CSV, byte for byte as `/v1/account/invoice-lines` exports them. Never changes,
-- because the digests of closed invoices would no longer match.
create function invoice_csv(account bigint, closed_month text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  -- Begins with a byte order mark. `concat` omits nulls.
  select chr(65279) || 'month,line,usage_date,endpoint,kind,requests,bytes,price_per_gb_microdollars,cost_microdollars'
    || E'\r\n' || coalesce(string_agg(
      concat(month, ',', line, ',', to_char(usage_date, 'YYYY-MM-DD'), ',', endpoint, ',', kind, ',', requests, ',',
        bytes, ',', price_per_gb_microdollars, ',', cost_microdollars, E'\r\n'),
      '' order by line
    ), '')
  from public.invoice_lines where account_id = account and month = closed_month
$$;

-- Closes a month of an account: what its daily sums up to the end of the month have that no earlier invoice has.
-- Returns whether it did; false if the month or a later one is closed. `first_day` is `usage_from` of a first invoice.
create function close_invoice(account bigint, closing text, first_day date) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  next_month date := (closing || '-01')::date + interval '1 month';
  latest     public.invoices;
begin
  if next_month > (clock_timestamp() at time zone 'America/New_York')::date then
    raise 'The month % is not over in New York.', closing;
  end if;
  -- `settle_usage` locks the account too. The statements below see what was settled before.
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

  insert into public.invoices
    (account_id, month, usage_from, lines, requests, bytes, cost_microdollars, digest)
  select account, closing, first_day, count(*), coalesce(sum(requests), 0), coalesce(sum(bytes), 0),
    coalesce(sum(cost_microdollars), 0),
    encode(sha256(convert_to(public.invoice_csv(account, closing), 'UTF8')), 'hex')
  from public.invoice_lines where account_id = account and month = closing;
  return true;
end $$;

-- Refuses changes of closed invoices. The lines of an invoice are inserted before it.
create function refuse_invoice_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    raise 'Closed invoices cannot be changed.' using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- Waits until a month that is being closed is closed.
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

revoke execute on function close_invoice, refuse_invoice_change from public;
