-- Erased accounts (docs/operations/erasure.md). `erase_account` removes the data that identifies the customer in one
-- short transaction, and `continue_erasure` removes the rest in batches.
create table account_erasures (
  account_id    bigint primary key references accounts,
  erased_at     timestamptz(3) not null default now(),
  -- The times up to which the account's usage has been anonymized, in `usage` and in `usage_batches`.
  usage_until   timestamptz(3) not null default '-infinity',
  batches_until timestamptz(3) not null default '-infinity',
  -- Null until `continue_erasure` has finished.
  finished_at   timestamptz(3)
);

-- A trigger function. Rejects changes to an erased account and to rows that belong to it. It runs after the change. By
-- then, a foreign key or the change itself has locked the account or the row, so the trigger sees any erasure that the
-- change had to wait for. The triggers of foreign keys run first, because their names start with an upper-case letter.
-- Taking a lock here would cause deadlocks with the writers of usage.
create function refuse_erased_account() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from public.account_erasures where account_id = new.account_id) then
    raise 'The account % is erased.', new.account_id using errcode = 'object_not_in_prerequisite_state';
  end if;
  return null;
end $$;

create trigger refuse_erased_account after insert or update of account_id on api_keys
  for each row execute function refuse_erased_account();
create trigger refuse_erased_account after insert or update of account_id on credits
  for each row execute function refuse_erased_account();
create trigger refuse_erased_account after insert or update of account_id, url, disabled_at on webhook_endpoints
  for each row when (new.disabled_at is null) execute function refuse_erased_account();
create trigger refuse_erased_account after update of name, contact_email, tier, news on accounts
  for each row execute function refuse_erased_account();

-- A trigger function for `announcements`. Drops notices to an erased account. This is not an error, because accounts
-- without an email address receive no notices either. The trigger waits for an erasure in progress, because there is no
-- foreign key that would do so.
create function skip_notice_to_erased_account() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.accounts where account_id = new.account_id for key share;
  return case when not exists (select from public.account_erasures where account_id = new.account_id) then new end;
end $$;

create trigger skip_notice_to_erased_account before insert or update of account_id on announcements
  for each row when (new.account_id is not null) execute function skip_notice_to_erased_account();

-- Returns an account's current and former email addresses in lower case, as found in the account's audit log and
-- notices. Addresses that another account uses are left out. Addresses that are older than the retention of the audit
-- log may be missing.
create function account_addresses(account bigint) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select array(
    select distinct lower(btrim(address)) from (
      select contact_email from public.accounts where account_id = account
      union all
      select fields ->> 'contact_email' from public.audit, unnest(array[before, after]) as fields
      where account_id = account and subject_type = 'account'
      union all
      select recipient from public.announcement_mails join public.announcements using (entry_id)
      where account_id = account
    ) as known (address)
    where btrim(address) <> '' and not exists (
      select from public.accounts where account_id <> account and lower(btrim(contact_email)) = lower(btrim(address))
    )
  )
$$;

