-- Everything that a role of the admin API changes leaves a row in the audit log. What triggers on rows cannot record,
-- such as an email that is queued, it changes only through the functions below (docs/operations/audit.md).

-- Emails about changelog entries are rendered when they are sent, so that nobody can queue another text. Only notices to
-- single accounts are stored.
alter table announcements
  -- squawk-ignore ban-drop-not-null
  alter column subject drop not null,
  -- squawk-ignore ban-drop-not-null
  alter column text drop not null,
  -- squawk-ignore ban-drop-not-null
  alter column html drop not null;

-- Queues the emails about a changelog entry to those of the addresses that an account has, and when the entry is first
-- announced, the webhook about a deprecation. Returns the number of emails.
create function announce_entry(entry text, is_operational boolean, recipients json, deprecation json) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  mails    bigint;
  messages bigint := 0;
begin
  if entry like '%:%' then raise 'Only the id of a notice has a colon.'; end if;
  insert into public.announcements (entry_id, operational) values (entry, is_operational) on conflict do nothing;
  if found and deprecation is not null then
    select coalesce(sum(public.enqueue_webhook_event(account_id, 'deprecation.announced', deprecation, entry)), 0)
    into messages from (select distinct account_id from public.webhook_endpoints) as subscribed;
  end if;
  insert into public.announcement_mails (entry_id, recipient)
  select entry, recipient from json_array_elements_text(recipients) as recipient
  -- Not to an account that has been erased in the meantime.
  where lower(recipient) in (select lower(btrim(contact_email)) from public.accounts)
  on conflict do nothing;
  get diagnostics mails = row_count;
  if mails + messages > 0 then
    perform public.record_audit('announcement', entry, 'changed', null, jsonb_build_object(
      'queued', mails, 'webhooks', messages, 'deprecation', case when messages > 0 then deprecation end
    ));
  end if;
  return mails;
end $$;

revoke execute on function announce_entry from public;

-- Queues emails again whose delivery failed or is unknown, for one entry or all (null). Returns their number.
create function retry_emails(from_status text, entry text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  mails bigint;
begin
  if from_status not in ('failed', 'unknown') then raise 'Such emails are not queued again: %', from_status; end if;
  with queued as (
    update public.announcement_mails
    set status = 'queued', attempts = 0, next_attempt_at = now(), claimed_by = null
    where status = from_status and entry_id = coalesce(entry, entry_id)
    returning entry_id
  ), counted as (
    select entry_id, count(*) as emails from queued group by entry_id
  ), recorded as (
    select emails, public.record_audit('announcement', entry_id, 'changed', jsonb_build_object(from_status, emails),
      jsonb_build_object('queued', emails)) from counted
  )
  select coalesce(sum(emails), 0) into mails from recorded;
  return mails;
end $$;

revoke execute on function retry_emails from public;

-- Attempts that were made before the message was last queued again. The delays between attempts begin anew then, but the
-- number of attempts never decreases, because it identifies an attempt.
alter table webhook_messages add column attempts_before int not null default 0;

-- Queues the event about a changed key in the transaction of the change, whoever makes it.
create function queue_key_event() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  replaced bigint;
  event    text;
begin
  if not exists (select from public.webhook_endpoints where account_id = new.account_id) then return null; end if;
  if tg_op = 'INSERT' then
    select key_id into replaced from public.api_keys where account_id = new.account_id and replaced_by = new.key_id;
    event := case when replaced is null then 'key.created' else 'key.rotated' end;
  else
    event := case
      when old.revoked_at is null and new.revoked_at is not null then 'key.revoked'
      when old.disabled_at is null and new.disabled_at is not null then 'key.disabled'
      when old.disabled_at is not null and new.disabled_at is null then 'key.enabled'
    end;
  end if;
  if event is not null then perform public.enqueue_key_event(event, new, replaced); end if;
  return null;
end $$;

revoke execute on function queue_key_event from public;

create trigger queue_key_event after insert or update of revoked_at, disabled_at on api_keys
  for each row execute function queue_key_event();

-- Makes the change feed of webhooks begin now if no endpoint wanted it so far. Runs before the first one does.
create function begin_webhook_feed() returns void language sql set search_path = pg_catalog, pg_temp as $$
  update public.webhook_feed
  set cursor = to_char(now() at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"-05:00"')
  where not exists (
    select from public.webhook_endpoints
    where disabled_at is null and (events is null or events && '{dataset.changed,dataset.*}')
  )
$$;

-- Enables an endpoint. Its waiting messages are sent at once, with all their attempts. Returns whether it exists and its
-- account is not erased.
create function enable_webhook_endpoint(endpoint bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform public.begin_webhook_feed();
  update public.webhook_endpoints
  set disabled_at = null, disabled_reason = null, disabled_by_service = false, dead_letters_in_a_row = 0
  where endpoint_id = endpoint and account_id not in (select account_id from public.account_erasures);
  if not found then return false; end if;
  update public.webhook_messages set attempts_before = attempts, next_attempt_at = now()
  where endpoint_id = endpoint and status = 'pending';
  return true;
end $$;

revoke execute on function enable_webhook_endpoint from public;

-- Queues messages again that meet all given conditions, with the same ids and in their order, before all that wait. An
-- endpoint gets the oldest ones if more than 10,000 would wait. Returns the numbers of messages that were queued and
-- found, and which endpoints get them only after they are enabled.
create function replay_webhook_messages(
  message text, endpoint bigint, since timestamptz, include_delivered boolean,
  out replayed int, out found int, out disabled bigint[]
)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with found as (
    select message_id, endpoint_id, row_number() over (partition by endpoint_id order by position) as place
    from public.webhook_messages
    where (status = 'dead' or (include_delivered and status = 'delivered'))
      and message_id = coalesce(message, message_id)
      and endpoint_id = coalesce(endpoint, endpoint_id)
      and created_at >= coalesce(since, '-infinity')
  ), waiting as (
    select endpoint_id, count(*) as messages from public.webhook_messages where status = 'pending' group by endpoint_id
  ), queued as (
    update public.webhook_messages as stored
    set status = 'pending', attempts_before = attempts, next_attempt_at = now(), finished_at = null
    from found left join waiting using (endpoint_id)
    where stored.message_id = found.message_id and stored.status <> 'pending'
      and place <= 10000 - coalesce(waiting.messages, 0)
    returning stored.endpoint_id
  ), counted as (
    select endpoint_id, count(*)::int as messages from queued group by endpoint_id
  ), recorded as (
    select endpoint_id, messages, public.record_audit('webhook', endpoint_id::text, 'changed', null,
      jsonb_build_object('replayed', messages)) from counted
  )
  select coalesce(sum(messages), 0)::int, (select count(*) from found)::int, array(
    select endpoint_id from recorded join public.webhook_endpoints using (endpoint_id)
    where disabled_at is not null order by 1
  )
  from recorded
$$;

revoke execute on function replay_webhook_messages from public;

-- Records a credit and adds it to the balance. Returns the new balance; null if there is a credit with this reference.
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

revoke execute on function add_credit from public;

-- The columns of budgets change only together, and with a row in the audit log.
alter function set_budget security definer;
revoke execute on function set_budget from public;
