-- The part of prepaid balances that exports in progress have reserved, so that together they cannot spend more than the
-- balance (decision 119). The statement that records the usage of an export also deletes its reservation.
create table balance_reservations (
  reservation_id      uuid primary key,
  account_id          bigint not null,
  amount_microdollars bigint not null check (amount_microdollars > 0),
  -- A reservation counts until this time. The process that sends the export renews it, unless it has died.
  expires_at          timestamptz not null
);

create index on balance_reservations (account_id);

-- Sets the amount of a reservation: `wanted`, or what is available if that is at least `needed`. Otherwise `granted` is
-- null and nothing changes. `unrecorded` is what the caller has not charged yet. May be repeated with the same effect.
create function reserve_balance(
  account bigint, reservation uuid, needed bigint, wanted bigint, unrecorded bigint, lease interval,
  out granted bigint, out balance bigint, out reserved_elsewhere bigint
) language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Charges and reservations of the account wait for each other here. The statements below see the earlier ones.
  select balance_microdollars into balance from public.accounts where account_id = account for no key update;
  delete from public.balance_reservations where reservation_id in (
    select reservation_id from public.balance_reservations where expires_at <= now() for update skip locked
  );
  select coalesce(sum(amount_microdollars), 0) into reserved_elsewhere from public.balance_reservations
  where account_id = account and reservation_id <> reservation and expires_at > now();
  if balance - reserved_elsewhere - unrecorded < needed or balance is null then return; end if;
  granted := least(wanted, balance - reserved_elsewhere - unrecorded);
  insert into public.balance_reservations values (reservation, account, granted, now() + lease)
  on conflict (reservation_id) do update
  set amount_microdollars = excluded.amount_microdollars, expires_at = excluded.expires_at;
end $$;