-- Erases an account, except its usage, webhook messages and audit log, which `continue_erasure` erases. Returns the
-- account's new name.
create function erase_account(account bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present   public.accounts;
  new_name  text := 'erased-' || account;
  addresses text[];
  notices   bigint;
  keys      bigint;
  payments  bigint;
  webhooks  bigint;
begin
  -- Ensures that each email is queued either before or after the erasure. This lock is taken before the lock on the
  -- account, in the same order as in `queue_notice`.
  lock table public.announcement_mails in share row exclusive mode;
  select * into present from public.accounts where account_id = account for update;
  if not found then return null; end if;
  if exists (select from public.account_erasures where account_id = account) then return present.name; end if;
  while exists (select from public.accounts where name = new_name) loop new_name := new_name || '-x'; end loop;

  addresses := public.account_addresses(account);
  delete from public.announcement_mails
  where entry_id in (select entry_id from public.announcements where account_id = account);
  delete from public.announcements where account_id = account;
  get diagnostics notices = row_count;
  delete from public.announcement_mails where lower(recipient) = any (addresses) and status <> 'sent';
  update public.announcement_mails set recipient = 'erased-' || mail_id, last_error = null
  where lower(recipient) = any (addresses);

  delete from public.api_keys where account_id = account;
  get diagnostics keys = row_count;
  update public.credits set reference = null where account_id = account and reference is not null;
  get diagnostics payments = row_count;
  delete from public.balance_reservations where account_id = account;
  -- The webhook messages are deleted later, because there may be a million of them.
  update public.webhook_endpoints
  set url = 'https://erased.invalid/', tickers = null, secret = '', previous_secret = null,
    disabled_at = coalesce(disabled_at, now()), disabled_reason = 'The account is erased.'
  where account_id = account;
  get diagnostics webhooks = row_count;
  -- The responses to admin requests that the service has stored contain customer data. Skips responses that another
  -- request is deleting because of their age, because that request may be waiting for this account.
  update public.admin_requests set body = public.redact_customer_data(body::jsonb)::text
  where ctid = any (array(
    select ctid from public.admin_requests
    where body::jsonb ->> 'account_id' = account::text or body::jsonb ->> 'account' = present.name
    for update skip locked
  ));

  update public.accounts set name = new_name, contact_email = null, news = false where account_id = account;
  insert into public.account_erasures (account_id) values (account);
  perform public.write_audit('account', new_name, 'changed', null, jsonb_build_object('erased', jsonb_build_object(
    'notices', notices, 'keys', keys, 'credit_references', payments, 'webhooks', webhooks
  )), account, null);
  return new_name;
end $$;

-- Erases the next batch of an erased account's data: first the usage, then the webhook messages, and finally the audit
-- log. Returns the number of erased rows, which is at most about `max_rows`. Returns 0 if another process is erasing a
-- batch, and null if everything is erased. `settle_usage` and `anonymize_late_usage` anonymize requests that are
-- recorded later.
create function continue_erasure(account bigint, max_rows int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  erasure   public.account_erasures;
  batch_end timestamptz;
  erased    bigint;
begin
  select * into erasure from public.account_erasures where account_id = account and finished_at is null
  for update skip locked;
  if not found then
    return (select 0 from public.account_erasures where account_id = account and finished_at is null);
  end if;

  select max(requested_at) into batch_end from (
    select requested_at from public.usage where account_id = account and requested_at > erasure.usage_until
    order by requested_at limit max_rows
  ) as batch;
  if batch_end is not null then
    update public.usage set key_id = 0, request_id = ''
    where account_id = account and requested_at > erasure.usage_until and requested_at <= batch_end;
    get diagnostics erased = row_count;
    update public.account_erasures set usage_until = batch_end where account_id = account;
    return erased;
  end if;

  select max(moment) into batch_end from (
    select moment from public.usage_batches where account_id = account and moment > erasure.batches_until
    order by moment limit max_rows
  ) as batch;
  if batch_end is not null then
    update public.usage_batches set group_keys = '\x00', id_numbers = '\x00', own_ids = ''
    where account_id = account and moment > erasure.batches_until and moment <= batch_end;
    get diagnostics erased = row_count;
    update public.account_erasures set batches_until = batch_end where account_id = account;
    return erased;
  end if;

  delete from public.webhook_messages where message_id in (
    select message_id from public.webhook_messages join public.webhook_endpoints using (endpoint_id)
    where account_id = account limit max_rows
  );
  get diagnostics erased = row_count;
  if erased > 0 then return erased; end if;
  delete from public.webhook_endpoints where account_id = account;

  update public.audit
  set subject = case subject_type when 'account' then (select name from public.accounts where account_id = account)
      else subject end,
    before = public.redact_customer_data(before), after = public.redact_customer_data(after)
  where account_id = account;
  update public.account_erasures set finished_at = now() where account_id = account;
  return null;
end $$;

revoke execute on function refuse_erased_account, skip_notice_to_erased_account, account_addresses, erase_account,
  continue_erasure from public;

insert into role_privileges values
  ('service', 'execute', 'public.continue_erasure'),
  ('admin', 'execute', 'public.erase_account'),
  ('admin', 'execute', 'public.account_addresses');
